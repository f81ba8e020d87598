// A question to the user: of an agent, or of an MCP server while it runs a call.
import { useState } from "preact/hooks";
import { answerQuestion } from "../api/sessions";
import { attempt } from "../feeds/app";
import { t } from "../feeds/preferences";
import { visible } from "../state/diff";
import { AGREE, answerOf, choiceText, DECLINE, fieldsOf, type AskedField } from "../state/elicit";
import { shortName } from "../state/format";
import type { QuestionItem } from "../state/session";
import { Icon } from "./Icon";
import { Markdown } from "./Markdown";
import { Chip } from "./parts";

export function QuestionCard({ item, sessionId }: { item: QuestionItem; sessionId: string }) {
  const [isSending, setSending] = useState(false);
  const send = async (answer: string) => {
    if (answer.trim() === "") return;
    setSending(true);
    await attempt(() => answerQuestion(sessionId, item.callId, answer));
    setSending(false);
  };
  const { server } = item;
  const isDeclined = server !== undefined && item.answer?.trim().toLowerCase() === DECLINE;
  return (
    <article class={`card question ${item.isOpen ? "is-open" : ""}`} data-call={item.callId}>
      <header class="card-head">
        <Icon name="question" />
        <strong class="card-title mcp-title">
          {server === undefined ? t("question.title", { agent: shortName(item.agent) }) : t("mcp.asks", { server })}
        </strong>
        {item.origin !== undefined && <span class="meta">{t("item.task", { id: item.origin.taskId })}</span>}
        <span class="grow" />
        {!item.isOpen && (
          <Chip tone="calm">
            {t(item.answer === undefined ? "question.closed" : isDeclined ? "mcp.declined" : "question.answered")}
          </Chip>
        )}
      </header>
      <div class="card-body">
        {server === undefined ? <Markdown text={item.question} /> : <p class="mcp-said">{visible(item.question)}</p>}
        {server !== undefined && item.isOpen && <p class="hint">{t("mcp.asksText", { server })}</p>}
        {item.answer !== undefined && !isDeclined && <p class="answer">{item.answer}</p>}
      </div>
      {item.isOpen && <Answer item={item} isSending={isSending} send={send} />}
    </article>
  );
}

interface AnswerProps {
  item: QuestionItem;
  isSending: boolean;
  send: (answer: string) => Promise<void>;
}

function Answer({ item, isSending, send }: AnswerProps) {
  if (item.server === undefined) return <PlainAnswer item={item} isSending={isSending} send={send} />;
  const fields = fieldsOf(item.schema ?? {});
  if (fields.length === 0) {
    return (
      <div class="card-foot">
        <button type="button" class="primary" disabled={isSending} onClick={() => void send(AGREE)}>
          {t("mcp.agree")}
        </button>
        <Decline isSending={isSending} send={send} />
      </div>
    );
  }
  if (fields.length === 1) return <PlainAnswer item={item} isSending={isSending} send={send} field={fields[0]} />;
  return <FieldsAnswer fields={fields} isSending={isSending} send={send} />;
}

function Decline({ isSending, send }: Omit<AnswerProps, "item">) {
  return (
    <button type="button" disabled={isSending} onClick={() => void send(DECLINE)}>
      {t("mcp.decline")}
    </button>
  );
}

/** One text. `field` is what an MCP server asks for. */
function PlainAnswer({ item, isSending, send, field }: AnswerProps & { field?: AskedField | undefined }) {
  const [text, setText] = useState(field?.initial ?? "");
  const label = field === undefined ? t("question.placeholder") : visible(field.label);
  return (
    <form
      class="card-foot"
      onSubmit={(event) => {
        event.preventDefault();
        void send(text);
      }}
    >
      {item.options.map((option) => (
        <button key={option} type="button" disabled={isSending} onClick={() => void send(option)}>
          {visible(option)}
        </button>
      ))}
      <input
        type="text"
        value={text}
        placeholder={label}
        aria-label={label}
        title={field === undefined ? undefined : visible(field.hint)}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit" class="primary" disabled={isSending || text.trim() === ""}>
        {t("question.answer")}
      </button>
      {field !== undefined && <Decline isSending={isSending} send={send} />}
    </form>
  );
}

/** Several fields are sent as a JSON object. */
function FieldsAnswer({ fields, isSending, send }: { fields: readonly AskedField[] } & Omit<AnswerProps, "item">) {
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries(fields.map((field) => [field.name, field.initial])),
  );
  const answer = answerOf(fields, values);
  return (
    <form
      class="card-body edit-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (answer !== undefined) void send(answer);
      }}
    >
      {fields.map((field) => (
        <label key={field.name} class={field.kind === "boolean" ? "check" : "field"}>
          <span>
            {visible(field.label)}
            {field.isRequired && " *"}
          </span>
          <FieldInput
            field={field}
            value={values[field.name] ?? ""}
            onValue={(value) => setValues({ ...values, [field.name]: value })}
          />
          {field.hint !== "" && <small class="hint">{visible(field.hint)}</small>}
        </label>
      ))}
      <div class="card-foot">
        <button type="submit" class="primary" disabled={isSending || answer === undefined}>
          {t("question.answer")}
        </button>
        <Decline isSending={isSending} send={send} />
      </div>
    </form>
  );
}

interface FieldInputProps {
  field: AskedField;
  value: string;
  onValue: (value: string) => void;
}

function FieldInput({ field, value, onValue }: FieldInputProps) {
  switch (field.kind) {
    case "boolean":
      return (
        <input
          type="checkbox"
          checked={value === "true"}
          onChange={(event) => onValue(String(event.currentTarget.checked))}
        />
      );
    case "choice":
      return (
        <select value={value} required={field.isRequired} onChange={(event) => onValue(event.currentTarget.value)}>
          <option value="" />
          {field.choices.map((choice) => (
            <option key={choiceText(choice)} value={choiceText(choice)}>
              {visible(choice.label)}
            </option>
          ))}
        </select>
      );
    case "number":
    case "integer":
      return (
        <input
          type="number"
          step={field.kind === "integer" ? "1" : "any"}
          required={field.isRequired}
          value={value}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
      );
    case "text":
    case "json":
      return (
        <input
          type="text"
          required={field.isRequired}
          value={value}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
      );
  }
}
