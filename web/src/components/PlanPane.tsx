// One plan: its graph, the selected task, and the approval buttons.
import { useEffect, useState } from "preact/hooks";
import { listAgents } from "../api/projects";
import { cancelTurn, decidePlan, retryPlan } from "../api/sessions";
import type { PlanDecision, PlannedTask, ProjectAgent, Task } from "../api/types";
import { attempt, projectId, report } from "../feeds/app";
import { t, whyAskedDetails } from "../feeds/preferences";
import { useSession } from "../feeds/session";
import { hasCycle } from "../state/layout";
import { pathsOf } from "../state/paths";
import { linkTo } from "../state/route";
import type { PlanView, SessionState } from "../state/session";
import { Icon } from "./Icon";
import { Markdown } from "./Markdown";
import { Empty, TextWithDetails } from "./parts";
import { PlanGraph } from "./PlanGraph";
import { costText, progressText } from "./PlanNumbers";
import { TaskEditor, TaskPanel } from "./TaskPanel";
import { PlanChip } from "./Timeline";

interface PlanPaneProps {
  sessionId: string;
  planId: string;
  title: string | undefined;
}

export function PlanPane({ sessionId, planId, title }: PlanPaneProps) {
  const feed = useSession(sessionId);
  const plan = feed.state.value.plans.get(planId);
  if (plan === undefined) {
    const isGone = feed.isMissing.value || feed.isLoaded.value;
    return <Empty icon="plans" title={isGone ? t("plans.choose") : t("app.loading")} />;
  }
  return <OpenPlan sessionId={sessionId} plan={plan} state={feed.state.value} title={title} />;
}

interface OpenPlanProps {
  sessionId: string;
  plan: PlanView;
  state: SessionState;
  title: string | undefined;
}

function OpenPlan({ sessionId, plan, state, title }: OpenPlanProps) {
  const [selected, setSelected] = useState<string | undefined>(undefined);
  const [isFitted, setFitted] = useState(true);
  const [draft, setDraft] = useState<Task[] | undefined>(undefined);
  const isEditing = draft !== undefined && plan.request !== undefined;
  const tasks = isEditing ? draft : plan.tasks;
  const task = tasks.find((candidate) => candidate.id === selected);
  return (
    <>
      <header class="pane-head">
        <a class="back" href={linkTo("plans")} aria-label={t("app.back")}>
          <Icon name="back" />
        </a>
        <h2 class="pane-title">
          <a href={linkTo("sessions", sessionId)}>{title ?? t("approvals.openSession")}</a>
        </h2>
        <span role="status" data-plan-status={plan.status}>
          <PlanChip plan={plan} />
        </span>
        <span class="grow" />
        <button type="button" class="quiet" aria-pressed={isFitted} onClick={() => setFitted(!isFitted)}>
          {t("plans.zoomFit")}
        </button>
      </header>
      <p class="plan-numbers meta">
        {progressText(plan)} · {costText(plan)}
      </p>
      {plan.fallback && <p class="warning-line">{t("plans.fallback")}</p>}
      <PlanGraph
        status={plan.status}
        tasks={tasks}
        progress={plan.progress}
        selected={selected}
        isFitted={isFitted}
        onSelect={setSelected}
      />
      <PlanActions sessionId={sessionId} plan={plan} draft={isEditing ? draft : undefined} setDraft={setDraft} />
      <div class="plan-below" data-scroll tabIndex={0} role="region" aria-label={t("plans.thread")}>
        {task === undefined ? (
          <Below plan={plan} isEditing={isEditing} />
        ) : isEditing ? (
          <EditTask task={task} tasks={draft} setTasks={setDraft} />
        ) : (
          <TaskPanel task={task} plan={plan} state={state} sessionId={sessionId} />
        )}
      </div>
    </>
  );
}

