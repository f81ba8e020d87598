// The sessions of a project: the list, and the one that is open.
import { useEffect, useState } from "preact/hooks";
import { changeSession, deleteSession, listSessions, readDetail } from "../api/sessions";
import type { Session } from "../api/types";
import { attempt, go, projectId, report, route } from "../feeds/app";
import { t } from "../feeds/preferences";
import { beginSession } from "../feeds/session";
import { activity, load } from "../feeds/waiting";
import { linkTo } from "../state/route";
import { withChanged } from "../state/sessions";
import { FirstSteps } from "./FirstSteps";
import { Icon } from "./Icon";
import { Empty } from "./parts";
import { SessionList } from "./SessionList";
import { SessionPane } from "./SessionPane";

export function SessionsView() {
  const { sessionId: current, callId } =
    route.value.view === "sessions" ? route.value : { sessionId: undefined, callId: undefined };
  const [sessions, setSessions] = useState<Session[] | undefined>(undefined);
  const [isArchive, setArchive] = useState(false);
  /** The open session, if the list does not have it. */
  const [found, setFound] = useState<Session | undefined>(undefined);
  const project = projectId.value;
  const changedAt = activity.value.at;
  useEffect(() => {
    if (project === undefined) return;
    let isCurrent = true;
    // An answer about the list that was shown before comes too late.
    listSessions(project, isArchive).then((list) => isCurrent && setSessions(list), report);
    return () => {
      isCurrent = false;
    };
  }, [project, current, changedAt, isArchive]);

  // A link can lead to a session of another project. The other list has archived sessions.
  const isElsewhere =
    current !== undefined && sessions !== undefined && !sessions.some((session) => session.session_id === current);
  useEffect(() => {
    if (!isElsewhere) return;
    readDetail(current).then(
      (detail) => {
        projectId.value = detail.project_id;
        setFound(detail);
      },
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
  const change = (id: string, body: Parameters<typeof changeSession>[1]) =>
    void attempt(async () => {
      const changed = await changeSession(id, body);
      setSessions((known) => withChanged(known ?? [], changed, isArchive));
      if (id === current) setFound(changed);
    });
  const changes = {
    pin: (id: string, pinned: boolean) => change(id, { pinned }),
    archive: (id: string, archived: boolean) => change(id, { archived }),
  };

  const open = [...(sessions ?? []), ...(found ? [found] : [])].find((session) => session.session_id === current);
  const isStart = sessions?.length === 0 && !isArchive;
  return (
    <section class={`view split ${current !== undefined ? "at-detail" : isStart ? "at-start" : "at-list"}`}>
      <div class="side">
        <header class="side-head">
          <h1>{t("sessions.title")}</h1>
          <button type="button" class="primary" onClick={() => void begin()}>
            <Icon name="plus" /> {t("sessions.new")}
          </button>
        </header>
        <button
          type="button"
          class="quiet side-switch"
          aria-pressed={isArchive}
          onClick={() => {
            setSessions(undefined);
            setArchive(!isArchive);
          }}
        >
          <Icon name="archive" /> {t("sessions.archived")}
        </button>
        <SessionList sessions={sessions} isArchive={isArchive} current={current} changes={changes} />
      </div>
      <div class="detail">
        {current === undefined && isStart && project !== undefined ? (
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
            session={open}
            onRename={(title) => change(current, { title })}
            onPin={(isPinned) => changes.pin(current, isPinned)}
            onArchive={(isArchived) => changes.archive(current, isArchived)}
            onDelete={() => void remove(current)}
          />
        )}
      </div>
    </section>
  );
}
