// A message of the user's in a form, to be changed and sent again.
import { useState } from "preact/hooks";
import { attempt } from "../feeds/app";
import { t } from "../feeds/preferences";
import { resendHere, resendInFork } from "../feeds/resend";
import { shownState } from "../feeds/session";
import { isBusy, type MessageItem } from "../state/session";
import { useFocus } from "./focus";
import { Icon } from "./Icon";

interface EditMessageProps {
  item: MessageItem;
  sessionId: string;
  onClose: () => void;
}

const MAX_ROWS = 14;

export function EditMessage({ item, sessionId, onClose }: EditMessageProps) {
  const [text, setText] = useState(item.content);
  const [takesFiles, setTakesFiles] = useState(true);
  const [isSending, setSending] = useState(false);
  const field = useFocus<HTMLTextAreaElement>();
  const state = shownState(sessionId);
  const isWorking = state !== undefined && isBusy(state.status);
  const send = async (work: () => Promise<boolean>) => {
    setSending(true);
    let isSent = false;
    await attempt(async () => {
      isSent = await work();
    });
    setSending(false);
    if (isSent) onClose();
  };
  const isReady = text.trim() !== "" && !isSending;
  return (
    <form
      class="edit-message"
      onSubmit={(event) => {
        event.preventDefault();
        void send(() => resendHere(sessionId, item, text, takesFiles ? "both" : "conversation"));
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <textarea
        ref={field}
        rows={Math.min(MAX_ROWS, Math.max(2, text.split("\n").length))}
        value={text}
        aria-label={t("edit.label")}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {isWorking && <p class="hint">{t("edit.busy")}</p>}
      <div class="edit-actions">
        <label class="inline-field">
          <input
            type="checkbox"
            checked={takesFiles}
            onChange={(event) => setTakesFiles(event.currentTarget.checked)}
          />
          <span>{t("edit.files")}</span>
        </label>
        <span class="grow" />
        <button type="button" class="quiet" onClick={onClose}>
          {t("app.cancel")}
        </button>
        <button
          type="button"
          title={t("edit.forkHint")}
          disabled={!isReady}
          onClick={() => void send(() => resendInFork(sessionId, item, text))}
        >
          <Icon name="fork" /> {t("edit.fork")}
        </button>
        <button type="submit" class="primary" title={t("edit.hereHint")} disabled={!isReady || isWorking}>
          <Icon name="send" /> {t("edit.here")}
        </button>
      </div>
    </form>
  );
}
