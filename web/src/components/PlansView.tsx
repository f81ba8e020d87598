// The plans of a project: the list, and the one that is open.
import { useEffect, useState } from "preact/hooks";
import { listPlans, listSessions } from "../api/sessions";
import type { Plan, Session } from "../api/types";
import { projectId, report, route } from "../feeds/app";
import { activity } from "../feeds/approvals";
import { region, t } from "../feeds/preferences";
import { money } from "../state/format";
import { linkTo } from "../state/route";
import { tasksEnded } from "../state/session";
import { Chip, Empty } from "./parts";
import { PlanPane } from "./PlanPane";
import { toneOfPlan } from "./Timeline";

interface Listed {
  session: Session;
  plan: Plan;
}

/** Plans are loaded per session, for the newest sessions only. Plans of older sessions are linked from the session. */
const NEWEST_SESSIONS = 40;

export default function PlansView() {
  const { sessionId, planId } =
    route.value.view === "plans" ? route.value : { sessionId: undefined, planId: undefined };
  const [listed, setListed] = useState<Listed[] | undefined>(undefined);
  const project = projectId.value;
  const changedAt = activity.value.at;
  useEffect(() => {
    if (project !== undefined) readPlans(project).then(setListed, report);
  }, [project, planId, changedAt]);
  const open = listed?.find((entry) => entry.plan.plan_id === planId);
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
          <PlanPane key={planId} sessionId={sessionId} planId={planId} title={open?.session.title ?? undefined} />
        )}
      </div>
    </section>
  );
}

async function readPlans(project: number): Promise<Listed[]> {
  const sessions = (await listSessions(project)).slice(0, NEWEST_SESSIONS);
  const plans = await Promise.all(sessions.map((session) => listPlans(session.session_id)));
  return sessions.flatMap((session, at) => (plans[at] ?? []).toReversed().map((plan) => ({ session, plan })));
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

function PlanList({ listed, current }: { listed: Listed[] | undefined; current: string | undefined }) {
  if (listed === undefined) return <p class="hint side-note">{t("app.loading")}</p>;
  if (listed.length === 0) return <p class="hint side-note">{t("plans.empty")}</p>;
  return (
    <ul class="side-list" data-scroll>
      {listed.map(({ session, plan }) => (
        <li key={plan.plan_id}>
          <a
            class="side-item"
            href={linkTo("plans", session.session_id, plan.plan_id)}
            aria-current={plan.plan_id === current ? "page" : undefined}
          >
            <span class="side-title">{session.title ?? t("sessions.untitled")}</span>
            <span class="side-meta">
              <Chip tone={toneOfPlan(plan.status)}>{t(`plans.status.${plan.status}`)}</Chip>
              <span>{t("plans.progress", { done: tasksEnded(plan), total: plan.tasks.length })}</span>
              <span>{money(region.value, plan.estimated_cost_usd)}</span>
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}
