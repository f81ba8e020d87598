// What can be done with one message, beside its text.
import { forkSession } from "../api/sessions";
import { attempt, go } from "../feeds/app";
import { t } from "../feeds/preferences";
import { linkTo } from "../state/route";
import type { MessageItem } from "../state/session";
import { Icon } from "./Icon";
import { CopyButton } from "./parts";

export function MessageActions({ item, sessionId }: { item: MessageItem; sessionId: string }) {
  // A task's messages are not part of the session's history.
  const canFork = item.origin === undefined && item.role !== "system";
  const fork = () =>
    void attempt(async () => {
      const made = await forkSession(sessionId, item.key);
      go(linkTo("sessions", made.session_id));
    });
  return (
    <>
      {item.content !== "" && <CopyButton text={item.content} label={t("app.copyMessage")} />}
      {canFork && (
        <button type="button" class="quiet copy" aria-label={t("item.fork")} title={t("item.fork")} onClick={fork}>
          <Icon name="fork" />
        </button>
      )}
    </>
  );
}
