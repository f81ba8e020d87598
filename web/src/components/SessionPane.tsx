// One open session: its agents, its timeline and the message form.
import { useEffect, useRef, useState } from "preact/hooks";
import { listAgents } from "../api/projects";
import { ApiError } from "../api/client";
import { cancelTurn, chooseAgent, compactSession, readDetail } from "../api/sessions";
import type { Delivery, ProjectAgent, Session } from "../api/types";
import { attempt, projectId, report, show } from "../feeds/app";
import { addFiles } from "../feeds/attachments";
import { loadWindows, windows } from "../feeds/models";
import { region, t } from "../feeds/preferences";
import { newSessionId, speak, useSession, type SessionFeed } from "../feeds/session";
import { count, money, rounded, shortName } from "../state/format";
import { isBusy, openQuestion, waitingCall, type SessionState } from "../state/session";
import { linkTo } from "../state/route";
import { AllowedDialog } from "./AllowedDialog";
import { ChosenFiles, FileButton } from "./Attachments";
import { useFocus } from "./focus";
import { Icon } from "./Icon";
import { ModelChoice } from "./ModelChoice";
import { ApproveChoice } from "./ApproveChoice";
import { AgentName, Chip, Empty, Writer } from "./parts";
import { QueueNote } from "./QueueNote";
import { Scroller } from "./Scroller";
import { SessionMenu, type SessionActions } from "./SessionMenu";
import { Timeline } from "./Timeline";
import { TrustNotice } from "./TrustNotice";

interface SessionPaneProps extends SessionActions {
  sessionId: string;
  /** The card to show, if it still waits. */
  callId: string | undefined;
  /** As the list has it; unknown at first. */
  session: Session | undefined;
  onRename: (title: string) => void;
}

export function SessionPane({ sessionId, callId, session, onRename, onPin, onArchive, onDelete }: SessionPaneProps) {
  const feed = useSession(sessionId);
  const state = feed.state.value;
  const target = waitingCall(state, callId);
  const [isAllowedShown, setAllowedShown] = useState(false);
  if (feed.isMissing.value) return <Empty icon="sessions" title={t("sessions.notFound")} />;
  return (
    <>
      <header class="pane-head">
        <a class="back" href={linkTo("sessions")} aria-label={t("app.back")}>
          <Icon name="back" />
        </a>
        <Title title={session?.title ?? undefined} onRename={onRename} />
        <StatusChip status={state.status} isCut={feed.connection.value === "cut"} />
        {state.isCompacting && (
          <span role="status">
            <Chip tone="live">{t("sessions.compacting")}</Chip>
          </span>
        )}
        <span class="grow" />
        <UsageLine state={state} />
        <ForkNote sessionId={sessionId} />
        {session?.archived && <Chip tone="calm">{t("sessions.isArchived")}</Chip>}
        <SessionMenu
          sessionId={sessionId}
          session={session}
          onPin={onPin}
          onArchive={onArchive}
          onCompact={isBusy(state.status) ? undefined : () => void compact(sessionId)}
          onAllowed={() => setAllowedShown(true)}
          onDelete={onDelete}
        />
      </header>
      {isAllowedShown && <AllowedDialog sessionId={sessionId} onClose={() => setAllowedShown(false)} />}
      <Trail state={state} />
      <TrustNotice />
      {state.items.length === 0 ? (
        <Empty
          icon="sessions"
          title={feed.isLoaded.value ? t("sessions.begin") : t("app.loading")}
          text={feed.isLoaded.value ? t("sessions.beginText") : undefined}
        />
      ) : (
        <Scroller label={t("sessions.timeline")} target={target} asked={callId}>
          <Timeline state={state} sessionId={sessionId} target={target} />
        </Scroller>
      )}
      <Composer sessionId={sessionId} feed={feed} />
    </>
  );
}

/** Where the history of a fork comes from. The original may have been deleted since. */
function ForkNote({ sessionId }: { sessionId: string }) {
  const [from, setFrom] = useState<Session["forked_from"]>(undefined);
  useEffect(() => {
    let isCurrent = true;
    // The pane says what is wrong with the session itself.
    readDetail(sessionId).then(
      (detail) => isCurrent && setFrom(detail.forked_from),
      () => undefined,
    );
    return () => {
      isCurrent = false;
    };
  }, [sessionId]);
  if (from == null) return null;
  return (
    <a class="quiet-link" href={linkTo("sessions", from.session_id)} title={t("sessions.forkedHint")}>
      <Icon name="fork" /> {t("sessions.forked")}
    </a>
  );
}

