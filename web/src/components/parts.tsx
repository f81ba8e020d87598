// Small components that several views use.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { minute } from "../feeds/clock";
import { copyText } from "../feeds/copy";
import { draftOf, keepDraft, writtenDraft } from "../feeds/drafts";
import { region, t, tell } from "../feeds/preferences";
import { ago, fullTime, hueOf, shortName } from "../state/format";
import { Icon, type IconName } from "./Icon";

export function ViewHead({ title, children, lead }: { title: string; children?: ComponentChildren; lead?: string }) {
  return (
    <header class="view-head">
      <div class="view-title">
        <h1>{title}</h1>
        {lead !== undefined && <p class="lead">{lead}</p>}
      </div>
      <div class="view-actions">{children}</div>
    </header>
  );
}

interface EmptyProps {
  icon: IconName;
  title: string;
  text?: string;
  children?: ComponentChildren;
}

export function Empty({ icon, title, text, children }: EmptyProps) {
  return (
    <div class="empty">
      <Icon name={icon} />
      <p class="empty-title">{title}</p>
      {text !== undefined && <p>{text}</p>}
      {children}
    </div>
  );
}

export function AgentName({ name }: { name: string }) {
  return (
    <span class={`agent hue-${hueOf(name)}`}>
      <span class="agent-dot" aria-hidden="true" />
      {shortName(name)}
    </span>
  );
}

export function Chip({ tone, children }: { tone: string; children: ComponentChildren }) {
  return <span class={`chip tone-${tone}`}>{children}</span>;
}

const DECISIONS = ["approve", "edit", "reject", "expired", "cancelled"] as const;

/** A newer server may know more decisions than this page. */
export function decisionText(decision: string): string {
  const known = DECISIONS.find((name) => name === decision.toLowerCase());
  return known === undefined ? decision : t(`decision.${known}`);
}

export function Ago({ at }: { at: string }) {
  const passed = ago(at, minute.value + 59_999);
  const text = passed.unit === "now" ? t("time.now") : t(`time.${passed.unit}`, { n: passed.n });
  return (
    <time dateTime={at} title={fullTime(region.value, at)}>
      {text}
    </time>
  );
}

interface CopyButtonProps {
  text: string;
  /** What it copies, for those who do not see where the button stands. */
  label: string;
}

/** How long a button says that the text was copied. */
const COPIED_MS = 2_000;

