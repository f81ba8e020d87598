// The current time as a signal, for countdowns and relative times.
import { computed, signal } from "@preact/signals";

export const now = signal(Date.now());
/** Changes once a minute, so that relative times are not rendered every second. */
export const minute = computed(() => Math.floor(now.value / 60_000) * 60_000);

setInterval(() => (now.value = Date.now()), 1000);
