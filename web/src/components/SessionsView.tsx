// The sessions of a project: the list, and the one that is open.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { changeSession, deleteSession, listSessions, readDetail, searchSessions } from "../api/sessions";
import type { Session } from "../api/types";
import { attempt, go, projectId, report, route } from "../feeds/app";
import { t } from "../feeds/preferences";
import { draftOf, writeDraft } from "../feeds/drafts";
import { beginSession, keptState, newSessionId } from "../feeds/session";
import { activity, load } from "../feeds/waiting";
import { Reads } from "../state/reads";
import { linkTo } from "../state/route";
import { ClientsLine } from "./ClientsLine";
import { FirstSteps } from "./FirstSteps";
import { Icon } from "./Icon";
import { Empty } from "./parts";
import { SearchField, SessionList } from "./SessionList";
import { SessionPane } from "./SessionPane";
import { TrustNotice } from "./TrustNotice";

/** A search begins when the person pauses in typing. */
const SEARCH_PAUSE_MS = 250;
/** Something that happens in a session repeats a search at most this often, because a search can take long. */
const SEARCH_AGAIN_MS = 5_000;

interface Listed {
  project: number;
  isArchive: boolean;
  search: string;
  sessions: Session[];
  /** How many there are. A search answers with the first of them. */
  total: number;
  /** Why the server does not search for this. */
  refusal?: string;
}

/** The text, once it has stayed the same for a moment. An emptied one counts at once. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), text === "" ? 0 : SEARCH_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return text === "" ? "" : settled;
}

/** The newest value, but another one only after a pause. */
function useThrottled<T>(value: T, pauseMs: number): T {
  const [shown, setShown] = useState({ value, at: 0 });
  useEffect(() => {
    if (value === shown.value) return;
    const timer = setTimeout(() => setShown({ value, at: Date.now() }), shown.at + pauseMs - Date.now());
    return () => clearTimeout(timer);
  }, [value, pauseMs, shown]);
  return pauseMs === 0 ? value : shown.value;
}

async function readSessions(project: number, isArchive: boolean, search: string): Promise<Listed> {
  const which = { project, isArchive, search };
  if (search === "") {
    const sessions = await listSessions(project, isArchive);
    return { ...which, sessions, total: sessions.length };
  }
  try {
    const [sessions, total] = await searchSessions(project, search, isArchive);
    return { ...which, sessions, total };
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === undefined) throw error;
    return { ...which, sessions: [], total: 0, refusal };
  }
}

/** The server does not search for so many words, or the search took too long. Asking again would not help. */
function refusalOf(error: unknown): string | undefined {
  if (!(error instanceof ApiError)) return undefined;
  if (error.status === 422) return t("sessions.searchRefused");
  return error.status === 429 ? t("sessions.searchTooLong") : undefined;
}

/** The list that is shown; nothing until it was read. It is read again when something happens in a session. */
function useSessions(project: number | undefined, isArchive: boolean, search: string, current: string | undefined) {
  const [listed, setListed] = useState<Listed | undefined>(undefined);
  const [reads] = useState(() => new Reads());
  const [round, setRound] = useState(0);
  const changedAt = useThrottled(activity.value.at, search === "" ? 0 : SEARCH_AGAIN_MS);
  const refused = useRef("");
  useEffect(() => {
    if (project === undefined || (search !== "" && refused.current === search)) return;
    // An answer that is not the newest one is still shown, because a busy session asks for the list all the time.
    const isNewer = reads.begin();
    readSessions(project, isArchive, search).then((read) => {
      refused.current = read.refusal === undefined ? "" : search;
      if (isNewer()) setListed(read);
    }, report);
  }, [project, current, changedAt, isArchive, search, round, reads]);
  // An answer about the list that was shown before comes too late.
  useEffect(() => () => reads.outdate(), [project, isArchive, search, reads]);
  const refresh = () => {
    reads.outdate();
    setRound((before) => before + 1);
  };
  // While somebody types, the results of the search before stay, with the words that they were found by.
  const isShown =
    listed !== undefined &&
    listed.project === project &&
    listed.isArchive === isArchive &&
    (listed.search === "") === (search === "");
  return { listed: isShown ? listed : undefined, refresh };
}

