// The sessions of a project: the list, and the one that is open.
import { useEffect, useState } from "preact/hooks";
import { deleteSession, listSessions, readDetail, renameSession } from "../api/sessions";
import type { Session } from "../api/types";
import { attempt, go, projectId, report, route } from "../feeds/app";
import { t } from "../feeds/preferences";
import { beginSession } from "../feeds/session";
import { activity, load, waiting } from "../feeds/waiting";
import { linkTo } from "../state/route";
import { bySession, type Waiting } from "../state/waiting";
import { FirstSteps } from "./FirstSteps";
import { Icon } from "./Icon";
import { Ago, Empty } from "./parts";
import { SessionPane } from "./SessionPane";

export function SessionsView() {
  const { sessionId: current, callId } =
    route.value.view === "sessions" ? route.value : { sessionId: undefined, callId: undefined };
  const [sessions, setSessions] = useState<Session[] | undefined>(undefined);
  const project = projectId.value;
  const changedAt = activity.value.at;
  useEffect(() => {
    if (project === undefined) return;
    listSessions(project).then(setSessions, report);
  }, [project, current, changedAt]);

  // A link can lead to a session of another project.
  const isElsewhere =
    current !== undefined && sessions !== undefined && !sessions.some((session) => session.session_id === current);
  useEffect(() => {
    if (!isElsewhere) return;
    readDetail(current).then(
      (found) => (projectId.value = found.project_id),
      // The pane says that the session does not exist.
      () => undefined,
    );
  }, [isElsewhere, current]);

  const begin = () =>
    attempt(async () => {
      if (project === undefined) return;
      const made = await beginSession(project);
      setSessions([made, ...(sessions ?? [])]);
    });
  const remove = (id: string) =>
    attempt(async () => {
      if (!confirm(t("sessions.deleteSure"))) return;
      await deleteSession(id);
      load();
      setSessions((sessions ?? []).filter((session) => session.session_id !== id));
      go(linkTo("sessions"));
    });
  const rename = (id: string, title: string) =>
    attempt(async () => {
      const changed = await renameSession(id, title);
      setSessions((sessions ?? []).map((session) => (session.session_id === id ? changed : session)));
    });

  const open = sessions?.find((session) => session.session_id === current);
  return (
    <section
      class={`view split ${current !== undefined ? "at-detail" : sessions?.length === 0 ? "at-start" : "at-list"}`}
    >
      <div class="side">
        <header class="side-head">
          <h1>{t("sessions.title")}</h1>
          <button type="button" class="primary" onClick={() => void begin()}>
            <Icon name="plus" /> {t("sessions.new")}
          </button>
        </header>
        <SessionList sessions={sessions} current={current} />
      </div>
      <div class="detail">
        {current === undefined && sessions?.length === 0 && project !== undefined ? (
          <FirstSteps project={project} onBegin={() => void begin()} />
        ) : current === undefined ? (
          <Empty icon="sessions" title={t("sessions.choose")} text={t("sessions.emptyText")}>
            <button type="button" onClick={() => void begin()}>
              <Icon name="plus" /> {t("sessions.new")}
            </button>
          </Empty>
        ) : (
          <SessionPane
            key={current}
            sessionId={current}
            callId={callId}
            title={open?.title ?? undefined}
            onRename={(title) => void rename(current, title)}
            onDelete={() => void remove(current)}
          />
        )}
      </div>
    </section>
  );
}

function SessionList({ sessions, current }: { sessions: Session[] | undefined; current: string | undefined }) {
  if (sessions === undefined) return <p class="hint side-note">{t("app.loading")}</p>;
  if (sessions.length === 0) return <p class="hint side-note">{t("sessions.empty")}</p>;
  const asking = bySession(waiting.value);
  return (
    <ul class="side-list" data-scroll>
      {sessions.map((session) => (
        <li key={session.session_id}>
          <a
            href={linkTo("sessions", session.session_id)}
            aria-current={session.session_id === current ? "page" : undefined}
            class="side-item"
          >
            <span class="side-title">{session.title ?? t("sessions.untitled")}</span>
            <span class="side-meta">
              <WaitingChip waiting={asking.get(session.session_id) ?? []} />
              <span>{t("sessions.messages", { n: session.message_count })}</span>
              <Ago at={session.last_activity} />
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

/** Says what the session waits for. With several, the oldest. */
function WaitingChip({ waiting: [oldest, ...others] }: { waiting: Waiting[] }) {
  if (oldest === undefined) return null;
  return (
    <span class="chip tone-warn" title={[oldest, ...others].map((entry) => entry.text).join("\n")}>
      {t(`waiting.kind.${oldest.kind}`)}
      {others.length > 0 && ` +${others.length}`}
    </span>
  );
}
