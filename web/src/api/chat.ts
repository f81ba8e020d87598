// The global Chat.
import { requestJson } from "./client";
import { follow, type Frame, type StreamHandlers } from "./stream";
import type { ChatDelta, ChatMessage } from "./types";

export function chatHistory(after: number | undefined, limit: number): Promise<ChatMessage[]> {
  const query = new URLSearchParams({ limit: String(limit) });
  if (after !== undefined) query.set("after", String(after));
  return requestJson(`/chat/history?${query}`);
}

export function postUserMessage(text: string): Promise<{ id: number }> {
  return requestJson("/chat/user_message", { text });
}

/** Stops the answer that is being written, for everybody. */
export function cancelAnswer(): Promise<{ cancelled: boolean }> {
  return requestJson("/chat/cancel", {});
}

/** What the stream brings, in its order: a piece of an answer that follows a message is no piece of that message. */
export type ChatNews = { kind: "messages"; messages: ChatMessage[] } | { kind: "deltas"; deltas: ChatDelta[] };

interface ChatHandlers extends Omit<StreamHandlers, "onFrames"> {
  onNews: (news: ChatNews[]) => void;
}

export function followChat(lastId: () => number, handlers: ChatHandlers): () => void {
  return follow("/chat/stream", () => (lastId() > 0 ? String(lastId()) : undefined), {
    onOpen: handlers.onOpen,
    onCut: handlers.onCut,
    onRefused: handlers.onRefused,
    onFrames: (frames) => handlers.onNews(newsOf(frames)),
  });
}

/** Neighbours of one kind are one piece of news, so that a long history is reduced at once. */
export function newsOf(frames: readonly Frame[]): ChatNews[] {
  const news: ChatNews[] = [];
  for (const { event, data } of frames) {
    const last = news.at(-1);
    if (event === "message") {
      const message = JSON.parse(data) as ChatMessage;
      if (last?.kind === "messages") last.messages.push(message);
      else news.push({ kind: "messages", messages: [message] });
    } else if (event === "delta") {
      const delta = JSON.parse(data) as ChatDelta;
      if (last?.kind === "deltas") last.deltas.push(delta);
      else news.push({ kind: "deltas", deltas: [delta] });
    }
  }
  return news;
}
