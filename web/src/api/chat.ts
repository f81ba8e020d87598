// The global Chat.
import { requestJson } from "./client";
import { follow, type StreamHandlers } from "./stream";
import type { ChatMessage } from "./types";

export function chatHistory(after: number | undefined, limit: number): Promise<ChatMessage[]> {
  const query = new URLSearchParams({ limit: String(limit) });
  if (after !== undefined) query.set("after", String(after));
  return requestJson(`/chat/history?${query}`);
}

export function postUserMessage(text: string): Promise<{ id: number }> {
  return requestJson("/chat/user_message", { text });
}

interface ChatHandlers extends Omit<StreamHandlers, "onFrames"> {
  onMessages: (messages: ChatMessage[]) => void;
}

export function followChat(lastId: () => number, handlers: ChatHandlers): () => void {
  return follow("/chat/stream", () => (lastId() > 0 ? String(lastId()) : undefined), {
    onOpen: handlers.onOpen,
    onCut: handlers.onCut,
    onRefused: handlers.onRefused,
    onFrames: (frames) => {
      const messages = frames.filter((frame) => frame.event === "message");
      handlers.onMessages(messages.map((frame) => JSON.parse(frame.data) as ChatMessage));
    },
  });
}
