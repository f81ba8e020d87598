// The state of a session: timeline, plans, queue and the status of its turn.
import type {
  AgentStatus,
  ApprovalInfo,
  ApproveMode,
  Attachment,
  CallOutcome,
  CommandPart,
  McpCall,
  PartialReason,
  Plan,
  RememberedCalls,
  Rewound,
  TaskStatus,
  TurnStatus,
  Usage,
} from "../api/types";

import type { LiveText } from "./delta";

/** The task that something belongs to; absent for the session's own turn. */
export interface Origin {
  planId: string;
  taskId: string;
}

export function originOf(data: { plan_id?: string | null; task_id?: string | null }): Origin | undefined {
  return data.plan_id && data.task_id ? { planId: data.plan_id, taskId: data.task_id } : undefined;
}

interface Placed {
  /** Unique in the session. It never changes for an item. */
  key: string;
  at: string;
  origin: Origin | undefined;
}

export interface MessageItem extends Placed {
  kind: "message";
  role: "user" | "assistant" | "system";
  content: string;
  agent: string | undefined;
  isError: boolean;
  /** The turn of an earlier message was run again with this one. */
  isRetry: boolean;
  /** The user said it to agents at work. It began no turn. */
  isSteer: boolean;
  /** Why only a part of the answer is there. */
  partial: PartialReason | undefined;
  /** Why an answer that has a text failed. */
  failure: string | undefined;
  usage: Usage | undefined;
  warnings: readonly string[];
  /** What the model thought before it answered; empty if nothing is known. */
  reasoning: string;
  /** The files that the user sent with it. */
  attachments: readonly Attachment[];
}

/** An answer while its tokens arrive. Its message takes its place. */
export interface LiveItem extends Placed {
  kind: "live";
  agent: string;
  content: string;
  bytes: number;
  attempt: number;
  reasoning: LiveText | undefined;
}

export type ToolState =
  | { step: "proposed" }
  | { step: "asking"; approval: ApprovalInfo }
  | { step: "waiting"; clientAttached: boolean; approved: boolean }
  | { step: "finished"; result: unknown; late: boolean }
  | { step: "closed"; outcome: CallOutcome }
  /** Refused, or never reached: the agent went on without it. */
  | { step: "not_run" };

export interface ToolItem extends Placed {
  kind: "tool";
  callId: string;
  name: string;
  args: Record<string, unknown>;
  /** The model's arguments, if a person changed them. */
  proposedArgs: Record<string, unknown> | undefined;
  agent: string | undefined;
  parts: readonly CommandPart[];
  /** The MCP server and its tool; absent for a built-in tool. */
  mcp: McpCall | undefined;
  /** How far it is, while it runs and its MCP server says so. */
  progress: CallProgress | undefined;
  decision: { by: string; decision: string; reason: string | undefined } | undefined;
  state: ToolState;
}

export interface CallProgress {
  progress: number;
  total: number | undefined;
  message: string | undefined;
}

export interface QuestionItem extends Placed {
  kind: "question";
  callId: string;
  question: string;
  options: readonly string[];
  agent: string;
  /** The MCP server that asks, where it is not the agent. */
  server: string | undefined;
  /** The fields of the answer as JSON Schema, where a server asks. */
  schema: Readonly<Record<string, unknown>> | undefined;
  answer: string | undefined;
  isOpen: boolean;
}

export interface SwitchItem extends Placed {
  kind: "switch";
  from: string;
  to: string;
  reason: string;
}

export interface PlanItem extends Placed {
  kind: "plan";
  planId: string;
}

export interface BudgetItem extends Placed {
  kind: "budget";
  agent: string | undefined;
  approval: ApprovalInfo;
  resolved: string | undefined;
}

export interface ErrorItem extends Placed {
  kind: "error";
  message: string;
  code: string;
  /** Why a model call failed. */
  failure: string | undefined;
}

