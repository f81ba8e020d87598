// One reducer for a session's stream: state and inputs in, the next state out. No clock, no I/O.
import type { SessionInput } from "../api/events";
import type { SessionEvent, SessionEventOf, Message, ToolCall } from "../api/types";
import { applyDelta, type Delta } from "./delta";
import { learnFiles } from "./files";
import { reducePlan, taskGoesOn } from "./plans";
import { emptySession, originOf } from "./session";
import type { Item, MessageItem, Origin, QueuedMessage, SessionState, ToolItem, ToolState, TrailStep } from "./session";

/** A mutable copy of the state. A batch of inputs needs only one copy. */
export interface Draft extends SessionState {
  items: Item[];
  positions: Map<string, number>;
  proposed: string[];
  plans: Map<string, SessionState["plans"] extends ReadonlyMap<string, infer V> ? V : never>;
  agents: Record<string, SessionState["agents"][string]>;
  trail: TrailStep[];
  queue: QueuedMessage[];
  files: Map<string, string>;
}

function draftOf(state: SessionState): Draft {
  return {
    ...state,
    items: [...state.items],
    positions: new Map(state.positions),
    proposed: [...state.proposed],
    plans: new Map(state.plans),
    agents: { ...state.agents },
    trail: [...state.trail],
    queue: [...state.queue],
    files: new Map(state.files),
  };
}

export function reduceSession(state: SessionState, inputs: readonly SessionInput[]): SessionState {
  const draft = draftOf(state);
  for (const input of inputs) {
    switch (input.kind) {
      case "done":
        draft.status = input.status;
        // An unfinished answer is dropped when the turn ends.
        if (!input.status.startsWith("awaiting_")) {
          dropLive(draft);
          passOver(draft, () => true);
        }
        break;
      case "connected":
        dropLive(draft);
        break;
      case "history":
        addHistory(draft, input.messages);
        break;
      case "event":
        applyEvent(draft, input.event);
    }
  }
  return draft;
}