/** A refusal that the person can understand is said as it is. */
async function compact(sessionId: string) {
  try {
    await compactSession(sessionId);
  } catch (error) {
    const reason = error instanceof ApiError ? error.details["reason"] : undefined;
    if (reason === "nothing_to_compact") show({ text: t("sessions.nothingToCompact"), isError: false });
    else if (reason === "busy") show({ text: t("sessions.compactLater"), isError: false });
    else if (reason === "budget") show({ text: t("sessions.noBudgetToCompact"), isError: true });
    else report(error);
  }
}

/** What was used, and how much of the model's window the last call took. */
function UsageLine({ state }: { state: SessionState }) {
  const { usage, context } = state;
  const hasContext = context !== undefined;
  useEffect(() => {
    if (hasContext) loadWindows();
  }, [hasContext]);
  const window = context?.model === undefined ? undefined : windows.value.get(context.model);
  if (usage.tokens === 0) return null;
  return (
    <span class="meta usage">
      {context !== undefined && window !== undefined && window > 0 && (
        <span title={t("sessions.contextHint", { tokens: count(region.value, context.tokens) })}>
          {t("sessions.context", { percent: Math.ceil((context.tokens * 100) / window), window: rounded(window) })}{" "}
          ·{" "}
        </span>
      )}
      {t("item.tokens", { n: usage.tokens })} · {money(region.value, usage.costUsd)}
    </span>
  );
}

interface TitleProps {
  title: string | undefined;
  onRename: (title: string) => void;
}

function Title({ title, onRename }: TitleProps) {
  const [isEditing, setEditing] = useState(false);
  if (isEditing) return <TitleForm title={title} onRename={onRename} onEnd={() => setEditing(false)} />;
  return (
    <h2 class="pane-title">
      <button type="button" class="title-button" title={t("sessions.rename")} onClick={() => setEditing(true)}>
        {title ?? t("sessions.untitled")}
      </button>
    </h2>
  );
}

function TitleForm({ title, onRename, onEnd }: TitleProps & { onEnd: () => void }) {
  const [text, setText] = useState(title ?? "");
  const field = useFocus<HTMLInputElement>();
  const finish = () => {
    const wanted = text.trim();
    if (wanted !== "" && wanted !== title) onRename(wanted);
    onEnd();
  };
  return (
    <form
      class="title-form"
      onSubmit={(event) => {
        event.preventDefault();
        finish();
      }}
    >
      <input
        type="text"
        ref={field}
        maxLength={200}
        value={text}
        aria-label={t("sessions.titleLabel")}
        onInput={(event) => setText(event.currentTarget.value)}
        onBlur={finish}
        onKeyDown={(event) => {
          if (event.key === "Escape") onEnd();
        }}
      />
    </form>
  );
}

function StatusChip({ status, isCut }: { status: SessionState["status"]; isCut: boolean }) {
  if (isCut) return <Chip tone="warn">{t("app.reconnecting")}</Chip>;
  const tone =
    status === "working" ? "live" : status.startsWith("awaiting_") ? "warn" : status === "failed" ? "bad" : "calm";
  return (
    <span role="status" data-status={status}>
      <Chip tone={tone}>{t(`status.${status}`)}</Chip>
    </span>
  );
}

const TRAIL_STEPS = 40;

/** The agents in the order they worked, left to right. The last one is active. Several turns of one agent are one step. */
function Trail({ state }: { state: SessionState }) {
  const list = useRef<HTMLOListElement>(null);
  const { length } = state.trail;
  useEffect(() => {
    if (list.current !== null) list.current.scrollLeft = list.current.scrollWidth;
  }, [length]);
  if (length === 0) return null;
  const steps = state.trail
    .filter((step, at) => step.why === "task" || step.agent !== state.trail[at - 1]?.agent)
    .slice(-TRAIL_STEPS);
  return (
    <ol class="trail" ref={list} aria-label={t("sessions.trail")} tabIndex={0} data-scroll>
      {steps.map((step, at) => (
        <li
          key={step.key}
          class={at === steps.length - 1 && state.status === "working" ? "is-now" : ""}
          title={step.reason}
        >
          <AgentName name={step.agent} />
          {step.why === "task" && step.reason !== undefined && <span class="meta">{step.reason}</span>}
        </li>
      ))}
    </ol>
  );
}

const PLAN = "";

/** Sessions name their agent. It may have been deleted since it was chosen. */
function agentIdOf(agents: readonly ProjectAgent[], name: string | null | undefined): string | undefined {
  return agents.find((agent) => agent.name === name)?.agent_id;
}

