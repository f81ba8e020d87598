// The timeline of a session.
import { useState } from "preact/hooks";
import { renewApproval, retryTurn } from "../api/sessions";
import type { RememberedCalls } from "../api/types";
import { attempt } from "../feeds/app";
import { writeDraft } from "../feeds/drafts";
import { failureWord, locale, region, t } from "../feeds/preferences";
import { budgetOf } from "../state/budget";
import { clockTime, count, fullTime, money } from "../state/format";
import type { BudgetItem, Item, MessageItem, NoteItem, PlanItem, PlanView, SessionState } from "../state/session";
import { callOf, costOf, isLatest, progressOf, retryable, rewoundKeys, tasksEnded } from "../state/session";
import { linkTo } from "../state/route";
import { ApprovalCard } from "./ApprovalCard";
import { MessageFiles } from "./Attachments";
import { budgetText } from "./BudgetSummary";
import { Chunks } from "./Chunks";
import { EditMessage } from "./EditMessage";
import { Icon } from "./Icon";
import { Markdown } from "./Markdown";
import { MessageActions } from "./MessageActions";
import { toolOfServer } from "./McpAbout";
import { costText, progressText } from "./PlanNumbers";
import { AgentName, Chip, decisionText, ErrorLine } from "./parts";
import { QuestionCard } from "./QuestionCard";
import { RewoundCard } from "./Rewind";
import { ToolCard } from "./ToolCard";

interface TimelineProps {
  state: SessionState;
  sessionId: string;
  /** The call whose card the list is scrolled to. */
  target: string | undefined;
}

export function Timeline({ state, sessionId, target }: TimelineProps) {
  // Messages of tasks are shown in the plan view. What a task needs from the user is also shown here.
  const rows = state.items.filter(
    (item, at) =>
      !isEcho(item, state.items[at + 1]) &&
      (item.origin === undefined || item.kind === "tool" || item.kind === "question" || item.kind === "budget"),
  );
  const request = retryable(state);
  return (
    <>
      <Entries items={rows} state={state} sessionId={sessionId} target={target} taken={rewoundKeys(state.items)} />
      {request !== undefined && <Retry key={request.key} request={request} sessionId={sessionId} />}
    </>
  );
}

/** Below what a turn left that failed or was stopped. */
function Retry({ request, sessionId }: { request: MessageItem; sessionId: string }) {
  const [isSending, setSending] = useState(false);
  const send = async () => {
    setSending(true);
    await attempt(() => retryTurn(sessionId, request.key));
    setSending(false);
  };
  return (
    <p class="retry-row">
      <button type="button" disabled={isSending} onClick={() => void send()}>
        {t("item.retry")}
      </button>
    </p>
  );
}

/**
 * The server reports a failure twice: as a message in the history and as an error event. Only the event is shown, because
 * it has a code that can be translated.
 */
function isEcho(item: Item, next: Item | undefined): boolean {
  return item.kind === "message" && item.isError && next?.kind === "error" && next.message === item.content;
}

interface EntriesProps {
  items: readonly Item[];
  state: SessionState;
  sessionId: string;
  target?: string | undefined;
  /** The keys of what was taken back. */
  taken?: ReadonlySet<string>;
}

export function Entries({ items, state, sessionId, target, taken }: EntriesProps) {
  const stamp = `${locale.value}/${planStamp(state)}/${[...(taken ?? [])].join()}`;
  return (
    <Chunks
      rows={items}
      stamp={stamp}
      isWanted={(item) => target !== undefined && callOf(item, state) === target}
      render={(item) =>
        taken?.has(item.key) ? (
          <div class="is-rewound" title={t("rewind.taken")}>
            <Entry item={item} state={state} sessionId={sessionId} isTaken />
          </div>
        ) : (
          <Entry item={item} state={state} sessionId={sessionId} />
        )
      }
    />
  );
}

function planStamp(state: SessionState): string {
  return [...state.plans.values()]
    .map((plan) => `${plan.status}${tasksEnded(plan)}${plan.request?.digest ?? ""}`)
    .join();
}

interface EntryProps {
  item: Item;
  state: SessionState;
  sessionId: string;
  /** A rewind took it back. */
  isTaken?: boolean;
}

