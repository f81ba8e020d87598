// Everything that waits for the user, in all sessions. The list is read when the stream of events begins, and updated
// by events.
import type { ApprovalInfo, OpenApproval, SessionEvent, WaitingInfo, WaitingInSession } from "../api/types";

/** An entry as the list gives it, or as an event did, which names neither the project nor the session's title. */
export interface Waiting extends WaitingInfo {
  session_id: string;
  project_id?: number;
  title?: string | null;
}

/** What a decision needs: the arguments and their digest. Questions have none. */
export interface Approval extends ApprovalInfo {
  session_id: string;
  agent?: string | null;
  plan_id?: string | null;
}

export interface WaitingState {
  open: ReadonlyMap<string, Waiting>;
  approvals: ReadonlyMap<string, Approval>;
  /** Changes reported by events since the connection was opened. The list may be older or newer than they are. */
  added: ReadonlySet<string>;
  removed: ReadonlySet<string>;
  isLoaded: boolean;
}

export type WaitingInput =
  | { kind: "connected" }
  | { kind: "loaded"; waiting: readonly WaitingInSession[] }
  | { kind: "approvals"; approvals: readonly OpenApproval[] }
  | { kind: "events"; events: readonly SessionEvent[] }
  | { kind: "gone"; key: string };

export const nothingWaits: WaitingState = {
  open: new Map(),
  approvals: new Map(),
  added: new Set(),
  removed: new Set(),
  isLoaded: false,
};

export function waitingKey(waiting: { session_id: string; call_id: string }): string {
  return `${waiting.session_id}/${waiting.call_id}`;
}

export function reduceWaiting(state: WaitingState, input: WaitingInput): WaitingState {
  switch (input.kind) {
    case "connected": {
      const approvals = new Map([...state.approvals].filter(([key]) => state.open.has(key)));
      return { ...state, approvals, added: new Set(), removed: new Set() };
    }
    case "loaded":
      return load(state, input.waiting);
    case "approvals": {
      const approvals = new Map(state.approvals);
      for (const approval of input.approvals) approvals.set(waitingKey(approval), approval);
      for (const key of state.removed) approvals.delete(key);
      return { ...state, approvals };
    }
    case "gone":
      return without(state, input.key);
    case "events":
      return input.events.reduce(reduceEvent, state);
  }
}

function load(state: WaitingState, list: readonly WaitingInSession[]): WaitingState {
  const open = new Map<string, Waiting>();
  for (const waiting of list) open.set(waitingKey(waiting), waiting);
  for (const key of state.added) {
    const added = state.open.get(key);
    if (added !== undefined && !open.has(key)) open.set(key, added);
  }
  for (const key of state.removed) open.delete(key);
  return { ...state, open, isLoaded: true };
}

function reduceEvent(state: WaitingState, event: SessionEvent): WaitingState {
  const { session_id } = event;
  switch (event.type) {
    case "waiting_added": {
      const key = waitingKey({ session_id, call_id: event.data.call_id });
      const open = new Map(state.open).set(key, { ...state.open.get(key), ...event.data, session_id });
      // An expired plan can wait again under the same id.
      const removed = new Set(state.removed);
      removed.delete(key);
      return { ...state, open, added: new Set(state.added).add(key), removed };
    }
    case "waiting_removed":
      return without(state, waitingKey({ session_id, call_id: event.data.call_id }));
    case "approval_request":
    case "plan_request": {
      const key = waitingKey({ session_id, call_id: event.data.call_id });
      return { ...state, approvals: new Map(state.approvals).set(key, { ...event.data, session_id }) };
    }
    case "approval_preview": {
      const { call_id, base, diff, is_unread, is_outdated, truncated, note } = event.data;
      const key = waitingKey({ session_id, call_id });
      const known = state.approvals.get(key);
      if (known === undefined) return state;
      const preview = { base, diff, is_unread, is_outdated, truncated, note };
      return { ...state, approvals: new Map(state.approvals).set(key, { ...known, preview }) };
    }
    default:
      return state;
  }
}

function without(state: WaitingState, key: string): WaitingState {
  const open = new Map(state.open);
  const approvals = new Map(state.approvals);
  const added = new Set(state.added);
  for (const known of [open, approvals, added]) known.delete(key);
  return { ...state, open, approvals, added, removed: new Set(state.removed).add(key) };
}

/**
 * Whether the lists of sessions and plans must be read again: there is a new message, a plan began or ended, or events
 * are missing.
 */
export function changesSessions(event: SessionEvent): boolean {
  switch (event.type) {
    case "gap":
    case "message_created":
    case "task_plan_created":
    case "plan_resolved":
    case "workflow_completed":
      return true;
    default:
      return false;
  }
}

/** What waits in each session, oldest first. */
export function bySession(waiting: readonly Waiting[]): ReadonlyMap<string, Waiting[]> {
  const found = new Map<string, Waiting[]>();
  for (const entry of waiting) found.set(entry.session_id, [...(found.get(entry.session_id) ?? []), entry]);
  return found;
}

/** Oldest first. A question that an older version of the server stored has no time, so it comes before all others. */
export function inOrder(state: WaitingState): Waiting[] {
  return [...state.open.values()].sort((a, b) => (a.created_at ?? "").localeCompare(b.created_at ?? ""));
}
