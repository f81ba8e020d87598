// The event streams of sessions, decoded.
import { follow, readAll, type Frame } from "./stream";
import type { ApiError } from "./client";
import type { SessionEvent, Message, TurnStatus } from "./types";

/** What a session's stream carries: its events, and how the turn stands at each end or suspension. */
export type SessionInput =
  | { kind: "event"; event: SessionEvent }
  | { kind: "done"; status: TurnStatus }
  /** A new connection. The server sends the text of a running answer again from its start. */
  | { kind: "connected" }
  /** Messages older than the stored events. */
  | { kind: "history"; messages: Message[] };

export interface FeedHandlers<T> {
  onOpen: () => void;
  onInputs: (inputs: T[]) => void;
  onCut: () => void;
  onRefused: (error: ApiError) => void;
}

export function followSession(sessionId: string, lastSeq: () => number, handlers: FeedHandlers<SessionInput>) {
  const path = `/my/chat/${encodeURIComponent(sessionId)}/events/`;
  return follow(path, () => String(lastSeq()), {
    onOpen: handlers.onOpen,
    onCut: handlers.onCut,
    onRefused: handlers.onRefused,
    onFrames: (frames) => handlers.onInputs(frames.map(decode)),
  });
}

export async function readSession(sessionId: string): Promise<SessionInput[]> {
  return (await readAll(`/my/chat/${encodeURIComponent(sessionId)}/events/?follow=false`)).map(decode);
}

export interface EverythingHandlers extends Omit<FeedHandlers<SessionEvent>, "onOpen"> {
  /** `isResumed`: the events since the last connection follow. Otherwise the stream begins now. */
  onOpen: (isResumed: boolean) => void;
}

/** Events of all the user's sessions. After a lost connection it continues after the last event. */
export function followEverything(handlers: EverythingHandlers): () => void {
  let last: string | undefined;
  const start = () =>
    follow("/my/events/", () => last, {
      onOpen: () => handlers.onOpen(last !== undefined),
      onCut: handlers.onCut,
      onRefused: (error) => {
        if (error.status !== 422 || last === undefined) return handlers.onRefused(error);
        // The server does not know this id, for example after an update. The stream begins anew.
        last = undefined;
        stop = start();
      },
      onFrames: (frames) => {
        last = frames.findLast((frame) => frame.id !== undefined)?.id ?? last;
        const inputs = frames.map(decode);
        handlers.onInputs(inputs.flatMap((input) => (input.kind === "event" ? [input.event] : [])));
      },
    });
  let stop = start();
  return () => stop();
}

function decode(frame: Frame): SessionInput {
  const data: unknown = JSON.parse(frame.data);
  return frame.event === "done"
    ? { kind: "done", status: (data as { status: TurnStatus }).status }
    : { kind: "event", event: data as SessionEvent };
}
