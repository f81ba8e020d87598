// Open approvals of all sessions, and browser notifications about them.
import { computed, signal } from "@preact/signals";
import { openApprovals } from "../api/approvals";
import { followEverything } from "../api/events";
import type { SessionEvent } from "../api/types";
import {
  approvalKey,
  changesSessions,
  inOrder,
  noApprovals,
  reduceApprovals,
  type ApprovalsInput,
  type Waiting,
} from "../state/approvals";
import { linkTo } from "../state/route";
import { connection, go, report } from "./app";
import { keep, recall, t } from "./preferences";

export const approvals = signal(noApprovals);
export const waiting = computed(() => inOrder(approvals.value));
/** Changes whenever something happens in the user's sessions. Lists that depend on them read it. */
export const activity = signal<{ sessionId: string; at: number }>({ sessionId: "", at: 0 });
export const notifications = signal<"off" | "on" | "denied">(
  globalThis.Notification?.permission === "denied" ? "denied" : recall("notify") === "on" ? "on" : "off",
);

const apply = (input: ApprovalsInput) => (approvals.value = reduceApprovals(approvals.value, input));

export function watchApprovals(): () => void {
  return followEverything({
    onOpen: (isResumed) => {
      connection.value = "live";
      if (!isResumed || isStale) load();
    },
    onInputs: (events) => {
      // Events are missing, so the list is read again.
      if (events.some((event) => event.type === "gap")) load();
      const before = approvals.value.open;
      apply({ kind: "events", events });
      for (const [key, approval] of approvals.value.open) if (!before.has(key)) notify(approval);
      tellActivity(events);
    },
    onCut: () => (connection.value = "cut"),
    onRefused: report,
  });
}

/** The list could not be read since events were missing. */
let isStale = true;

function load() {
  isStale = true;
  apply({ kind: "connected" });
  openApprovals().then((list) => {
    isStale = false;
    apply({ kind: "loaded", approvals: list });
  }, report);
}

function tellActivity(events: SessionEvent[]) {
  const last = events.findLast(changesSessions);
  if (last !== undefined) activity.value = { sessionId: last.session_id, at: Date.now() };
}

/** The server said that it is decided already, or the person has just decided. */
export function forget(approval: Waiting) {
  apply({ kind: "gone", key: approvalKey(approval) });
}

export async function toggleNotifications() {
  if (notifications.value === "on") {
    notifications.value = "off";
  } else {
    const permission = await Notification.requestPermission();
    notifications.value = permission === "granted" ? "on" : permission === "denied" ? "denied" : "off";
  }
  keep("notify", notifications.value);
}

function notify(approval: Waiting) {
  if (notifications.value !== "on" || document.hasFocus()) return;
  const shown = new Notification(t("approvals.notification"), {
    body: `${approval.tool_name}: ${approval.reason}`,
    tag: approvalKey(approval),
  });
  shown.onclick = () => {
    focus();
    go(linkTo("approvals"));
  };
}
