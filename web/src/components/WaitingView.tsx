// Everything that waits for the user, in all sessions: approvals to decide here, and questions.
import { t } from "../feeds/preferences";
import { notifications, toggleNotifications, waiting, waitingState } from "../feeds/waiting";
import { visible } from "../state/diff";
import { shortName } from "../state/format";
import { linkTo } from "../state/route";
import { waitingKey, type Waiting } from "../state/waiting";
import { ApprovalCard } from "./ApprovalCard";
import { Icon, type IconName } from "./Icon";
import { AgentName, Ago, Chip, Empty, ViewHead } from "./parts";

export function WaitingView() {
  const list = waiting.value;
  const { isLoaded } = waitingState.value;
  return (
    <section class="view">
      <ViewHead title={t("waiting.title")} lead={list.length > 0 ? t("waiting.count", { n: list.length }) : undefined}>
        <NotifyButton />
      </ViewHead>
      <div class="view-scroll" data-scroll tabIndex={0} role="region" aria-label={t("waiting.title")}>
        {list.length === 0 ? (
          <Empty
            icon="waiting"
            title={isLoaded ? t("waiting.empty") : t("app.loading")}
            text={isLoaded ? t("waiting.emptyText") : undefined}
          />
        ) : (
          <ul class="column">
            {list.map((entry) => (
              <li key={waitingKey(entry)} class="waiting" data-kind={entry.kind}>
                <Where entry={entry} />
                <Entry entry={entry} />
              </li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}

const toCard = (entry: Waiting) => linkTo("sessions", entry.session_id, entry.call_id);

function Where({ entry }: { entry: Waiting }) {
  return (
    <p class="waiting-where">
      <Chip tone="warn">{t(`waiting.kind.${entry.kind}`)}</Chip>
      <a class="clip" href={toCard(entry)}>
        {entry.title === undefined ? t("approvals.openSession") : (entry.title ?? t("sessions.untitled"))}
      </a>
      {entry.created_at != null && <Ago at={entry.created_at} />}
    </p>
  );
}

function Entry({ entry }: { entry: Waiting }) {
  const approval = waitingState.value.approvals.get(waitingKey(entry));
  if (approval === undefined) return <Summary entry={entry} />;
  return <ApprovalCard approval={{ ...approval, agent: approval.agent ?? entry.agent }} />;
}

const ICONS: Record<Waiting["kind"], IconName> = {
  tool: "tool",
  plan: "plans",
  budget: "operations",
  question: "question",
};

/** The session's card shows the whole question and its options, so the answer is given there. */
function Summary({ entry }: { entry: Waiting }) {
  const isQuestion = entry.kind === "question";
  return (
    <article class={`card ${isQuestion ? "question is-open" : ""}`} data-call={entry.call_id}>
      <header class="card-head">
        <Icon name={ICONS[entry.kind]} />
        <strong class="card-title">
          {isQuestion ? t("question.title", { agent: shortName(entry.agent) }) : <AgentName name={entry.agent} />}
        </strong>
      </header>
      <p class="card-body waiting-text">{visible(entry.text)}</p>
      <footer class="card-foot">
        <a class="button primary" href={toCard(entry)}>
          {isQuestion ? t("question.answer") : t("approvals.openSession")}
        </a>
      </footer>
    </article>
  );
}

function NotifyButton() {
  if (!("Notification" in globalThis)) return null;
  const text = {
    off: t("waiting.notify"),
    on: t("waiting.notifyOn"),
    denied: t("waiting.notifyDenied"),
  }[notifications.value];
  return (
    <button
      type="button"
      disabled={notifications.value === "denied"}
      aria-pressed={notifications.value === "on"}
      onClick={() => void toggleNotifications()}
    >
      <Icon name="bell" /> {text}
    </button>
  );
}