function applyEvent(draft: Draft, event: SessionEvent) {
  if (event.type === "gap" && event.data.from <= draft.lastSeq) return startOver(draft, event);
  const seq = event.seq ?? undefined;
  if (seq !== undefined) {
    if (seq <= draft.lastSeq) return;
    draft.lastSeq = seq;
  }
  if (wakes(event)) draft.status = "working";
  reducePlan(draft, event);
  const at = event.timestamp;
  switch (event.type) {
    case "message_created":
      return applyMessage(draft, event);
    case "message_delta":
    case "reasoning_delta":
      return applyLive(draft, event, at);
    case "message_queued":
      return enqueue(draft, event);
    case "message_dequeued":
      return unqueue(draft, event.data.message_id);
    case "direct_agent_call":
      return step(draft, { key: `${seq}`, agent: event.data.agent, why: "direct", reason: undefined, at });
    case "agent_status_changed":
      draft.agents[event.data.agent] = event.data.status;
      return;
    case "agent_switched": {
      const { from_agent: from, to_agent: to, reason } = event.data;
      // The switch back at the end of a turn is not shown.
      if (to === "orchestrator") return;
      // The switch is shown instead of the tool call that requested it.
      dropItems(draft, (item) => item.kind === "tool" && item.name === "switch_mode" && item.state.step === "proposed");
      put(draft, { kind: "switch", key: `switch-${seq}`, at, origin: undefined, from, to, reason });
      return step(draft, { key: `${seq}`, agent: to, why: "switch", reason, at });
    }
    case "task_plan_created": {
      const planId = event.data.plan_id;
      put(draft, { kind: "plan", key: planId, at, origin: undefined, planId });
      draft.turnPlan = planId;
      return step(draft, { key: `${seq}`, agent: "orchestrator", why: "plan", reason: undefined, at });
    }
    case "task_started":
      return step(draft, { key: `${seq}`, agent: event.data.agent, why: "task", reason: event.data.task_id, at });
    case "tool_call":
      // The event `rewound` tells what became of it.
      if (event.data.tool_call.name === "rewind_files") return;
      return applyToolCall(draft, event, at);
    case "tool_progress": {
      const { call_id, progress, total, message } = event.data;
      const known = { progress, total: total ?? undefined, message: message ?? undefined };
      // Progress of a call that has ended says nothing any more.
      return changeTool(draft, call_id, (tool) => (isRunning(tool.state) ? { ...tool, progress: known } : tool));
    }
    case "tool_result":
      if (event.data.tool_name === "rewind_files") return;
      return applyToolResult(draft, event, at);
    case "tool_call_closed": {
      const { call_id, outcome } = event.data;
      taskGoesOn(draft, (find(draft, call_id) ?? find(draft, `question-${call_id}`))?.origin);
      return changeTool(draft, call_id, (tool) =>
        outcome === "completed" || hasEnded(tool.state)
          ? tool
          : { ...tool, progress: undefined, state: { step: "closed", outcome } },
      );
    }
    case "approval_request":
      return applyApprovalRequest(draft, event, at);
    case "approval_preview": {
      const { call_id, base, diff, is_unread, is_outdated, truncated, note } = event.data;
      const preview = { base, diff, is_unread, is_outdated, truncated, note };
      // Of a call that waits no longer it says nothing.
      return changeTool(draft, call_id, (tool) =>
        tool.state.step === "asking"
          ? { ...tool, state: { ...tool.state, approval: { ...tool.state.approval, preview } } }
          : tool,
      );
    }
    case "approval_resolved":
      return applyApprovalResolved(draft, event);
    case "question": {
      const { call_id: callId, question, options, agent, server, requested_schema: schema } = event.data;
      const origin = originOf(event.data);
      dropTool(draft, callId);
      return put(draft, {
        kind: "question",
        key: `question-${callId}`,
        at,
        origin,
        callId,
        question,
        agent,
        server: server ?? undefined,
        schema: schema ?? undefined,
        options: options ?? [],
        answer: undefined,
        isOpen: true,
      });
    }
    case "error": {
      const { message, error_code: code, details } = event.data;
      const text = (name: string) => (typeof details?.[name] === "string" ? details[name] : undefined);
      return put(draft, {
        kind: "error",
        key: `error-${seq}`,
        at,
        origin: originOf(event.data),
        message,
        code,
        failure: text("kind"),
      });
    }
    case "model_fallback": {
      const { from, to, kind: failure } = event.data;
      const note = { type: "fallback" as const, from, to, failure };
      return put(draft, { kind: "note", key: `note-${seq}`, at, origin: originOf(event.data), note });
    }
    case "model_waiting": {
      const note = { type: "waiting" as const, until: event.data.until, failure: event.data.kind };
      return put(draft, { kind: "note", key: `note-${seq}`, at, origin: originOf(event.data), note });
    }
    case "history_compacting":
      draft.isCompacting = true;
      return;
    case "compaction_failed": {
      draft.isCompacting = false;
      const note = { type: "compaction_failed" as const, message: event.data.message, code: event.data.error_code };
      return put(draft, { kind: "note", key: `note-${seq}`, at, origin: undefined, note });
    }
    case "remembered_revoked": {
      const { revoked_by: by, ...calls } = event.data;
      const note = { type: "revoked" as const, calls, by };
      return put(draft, { kind: "note", key: `note-${seq}`, at, origin: undefined, note });
    }
    case "approve_changed": {
      draft.approve = event.data.approve;
      const note = { type: "approve" as const, mode: event.data.approve };
      return put(draft, { kind: "note", key: `note-${seq}`, at, origin: undefined, note });
    }
    case "rewound": {
      const note = { type: "rewound" as const, rewound: event.data };
      return put(draft, { kind: "note", key: `note-${seq}`, at, origin: undefined, note });
    }
    case "history_compacted": {
      draft.isCompacting = false;
      draft.context = undefined;
      const note = { type: "compacted" as const, messages: event.data.messages, summary: event.data.summary };
      return put(draft, { kind: "note", key: `note-${seq}`, at, origin: undefined, note });
    }
    case "gap": {
      // The missing events were pruned. The log continues after them.
      const { from, to } = event.data;
      draft.lastSeq = Math.max(draft.lastSeq, to);
      return put(draft, { kind: "note", key: `gap-${from}`, at, origin: undefined, note: { type: "gap", from, to } });
    }
    case "plan_request":
    case "plan_resolved":
    case "task_progress":
    case "task_completed":
    case "task_failed":
    case "task_skipped":
    case "workflow_completed":
    case "waiting_added":
    case "waiting_removed":
      return;
    default:
      return unknownEvent(event);
  }
}

