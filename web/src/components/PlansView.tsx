// The plans of a project: the list, and the one that is open.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { listProjectPlans } from "../api/projects";
import { listPlans } from "../api/sessions";
import type { Plan, ProjectPlan } from "../api/types";
import { projectId, report, route } from "../feeds/app";
import { activity } from "../feeds/waiting";
import { region, t } from "../feeds/preferences";
import { money } from "../state/format";
import { withPlansOf } from "../state/plans";
import { Reads } from "../state/reads";
import { linkTo } from "../state/route";
import { costOf } from "../state/session";
import { Chip, Empty } from "./parts";
import { progressText, shortProgress } from "./PlanNumbers";
import { PlanPane } from "./PlanPane";
import { toneOfPlan } from "./Timeline";

/** Maximum number of plans that are listed. Older ones are linked from their sessions. */
const NEWEST_PLANS = 200;

export default function PlansView() {
  const { sessionId, planId } =
    route.value.view === "plans" ? route.value : { sessionId: undefined, planId: undefined };
  const listed = usePlans(sessionId);
  const open = listed?.find((plan) => plan.plan_id === planId);
  return (
    <section class={`view split ${planId === undefined ? "at-list" : "at-detail"}`}>
      <div class="side">
        <header class="side-head">
          <h1>{t("plans.title")}</h1>
        </header>
        <PlanList listed={listed} current={planId} />
      </div>
      <div class="detail">
        {sessionId === undefined || planId === undefined ? (
          <NothingOpen isEmpty={listed?.length === 0} />
        ) : (
          <PlanPane key={planId} sessionId={sessionId} planId={planId} title={open?.title ?? undefined} />
        )}
      </div>
    </section>
  );
}

/**
 * All plans are read once, and again when there is a new one. Otherwise only those of a session in which something
 * happened, or which is opened, are read.
 */
function usePlans(openSession: string | undefined): ProjectPlan[] | undefined {
  const project = projectId.value;
  const changed = activity.value;
  const [listed, setListed] = useState<{ project: number; plans: ProjectPlan[] } | undefined>(undefined);
  const [reads] = useState(() => new Reads());
  const plans = listed?.project === project ? listed?.plans : undefined;
  const readAll = useCallback(() => {
    if (project === undefined) return;
    const isNewer = reads.begin();
    listProjectPlans(project, NEWEST_PLANS).then((plans) => isNewer() && setListed({ project, plans }), report);
  }, [project, reads]);
  useEffect(readAll, [readAll]);
  // An answer about the project that was shown before comes too late.
  useEffect(() => () => reads.outdate(), [project, reads]);
  const readOne = (sessionId: string) => {
    const update = (list: Plan[]) =>
      setListed((known) => known && { ...known, plans: withPlansOf(known.plans, sessionId, list) });
    listPlans(sessionId).then(update, report);
  };
  const seenAt = useRef(changed.at);
  useEffect(() => {
    if (plans === undefined || changed.at === seenAt.current) return;
    seenAt.current = changed.at;
    // All are read for a new plan, also for the title that its session has now.
    if (changed.isNewPlan) readAll();
    else if (isListed(plans, changed.sessionId)) readOne(changed.sessionId);
  }, [plans, changed, readAll]);
  const toRead = plans !== undefined && isListed(plans, openSession) ? openSession : undefined;
  useEffect(() => {
    if (toRead !== undefined) readOne(toRead);
  }, [toRead]);
  return plans;
}

function isListed(plans: ProjectPlan[], sessionId: string | undefined): boolean {
  return plans.some((plan) => plan.session_id === sessionId);
}

function NothingOpen({ isEmpty }: { isEmpty: boolean }) {
  if (!isEmpty) return <Empty icon="plans" title={t("plans.choose")} />;
  return (
    <Empty icon="plans" title={t("plans.empty")} text={t("plans.emptyText")}>
      <a class="button" href={linkTo("sessions")}>
        {t("plans.goSessions")}
      </a>
    </Empty>
  );
}

function PlanList({ listed, current }: { listed: ProjectPlan[] | undefined; current: string | undefined }) {
  if (listed === undefined) return <p class="hint side-note">{t("app.loading")}</p>;
  if (listed.length === 0) return <p class="hint side-note">{t("plans.empty")}</p>;
  return (
    <ul class="side-list" data-scroll>
      {listed.map((plan) => (
        <li key={plan.plan_id}>
          <a
            class="side-item"
            href={linkTo("plans", plan.session_id, plan.plan_id)}
            aria-current={plan.plan_id === current ? "page" : undefined}
          >
            <span class="side-title">{plan.title ?? t("sessions.untitled")}</span>
            <span class="side-meta">
              <Chip tone={toneOfPlan(plan.status)}>{t(`plans.status.${plan.status}`)}</Chip>
              <span title={progressText(plan)}>{shortProgress(plan)}</span>
              <span>{money(region.value, costOf(plan)?.usd ?? plan.estimated_cost_usd)}</span>
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}
