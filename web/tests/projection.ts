// What a session's state means for a person, in the words of `tests/projection/README.md`.
import { isFailure } from "../src/components/ToolCard";
import { pathsOf, waitsFor } from "../src/state/paths";
import type {
  BudgetItem,
  CallProgress,
  Item,
  Origin,
  PlanView,
  QuestionItem,
  SessionState,
  ToolItem,
} from "../src/state/session";

export function project(state: SessionState) {
  const items = state.items;
  return {
    messages: items.flatMap(message),
    tool_calls: items.filter((item) => item.kind === "tool").map(toolCall),
    questions: items.filter((item) => item.kind === "question").map(question),
    plans: items.flatMap((item) => (item.kind === "plan" ? plan(state.plans.get(item.planId)) : [])),
    waiting: items.flatMap((item) => waiting(item, state)),
    errors: items.flatMap(error),
    notes: items.flatMap(note),
    turn: turn(state),
    last_seq: state.lastSeq,
  };
}

function turn(state: SessionState) {
  const ids = (steers: boolean) => state.queue.filter((queued) => queued.steers === steers).map(({ id }) => id);
  const described: Record<string, unknown> = { status: state.status, queued: ids(false) };
  if (ids(true).length > 0) described["steering"] = ids(true);
  if (state.isCompacting) described["compacting"] = true;
  return described;
}

const place = (origin: Origin | undefined) => ({
  plan_id: origin?.planId ?? null,
  task_id: origin?.taskId ?? null,
});

function message(item: Item) {
  if (item.kind !== "message" && item.kind !== "live") return [];
  const reasoning = item.kind === "live" ? (item.reasoning?.content ?? "") : item.reasoning;
  if (item.content === "" && reasoning === "") return [];
  const isLive = item.kind === "live";
  const shown = {
    message_id: item.key,
    role: isLive ? "assistant" : item.role,
    agent: item.agent ?? null,
    text: item.content,
    status: isLive ? "streaming" : (item.partial ?? (item.isError ? "error" : "complete")),
    ...place(item.origin),
  };
  const steered = !isLive && item.isSteer ? { ...shown, steered: true } : shown;
  return [reasoning === "" ? steered : { ...steered, reasoning }];
}

function toolCall(item: ToolItem) {
  const { state, mcp, progress } = item;
  const shown: Record<string, unknown> = {
    call_id: item.callId,
    tool: item.name,
    agent: item.agent ?? null,
    ...place(item.origin),
    status: callStatus(item),
    arguments: item.args,
    proposed_arguments: item.proposedArgs ?? null,
    decision: item.decision?.decision ?? null,
    result: state.step === "finished" ? state.result : null,
    late: state.step === "finished" && state.late,
  };
  if (mcp !== undefined) shown["mcp"] = { server: mcp.server, tool: mcp.tool, runs_at: mcp.runs_at };
  if (progress !== undefined) shown["progress"] = progressOf(progress);
  const preview = state.step === "asking" ? state.approval.preview : undefined;
  if (preview != null) {
    shown["preview"] = {
      base: preview.base,
      diff: preview.diff,
      unread: preview.is_unread ?? false,
      outdated: preview.is_outdated ?? false,
    };
  }
  return shown;
}

function callStatus({ state }: ToolItem): string {
  switch (state.step) {
    case "proposed":
      return "proposed";
    case "asking":
      return "awaiting_approval";
    case "waiting":
      return state.clientAttached ? "running" : "awaiting_client";
    case "finished":
      return isFailure(state.result) ? "failed" : "completed";
    case "closed":
      return state.outcome;
    case "not_run":
      return "not_run";
  }
}

const progressOf = ({ progress, total, message }: CallProgress) => ({
  progress,
  total: total ?? null,
  message: message ?? null,
});

function question(item: QuestionItem) {
  const shown: Record<string, unknown> = {
    call_id: item.callId,
    agent: item.agent,
    ...place(item.origin),
    question: item.question,
    options: item.options,
    status: item.isOpen ? "open" : item.answer === undefined ? "closed" : "answered",
    answer: item.answer ?? null,
  };
  if (item.server !== undefined) {
    shown["server"] = item.server;
    shown["requested_schema"] = item.schema;
  }
  return shown;
}

function plan(view: PlanView | undefined) {
  if (view === undefined) return [];
  const tasks = view.tasks.map((task) => {
    const shown: Record<string, unknown> = {
      id: task.id,
      agent: task.agent,
      description: task.description,
      depends_on: task.depends_on,
      status: task.status,
      result: task.result ?? null,
      error_code: task.error?.error_code ?? null,
    };
    if (pathsOf(task).length > 0) {
      shown["paths"] = pathsOf(task);
      shown["waits_for"] = waitsFor(view, task);
    }
    return shown;
  });
  return [{ plan_id: view.plan_id, status: view.status, tasks, response: view.response || null }];
}

function waiting(item: Item, state: SessionState) {
  switch (item.kind) {
    case "tool": {
      if (item.state.step !== "asking") return [];
      const { reason } = item.state.approval;
      return [{ kind: "tool", call_id: item.callId, agent: item.agent ?? null, ...place(item.origin), text: reason }];
    }
    case "plan": {
      const request = state.plans.get(item.planId)?.request;
      if (request === undefined) return [];
      return [{ kind: "plan", call_id: request.call_id, agent: null, ...place(undefined), text: request.reason }];
    }
    case "budget":
      return budget(item);
    case "question":
      if (!item.isOpen) return [];
      return [
        { kind: "question", call_id: item.callId, agent: item.agent, ...place(item.origin), text: item.question },
      ];
    default:
      return [];
  }
}

function budget(item: BudgetItem) {
  if (item.resolved !== undefined) return [];
  const { call_id, reason } = item.approval;
  return [{ kind: "budget", call_id, agent: item.agent ?? null, ...place(item.origin), text: reason }];
}

function error(item: Item) {
  if (item.kind !== "error") return [];
  return [{ error_code: item.code, message: item.message, ...place(item.origin) }];
}

function note(item: Item) {
  if (item.kind === "switch") return [{ kind: "agent_switched", from: item.from, to: item.to, reason: item.reason }];
  if (item.kind !== "note") return [];
  switch (item.note.type) {
    case "compacted":
      return [{ kind: "history_compacted", messages: item.note.messages, summary: item.note.summary }];
    case "compaction_failed":
      return [{ kind: "compaction_failed", error_code: item.note.code, message: item.note.message }];
    case "revoked": {
      const { calls, by } = item.note;
      const command = calls.kind === "command" ? calls.command : null;
      const ofServer = calls.kind === "mcp_tool" ? { server: calls.server, tool: calls.tool } : {};
      return [{ kind: "remembered_revoked", command, by, ...ofServer }];
    }
    case "approve":
      return [{ kind: "approve_changed", approve: item.note.mode }];
    case "rewound": {
      const { rewind_id, to_message_id, restored, undone } = item.note.rewound;
      return [{ kind: "rewound", rewind_id, to_message_id, restored, undone: undone ?? false }];
    }
    case "fallback":
      return [{ kind: "model_fallback", from: item.note.from, to: item.note.to, failure: item.note.failure }];
    case "waiting":
      return [{ kind: "model_waiting", until: item.note.until, failure: item.note.failure }];
    case "gap":
      return [{ kind: "gap", from: item.note.from, to: item.note.to }];
    case "start_over":
      return [{ kind: "start_over" }];
  }
}
