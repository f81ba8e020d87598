// Small components that several views use.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { minute } from "../feeds/clock";
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

export function CopyLine({ text }: { text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () => void navigator.clipboard?.writeText(text).then(() => setCopied(true));
  return (
    <span class="copy-line">
      <code>{text}</code>
      <button type="button" class="quiet" onClick={copy}>
        {isCopied ? t("app.copied") : t("app.copy")}
      </button>
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

/** An `error` event of a session's stream. */
export function ErrorLine({ code, message, failure }: { code: string; message: string; failure?: string | undefined }) {
  const problem = failure === undefined ? { code } : { code, kind: failure };
  return (
    <p class="error-line" role="alert">
      <Icon name="warning" /> <TextWithDetails text={tell(problem)} details={message} code={code} />
    </p>
  );
}

const LONG_CHARACTERS = 1600;

/** Preformatted text. Long text is cut until the user expands it. */
export function Verbatim({ text, label }: { text: string; label: string }) {
  const [isWhole, setWhole] = useState(false);
  const isLong = text.length > LONG_CHARACTERS;
  return (
    <>
      <pre class="verbatim" tabIndex={0} aria-label={label}>
        {isLong && !isWhole ? `${text.slice(0, LONG_CHARACTERS)}…` : text}
      </pre>
      {isLong && (
        <button type="button" class="quiet" onClick={() => setWhole(!isWhole)}>
          {isWhole ? t("app.showLess") : t("app.showMore")}
        </button>
      )}
    </>
  );
}

interface WriterProps {
  label: string;
  placeholder: string;
  button: string;
  onSend: (text: string) => Promise<boolean>;
  children?: ComponentChildren;
  rows?: number;
}

/** A message form. The text is cleared only after the server accepted it. */
export function Writer({ label, placeholder, button, onSend, children, rows = 1 }: WriterProps) {
  const [text, setText] = useState("");
  const isSending = useRef(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const send = async () => {
    if (isSending.current || text.trim() === "") return;
    isSending.current = true;
    const isAccepted = await onSend(text).finally(() => (isSending.current = false));
    if (isAccepted) setText((present) => (present === text ? "" : present));
    field.current?.focus();
  };
  return (
    <form
      class="writer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <textarea
        ref={field}
        rows={rows}
        value={text}
        placeholder={placeholder}
        aria-label={label}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            void send();
          }
        }}
      />
      <div class="writer-foot">
        <div class="writer-extra">{children}</div>
        <button type="submit" class="primary" disabled={text.trim() === ""}>
          <Icon name="send" /> {button}
        </button>
      </div>
    </form>
  );
}