function Below({ plan, isEditing }: { plan: PlanView; isEditing: boolean }) {
  if (isEditing) return <p class="hint">{t("plans.chooseTaskToEdit")}</p>;
  if (plan.isExpired) return <p class="hint">{t("plans.expiredText")}</p>;
  if (plan.response === undefined || plan.response === "") return <p class="hint">{t("plans.chooseTask")}</p>;
  return (
    <article class="line role-assistant">
      <header>
        <strong>{t("plans.answer")}</strong>
      </header>
      <Markdown text={plan.response} />
    </article>
  );
}

interface PlanActionsProps {
  sessionId: string;
  plan: PlanView;
  draft: Task[] | undefined;
  setDraft: (tasks: Task[] | undefined) => void;
}

function PlanActions({ sessionId, plan, draft, setDraft }: PlanActionsProps) {
  const { plan_id: planId, request } = plan;
  const decide = (decision: PlanDecision["decision"], tasks?: PlannedTask[]) =>
    attempt(() => decidePlan(sessionId, planId, { decision, tasks, digest: request?.digest }));
  if (request !== undefined) {
    const isCircular = draft !== undefined && hasCycle(draft);
    return (
      <div class="plan-actions">
        <p class="reason">
          {isCircular ? (
            t("plans.cycle")
          ) : (
            <TextWithDetails text={t("approvals.about.plan")} details={whyAskedDetails(request.reason)} />
          )}
        </p>
        <span class="plan-buttons">
          {draft === undefined ? (
            <>
              <button type="button" class="primary" onClick={() => void decide("approve")}>
                <Icon name="check" /> {t("plans.approve")}
              </button>
              <button type="button" onClick={() => setDraft(plan.tasks)}>
                <Icon name="edit" /> {t("plans.editPlan")}
              </button>
            </>
          ) : (
            <>
              <button
                type="button"
                class="primary"
                disabled={isCircular || draft.length === 0}
                onClick={() => void decide("edit", draft.map(planned))}
              >
                <Icon name="check" /> {t("plans.approveEdited")}
              </button>
              <button type="button" onClick={() => setDraft(undefined)}>
                {t("plans.stopEditing")}
              </button>
            </>
          )}
          <button type="button" class="danger" onClick={() => void decide("reject")}>
            <Icon name="cross" /> {t("plans.reject")}
          </button>
        </span>
      </div>
    );
  }
  if (plan.status === "running") {
    return (
      <div class="plan-actions">
        <span class="grow" />
        <button type="button" onClick={() => void attempt(() => cancelTurn(sessionId, false))}>
          <Icon name="stop" /> {t("composer.stop")}
        </button>
      </div>
    );
  }
  const isRetryable = plan.tasks.some((task) => task.status === "failed" || task.status === "skipped");
  if (!isRetryable) return null;
  return (
    <div class="plan-actions">
      <span class="grow" />
      <button type="button" class="primary" onClick={() => void attempt(() => retryPlan(sessionId, planId))}>
        {t("plans.retry")}
      </button>
    </div>
  );
}

function planned(task: Task): PlannedTask {
  const { id, agent, description, depends_on, estimated_tokens } = task;
  const written = pathsOf(task)
    .map((path) => path.trim())
    .filter((path) => path !== "");
  return { id, agent, description, depends_on, paths: written, estimated_tokens };
}

interface EditTaskProps {
  task: Task;
  tasks: Task[];
  setTasks: (tasks: Task[]) => void;
}

function EditTask({ task, tasks, setTasks }: EditTaskProps) {
  const [agents, setAgents] = useState<ProjectAgent[]>([]);
  const project = projectId.value;
  useEffect(() => {
    if (project !== undefined) listAgents(project).then(setAgents, report);
  }, [project]);
  return (
    <TaskEditor
      task={task}
      agents={agents.map((agent) => agent.name)}
      others={tasks.filter((other) => other.id !== task.id)}
      onChange={(changed) => setTasks(tasks.map((other) => (other.id === task.id ? changed : other)))}
      onDrop={() =>
        setTasks(
          tasks
            .filter((other) => other.id !== task.id)
            .map((other) => ({ ...other, depends_on: other.depends_on.filter((id) => id !== task.id) })),
        )
      }
    />
  );
}
