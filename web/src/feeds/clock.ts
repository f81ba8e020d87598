// The time, for countdowns and for how long ago something was.
import { computed, signal } from "@preact/signals";

export const now = signal(Date.now());
/** Changes once a minute, so that what shows minutes is not drawn every second. */
export const minute = computed(() => Math.floor(now.value / 60_000) * 60_000);

setInterval(() => (now.value = Date.now()), 1000);
