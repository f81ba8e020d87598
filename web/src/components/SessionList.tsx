// The list of a project's sessions: pinned ones first, each with what it waits for.
import type { Session } from "../api/types";
import { t } from "../feeds/preferences";
import { waiting } from "../feeds/waiting";
import { visible } from "../state/diff";
import { linkTo } from "../state/route";
import { markFound, MAX_SEARCH_CHARS, pinnedFirst } from "../state/sessions";
import { bySession, type Waiting } from "../state/waiting";
import { Icon, type IconName } from "./Icon";
import { Ago } from "./parts";

export interface ListChanges {
  pin: (id: string, isPinned: boolean) => void;
  archive: (id: string, isArchived: boolean) => void;
}

interface SessionListProps {
  sessions: Session[] | undefined;
  /** How many there are, shown or not. */
  total: number;
  /** Why there was no search. */
  refusal: string | undefined;
  isArchive: boolean;
  /** What the sessions were searched for; empty without a search. */
  search: string;
  current: string | undefined;
  changes: ListChanges;
}

export function SessionList({ sessions, total, refusal, isArchive, search, current, changes }: SessionListProps) {
  if (sessions === undefined) return <p class="hint side-note">{t("app.loading")}</p>;
  if (refusal !== undefined) return <p class="hint side-note">{refusal}</p>;
  if (sessions.length === 0) return <p class="hint side-note">{t(emptyText(search, isArchive))}</p>;
  const asking = bySession(waiting.value);
  return (
    <ul class="side-list" data-scroll>
      {pinnedFirst(sessions).map((session) => (
        <li key={session.session_id} class="side-row">
          <a
            href={linkTo("sessions", session.session_id)}
            aria-current={session.session_id === current ? "page" : undefined}
            class="side-item"
          >
            <span class="side-title">{session.title ?? t("sessions.untitled")}</span>
            <Snippet text={session.snippet ?? ""} search={search} />
            <span class="side-meta">
              <WaitingChip waiting={asking.get(session.session_id) ?? []} />
              <span>{t("sessions.messages", { n: session.message_count })}</span>
              <Ago at={session.last_activity} />
            </span>
          </a>
          <RowTools session={session} changes={changes} />
        </li>
      ))}
      {total > sessions.length && (
        <li class="hint side-note">{t("sessions.searchFirst", { shown: sessions.length, n: total })}</li>
      )}
    </ul>
  );
}

function emptyText(search: string, isArchive: boolean) {
  if (search !== "") return "sessions.searchEmpty";
  return isArchive ? "sessions.archiveEmpty" : "sessions.empty";
}

function Snippet({ text, search }: { text: string; search: string }) {
  if (text === "") return null;
  return (
    <span class="side-snippet">
      {markFound(visible(text), search).map((part) => (part.isFound ? <mark>{part.text}</mark> : part.text))}
    </span>
  );
}

interface SearchFieldProps {
  search: string;
  onSearch: (search: string) => void;
}

export function SearchField({ search, onSearch }: SearchFieldProps) {
  return (
    <input
      type="search"
      class="side-search"
      maxLength={MAX_SEARCH_CHARS}
      placeholder={t("sessions.search")}
      aria-label={t("sessions.search")}
      value={search}
      onInput={(event) => onSearch(event.currentTarget.value)}
    />
  );
}

function RowTools({ session, changes }: { session: Session; changes: ListChanges }) {
  const { session_id: id, pinned, archived } = session;
  return (
    <span class={`row-tools ${pinned ? "is-pinned" : ""}`}>
      <Tool
        icon="pin"
        text={t(pinned ? "sessions.unpin" : "sessions.pin")}
        isPressed={pinned}
        onClick={() => changes.pin(id, !pinned)}
      />
      <Tool
        icon="archive"
        text={t(archived ? "sessions.unarchive" : "sessions.archive")}
        isPressed={archived}
        onClick={() => changes.archive(id, !archived)}
      />
    </span>
  );
}

interface ToolProps {
  icon: IconName;
  text: string;
  isPressed: boolean;
  onClick: () => void;
}

function Tool({ icon, text, isPressed, onClick }: ToolProps) {
  return (
    <button
      type="button"
      class={`quiet icon-only tool-${icon} ${isPressed ? "is-on" : ""}`}
      aria-label={text}
      title={text}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  );
}

/** Says what the session waits for. With several, the oldest. */
function WaitingChip({ waiting: [oldest, ...others] }: { waiting: Waiting[] }) {
  if (oldest === undefined) return null;
  return (
    <span class="chip tone-warn" title={[oldest, ...others].map((entry) => visible(entry.text)).join("\n")}>
      {t(`waiting.kind.${oldest.kind}`)}
      {others.length > 0 && ` +${others.length}`}
    </span>
  );
}