/** Which agent messages go to. The server stores it, so it is the same in every browser. */
function useAgentChoice(sessionId: string) {
  const [agents, setAgents] = useState<ProjectAgent[]>([]);
  const [stored, setStored] = useState<Session | undefined>(undefined);
  const [choice, setChoice] = useState<string | undefined>(undefined);
  /** A message waits for the choice before it, because the server sends messages without an agent to the stored one. */
  const saved = useRef(Promise.resolve(true));
  useEffect(() => {
    // The pane says what is wrong with the session itself.
    readDetail(sessionId).then(setStored, () => undefined);
  }, [sessionId]);
  const choose = (agent: string) => {
    setChoice(agent);
    const saving = saved.current.then(async () => {
      const isSaved = await attempt(async () => {
        const changed = await chooseAgent(sessionId, agent === PLAN ? null : agent);
        setStored((known) => ({ ...known, ...changed, agent: changed.agent ?? null }));
      });
      // What is shown is where messages go.
      if (!isSaved) setChoice((known) => (known === agent ? undefined : known));
      return isSaved;
    });
    saved.current = saving;
    // The user was told of the failure. What is sent from now on goes to the agent that is shown again.
    void saving.then((isSaved) => {
      if (!isSaved && saved.current === saving) saved.current = Promise.resolve(true);
    });
  };
  const project = projectId.value;
  useEffect(() => {
    if (project === undefined) return;
    let isCurrent = true;
    // An answer about another project comes too late.
    listAgents(project).then((list) => isCurrent && setAgents(list), report);
    return () => {
      isCurrent = false;
    };
  }, [project]);
  const to = choice ?? agentIdOf(agents, stored?.agent) ?? PLAN;
  return { agents, to, choose, saved, stored };
}

function Composer({ sessionId, feed }: { sessionId: string; feed: SessionFeed }) {
  const state = feed.state.value;
  const { agents, to, choose, saved, stored } = useAgentChoice(sessionId);
  // A server's question has a form of its own: a message is never told to a server.
  const question = state.status === "awaiting_answer" ? openQuestion(state) : undefined;
  const asker = question?.server === undefined ? question?.agent : undefined;
  const isAwaited = asker !== undefined && (to === PLAN || to === agentIdOf(agents, asker));
  // A message that names an agent is never an answer. Without a name it goes to the stored agent, which is this one.
  const target = to === PLAN || isAwaited ? undefined : to;
  // The text stays in the form if the agent it is for could not be stored.
  const send = (delivery: Delivery) => async (text: string) =>
    (await saved.current) && attempt(() => speak(sessionId, text, target, delivery));
  // What steers names no agent: it is for those that work. If the turn ends first, its agent gets it.
  const steer = async (text: string) => attempt(() => speak(sessionId, text, undefined, "steer"));
  const isWorking = isBusy(state.status) && !isAwaited;
  return (
    <div class="dock">
      <QueueNote state={state} sessionId={sessionId} />
      <Writer
        label={t("composer.label")}
        placeholder={isAwaited ? t("composer.placeholderAnswer") : t("composer.placeholder")}
        button={isWorking ? t("composer.queue") : t("composer.send")}
        onSend={send("queue")}
        other={
          isWorking
            ? { label: t("composer.steer"), hint: t("composer.steerHint"), icon: "steer", onSend: steer }
            : undefined
        }
        rows={2}
        draft={sessionId}
        isFocused={newSessionId.value === sessionId}
        above={() => <ChosenFiles sessionId={sessionId} />}
        onFiles={(files) => void addFiles(sessionId, files).catch(report)}
      >
        <FileButton sessionId={sessionId} />
        <label class="inline-field">
          <span>{t("composer.to")}</span>
          <select value={to} onChange={(event) => choose(event.currentTarget.value)} title={t("composer.planItHint")}>
            <option value={PLAN}>{t("composer.planIt")}</option>
            {agents.map((agent) => (
              <option key={agent.agent_id} value={agent.agent_id}>
                {shortName(agent.name)}
              </option>
            ))}
          </select>
        </label>
        <ModelChoice sessionId={sessionId} stored={stored?.model ?? undefined} />
        <ApproveChoice sessionId={sessionId} stored={stored?.approve ?? undefined} heard={state.approve} />
        {(isBusy(state.status) || state.isCompacting) && (
          <button type="button" onClick={() => void attempt(() => cancelTurn(sessionId, false))}>
            <Icon name="stop" /> {t("composer.stop")}
          </button>
        )}
        {!isWorking && <span class="hint keys">{t("composer.keys")}</span>}
      </Writer>
    </div>
  );
}