export function CopyButton({ text, label }: CopyButtonProps) {
  const [state, setState] = useState<"ready" | "copied" | "failed">("ready");
  useEffect(() => {
    if (state === "ready") return;
    const timer = setTimeout(() => setState("ready"), COPIED_MS);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async () => setState((await copyText(text)) ? "copied" : "failed");
  const told = state === "ready" ? undefined : t(state === "copied" ? "app.copied" : "app.copyFailed");
  return (
    <button type="button" class="quiet copy" aria-label={told ?? label} title={label} onClick={() => void copy()}>
      <Icon name={state === "copied" ? "check" : "copy"} />
      {told !== undefined && <span role="status">{told}</span>}
    </button>
  );
}

export function CopyLine({ text }: { text: string }) {
  return (
    <span class="copy-line">
      <code>{text}</code>
      <CopyButton text={text} label={t("app.copy")} />
    </span>
  );
}

interface TextWithDetailsProps {
  text: string;
  details: string | undefined;
  /** Shown so that people can search the documentation and logs for it. */
  code?: string;
}

/** A sentence in the user's language, and the server's English text beneath it as details. */
export function TextWithDetails({ text, details, code }: TextWithDetailsProps) {
  return (
    <span>
      {text}
      {details !== undefined && details !== text && (
        <span class="server-details">
          {t("app.details", { text: details })} {code !== undefined && <code>{code}</code>}
        </span>
      )}
    </span>
  );
}

/** The code of what a person stopped. That is no failure. */
const STOPPED = "CANCELLED";

/** An `error` event of a session's stream. */
export function ErrorLine({ code, message, failure }: { code: string; message: string; failure?: string | undefined }) {
  if (code === STOPPED) {
    return (
      <p class="switch stopped" role="status">
        <Icon name="stop" /> {t("item.stopped")}
      </p>
    );
  }
  const problem = failure === undefined ? { code } : { code, kind: failure };
  return (
    <p class="error-line" role="alert">
      <Icon name="warning" /> <TextWithDetails text={tell(problem)} details={message} code={code} />
    </p>
  );
}

interface WriterProps {
  label: string;
  placeholder: string;
  button: string;
  onSend: (text: string) => Promise<boolean>;
  children?: ComponentChildren;
  rows?: number;
  /** Names the form, so that its text is still there when the user comes back to it. */
  draft: string;
  /** The form was opened to write, so the keyboard goes there. */
  isFocused?: boolean;
  /** Shown above the form. Gets the text that stands in it. */
  above?: (text: string) => ComponentChildren;
  /** Files that are dropped on the form or pasted into it. */
  onFiles?: (files: File[]) => void;
  /** Another way to send the text: a second button, and Ctrl+Enter. */
  other?: { label: string; hint: string; icon: IconName; onSend: (text: string) => Promise<boolean> } | undefined;
}

/** A message form. The text is cleared only after the server accepted it. */
export function Writer({
  label,
  placeholder,
  button,
  onSend,
  children,
  rows = 1,
  draft,
  isFocused,
  above,
  onFiles,
  other,
}: WriterProps) {
  const [text, setText] = useState(() => draftOf(draft));
  const isSending = useRef(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => keepDraft(draft, text), [draft, text]);
  const written = writtenDraft.value;
  useEffect(() => {
    if (written?.form !== draft) return;
    setText(written.text);
    field.current?.focus();
    writtenDraft.value = undefined;
  }, [written, draft]);
  useEffect(() => {
    if (isFocused) field.current?.focus();
  }, [isFocused]);
  const send = async (by = onSend) => {
    if (isSending.current || text.trim() === "") return;
    isSending.current = true;
    const isAccepted = await by(text).finally(() => (isSending.current = false));
    if (isAccepted) {
      setText((present) => (present === text ? "" : present));
      // The form may be gone by now, and with it what would clear the draft.
      if (draftOf(draft) === text) keepDraft(draft, "");
    }
    field.current?.focus();
  };
  return (
    <>
      {above?.(text)}
      <form
        class="writer"
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
        onDragOver={(event) => {
          if (onFiles !== undefined && event.dataTransfer?.types.includes("Files")) event.preventDefault();
        }}
        onDrop={(event) => {
          const files = [...(event.dataTransfer?.files ?? [])];
          if (onFiles === undefined || files.length === 0) return;
          event.preventDefault();
          onFiles(files);
        }}
      >
        <textarea
          ref={field}
          rows={rows}
          value={text}
          placeholder={placeholder}
          aria-label={label}
          onInput={(event) => setText(event.currentTarget.value)}
          onPaste={(event) => {
            const pasted = event.clipboardData;
            // Some programs put a picture of a text beside the text.
            if (onFiles === undefined || !pasted || pasted.files.length === 0 || pasted.types.includes("text/plain"))
              return;
            event.preventDefault();
            onFiles([...pasted.files]);
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
              event.preventDefault();
              void send(event.ctrlKey || event.metaKey ? other?.onSend : undefined);
            }
          }}
        />
        <div class="writer-foot">
          <div class="writer-extra">{children}</div>
          {other !== undefined && (
            <button
              type="button"
              title={other.hint}
              disabled={text.trim() === ""}
              onClick={() => void send(other.onSend)}
            >
              <Icon name={other.icon} /> {other.label}
            </button>
          )}
          <button type="submit" class="primary" disabled={text.trim() === ""}>
            <Icon name="send" /> <span class="send-text">{button}</span>
          </button>
        </div>
      </form>
    </>
  );
}
