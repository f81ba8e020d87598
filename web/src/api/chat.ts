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

interface ChatHandlers extends Omit<StreamHandlers, "onFrames"> {
  onMessages: (messages: ChatMessage[]) => void;
  onDeltas: (deltas: ChatDelta[]) => void;
}

export function followChat(lastId: () => number, handlers: ChatHandlers): () => void {
  return follow("/chat/stream", () => (lastId() > 0 ? String(lastId()) : undefined), {
    onOpen: handlers.onOpen,
    onCut: handlers.onCut,
    onRefused: handlers.onRefused,
    onFrames: (frames) => {
      // Pieces of an answer come before it, so messages are taken after them.
      handlers.onDeltas(dataOf<ChatDelta>(frames, "delta"));
      handlers.onMessages(dataOf<ChatMessage>(frames, "message"));
    },
  });
}

function dataOf<T>(frames: readonly Frame[], event: string): T[] {
  return frames.filter((frame) => frame.event === event).map((frame) => JSON.parse(frame.data) as T);
}