/** The state belongs to another log with the same session id. The new log follows from its start. */
function startOver(draft: Draft, event: SessionEventOf<"gap">) {
  Object.assign(draft, draftOf(emptySession));
  put(draft, { kind: "note", key: "start-over", at: event.timestamp, origin: undefined, note: { type: "start_over" } });
}

/** A newer server may send events that this page does not know. They are ignored. */
function unknownEvent(_event: never) {}

/** Whether an event means that the turn is running. A queued message does not resume a suspended turn. */
function wakes(event: SessionEvent): boolean {
  switch (event.type) {
    case "message_queued":
    case "message_dequeued":
    case "gap":
    case "history_compacting":
    case "history_compacted":
    case "compaction_failed":
    case "remembered_revoked":
    case "approve_changed":
    case "rewound":
    case "tool_progress":
    case "approval_preview":
    case "waiting_added":
    case "waiting_removed":
      return false;
    // A late result does not start a turn.
    case "tool_result":
      return !event.data.late;
    default:
      return true;
  }
}

function applyMessage(draft: Draft, event: SessionEventOf<"message_created">) {
  const { data } = event;
  const origin = originOf(data);
  if (data.role === "tool") {
    answerQuestion(draft, data.tool_call_id ?? "", data.content);
    return;
  }
  unqueue(draft, data.message_id);
  // The answer to a question is shown in the question's card.
  if (data.answers && answerQuestion(draft, data.answers, data.content)) return;
  const item = messageItem(data, origin);
  if (item.role === "user" && origin === undefined && !item.isSteer) draft.turnPlan = undefined;
  if (item.role === "assistant") passOver(draft, (tool) => isSamePlace(tool.origin, origin));
  put(draft, item);
  // The answer of a workflow carries what all its tasks used.
  if (data.usage && origin === undefined) {
    const { tokens, costUsd } = draft.usage;
    draft.usage = { tokens: tokens + data.usage.total_tokens, costUsd: costUsd + (data.usage.cost_usd ?? 0) };
  }
  // The answer of a whole plan is no model call.
  if (data.usage && (origin !== undefined || draft.turnPlan === undefined)) {
    const { prompt_tokens, completion_tokens, model } = data.usage;
    draft.context = { tokens: prompt_tokens + completion_tokens, model: model ?? undefined };
  }
  for (const call of data.tool_calls ?? []) {
    put(draft, toolItem(call, item));
    draft.proposed.push(call.call_id);
  }
}

/** A message that steers waits in the queue if its turn ends first. */
function enqueue(draft: Draft, { data }: SessionEventOf<"message_queued">) {
  const waiting = { id: data.message_id, text: data.content ?? "", steers: data.steers ?? false };
  const at = draft.queue.findIndex(({ id }) => id === waiting.id);
  if (at === -1) draft.queue.push(waiting);
  else draft.queue[at] = waiting;
}

function unqueue(draft: Draft, messageId: string) {
  draft.queue = draft.queue.filter(({ id }) => id !== messageId);
}

/** Inserts messages that are older than the stored events at the start. */
function addHistory(draft: Draft, messages: readonly Message[]) {
  const results = new Map(
    messages.flatMap((message) => (message.tool_call_id ? [[message.tool_call_id, message.content]] : [])),
  );
  const isNew = (key: string) => !draft.positions.has(key);
  const older = messages
    .filter((message) => message.role !== "tool" && isNew(message.message_id))
    .filter((message) => !message.answers || isNew(`question-${message.answers}`))
    .flatMap((message): Item[] => {
      const item = messageItem(message, undefined);
      const calls = (message.tool_calls ?? []).filter(
        (call) => isNew(call.call_id) && isNew(`question-${call.call_id}`),
      );
      return [item, ...calls.map((call) => ({ ...toolItem(call, item), state: finished(results.get(call.call_id)) }))];
    });
  draft.items = [...older, ...draft.items];
  draft.positions = new Map(draft.items.map((item, index) => [item.key, index]));
}

function finished(content: string | undefined): ToolState {
  if (content === undefined) return { step: "proposed" };
  try {
    return { step: "finished", result: JSON.parse(content) as unknown, late: false };
  } catch {
    return { step: "finished", result: content, late: false };
  }
}