function Entry({ item, state, sessionId, isTaken = false }: EntryProps) {
  switch (item.kind) {
    case "message":
      return <MessageEntry item={item} sessionId={sessionId} isTaken={isTaken} />;
    case "live":
      return (
        <article class="line role-assistant is-live" aria-busy="true">
          <header>
            <AgentName name={item.agent} />
            <span class="meta writing">{t("item.writing")}</span>
          </header>
          <Thoughts text={item.reasoning?.content ?? ""} isLive={item.content === ""} />
          <Markdown text={item.content} />
        </article>
      );
    case "tool":
      return <ToolCard item={item} sessionId={sessionId} />;
    case "question":
      return <QuestionCard item={item} sessionId={sessionId} />;
    case "switch":
      return (
        <p class="switch">
          <Icon name="arrow" />
          <AgentName name={item.from} /> <span aria-hidden="true">→</span> <AgentName name={item.to} />
          <span class="meta">{item.reason}</span>
        </p>
      );
    case "plan":
      return <PlanEntry item={item} state={state} sessionId={sessionId} />;
    case "budget":
      return <BudgetEntry item={item} sessionId={sessionId} />;
    case "error":
      return <ErrorLine code={item.code} message={item.message} failure={item.failure} />;
    case "note":
      return <NoteEntry item={item} sessionId={sessionId} />;
  }
}

interface MessageEntryProps {
  item: MessageItem;
  sessionId: string;
  isTaken: boolean;
}

function MessageEntry({ item, sessionId, isTaken }: MessageEntryProps) {
  const [isEditing, setEditing] = useState(false);
  const isEmpty = item.content.trim() === "" && item.reasoning === "" && item.warnings.length === 0;
  if (item.role === "assistant" && isEmpty && !item.isError) return null;
  return (
    <article class={`line role-${item.role} ${item.isError ? "is-error" : ""}`} data-id={item.key}>
      <header>
        {item.role === "assistant" && item.agent !== undefined ? (
          <AgentName name={item.agent} />
        ) : (
          <span class="you">{item.role === "user" ? t("item.you") : t("item.system")}</span>
        )}
        {item.isError && <Chip tone="bad">{t("item.failed")}</Chip>}
        {item.isRetry && <Chip tone="calm">{t("item.again")}</Chip>}
        {item.isSteer && <Chip tone="calm">{t("item.steered")}</Chip>}
        {item.partial === "stopped" && <Chip tone="calm">{t("item.partStopped")}</Chip>}
        <time class="meta" dateTime={item.at} title={fullTime(region.value, item.at)}>
          {clockTime(region.value, item.at)}
        </time>
        {item.usage !== undefined && (
          <span class="meta usage">
            {t("item.tokens", { n: item.usage.total_tokens })}
            {item.usage.cost_usd ? ` · ${money(region.value, item.usage.cost_usd)}` : ""}
          </span>
        )}
        <MessageActions item={item} sessionId={sessionId} isTaken={isTaken} onEdit={() => setEditing(true)} />
      </header>
      <Thoughts text={item.reasoning} isLive={false} />
      {isEditing ? (
        <EditMessage item={item} sessionId={sessionId} onClose={() => setEditing(false)} />
      ) : (
        <Markdown text={item.content} />
      )}
      <MessageFiles sessionId={sessionId} files={item.attachments} />
      {/* In the session itself an error follows. In a task nothing else says why. */}
      {item.failure !== undefined && item.origin !== undefined && <p class="warning-line">{item.failure}</p>}
      {item.warnings.map((warning) => (
        <p class="warning-line" key={warning}>
          {warning}
        </p>
      ))}
    </article>
  );
}

/** What the model thought, folded: it is long, and it is not the answer. */
function Thoughts({ text, isLive }: { text: string; isLive: boolean }) {
  if (text === "") return null;
  return (
    <details class="tool thoughts">
      <summary>{t(isLive ? "item.thinking" : "item.thoughts", { n: text.length })}</summary>
      <Markdown text={text} />
    </details>
  );
}

function PlanEntry({ item, state, sessionId }: { item: PlanItem; state: SessionState; sessionId: string }) {
  const plan = state.plans.get(item.planId);
  if (plan === undefined) return null;
  return (
    <article class="card plan-entry" data-plan={plan.plan_id}>
      <header class="card-head">
        <Icon name="plans" />
        <strong class="card-title">{t("approvals.kind.plan")}</strong>
        <PlanChip plan={plan} />
        <span class="grow" />
        <span class="meta">
          {progressText(plan)} · {costText(plan)}
        </span>
        {/* The request below has the same link. */}
        {plan.request === undefined && (
          <a class="quiet-link" href={linkTo("plans", sessionId, plan.plan_id)}>
            {t("approvals.openPlan")}
          </a>
        )}
      </header>
      <progress max={plan.tasks.length} value={progressOf(plan).done} aria-label={progressText(plan)} />
      {plan.isExpired && (
        <ExpiredPlan
          plan={plan}
          request={requestBefore(item, state)}
          isLatest={isLatest(state, plan.plan_id)}
          sessionId={sessionId}
        />
      )}
      {plan.fallback && <p class="warning-line">{t("plans.fallback")}</p>}
      {hasAnswer(plan) && costOf(plan) !== undefined && <p class="hint plan-note">{t("plans.costNote")}</p>}
      {plan.request !== undefined && <ApprovalCard approval={{ ...plan.request, session_id: sessionId }} />}
    </article>
  );
}