/** The open session, if the list does not have it: it can be of another project, or of the other list. */
function useElsewhere(current: string | undefined, sessions: Session[] | undefined) {
  const [found, setFound] = useState<Session | undefined>(undefined);
  const isElsewhere =
    current !== undefined && sessions !== undefined && !sessions.some((session) => session.session_id === current);
  useEffect(() => {
    if (!isElsewhere) return;
    let isCurrent = true;
    readDetail(current).then(
      (detail) => {
        // The user has gone on. The page must not take them back to that project.
        if (!isCurrent) return;
        projectId.value = detail.project_id;
        setFound(detail);
      },
      // The pane says that the session does not exist.
      () => undefined,
    );
    return () => {
      isCurrent = false;
    };
  }, [isElsewhere, current]);
  return [found, setFound] as const;
}

/** Nobody wrote in it yet. The list can be older than the session's stream. */
function isBlank({ session_id: id, title, message_count: messages }: Session): boolean {
  return title == null && messages === 0 && (keptState(id)?.items.length ?? 0) === 0;
}

/** Opens a blank session once more instead of making another one, and puts the keyboard into its form. */
function reopen(id: string) {
  newSessionId.value = id;
  writeDraft(id, draftOf(id));
  go(linkTo("sessions", id));
}

/** The session that is open now, which may be another one than before an answer came. */
function openId(): string | undefined {
  const now = route.peek();
  return now.view === "sessions" ? now.sessionId : undefined;
}

export function SessionsView() {
  const { sessionId: current, callId } =
    route.value.view === "sessions" ? route.value : { sessionId: undefined, callId: undefined };
  const [isArchive, setArchive] = useState(false);
  const project = projectId.value;
  const [typed, setTyped] = useState("");
  const settled = useSettled(typed.trim());
  const { listed, refresh } = useSessions(project, isArchive, settled, current);
  const sessions = listed?.sessions;
  const search = listed?.search ?? settled;
  const [found, setFound] = useElsewhere(current, sessions);

  const begin = () =>
    attempt(async () => {
      if (project === undefined) return;
      // A search finds no blank session, so all of them are looked through.
      const all = search === "" ? sessions : await listSessions(project);
      const blank = isArchive ? undefined : all?.find(isBlank);
      setTyped("");
      if (blank !== undefined) return reopen(blank.session_id);
      setFound(await beginSession(project));
      refresh();
    });
  const remove = (id: string) =>
    attempt(async () => {
      if (!confirm(t("sessions.deleteSure"))) return;
      await deleteSession(id);
      load();
      refresh();
      if (openId() === id) go(linkTo("sessions"));
    });
  const change = (id: string, body: Parameters<typeof changeSession>[1]) =>
    void attempt(async () => {
      const changed = await changeSession(id, body);
      if (openId() === id) setFound(changed);
      refresh();
    });
  const changes = {
    pin: (id: string, pinned: boolean) => change(id, { pinned }),
    archive: (id: string, archived: boolean) => change(id, { archived }),
  };

  const open = [...(sessions ?? []), ...(found ? [found] : [])].find((session) => session.session_id === current);
  const isStart = sessions?.length === 0 && !isArchive && search === "";
  return (
    <section class={`view split ${current !== undefined ? "at-detail" : isStart ? "at-start" : "at-list"}`}>
      <div class="side">
        <header class="side-head">
          <h1>{t("sessions.title")}</h1>
          <button type="button" class="primary" onClick={() => void begin()}>
            <Icon name="plus" /> {t("sessions.new")}
          </button>
        </header>
        <ClientsLine project={project} />
        <SearchField search={typed} onSearch={setTyped} />
        <button type="button" class="quiet side-switch" aria-pressed={isArchive} onClick={() => setArchive(!isArchive)}>
          <Icon name="archive" /> {t("sessions.archived")}
        </button>
        <SessionList
          sessions={sessions}
          total={listed?.total ?? 0}
          refusal={listed?.refusal}
          isArchive={isArchive}
          search={search}
          current={current}
          changes={changes}
        />
      </div>
      <div class="detail">
        {current === undefined && <TrustNotice />}
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
