// Server-sent events with reconnection: after a lost connection the stream continues after the last event seen.
import { createParser } from "eventsource-parser";
import { ApiError, refusal } from "./client";

export interface Frame {
  id: string | undefined;
  event: string;
  data: string;
}

export interface StreamHandlers {
  onOpen: () => void;
  onFrames: (frames: Frame[]) => void;
  /** The connection was lost and is being opened again. */
  onCut: () => void;
  /** The server refused the request. It is not tried again. */
  onRefused: (error: ApiError) => void;
}

/** The server sends a heartbeat every 15 s. After three missing heartbeats the connection counts as lost. */
const SILENCE_LIMIT_MS = 45_000;
const FIRST_DELAY_MS = 300;
const LONGEST_DELAY_MS = 10_000;

/** Follows a stream until the returned function is called. `after` gives the last event seen, for each connection. */
export function follow(path: string, after: () => string | undefined, handlers: StreamHandlers): () => void {
  const stop = new AbortController();
  void run(path, after, handlers, stop.signal);
  return () => stop.abort();
}

async function run(path: string, after: () => string | undefined, handlers: StreamHandlers, stop: AbortSignal) {
  let delayMs = FIRST_DELAY_MS;
  while (!stop.aborted) {
    try {
      await connect(path, after(), stop, {
        onFrames: handlers.onFrames,
        onOpen: () => {
          delayMs = FIRST_DELAY_MS;
          handlers.onOpen();
        },
      });
    } catch (error) {
      if (stop.aborted) return;
      if (error instanceof ApiError && isFinal(error.status)) return handlers.onRefused(error);
    }
    if (stop.aborted) return;
    handlers.onCut();
    await pause(delayMs, stop);
    delayMs = Math.min(delayMs * 2, LONGEST_DELAY_MS);
  }
}

function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 429 && status !== 408;
}

type FrameHandlers = Pick<StreamHandlers, "onOpen" | "onFrames">;

async function connect(path: string, after: string | undefined, stop: AbortSignal, handlers: FrameHandlers) {
  const silence = new AbortController();
  const abort = () => silence.abort();
  stop.addEventListener("abort", abort, { once: true });
  let timer = setTimeout(abort, SILENCE_LIMIT_MS);
  try {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (after !== undefined) headers["last-event-id"] = after;
    const response = await fetch(path, { headers, credentials: "same-origin", signal: silence.signal });
    if (!response.ok) throw refusal(response, await response.json().catch(() => undefined));
    if (response.body === null) return;
    handlers.onOpen();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let frames: Frame[] = [];
    const parser = createParser({
      onEvent: (event) => frames.push({ id: event.id, event: event.event ?? "message", data: event.data }),
    });
    for (;;) {
      const { done, value } = await reader.read();
      if (done || stop.aborted) return;
      clearTimeout(timer);
      timer = setTimeout(abort, SILENCE_LIMIT_MS);
      parser.feed(value);
      if (frames.length > 0) {
        handlers.onFrames(frames);
        frames = [];
      }
    }
  } finally {
    clearTimeout(timer);
    stop.removeEventListener("abort", abort);
  }
}

function pause(delayMs: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, delayMs);
    // When the network is back, do not wait for the rest of the delay.
    const now = () => {
      clearTimeout(timer);
      resolve();
    };
    stop.addEventListener("abort", now, { once: true });
    globalThis.addEventListener?.("online", now, { once: true });
  });
}

/** All frames of a stream that ends by itself. */
export async function readAll(path: string): Promise<Frame[]> {
  const frames: Frame[] = [];
  await connect(path, undefined, new AbortController().signal, {
    onOpen: () => undefined,
    onFrames: (some) => frames.push(...some),
  });
  return frames;
}