function messageItem(data: Message, origin: Origin | undefined): MessageItem {
  return {
    kind: "message",
    key: data.message_id,
    at: data.timestamp,
    origin,
    role: data.role === "tool" ? "system" : data.role,
    content: data.content,
    agent: data.agent_id ?? undefined,
    isError: data.error ?? false,
    isRetry: data.retries != null,
    isSteer: data.steered ?? false,
    partial: data.reason ?? undefined,
    failure: data.error_message ?? undefined,
    usage: data.usage ?? undefined,
    warnings: data.warnings ?? [],
    reasoning: data.reasoning?.text ?? "",
    attachments: data.attachments ?? [],
  };
}

function toolItem(call: ToolCall, said: MessageItem): ToolItem {
  return {
    kind: "tool",
    key: call.call_id,
    callId: call.call_id,
    at: said.at,
    origin: said.origin,
    name: call.name,
    args: call.arguments,
    proposedArgs: undefined,
    agent: said.agent,
    parts: [],
    mcp: undefined,
    progress: undefined,
    decision: undefined,
    state: { step: "proposed" },
  };
}

function applyLive(
  draft: Draft,
  event: SessionEventOf<"message_delta"> | SessionEventOf<"reasoning_delta">,
  at: string,
) {
  const { data } = event;
  const present = find(draft, data.message_id);
  if (present !== undefined && present.kind !== "live") return;
  const delta: Delta = { content: data.content, attempt: data.attempt, offset: data.offset };
  const place = { kind: "live" as const, key: data.message_id, at, origin: originOf(data), agent: data.agent };
  // A higher attempt replaces the answer and its reasoning.
  const before = present !== undefined && data.attempt > present.attempt ? undefined : present;
  const empty = { content: "", bytes: 0, attempt: data.attempt };
  if (event.type === "reasoning_delta") {
    const { content, bytes, attempt } = before ?? empty;
    return put(draft, { ...place, content, bytes, attempt, reasoning: applyDelta(before?.reasoning, delta) });
  }
  const { content, bytes, attempt } = applyDelta(before, delta);
  put(draft, { ...place, content, bytes, attempt, reasoning: before?.reasoning });
}

function applyToolCall(draft: Draft, event: SessionEventOf<"tool_call">, at: string) {
  const { data } = event;
  const { call_id: callId, name, arguments: args } = data.tool_call;
  const present = find(draft, callId);
  const before = present?.kind === "tool" ? present : undefined;
  const isAsking = data.requires_approval && before?.state.step === "asking";
  put(draft, {
    kind: "tool",
    key: callId,
    callId,
    at: before?.at ?? at,
    origin: originOf(data),
    name,
    args,
    proposedArgs: before?.proposedArgs,
    agent: data.agent,
    parts: data.parts ?? before?.parts ?? [],
    mcp: data.mcp ?? before?.mcp,
    progress: undefined,
    decision: before?.decision,
    state: isAsking
      ? before.state
      : {
          step: "waiting",
          clientAttached: data.client_attached || data.mcp?.runs_at === "server",
          approved: data.approved ?? false,
        },
  });
}

function applyToolResult(draft: Draft, event: SessionEventOf<"tool_result">, at: string) {
  const { call_id: callId, tool_name: name, result, late } = event.data;
  if (answerQuestion(draft, callId, result)) return;
  const present = find(draft, callId);
  if (present?.kind !== "tool") {
    put(draft, {
      kind: "tool",
      key: callId,
      callId,
      at,
      origin: originOf(event.data),
      name,
      args: {},
      proposedArgs: undefined,
      agent: undefined,
      parts: [],
      mcp: undefined,
      progress: undefined,
      decision: undefined,
      state: { step: "proposed" },
    });
  }
  changeTool(draft, callId, (tool) => {
    learnFiles(draft.files, tool.name, tool.args, result);
    return { ...tool, progress: undefined, state: { step: "finished", result, late: late ?? false } };
  });
}

function applyApprovalRequest(draft: Draft, event: SessionEventOf<"approval_request">, at: string) {
  const { data } = event;
  const origin = originOf(data);
  if (data.kind !== "tool") {
    const agent = data.agent ?? undefined;
    return put(draft, { kind: "budget", key: data.call_id, at, origin, agent, approval: data, resolved: undefined });
  }
  const present = find(draft, data.call_id);
  put(draft, {
    kind: "tool",
    key: data.call_id,
    callId: data.call_id,
    at: present?.at ?? at,
    origin,
    name: data.tool_name,
    args: data.arguments,
    proposedArgs: undefined,
    agent: data.agent ?? undefined,
    parts: data.parts ?? [],
    mcp: data.mcp ?? undefined,
    progress: undefined,
    decision: undefined,
    state: { step: "asking", approval: data },
  });
}