/** Then a message with a cost of its own follows. */
function hasAnswer(plan: PlanView): boolean {
  return plan.status === "completed" || plan.status === "partial" || plan.status === "failed";
}

/** What the user asked for when the plan was made. */
function requestBefore(item: PlanItem, state: SessionState): string {
  const before = state.items.slice(0, state.items.indexOf(item));
  const said = before.findLast((other) => other.kind === "message" && other.role === "user");
  return said?.kind === "message" ? said.content : "";
}

interface ExpiredPlanProps {
  plan: PlanView;
  request: string;
  isLatest: boolean;
  sessionId: string;
}

/** The plan itself waits again, until the user says something else. Then its request can be sent again. */
function ExpiredPlan({ plan, request, isLatest, sessionId }: ExpiredPlanProps) {
  const ask = () =>
    isLatest ? void attempt(() => renewApproval(sessionId, plan.plan_id)) : writeDraft(sessionId, request);
  return (
    <p class="expired-note">
      <span>{t("plans.expiredText")}</span>
      {(isLatest || request !== "") && (
        <button type="button" onClick={ask}>
          {t("plans.askAgain")}
        </button>
      )}
    </p>
  );
}

export function PlanChip({ plan }: { plan: PlanView }) {
  if (plan.isExpired) return <Chip tone="warn">{t("approvals.expired")}</Chip>;
  return <Chip tone={toneOfPlan(plan.status)}>{t(`plans.status.${plan.status}`)}</Chip>;
}

export function toneOfPlan(status: string): string {
  switch (status) {
    case "completed":
      return "good";
    case "awaiting_approval":
    case "partial":
      return "warn";
    case "failed":
      return "bad";
    case "running":
      return "live";
    default:
      return "calm";
  }
}

function BudgetEntry({ item, sessionId }: { item: BudgetItem; sessionId: string }) {
  if (item.resolved === undefined) {
    return <ApprovalCard approval={{ ...item.approval, session_id: sessionId }} />;
  }
  return (
    <p class="switch">
      <Icon name="operations" /> {budgetText(budgetOf(item.approval.arguments))}{" "}
      <span class="meta">{decisionText(item.resolved)}</span>
    </p>
  );
}

function revokedText(calls: RememberedCalls): string {
  switch (calls.kind) {
    case "file_writes":
      return t("allowed.writes");
    case "command":
      return t("allowed.command", { command: calls.command });
    case "mcp_tool":
      return toolOfServer(calls);
  }
}

function NoteEntry({ item: { note }, sessionId }: { item: NoteItem; sessionId: string }) {
  if (note.type === "rewound") return <RewoundCard rewound={note.rewound} sessionId={sessionId} />;
  if (note.type === "gap") {
    return <p class="switch">{t("item.gap", { from: count("en", note.from), to: count("en", note.to) })}</p>;
  }
  if (note.type === "start_over") return <p class="switch">{t("item.startOver")}</p>;
  if (note.type === "fallback") {
    const why = failureWord(note.failure);
    return <p class="warning-line">{t("item.fallback", { from: note.from, to: note.to, why })}</p>;
  }
  if (note.type === "waiting") {
    const until = clockTime(region.value, note.until);
    return <p class="switch">{t("item.waiting", { until, why: failureWord(note.failure) })}</p>;
  }
  if (note.type === "compaction_failed") {
    if (note.code === "CANCELLED") return <p class="switch">{t("item.compactionStopped")}</p>;
    return <p class="warning-line">{t("item.compactionFailed", { why: note.message })}</p>;
  }
  if (note.type === "approve") return <p class="switch">{t(`item.approve.${note.mode}`)}</p>;
  if (note.type === "revoked") {
    return <p class="switch">{t("item.revoked", { what: revokedText(note.calls) })}</p>;
  }
  return (
    <details class="tool">
      <summary>{t("item.compacted", { n: note.messages })}</summary>
      <Markdown text={note.summary} />
    </details>
  );
}
