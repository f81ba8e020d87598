// Everything that waits for the user, in all sessions, and browser notifications about it.
import { computed, signal } from "@preact/signals";
import { followEverything } from "../api/events";
import type { SessionEvent } from "../api/types";
import { listWaiting, openApprovals } from "../api/waiting";
import { visible } from "../state/diff";
import { shortName } from "../state/format";
import { linkTo } from "../state/route";
import {
  changesSessions,
  inOrder,
  nothingWaits,
  reduceWaiting,
  waitingKey,
  type Waiting,
  type WaitingInput,
} from "../state/waiting";
import { connection, go, report } from "./app";
import { keep, recall, t } from "./preferences";

export const waitingState = signal(nothingWaits);
export const waiting = computed(() => inOrder(waitingState.value));

interface Activity {
  sessionId: string;
  /** A plan was made, or events are missing, so that a plan can have been made in any session. */
  isNewPlan: boolean;
  at: number;
}

/** Changes whenever something happens in the user's sessions. Lists that depend on them read it. */
export const activity = signal<Activity>({ sessionId: "", isNewPlan: false, at: 0 });
export const notifications = signal<"off" | "on" | "denied">(
  globalThis.Notification?.permission === "denied" ? "denied" : recall("notify") === "on" ? "on" : "off",
);

const apply = (input: WaitingInput) => (waitingState.value = reduceWaiting(waitingState.value, input));

/** Notifies of what is new, and returns it. What waited already when the page was opened is not new. */
function applyAndNotify(input: WaitingInput): Waiting[] {
  const { open: before, isLoaded } = waitingState.value;
  apply(input);
  if (input.kind === "loaded" && !isLoaded) return [];
  const added = waiting.value.filter((entry) => !before.has(waitingKey(entry)));
  added.forEach(notify);
  return added;
}

export function watchWaiting(): () => void {
  return followEverything({
    onOpen: (isResumed) => {
      connection.value = "live";
      if (!isResumed || isStale) load();
    },
    onInputs: (events) => {
      // Events are missing, so the list is read again.
      if (events.some((event) => event.type === "gap")) load();
      const added = applyAndNotify({ kind: "events", events });
      if (added.length > 0) void readTitles();
      tellActivity(events);
    },
    onCut: () => (connection.value = "cut"),
    onRefused: report,
  });
}

/** The list could not be read since events were missing. */
let isStale = true;
/** Counts how often everything was read again. A list that was asked for before the last time is old. */
let round = 0;

/** Reads everything again, after events were missed or a session was deleted. */
export function load() {
  isStale = true;
  round += 1;
  const asked = round;
  apply({ kind: "connected" });
  Promise.all([listWaiting(), openApprovals()]).then(([list, approvals]) => {
    if (asked !== round) return;
    isStale = false;
    apply({ kind: "approvals", approvals });
    applyAndNotify({ kind: "loaded", waiting: list });
  }, report);
}

let titles: "known" | "being read" | "wanted again" = "known";

/** Events do not name the session's title. The list does. There is one request at a time. */
async function readTitles() {
  const isReading = titles !== "known";
  titles = isReading ? "wanted again" : "being read";
  if (isReading) return;
  const asked = round;
  try {
    const list = await listWaiting();
    if (asked === round) applyAndNotify({ kind: "loaded", waiting: list });
  } catch (error) {
    report(error);
  }
  const isWanted = (titles as string) === "wanted again";
  titles = "known";
  if (isWanted) await readTitles();
}

function tellActivity(events: SessionEvent[]) {
  const last = events.findLast(changesSessions);
  if (last === undefined) return;
  const isNewPlan = events.some((event) => event.type === "task_plan_created" || event.type === "gap");
  activity.value = { sessionId: last.session_id, isNewPlan, at: Date.now() };
}

/** The server said that it is decided already, or the person has just decided. */
export function forget(decided: { session_id: string; call_id: string }) {
  apply({ kind: "gone", key: waitingKey(decided) });
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

function notify(entry: Waiting) {
  if (notifications.value !== "on" || document.hasFocus()) return;
  const shown = new Notification(t("waiting.notification"), {
    body: visible(`${shortName(entry.agent)}: ${entry.text}`),
    tag: waitingKey(entry),
  });
  shown.onclick = () => {
    focus();
    go(linkTo("sessions", entry.session_id, entry.call_id));
  };
}
