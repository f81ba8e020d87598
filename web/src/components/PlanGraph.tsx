// Draws a plan as a graph of tasks.
import { useMemo } from "preact/hooks";
import type { Plan, Task } from "../api/types";
import { region, t } from "../feeds/preferences";
import { visible } from "../state/diff";
import { money } from "../state/format";
import { layoutPlan, layoutShared, NODE_HEIGHT, NODE_WIDTH, pathOf, type Dependent } from "../state/layout";
import { sharedFiles, waitsFor } from "../state/paths";
import type { TaskProgress } from "../state/session";
import { AgentName } from "./parts";

interface PlanGraphProps {
  status: Plan["status"];
  tasks: readonly Task[];
  progress: Readonly<Record<string, TaskProgress>>;
  selected: string | undefined;
  isFitted: boolean;
  onSelect: (id: string) => void;
}

const SMALLEST_SCALE = 0.8;
const NARROW = "(max-width: 760px)";

export function PlanGraph({ status, tasks, progress, selected, isFitted, onSelect }: PlanGraphProps) {
  // The layout depends only on ids and dependencies, so a status change does not compute it again.
  const shape = JSON.stringify(tasks.map(({ id, depends_on }) => ({ id, depends_on })));
  const files = JSON.stringify(tasks.map(({ id, depends_on, paths }) => ({ id, depends_on, paths })));
  const direction = globalThis.matchMedia?.(NARROW).matches ? "TB" : "LR";
  const plan = useMemo(() => layoutPlan(JSON.parse(shape) as Dependent[], direction), [shape, direction]);
  const shared = useMemo(() => layoutShared(plan, sharedFiles(JSON.parse(files) as Task[])), [plan, files]);
  const byId = new Map(tasks.map((task) => [task.id, task]));
  // A plan slightly wider than the window is scaled down; a wider one scrolls.
  const width = isFitted ? undefined : plan.width;
  const style = isFitted ? undefined : { minWidth: `${plan.width * SMALLEST_SCALE}px` };
  return (
    <div
      class={`graph ${isFitted ? "is-fitted" : ""}`}
      data-scroll
      tabIndex={0}
      role="group"
      aria-label={t("plans.graph")}
    >
      <svg viewBox={`0 0 ${plan.width} ${plan.height}`} width={width} style={style}>
        <defs>
          <Tip id="tip" className="edge-tip" />
          <Tip id="tip-done" className="edge-tip is-done" />
        </defs>
        {plan.edges.map((edge) => {
          const isDone = byId.get(edge.from)?.status === "completed";
          return (
            <path
              key={`${edge.from}>${edge.to}`}
              class={`edge ${isDone ? "is-done" : ""}`}
              d={pathOf(edge.points, direction)}
              marker-end={`url(#${isDone ? "tip-done" : "tip"})`}
            />
          );
        })}
        {shared.map(({ from, to, path }) => (
          <path key={`${from}~${to}`} class="edge is-shared" d={path} data-shared={`${from} ${to}`}>
            <title>{t("plans.sameFiles", { from, to })}</title>
          </path>
        ))}
        {plan.nodes.map((node) => {
          const task = byId.get(node.id);
          return (
            task !== undefined && (
              <foreignObject key={node.id} x={node.x} y={node.y} width={NODE_WIDTH} height={NODE_HEIGHT}>
                <Node
                  task={task}
                  waitsFor={waitsFor({ status, tasks: [...tasks] }, task)}
                  progress={progress[node.id]}
                  isSelected={selected === node.id}
                  onSelect={onSelect}
                />
              </foreignObject>
            )
          );
        })}
      </svg>
    </div>
  );
}

function Tip({ id, className }: { id: string; className: string }) {
  return (
    <marker id={id} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
      <path d="M0.5 0.5 7.5 4 0.5 7.5z" class={className} />
    </marker>
  );
}

interface NodeProps {
  task: Task;
  /** Tasks that write the same files. */
  waitsFor: readonly string[];
  progress: TaskProgress | undefined;
  isSelected: boolean;
  onSelect: (id: string) => void;
}

function Node({ task, waitsFor, progress, isSelected, onSelect }: NodeProps) {
  const cost = task.usage?.cost_usd ?? task.estimated_cost_usd;
  return (
    <button
      type="button"
      class={`node task-${task.status}`}
      data-task={task.id}
      data-status={task.status}
      aria-pressed={isSelected}
      onClick={() => onSelect(task.id)}
    >
      <span class="node-top">
        <AgentName name={task.agent} />
        <span class="node-status">{t(`task.${task.status}`)}</span>
      </span>
      <span class="node-text">{visible(task.description)}</span>
      <span class="node-foot">
        <span>
          {task.status === "running" && progress !== undefined
            ? t("plans.step", { n: progress.step, note: progress.note })
            : waitsFor.length > 0
              ? t("plans.waitsFor", { tasks: waitsFor.join(", ") })
              : task.id}
        </span>
        <span>{cost == null ? t("plans.costUnknown") : money(region.value, cost)}</span>
      </span>
    </button>
  );
}
