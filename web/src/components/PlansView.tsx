// The plans of a project: the list, and the one that is open.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { listPlans, listSessions } from "../api/sessions";
import type { Plan, Session } from "../api/types";
import { projectId, report, route } from "../feeds/app";
import { activity } from "../feeds/waiting";
import { region, t } from "../feeds/preferences";
import { money } from "../state/format";
import { linkTo } from "../state/route";
import { costOf } from "../state/session";
import { Chip, Empty } from "./parts";
import { progressText, shortProgress } from "./PlanNumbers";
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
  const listed = usePlans(sessionId);
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

type PlansBySession = ReadonlyMap<string, Plan[]>;

/** All plans are read once. After that only those of a session in which something happened, or which is opened. */
function usePlans(openSession: string | undefined): Listed[] | undefined {
  const project = projectId.value;
  const changed = activity.value;
  const [sessions, setSessions] = useState<Session[] | undefined>(undefined);
  const [plans, setPlans] = useState<PlansBySession>(new Map());
  useEffect(() => {
    if (project === undefined) return;
    const read = async () => {
      const newest = (await listSessions(project)).slice(0, NEWEST_SESSIONS);
      const lists = await Promise.all(newest.map((session) => listPlans(session.session_id)));
      setPlans(new Map(newest.map((session, at) => [session.session_id, lists[at] ?? []])));
      setSessions(newest);
    };
    read().catch(report);
  }, [project]);
  const readOne = useCallback((sessionId: string) => {
    listPlans(sessionId).then((list) => setPlans((known) => new Map(known).set(sessionId, list)), report);
  }, []);
  const seenAt = useRef(changed.at);
  useEffect(() => {
    if (project === undefined || changed.at === seenAt.current) return;
    seenAt.current = changed.at;
    listSessions(project).then((all) => setSessions(all.slice(0, NEWEST_SESSIONS)), report);
    readOne(changed.sessionId);
  }, [project, changed, readOne]);
  const isRead = sessions !== undefined;
  useEffect(() => {
    if (isRead && openSession !== undefined) readOne(openSession);
  }, [isRead, openSession, readOne]);
  return sessions?.flatMap((session) =>
    (plans.get(session.session_id) ?? []).toReversed().map((plan) => ({ session, plan })),
  );
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
              <span title={progressText(plan)}>{shortProgress(plan)}</span>
              <span>{money(region.value, costOf(plan)?.usd ?? plan.estimated_cost_usd)}</span>
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}
