// Open approvals of all sessions. The list is read when the stream of events begins, and updated by events.
import type { ApprovalInfo, SessionEvent, OpenApproval } from "../api/types";

/** An approval as the list gives it, or as an event did, which does not name the project. */
export interface Waiting extends ApprovalInfo {
  session_id: string;
  project_id?: number;
  agent?: string | null;
  plan_id?: string | null;
}

export interface ApprovalsState {
  open: ReadonlyMap<string, Waiting>;
  /** Changes reported by events since the connection was opened. The list may be older or newer than they are. */
  added: ReadonlySet<string>;
  resolved: ReadonlySet<string>;
  isLoaded: boolean;
}

export type ApprovalsInput =
  | { kind: "connected" }
  | { kind: "loaded"; approvals: readonly OpenApproval[] }
  | { kind: "events"; events: readonly SessionEvent[] }
  | { kind: "gone"; key: string };

export const noApprovals: ApprovalsState = {
  open: new Map(),
  added: new Set(),
  resolved: new Set(),
  isLoaded: false,
};

export function approvalKey(approval: { session_id: string; call_id: string }): string {
  return `${approval.session_id}/${approval.call_id}`;
}

export function reduceApprovals(state: ApprovalsState, input: ApprovalsInput): ApprovalsState {
  switch (input.kind) {
    case "connected":
      return { ...state, added: new Set(), resolved: new Set() };
    case "loaded": {
      const open = new Map<string, Waiting>();
      for (const approval of input.approvals) open.set(approvalKey(approval), approval);
      for (const key of state.added) {
        const added = state.open.get(key);
        if (added !== undefined && !open.has(key)) open.set(key, added);
      }
      for (const key of state.resolved) open.delete(key);
      return { ...state, open, isLoaded: true };
    }
    case "gone":
      return without(state, input.key);
    case "events":
      return input.events.reduce(reduceEvent, state);
  }
}

function reduceEvent(state: ApprovalsState, event: SessionEvent): ApprovalsState {
  const { session_id } = event;
  switch (event.type) {
    case "approval_request":
    case "plan_request": {
      const key = approvalKey({ session_id, call_id: event.data.call_id });
      const open = new Map(state.open).set(key, { ...event.data, session_id });
      return { ...state, open, added: new Set(state.added).add(key) };
    }
    case "approval_resolved":
    case "tool_call_closed":
      return without(state, approvalKey({ session_id, call_id: event.data.call_id }));
    case "plan_resolved":
      return without(state, approvalKey({ session_id, call_id: event.data.plan_id }));
    default:
      return state;
  }
}

function without(state: ApprovalsState, key: string): ApprovalsState {
  const open = new Map(state.open);
  open.delete(key);
  const added = new Set(state.added);
  added.delete(key);
  return { ...state, open, added, resolved: new Set(state.resolved).add(key) };
}

/**
 * Whether the lists of sessions and plans must be read again: there is a new message, a plan began or ended, a question
 * was asked or closed, or events are missing.
 */
export function changesSessions(event: SessionEvent): boolean {
  switch (event.type) {
    case "gap":
    case "message_created":
    case "task_plan_created":
    case "plan_resolved":
    case "workflow_completed":
    case "question":
      return true;
    case "tool_call_closed":
      return event.data.outcome === "cancelled";
    default:
      return false;
  }
}

/** The sessions that wait for a person: for a decision, or for an answer. */
export function askingSessions(
  waiting: readonly Waiting[],
  sessions: readonly { session_id: string; asks?: boolean }[],
): ReadonlySet<string> {
  const decide = waiting.map((approval) => approval.session_id);
  const answer = sessions.filter((session) => session.asks).map((session) => session.session_id);
  return new Set([...decide, ...answer]);
}

/** Oldest first: what expires next stands on top. */
export function inOrder(state: ApprovalsState): Waiting[] {
  return [...state.open.values()].sort((a, b) => a.created_at.localeCompare(b.created_at));
}
