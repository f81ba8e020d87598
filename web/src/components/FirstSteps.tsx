// What a new user does first: connect a model, attach a tool runner, give the first task.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { spaceMetrics } from "../api/operations";
import { health, isDemo } from "../feeds/app";
import { t } from "../feeds/preferences";
import { linkTo } from "../state/route";
import { Icon } from "./Icon";
import { WorkCommand } from "./WorkCommand";

const LOOK_MS = 3_000;

export function FirstSteps({ project, onBegin }: { project: number; onBegin: () => void }) {
  const isAttached = useAttached(project);
  const hasModel = health.value !== undefined && !isDemo.value;
  return (
    <div class="first-steps">
      <h2>{t("start.title")}</h2>
      <ol>
        <Step number={1} isDone={hasModel} title={t("start.model")}>
          <p>{hasModel ? t("start.modelDone") : t("start.modelText")}</p>
          <a href={linkTo("operations", "models")}>{t(hasModel ? "start.modelSee" : "models.connect")}</a>
        </Step>
        <Step number={2} isDone={isAttached} title={t("start.client")}>
          <p>{isAttached ? t("start.clientDone") : t("start.clientText")}</p>
          {!isAttached && <WorkCommand />}
        </Step>
        <Step number={3} isDone={false} title={t("start.task")}>
          <p>{t("start.taskText")}</p>
          <button type="button" class="primary" onClick={onBegin}>
            <Icon name="plus" /> {t("sessions.new")}
          </button>
        </Step>
      </ol>
    </div>
  );
}

interface StepProps {
  number: number;
  isDone: boolean;
  title: string;
  children: ComponentChildren;
}

function Step({ number, isDone, title, children }: StepProps) {
  return (
    <li class={`step ${isDone ? "is-done" : ""}`} data-step={number}>
      <span class="step-mark" aria-hidden="true">
        {isDone ? <Icon name="check" /> : number}
      </span>
      <div>
        <h3>
          {title} {isDone && <span class="visually-hidden">({t("start.done")})</span>}
        </h3>
        {children}
      </div>
    </li>
  );
}

/** Whether a tool runner is attached to the project. Looks again while somebody sees the guide. */
function useAttached(project: number): boolean {
  const [isAttached, setAttached] = useState(false);
  useEffect(() => {
    const look = () =>
      spaceMetrics(project).then(
        (metrics) => setAttached(metrics.attached_clients > 0),
        // It is asked again in a moment.
        () => undefined,
      );
    const lookIfSeen = () => {
      if (document.visibilityState === "visible") void look();
    };
    lookIfSeen();
    const timer = setInterval(lookIfSeen, LOOK_MS);
    document.addEventListener("visibilitychange", lookIfSeen);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", lookIfSeen);
    };
  }, [project]);
  return isAttached;
}
