// The global Chat as a value. Messages come from history and stream in any order, and more than once.
import type { ChatDelta, ChatMessage } from "../api/types";
import { applyDelta, type LiveText } from "./delta";
import { dateOf } from "./format";

export interface ChatState {
  /** By id, each once. */
  messages: readonly ChatMessage[];
  /** The newest message that the user has seen. */
  seenId: number;
  /** The answer that AdaptiveAgent is writing. */
  writing?: { answerId: string; text: LiveText } | undefined;
}

export type ChatInput =
  | { kind: "messages"; messages: readonly ChatMessage[] }
  | { kind: "deltas"; deltas: readonly ChatDelta[] }
  /** The stream has begun anew. It repeats the answer that is being written, if there still is one. */
  | { kind: "connected" }
  | { kind: "seen"; id: number };

/** Who answers in the Chat. */
export const ADAPTIVE_AGENT = "AdaptiveAgent";

/** The server keeps this many at most, too. */
export const MAX_MESSAGES = 10_000;

export function emptyChat(seenId: number): ChatState {
  return { messages: [], seenId };
}

export function reduceChat(state: ChatState, input: ChatInput): ChatState {
  switch (input.kind) {
    case "seen":
      return input.id > state.seenId ? { ...state, seenId: input.id } : state;
    case "connected":
      return { ...state, writing: undefined };
    case "deltas":
      return input.deltas.reduce(write, state);
    case "messages": {
      const next = join(state, input.messages);
      const ends = (message: ChatMessage) => message.id > lastIdOf(state) && endsAnswer(message);
      return state.writing !== undefined && input.messages.some(ends) ? { ...next, writing: undefined } : next;
    }
  }
}

function join(state: ChatState, added: readonly ChatMessage[]): ChatState {
  const lastId = lastIdOf(state);
  const isAppend = added.every((message, at) => message.id > (added[at - 1]?.id ?? lastId));
  if (isAppend) return { ...state, messages: [...state.messages, ...added].slice(-MAX_MESSAGES) };
  const byId = new Map([...state.messages, ...added].map((message) => [message.id, message]));
  if (byId.size === state.messages.length) return state;
  const messages = [...byId.values()].sort((a, b) => a.id - b.id).slice(-MAX_MESSAGES);
  return { ...state, messages };
}

function write(state: ChatState, { answer_id, content, offset }: ChatDelta): ChatState {
  const present = state.writing?.answerId === answer_id ? state.writing.text : undefined;
  // Without its beginning it cannot be shown. The whole answer follows as a message.
  if (present === undefined && offset > 0) return state;
  return { ...state, writing: { answerId: answer_id, text: applyDelta(present, { content, offset, attempt: 1 }) } };
}

/** What AdaptiveAgent has said, or why it says nothing. */
function endsAnswer(message: ChatMessage): boolean {
  if (message.author === ADAPTIVE_AGENT) return true;
  return message.role === "system" && (hasTag(message, "stopped") || hasTag(message, "error"));
}

export const hasTag = (message: ChatMessage, tag: string) => message.meta?.tags?.includes(tag) ?? false;

export function lastIdOf(state: ChatState): number {
  return state.messages.at(-1)?.id ?? 0;
}

/** What others said since the person last looked. */
export function unread(state: ChatState): number {
  return state.messages.filter((message) => message.id > state.seenId && message.role !== "user").length;
}

/** The longest that a user waits for an answer in the Chat before the page stops to announce it. */
const ANSWER_LIMIT_MS = 5 * 60_000;

/**
 * Until when the AdaptiveAgent's answer is expected; nothing if none is. It answers what users say, except for answers
 * to a question: those wake the one who asked.
 */
export function answerDue(state: ChatState): number | undefined {
  const last = state.messages.at(-1);
  if (last === undefined || last.role !== "user" || last.meta?.reply_to != null) return undefined;
  return dateOf(last.ts).getTime() + ANSWER_LIMIT_MS;
}

/** The open question, if any. A reply to it or the user's next message closes it. */
export function openQuestion(state: ChatState): ChatMessage | undefined {
  const isQuestion = (message: ChatMessage) => hasTag(message, "question");
  const place = state.messages.findLastIndex(isQuestion);
  const question = state.messages[place];
  if (question === undefined) return undefined;
  const ends = (later: ChatMessage) => later.role === "user" || later.meta?.reply_to === question.id;
  return state.messages.slice(place + 1).some(ends) ? undefined : question;
}