export interface NoteItem extends Placed {
  kind: "note";
  note:
    | { type: "compacted"; messages: number; summary: string }
    | { type: "compaction_failed"; message: string; code: string }
    | { type: "revoked"; calls: RememberedCalls; by: string }
    | { type: "rewound"; rewound: Rewound }
    | { type: "approve"; mode: ApproveMode }
    | { type: "fallback"; from: string; to: string; failure: string }
    | { type: "waiting"; until: string; failure: string }
    | { type: "gap"; from: number; to: number }
    | { type: "start_over" };
}

export type Item =
  MessageItem | LiveItem | ToolItem | QuestionItem | SwitchItem | PlanItem | BudgetItem | ErrorItem | NoteItem;

export interface TaskProgress {
  step: number;
  note: string;
}

export interface PlanView extends Plan {
  request: ApprovalInfo | undefined;
  decidedBy: string | undefined;
  /** Nobody decided in time. */
  isExpired: boolean;
  progress: Readonly<Record<string, TaskProgress>>;
  response: string | undefined;
}

/** A step in the list of agents: which agent took over, and why. */
export interface TrailStep {
  key: string;
  agent: string;
  why: "direct" | "switch" | "plan" | "task";
  reason: string | undefined;
  at: string;
}

export interface QueuedMessage {
  id: string;
  /** Empty if an earlier version of the server queued it. */
  text: string;
  /** It waits for the next tool results of the running turn, not for its end. */
  steers: boolean;
}

export type SessionStatus = "idle" | "working" | TurnStatus;

export interface SessionState {
  /** The number of the last stored event in this state. The stream continues after it. */
  lastSeq: number;
  items: readonly Item[];
  /** Positions in `items`, by key. */
  positions: ReadonlyMap<string, number>;
  /** Tool calls without any event since the model requested them. */
  proposed: readonly string[];
  plans: ReadonlyMap<string, PlanView>;
  /** The plan that the last turn made or ran again. */
  turnPlan: string | undefined;
  agents: Readonly<Record<string, AgentStatus>>;
  trail: readonly TrailStep[];
  /** Queued messages and those that steer, oldest first. Each becomes an item when it is said. */
  queue: readonly QueuedMessage[];
  status: SessionStatus;
  /** The newest full content of files read or written in this session, by path. */
  files: ReadonlyMap<string, string>;
  usage: { tokens: number; costUsd: number };
  /** The last model call: what it was sent and what it answered. Unknown after a summary, until the next one. */
  context: { tokens: number; model: string | undefined } | undefined;
  /** A person asked for a summary of the history, and it is being written. */
  isCompacting: boolean;
  /** What passes without a question, if that was changed. */
  approve: ApproveMode | undefined;
}

export const emptySession: SessionState = {
  lastSeq: 0,
  items: [],
  positions: new Map(),
  proposed: [],
  plans: new Map(),
  turnPlan: undefined,
  agents: {},
  trail: [],
  queue: [],
  status: "idle",
  files: new Map(),
  usage: { tokens: 0, costUsd: 0 },
  context: undefined,
  isCompacting: false,
  approve: undefined,
};

/** The call that waits for the user: a decision or an answer. The wanted one comes first, then the oldest one. */
export function waitingCall(state: SessionState, wanted?: string): string | undefined {
  let oldest: string | undefined;
  for (const item of state.items) {
    const call = callOf(item, state);
    if (call !== undefined && call === wanted) return call;
    oldest ??= call;
  }
  return oldest;
}

/** The question that the next plain message answers. */
export function openQuestion(state: SessionState): QuestionItem | undefined {
  return state.items.find((item): item is QuestionItem => item.kind === "question" && item.isOpen);
}

/** The call of an item that waits for the user. */
export function callOf(item: Item, state: SessionState): string | undefined {
  switch (item.kind) {
    case "tool":
      return item.state.step === "asking" ? item.callId : undefined;
    case "question":
      return item.isOpen ? item.callId : undefined;
    case "budget":
      return item.resolved === undefined ? item.approval.call_id : undefined;
    case "plan":
      return state.plans.get(item.planId)?.request?.call_id;
    default:
      return undefined;
  }
}

