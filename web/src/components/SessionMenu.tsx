// What can be done with a whole session, behind one button.
import { useRef } from "preact/hooks";
import type { Session } from "../api/types";
import { exportLink } from "../api/sessions";
import { t } from "../feeds/preferences";
import { Icon } from "./Icon";

export interface SessionActions {
  onPin: (isPinned: boolean) => void;
  onArchive: (isArchived: boolean) => void;
  onDelete: () => void;
}

interface MenuActions extends SessionActions {
  /** Absent while a turn runs. */
  onCompact: (() => void) | undefined;
  onAllowed: () => void;
}

interface SessionMenuProps extends MenuActions {
  sessionId: string;
  /** Unknown until the list or the session is read. */
  session: Session | undefined;
}

export function SessionMenu(props: SessionMenuProps) {
  const { sessionId, session, onPin, onArchive, onCompact, onAllowed, onDelete } = props;
  const menu = useRef<HTMLDetailsElement>(null);
  const close = () => menu.current?.removeAttribute("open");
  const isPinned = session?.pinned ?? false;
  const isArchived = session?.archived ?? false;
  return (
    <details
      class="menu"
      ref={menu}
      onFocusOut={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) close();
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") close();
      }}
    >
      <summary class="button quiet icon-only" aria-label={t("sessions.menu")} title={t("sessions.menu")}>
        <Icon name="more" />
      </summary>
      {/* Some browsers take the focus away when a button is pressed, which would close the menu before the click. */}
      <div class="menu-body" onMouseDown={(event) => event.preventDefault()} onClick={close}>
        <button type="button" class="quiet" onClick={() => onPin(!isPinned)}>
          <Icon name="pin" /> {t(isPinned ? "sessions.unpin" : "sessions.pin")}
        </button>
        <button type="button" class="quiet" onClick={() => onArchive(!isArchived)}>
          <Icon name="archive" /> {t(isArchived ? "sessions.unarchive" : "sessions.archive")}
        </button>
        <button
          type="button"
          class="quiet"
          disabled={onCompact === undefined}
          title={t(onCompact === undefined ? "sessions.compactLater" : "sessions.compactHint")}
          onClick={onCompact}
        >
          <Icon name="compact" /> {t("sessions.compact")}
        </button>
        <button type="button" class="quiet" title={t("allowed.hint")} onClick={onAllowed}>
          <Icon name="shield" /> {t("allowed.open")}
        </button>
        <a class="button quiet" href={exportLink(sessionId, "markdown")} download={`${sessionId}.md`}>
          <Icon name="file" /> {t("sessions.exportMarkdown")}
        </a>
        <a class="button quiet" href={exportLink(sessionId, "json")} download={`${sessionId}.json`}>
          <Icon name="file" /> {t("sessions.exportJson")}
        </a>
        <button type="button" class="quiet danger" onClick={onDelete}>
          <Icon name="trash" /> {t("sessions.delete")}
        </button>
      </div>
    </details>
  );
}