function applyApprovalResolved(draft: Draft, event: SessionEventOf<"approval_resolved">) {
  const { call_id, decision, decided_by, reason, modified_args } = event.data;
  const present = find(draft, call_id);
  const isBudget = present?.kind === "budget";
  const isAccepted = decision === "approve" || decision === "edit";
  // An approved call has to run first. After a refused budget an event of its own ends the task or the workflow.
  if (isAccepted ? isBudget : !isBudget) taskGoesOn(draft, present?.origin);
  if (isBudget) return put(draft, { ...present, resolved: decision });
  changeTool(draft, call_id, (tool) => {
    const decided: ToolItem = { ...tool, decision: { decision, by: decided_by, reason: reason ?? undefined } };
    switch (decision) {
      case "approve":
        return { ...decided, state: { step: "waiting", clientAttached: true, approved: true } };
      case "edit":
        return {
          ...decided,
          proposedArgs: tool.args,
          args: modified_args ?? tool.args,
          state: { step: "waiting", clientAttached: true, approved: true },
        };
      case "expired":
        return { ...decided, state: { step: "closed", outcome: "expired" } };
      case "cancelled":
        return { ...decided, state: { step: "closed", outcome: "cancelled" } };
      default:
        return { ...decided, state: { step: "closed", outcome: "rejected" } };
    }
  });
}

/** The answer to a question is the result of its call. */
function answerQuestion(draft: Draft, callId: string, result: unknown): boolean {
  const question = find(draft, `question-${callId}`);
  if (question?.kind !== "question") return false;
  const answer = typeof result === "string" ? result : textOf(result);
  put(draft, { ...question, answer, isOpen: false });
  return true;
}

function textOf(result: unknown): string {
  const told = typeof result === "object" && result !== null ? (result as { answer?: unknown }).answer : undefined;
  return typeof told === "string" ? told : JSON.stringify(result);
}

/** A tool runner may have come after the call. */
function isRunning(state: ToolState): boolean {
  return state.step === "waiting";
}

function changeTool(draft: Draft, callId: string, change: (tool: ToolItem) => ToolItem) {
  const present = find(draft, callId);
  if (present?.kind === "tool") return put(draft, change(present));
  const question = find(draft, `question-${callId}`);
  if (question?.kind === "question") put(draft, { ...question, isOpen: false });
}

/** The first end counts: the server closes an expired approval's call as rejected afterwards. */
function hasEnded(state: ToolState): boolean {
  return state.step === "finished" || state.step === "closed";
}

/** No event closes a refused call. It counts as not run when its agent speaks again or the turn ends. */
function passOver(draft: Draft, isPassed: (tool: ToolItem) => boolean) {
  draft.proposed = draft.proposed.filter((callId) => {
    const tool = find(draft, callId);
    if (tool?.kind !== "tool" || tool.state.step !== "proposed") return false;
    if (isPassed(tool)) put(draft, { ...tool, state: { step: "not_run" } });
    return !isPassed(tool);
  });
}

/** A question is shown as a question card, not as a tool call. */
function dropTool(draft: Draft, callId: string) {
  if (draft.positions.has(callId)) dropItems(draft, (item) => item.key === callId);
}

function dropLive(draft: Draft) {
  const isLive = (item: Item) => item.kind === "live";
  if (draft.items.some(isLive)) dropItems(draft, isLive);
}

function dropItems(draft: Draft, isDropped: (item: Item) => boolean) {
  draft.items = draft.items.filter((item) => !isDropped(item));
  draft.positions = new Map(draft.items.map((item, index) => [item.key, index]));
}

function find(draft: Draft, key: string): Item | undefined {
  const position = draft.positions.get(key);
  return position === undefined ? undefined : draft.items[position];
}

function put(draft: Draft, item: Item) {
  const position = draft.positions.get(item.key);
  if (position === undefined) {
    draft.positions.set(item.key, draft.items.length);
    draft.items.push(item);
  } else {
    draft.items[position] = item;
  }
}

function step(draft: Draft, next: TrailStep) {
  draft.trail.push(next);
}

function isSamePlace(one: Origin | undefined, other: Origin | undefined): boolean {
  return one?.planId === other?.planId && one?.taskId === other?.taskId;
}
