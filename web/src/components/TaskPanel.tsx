// One task of a plan: what it does and did, or how it should be changed.
import type { Task } from "../api/types";
import { region, t } from "../feeds/preferences";
import { visible } from "../state/diff";
import { money } from "../state/format";
import { pathsOf, waitsFor } from "../state/paths";
import type { PlanView, SessionState } from "../state/session";
import { Icon } from "./Icon";
import { Markdown } from "./Markdown";
import { AgentName, Chip, ErrorLine } from "./parts";
import { Entries } from "./Timeline";

interface TaskPanelProps {
  task: Task;
  plan: PlanView;
  state: SessionState;
  sessionId: string;
}

const TONES: Record<Task["status"], string> = {
  pending: "calm",
  queued: "calm",
  running: "live",
  waiting: "warn",
  completed: "good",
  failed: "bad",
  skipped: "calm",
  cancelled: "calm",
};

export function TaskPanel({ task, plan, state, sessionId }: TaskPanelProps) {
  const thread = state.items.filter(
    (item) => item.origin?.planId === plan.plan_id && item.origin.taskId === task.id && item.kind !== "error",
  );
  const waiting = waitsFor(plan, task);
  const cost = task.usage?.cost_usd ?? task.estimated_cost_usd;
  const tokens = task.usage?.total_tokens ?? task.estimated_tokens;
  return (
    <article class="task-panel" data-task-panel={task.id}>
      <header class="card-head">
        <strong class="card-title">{t("plans.task", { id: task.id })}</strong>
        <AgentName name={task.agent} />
        <Chip tone={TONES[task.status]}>{t(`task.${task.status}`)}</Chip>
        <span class="grow" />
        <span class="meta">
          {t("item.tokens", { n: tokens })} · {cost == null ? t("plans.costUnknown") : money(region.value, cost)}
        </span>
      </header>
      <p>{visible(task.description)}</p>
      {task.depends_on.length > 0 && (
        <p class="meta">
          {t("plans.dependsOn")}: {task.depends_on.join(", ")}
        </p>
      )}
      {pathsOf(task).length > 0 && (
        <p class="meta" data-paths>
          {t("plans.paths")}: {pathsOf(task).map(visible).join(", ")}
        </p>
      )}
      {waiting.length > 0 && (
        <p class="meta" role="status">
          {t("plans.waitsFor", { tasks: waiting.join(", ") })}
        </p>
      )}
      {task.error != null && <ErrorLine code={task.error.error_code} message={task.error.message} />}
      {thread.length > 0 ? (
        <>
          <p class="label">{t("plans.thread")}</p>
          <Entries items={thread} state={state} sessionId={sessionId} />
        </>
      ) : (
        task.result != null && (
          <>
            <p class="label">{t("plans.result")}</p>
            <Markdown text={task.result} />
          </>
        )
      )}
    </article>
  );
}

interface TaskEditorProps {
  task: Task;
  agents: readonly string[];
  others: readonly Task[];
  onChange: (task: Task) => void;
  onDrop: () => void;
}

export function TaskEditor({ task, agents, others, onChange, onDrop }: TaskEditorProps) {
  const toggle = (id: string, isNeeded: boolean) =>
    onChange({
      ...task,
      depends_on: isNeeded ? [...task.depends_on, id] : task.depends_on.filter((other) => other !== id),
    });
  return (
    <form class="task-editor" onSubmit={(event) => event.preventDefault()}>
      <h3>{t("plans.task", { id: task.id })}</h3>
      <label class="field">
        <span>{t("plans.description")}</span>
        <textarea
          rows={3}
          value={task.description}
          onInput={(event) => onChange({ ...task, description: event.currentTarget.value })}
        />
      </label>
      <label class="field">
        <span>{t("plans.agent")}</span>
        <select value={task.agent} onChange={(event) => onChange({ ...task, agent: event.currentTarget.value })}>
          {[...new Set([task.agent, ...agents])].map((agent) => (
            <option key={agent} value={agent}>
              {agent}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        <span>{t("plans.paths")}</span>
        <textarea
          rows={2}
          value={pathsOf(task).join("\n")}
          onInput={(event) => onChange({ ...task, paths: event.currentTarget.value.split("\n") })}
        />
        <span class="hint">{t("plans.pathsHint")}</span>
      </label>
      {others.length > 0 && (
        <fieldset class="checks">
          <legend>{t("plans.dependsOn")}</legend>
          {others.map((other) => (
            <label key={other.id} class="check">
              <input
                type="checkbox"
                checked={task.depends_on.includes(other.id)}
                onChange={(event) => toggle(other.id, event.currentTarget.checked)}
              />
              {other.id}
            </label>
          ))}
        </fieldset>
      )}
      {others.length > 0 && (
        <button type="button" class="danger" onClick={onDrop}>
          <Icon name="trash" /> {t("plans.dropTask")}
        </button>
      )}
    </form>
  );
}