/** The message whose turn failed or was stopped, while nothing came after it. */
export function retryable(state: SessionState): MessageItem | undefined {
  if (state.status !== "failed" && state.status !== "cancelled") return undefined;
  const last = [...state.plans.values()].at(-1);
  // A plan that nobody decided about can be asked about again.
  if (last?.isExpired && isLatest(state, last.plan_id)) return undefined;
  // An older plan that was run again answers an older message.
  const plan = state.turnPlan === undefined ? undefined : state.positions.get(state.turnPlan);
  return lastRequest(state, plan);
}

/** The user's last message, or the last one before a position. */
function lastRequest(state: SessionState, before?: number): MessageItem | undefined {
  const isRequest = (item: Item) =>
    item.kind === "message" && item.role === "user" && item.origin === undefined && !item.isSteer;
  const found = state.items.slice(0, before).findLast(isRequest);
  return found?.kind === "message" ? found : undefined;
}

/** Whether the user has said nothing since this plan was made. */
export function isLatest(state: SessionState, planId: string): boolean {
  const request = lastRequest(state);
  const plan = state.positions.get(planId);
  if (plan === undefined) return false;
  return request === undefined || (state.positions.get(request.key) ?? 0) < plan;
}

/** The last message before this one that counts: where a session would end that goes another way from there. */
export function messageBefore(state: SessionState, key: string): string | undefined {
  const taken = rewoundKeys(state.items);
  const before = state.items.slice(0, state.positions.get(key) ?? 0);
  const counts = (item: Item) =>
    item.kind === "message" && item.role !== "system" && item.origin === undefined && !taken.has(item.key);
  return before.findLast(counts)?.key;
}

/** Whether a session can go back to before this message: it is the user's own, and began a turn. */
export function canGoBackTo(item: MessageItem): boolean {
  return item.role === "user" && item.origin === undefined && !item.isSteer;
}

const ENDED: readonly TaskStatus[] = ["completed", "failed", "skipped", "cancelled"];

export function hasTaskEnded(status: TaskStatus): boolean {
  return ENDED.includes(status);
}

export interface PlanProgress {
  total: number;
  done: number;
  failed: number;
  skipped: number;
}

/** Only a completed task is done. */
export function progressOf(plan: Plan): PlanProgress {
  const count = (status: TaskStatus) => plan.tasks.filter((task) => task.status === status).length;
  return { total: plan.tasks.length, done: count("completed"), failed: count("failed"), skipped: count("skipped") };
}

/** What the tasks have cost so far; nothing before the first one has used a model. */
export function costOf(plan: Plan): { usd: number; isKnown: boolean } | undefined {
  const used = plan.tasks.flatMap((task) => (task.usage == null ? [] : [task.usage]));
  if (used.length === 0) return undefined;
  return {
    usd: used.reduce((sum, usage) => sum + (usage.cost_usd ?? 0), 0),
    isKnown: used.every((usage) => usage.cost_usd != null),
  };
}

export function tasksEnded(plan: Plan): number {
  return plan.tasks.filter((task) => hasTaskEnded(task.status)).length;
}

export function isBusy(status: SessionStatus): boolean {
  return status === "working" || status.startsWith("awaiting_");
}

/** What rewinds have taken back that are in force: the keys of items that models do not see any more. */
export function rewoundKeys(items: readonly Item[]): ReadonlySet<string> {
  const taken = new Map<string, string[]>();
  items.forEach((item, at) => {
    if (item.kind !== "note" || item.note.type !== "rewound") return;
    const { rewound } = item.note;
    if (rewound.undone) {
      taken.delete(rewound.rewind_id);
      return;
    }
    const from = items.findIndex((each) => each.kind === "message" && each.key === rewound.to_message_id);
    if (rewound.scope === "files" || rewound.error != null || from < 0) return;
    taken.set(
      rewound.rewind_id,
      items.slice(from, at).map((each) => each.key),
    );
  });
  return new Set([...taken.values()].flat());
}
