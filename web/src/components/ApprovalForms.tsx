// The ways to answer an approval.
import { useState } from "preact/hooks";
import type { Decision } from "../api/types";
import { t } from "../feeds/preferences";
import type { Approval } from "../state/waiting";
import { useFocus } from "./focus";
import { Icon } from "./Icon";

export type Mode = "look" | "edit" | "reject";

interface AnswerProps {
  isSending: boolean;
  answer: (decision: Decision) => Promise<void>;
}

interface ButtonsProps extends AnswerProps {
  approval: Approval;
  setMode: (mode: Mode) => void;
}

interface RejectProps extends AnswerProps {
  onBack: () => void;
}

interface EditProps extends RejectProps {
  approval: Approval;
}

/** What a remembered approval covers; nothing where none is offered. */
function rememberTextOf(approval: Approval): string | undefined {
  if (approval.mcp != null) return t("mcp.remember");
  if (approval.tool_name === "write_file") return t("approvals.rememberFile");
  return approval.tool_name === "execute_command" ? t("approvals.rememberCommand") : undefined;
}

export function Buttons({ approval, isSending, answer, setMode }: ButtonsProps) {
  const [isRemembered, setRemembered] = useState(false);
  const rememberText = rememberTextOf(approval);
  const approve = () => answer(isRemembered ? { decision: "approve", remember: true } : { decision: "approve" });
  return (
    <footer class="card-foot">
      <button type="button" class="primary" disabled={isSending} onClick={() => void approve()}>
        <Icon name="check" /> {t("approvals.approve")}
      </button>
      {approval.kind !== "plan" && (
        <button type="button" disabled={isSending} onClick={() => setMode("edit")}>
          <Icon name="edit" /> {t("approvals.edit")}
        </button>
      )}
      <button type="button" class="danger" disabled={isSending} onClick={() => setMode("reject")}>
        <Icon name="cross" /> {t("approvals.reject")}
      </button>
      {rememberText !== undefined && (
        <label class="check">
          <input
            type="checkbox"
            checked={isRemembered}
            onChange={(event) => setRemembered(event.currentTarget.checked)}
          />
          {rememberText}
        </label>
      )}
    </footer>
  );
}

export function RejectForm({ isSending, answer, onBack }: RejectProps) {
  const [reason, setReason] = useState("");
  const field = useFocus<HTMLTextAreaElement>();
  const reject = () =>
    void answer(reason.trim() === "" ? { decision: "reject" } : { decision: "reject", feedback: reason });
  return (
    <form
      class="card-foot reject"
      onSubmit={(event) => {
        event.preventDefault();
        reject();
      }}
    >
      <textarea
        rows={2}
        ref={field}
        value={reason}
        placeholder={t("approvals.rejectReason")}
        aria-label={t("approvals.rejectReason")}
        onInput={(event) => setReason(event.currentTarget.value)}
        onKeyDown={(event) => {
          // As in every other form for a text.
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            if (!isSending) reject();
          } else if (event.key === "Escape") onBack();
        }}
      />
      <button type="submit" class="danger" disabled={isSending}>
        {t("approvals.rejectSend")}
      </button>
      <button type="button" onClick={onBack}>
        {t("app.back")}
      </button>
    </form>
  );
}

/** Arguments that are all strings get a field each; anything else is edited as JSON. */
export function EditForm({ approval, isSending, answer, onBack }: EditProps) {
  const isFlat = Object.values(approval.arguments).every((value) => typeof value === "string");
  const [fields, setFields] = useState(approval.arguments as Record<string, string>);
  const [json, setJson] = useState(() => JSON.stringify(approval.arguments, null, 2));
  const args = isFlat ? fields : parseObject(json);
  const first = useFocus<HTMLTextAreaElement>();
  return (
    <form
      class="card-body edit-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (args !== undefined) void answer({ decision: "edit", modified_args: args });
      }}
    >
      {isFlat ? (
        Object.entries(fields).map(([name, value], at) => (
          <label key={name} class="field">
            <span>{name}</span>
            <textarea
              ref={at === 0 ? first : undefined}
              class="mono"
              rows={rowsFor(value)}
              value={value}
              spellcheck={false}
              onInput={(event) => setFields({ ...fields, [name]: event.currentTarget.value })}
            />
          </label>
        ))
      ) : (
        <label class="field">
          <span>{t("approvals.argumentsJson")}</span>
          <textarea
            ref={first}
            class="mono"
            rows={rowsFor(json)}
            value={json}
            spellcheck={false}
            onInput={(event) => setJson(event.currentTarget.value)}
          />
        </label>
      )}
      {args === undefined && <p class="bad">{t("approvals.badJson")}</p>}
      <EditFoot isDisabled={isSending || args === undefined} onBack={onBack} />
    </form>
  );
}

const BUDGETS = ["budget_usd", "budget_tokens"] as const;

/** Sets new limits for a budget. */
export function BudgetForm({ approval, isSending, answer, onBack }: EditProps) {
  const limits = BUDGETS.filter((name) => typeof approval.arguments[name] === "number");
  const [values, setValues] = useState(() => new Map(limits.map((name) => [name, String(approval.arguments[name])])));
  const first = useFocus<HTMLInputElement>();
  return (
    <form
      class="card-body edit-form"
      onSubmit={(event) => {
        event.preventDefault();
        const limitsNow = [...values].map(([name, text]) => [name, Number(text)]);
        void answer({ decision: "edit", modified_args: Object.fromEntries(limitsNow) as Record<string, unknown> });
      }}
    >
      {limits.map((name, at) => (
        <label key={name} class="field">
          <span>
            {t("approvals.newLimit")}:{" "}
            {name === "budget_usd" ? t("operations.budgetUsd") : t("operations.budgetTokens")}
          </span>
          <input
            ref={at === 0 ? first : undefined}
            type="number"
            required
            min="0"
            step={name === "budget_usd" ? "any" : "1"}
            value={values.get(name)}
            onInput={(event) => setValues(new Map(values).set(name, event.currentTarget.value))}
          />
        </label>
      ))}
      <EditFoot isDisabled={isSending} onBack={onBack} />
    </form>
  );
}

function EditFoot({ isDisabled, onBack }: { isDisabled: boolean; onBack: () => void }) {
  return (
    <div class="card-foot">
      <button type="submit" class="primary" disabled={isDisabled}>
        {t("approvals.approveEdited")}
      </button>
      <button type="button" onClick={onBack}>
        {t("app.cancel")}
      </button>
    </div>
  );
}

const MAX_ROWS = 18;

function rowsFor(text: string): number {
  return Math.min(MAX_ROWS, text.split("\n").length);
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
