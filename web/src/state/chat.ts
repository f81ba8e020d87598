// The global Chat as a value. Messages come from history and stream in any order, and more than once.
import type { ChatMessage } from "../api/types";
import { dateOf } from "./format";

export interface ChatState {
  /** By id, each once. */
  messages: readonly ChatMessage[];
  /** The newest message that the user has seen. */
  seenId: number;
}

export type ChatInput = { kind: "messages"; messages: readonly ChatMessage[] } | { kind: "seen"; id: number };

/** The server keeps this many at most, too. */
export const MAX_MESSAGES = 10_000;

export function emptyChat(seenId: number): ChatState {
  return { messages: [], seenId };
}

export function reduceChat(state: ChatState, input: ChatInput): ChatState {
  switch (input.kind) {
    case "seen":
      return input.id > state.seenId ? { ...state, seenId: input.id } : state;
    case "messages": {
      const lastId = lastIdOf(state);
      const isAppend = input.messages.every((message, at) => message.id > (input.messages[at - 1]?.id ?? lastId));
      if (isAppend) return { ...state, messages: [...state.messages, ...input.messages].slice(-MAX_MESSAGES) };
      const byId = new Map([...state.messages, ...input.messages].map((message) => [message.id, message]));
      if (byId.size === state.messages.length) return state;
      const messages = [...byId.values()].sort((a, b) => a.id - b.id).slice(-MAX_MESSAGES);
      return { ...state, messages };
    }
  }
}

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
  const isQuestion = (message: ChatMessage) => message.meta?.tags?.includes("question") ?? false;
  const place = state.messages.findLastIndex(isQuestion);
  const question = state.messages[place];
  if (question === undefined) return undefined;
  const ends = (later: ChatMessage) => later.role === "user" || later.meta?.reply_to === question.id;
  return state.messages.slice(place + 1).some(ends) ? undefined : question;
}
