// A session's stream, joined to its reducer. Inputs are taken in together, so a burst of events is one drawing.
import { signal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { newMessageId } from "../api/again";
import { followSession, type SessionInput } from "../api/events";
import { allMessages, createSession, sendMessage } from "../api/sessions";
import { reduceSession } from "../state/reduce";
import { emptySession, type SessionState } from "../state/session";
import type { Delivery, Session } from "../api/types";
import { linkTo } from "../state/route";
import type { ChosenFile } from "../state/attachments";
import { go, report, type Connection } from "./app";
import { chosenFiles, filesRead, forgetFiles } from "./attachments";
import { keepDraft } from "./drafts";
import { whileVisible } from "./visible";

export interface SessionFeed {
  state: Signal<SessionState>;
  connection: Signal<Connection>;
  /** The stored events have been read. */
  isLoaded: Signal<boolean>;
  isMissing: Signal<boolean>;
}

const BATCH_MS = 16;
/** After this much silence all stored events are considered read. */
const QUIET_MS = 150;
const MAX_KEPT = 6;

/** Recently opened sessions. When one is opened again, its stream continues where it stopped. */
const kept = new Map<string, SessionFeed>();

export function useSession(sessionId: string): SessionFeed {
  const feed = feedOf(sessionId);
  useEffect(() => whileVisible(() => connect(sessionId, feed)), [sessionId, feed]);
  return feed;
}

function newFeed(): SessionFeed {
  return {
    state: signal(emptySession),
    connection: signal<Connection>("connecting"),
    isLoaded: signal(false),
    isMissing: signal(false),
  };
}

function feedOf(sessionId: string): SessionFeed {
  const feed = kept.get(sessionId) ?? newFeed();
  kept.delete(sessionId);
  kept.set(sessionId, feed);
  for (const oldest of kept.keys()) {
    if (kept.size <= MAX_KEPT) break;
    kept.delete(oldest);
  }
  return feed;
}

function connect(sessionId: string, feed: SessionFeed): () => void {
  let waiting: SessionInput[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  let quiet: ReturnType<typeof setTimeout> | undefined;
  const flush = () => {
    timer = undefined;
    const inputs = waiting;
    waiting = [];
    feed.state.value = reduceSession(feed.state.value, inputs);
  };
  const take = (inputs: SessionInput[]) => {
    waiting.push(...inputs);
    timer ??= setTimeout(flush, BATCH_MS);
    clearTimeout(quiet);
    if (!feed.isLoaded.value) quiet = setTimeout(() => (feed.isLoaded.value = true), QUIET_MS);
  };
  const lastSeq = () => {
    if (waiting.length > 0) flush();
    return feed.state.value.lastSeq;
  };
  const stop = followSession(sessionId, lastSeq, {
    onOpen: () => {
      feed.connection.value = "live";
      take([{ kind: "connected" }]);
    },
    onInputs: (inputs) => {
      take(inputs);
      // A gap before the first event is followed by the whole log, so nothing else has to be read.
      const isPruned = inputs.some(
        (input) => input.kind === "event" && input.event.type === "gap" && input.event.seq !== 0,
      );
      if (isPruned) allMessages(sessionId).then((messages) => take([{ kind: "history", messages }]), report);
    },
    onCut: () => (feed.connection.value = "cut"),
    onRefused: (error) => {
      if (error.status === 404) feed.isMissing.value = true;
      else report(error);
    },
  });
  return () => {
    stop();
    feed.connection.value = "connecting";
    clearTimeout(timer);
    clearTimeout(quiet);
    // Apply inputs that were not rendered yet: the next connection starts after them.
    if (waiting.length > 0) flush();
  };
}

/** The session that the user has just started. */
export const newSessionId = signal<string | undefined>(undefined);

/** Starts a session and opens it, with a text in its form that the user can change before it is sent. */
export async function beginSession(project: number, text = ""): Promise<Session> {
  const made = await createSession(project);
  keepDraft(made.session_id, text);
  newSessionId.value = made.session_id;
  go(linkTo("sessions", made.session_id));
  return made;
}

/** Messages sent and not yet acknowledged. A repeat uses the same id, so it does not start a second turn. */
const unacknowledged = new Map<
  string,
  { text: string; agent: string | undefined; files: readonly ChosenFile[]; delivery: Delivery; id: string }
>();

/** Sends a text with the files that were chosen for the session. */
export async function speak(sessionId: string, text: string, agent: string | undefined, delivery: Delivery = "queue") {
  await filesRead();
  const files = chosenFiles(sessionId);
  const before = unacknowledged.get(sessionId);
  const isSame =
    before?.text === text && before.agent === agent && before.files === files && before.delivery === delivery;
  const id = isSame ? before.id : newMessageId();
  unacknowledged.set(sessionId, { text, agent, files, delivery, id });
  const attachments = files.map(({ name, media_type, data }) => ({ name, media_type, data }));
  await sendMessage(sessionId, text, agent, id, attachments, delivery);
  unacknowledged.delete(sessionId);
  forgetFiles(sessionId, files);
}

/** The newest state of a session that is on the screen. */
export const shownState = (sessionId: string): SessionState | undefined => kept.get(sessionId)?.state.value;

/** The state of a recently opened session. */
export function keptState(sessionId: string): SessionState | undefined {
  const feed = kept.get(sessionId);
  return feed?.isLoaded.value && feed.connection.value === "live" ? feed.state.value : undefined;
}
