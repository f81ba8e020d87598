// What can be done with one message, beside its text.
import { forkSession } from "../api/sessions";
import { attempt, go } from "../feeds/app";
import { writeDraft } from "../feeds/drafts";
import { t } from "../feeds/preferences";
import { linkTo } from "../state/route";
import { canGoBackTo, type MessageItem } from "../state/session";
import { Icon } from "./Icon";
import { CopyButton } from "./parts";
import { RewindButton } from "./Rewind";

interface MessageActionsProps {
  item: MessageItem;
  sessionId: string;
  /** Models do not see it any more. */
  isTaken: boolean;
  onEdit: () => void;
}

export function MessageActions({ item, sessionId, isTaken, onEdit }: MessageActionsProps) {
  // A task's messages are not part of the session's history.
  const canFork = item.origin === undefined && item.role !== "system" && !isTaken;
  const canGoBack = canGoBackTo(item) && !isTaken;
  const fork = () =>
    void attempt(async () => {
      const made = await forkSession(sessionId, item.key);
      go(linkTo("sessions", made.session_id));
    });
  return (
    <>
      {item.content !== "" && <CopyButton text={item.content} label={t("app.copyMessage")} />}
      {canGoBack && (
        <button type="button" class="quiet copy" aria-label={t("edit.open")} title={t("edit.open")} onClick={onEdit}>
          <Icon name="edit" />
        </button>
      )}
      {canFork && (
        <button type="button" class="quiet copy" aria-label={t("item.fork")} title={t("item.fork")} onClick={fork}>
          <Icon name="fork" />
        </button>
      )}
      {canGoBack && (
        <RewindButton
          sessionId={sessionId}
          messageId={item.key}
          onTakenBack={() => writeDraft(sessionId, item.content)}
        />
      )}
    </>
  );
}
