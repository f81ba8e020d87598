// Applies a session's events to its plans.
import type { Plan, PlannedTask, ProjectPlan, SessionEvent, Task, TaskStatus } from "../api/types";
import type { Draft } from "./reduce";
import { hasTaskEnded, originOf, type Origin, type PlanView } from "./session";

export function reducePlan(draft: Draft, event: SessionEvent) {
  switch (event.type) {
    case "task_plan_created":
      draft.plans.set(event.data.plan_id, {
        ...event.data,
        request: undefined,
        decidedBy: undefined,
        isExpired: false,
        progress: {},
        response: undefined,
      });
      return;
    case "plan_request":
      return change(draft, event.data.plan_id, (plan) => ({
        ...plan,
        status: "awaiting_approval",
        isExpired: false,
        request: event.data,
      }));
    case "plan_resolved": {
      const { plan_id, decision, decided_by, tasks } = event.data;
      return change(draft, plan_id, (plan) => {
        const isAccepted = decision === "approve" || decision === "edit";
        const edited = tasks !== undefined && tasks.length > 0 ? tasks : undefined;
        return {
          ...plan,
          status: isAccepted ? "running" : "cancelled",
          request: undefined,
          decidedBy: decided_by,
          isExpired: decision === "expired",
          tasks: edited === undefined ? plan.tasks : edited.map((task) => edit(plan, task)),
        };
      });
    }
    case "task_started":
      return changeTask(draft, event.data.plan_id, event.data.task_id, "running", (task) => {
        const { error: _, result: __, ...rest } = task;
        return rest;
      });
    case "task_progress": {
      const { plan_id, task_id, step, note } = event.data;
      return change(draft, plan_id, (plan) => ({ ...plan, progress: { ...plan.progress, [task_id]: { step, note } } }));
    }
    case "task_completed": {
      const { plan_id, task_id, response, usage, success } = event.data;
      if (!plan_id || !task_id) return;
      return changeTask(draft, plan_id, task_id, success ? "completed" : "failed", (task) => ({
        ...task,
        result: response,
        usage: usage ?? null,
      }));
    }
    case "task_failed":
      return changeTask(draft, event.data.plan_id, event.data.task_id, "failed", (task) => ({
        ...task,
        error: event.data.error,
      }));
    case "task_skipped":
      return changeTask(draft, event.data.plan_id, event.data.task_id, "skipped", (task) => task);
    case "approval_request":
    case "question":
    case "tool_call":
      return taskWaits(draft, originOf(event.data));
    case "tool_result":
      // The task did not wait for a late result: it continued without it, or has ended.
      if (!event.data.late) taskGoesOn(draft, originOf(event.data));
      return;
    case "workflow_completed": {
      const { plan_id, status, response } = event.data;
      return change(draft, plan_id, (plan) => ({
        ...plan,
        status,
        response,
        request: undefined,
        tasks: plan.tasks.map(stopped),
      }));
    }
    default:
      return;
  }
}

function edit(plan: PlanView, planned: PlannedTask): Task {
  const before = plan.tasks.find((task) => task.id === planned.id);
  return {
    id: planned.id,
    agent: planned.agent,
    description: planned.description,
    depends_on: planned.depends_on ?? [],
    paths: planned.paths ?? [],
    status: "pending",
    estimated_tokens: planned.estimated_tokens ?? before?.estimated_tokens ?? 0,
    estimated_cost_usd: before?.estimated_cost_usd ?? null,
  };
}

/** No event of its own ends a task that was stopped with its workflow. */
function stopped(task: Task): Task {
  return hasTaskEnded(task.status) ? task : { ...task, status: "cancelled" };
}

function change(draft: Draft, planId: string, next: (plan: PlanView) => PlanView) {
  const plan = draft.plans.get(planId);
  if (plan !== undefined) draft.plans.set(planId, next(plan));
}

function changeTask(draft: Draft, planId: string, taskId: string, status: TaskStatus, next: (task: Task) => Task) {
  change(draft, planId, (plan) => ({
    ...plan,
    // A retried plan runs again.
    status: status === "running" ? "running" : plan.status,
    tasks: plan.tasks.map((task) => (task.id === taskId ? { ...next(task), status } : task)),
  }));
}

function taskWaits(draft: Draft, origin: Origin | undefined) {
  if (origin !== undefined) changeTask(draft, origin.planId, origin.taskId, "waiting", (task) => task);
}

/** The task has what it waited for. A task that has ended does not start again. */
export function taskGoesOn(draft: Draft, origin: Origin | undefined) {
  if (origin === undefined) return;
  change(draft, origin.planId, (plan) => ({
    ...plan,
    tasks: plan.tasks.map((task) =>
      task.id === origin.taskId && task.status === "waiting" ? { ...task, status: "running" } : task,
    ),
  }));
}

/**
 * A project's plans, newest first, with those of one session as they are now, oldest first. What the session has after the
 * plans that are listed is new and comes first. What it has before them is older than all that is listed, and stays out.
 */
export function withPlansOf(known: readonly ProjectPlan[], session_id: string, plans: readonly Plan[]): ProjectPlan[] {
  const title = known.find((plan) => plan.session_id === session_id)?.title;
  const now = new Map(plans.map((plan) => [plan.plan_id, plan]));
  const listed = new Set(known.map((plan) => plan.plan_id));
  const newest = plans.findLastIndex((plan) => listed.has(plan.plan_id));
  const added = newest === -1 ? [] : plans.slice(newest + 1).toReversed();
  const kept = known.flatMap((plan) => {
    if (plan.session_id !== session_id) return [plan];
    const found = now.get(plan.plan_id);
    return found === undefined ? [] : [{ ...plan, ...found }];
  });
  return [...added.map((plan) => ({ ...plan, session_id, title })), ...kept];
}
