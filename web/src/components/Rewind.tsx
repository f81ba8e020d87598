// Taking back what was done since a message, and giving it back.
import { useEffect, useRef, useState } from "preact/hooks";
import { rewindSession } from "../api/sessions";
import type { RewindScope, Rewound } from "../api/types";
import { attempt } from "../feeds/app";
import { locale, t } from "../feeds/preferences";
import { reasonText } from "../i18n/reasons";
import { visible } from "../state/diff";
import { Icon } from "./Icon";

const SCOPES: readonly RewindScope[] = ["both", "files", "conversation"];

interface RewindProps {
  sessionId: string;
  messageId: string;
  /** Puts the message back where it can be changed and sent again. */
  onTakenBack: () => void;
}

/** On each message of the person. */
export function RewindButton({ sessionId, messageId, onTakenBack }: RewindProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="quiet rewind" title={t("rewind.hint")} onClick={() => setOpen(true)}>
        {t("rewind.open")}
      </button>
      {isOpen && (
        <RewindDialog
          sessionId={sessionId}
          messageId={messageId}
          onTakenBack={onTakenBack}
          onClose={() => setOpen(false)}
        />
      )}
    </>
  );
}

function RewindDialog({ sessionId, messageId, onTakenBack, onClose }: RewindProps & { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [scope, setScope] = useState<RewindScope>("both");
  const [isSending, setSending] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const rewind = async () => {
    setSending(true);
    let isTakenBack = false;
    const isDone = await attempt(async () => {
      const rewound = await rewindSession(sessionId, { to_message_id: messageId, scope });
      // Without its files nothing was taken back, and one that goes on is told by an event.
      isTakenBack = "restored" in rewound && rewound.error == null && scope !== "files";
    });
    setSending(false);
    if (isTakenBack) onTakenBack();
    if (isDone) dialog.current?.close();
  };
  return (
    <dialog class="allowed" ref={dialog} aria-labelledby="rewind-title" onClose={onClose}>
      <h2 id="rewind-title">{t("rewind.title")}</h2>
      <p class="hint">{t("rewind.text")}</p>
      {SCOPES.map((each) => (
        <label key={each} class="rewind-scope">
          <input
            type="radio"
            name="rewind-scope"
            value={each}
            checked={scope === each}
            onChange={() => setScope(each)}
          />{" "}
          {t(`rewind.scope.${each}`)}
        </label>
      ))}
      <p class="hint">{t("rewind.notCoveredHint")}</p>
      <form method="dialog">
        <button type="button" class="primary" disabled={isSending} onClick={() => void rewind()}>
          {t("rewind.do")}
        </button>
        <button>{t("app.close")}</button>
      </form>
    </dialog>
  );
}

/** How a rewind ended, in the stream of the session. */
export function RewoundCard({ rewound, sessionId }: { rewound: Rewound; sessionId: string }) {
  const [isSending, setSending] = useState(false);
  const undo = async () => {
    setSending(true);
    await attempt(() => rewindSession(sessionId, { undo: rewound.rewind_id }));
    setSending(false);
  };
  if (rewound.error != null) return <p class="warning-line">{t("rewind.failed", { why: rewound.error })}</p>;
  const title = rewound.undone ? "rewind.undone" : "rewind.done";
  return (
    <article class="card rewound" data-rewind={rewound.rewind_id}>
      <header class="card-head">
        <Icon name="arrow" />
        <strong class="card-title">
          {t(title, { files: rewound.restored.length, messages: rewound.messages ?? 0 })}
        </strong>
        <span class="grow" />
        {!rewound.undone && (
          <button type="button" disabled={isSending} onClick={() => void undo()}>
            {t("rewind.undo")}
          </button>
        )}
      </header>
      <Paths title={t("rewind.restored")} rows={rewound.restored} />
      <Paths
        title={t("rewind.left")}
        rows={rewound.left.map((left) => `${left.path}: ${reasonText(locale.value, left.reason)}`)}
      />
      <Paths
        title={t("rewind.notCovered")}
        rows={rewound.not_covered.map((other) =>
          other.reason == null ? other.what : `${other.what}: ${reasonText(locale.value, other.reason)}`,
        )}
      />
    </article>
  );
}

function Paths({ title, rows }: { title: string; rows: readonly string[] }) {
  if (rows.length === 0) return null;
  return (
    <details class="tool">
      <summary>
        {title} ({rows.length})
      </summary>
      <ul>
        {rows.map((row) => (
          <li key={row}>
            <code>{visible(row)}</code>
          </li>
        ))}
      </ul>
    </details>
  );
}
