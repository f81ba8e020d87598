import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { followEverything } from "../src/api/events";
import { follow, type Frame } from "../src/api/stream";

type Answer = { status?: number; parts?: string[] };

let asked: { after: string | null }[] = [];
let answers: Answer[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  vi.stubGlobal("fetch", async (_path: string, init: { headers: Record<string, string>; signal: AbortSignal }) => {
    asked.push({ after: init.headers["last-event-id"] ?? null });
    const answer = answers.shift();
    if (answer === undefined) return new Promise(() => undefined);
    if (answer.status === 0) throw new TypeError("refused");
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const part of answer.parts ?? []) controller.enqueue(new TextEncoder().encode(part));
        controller.close();
      },
    });
    return new Response(body, { status: answer.status ?? 200 });
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function run(script: Answer[]) {
  answers = [...script];
  const frames: Frame[] = [];
  const told: string[] = [];
  const stop = follow("/events", () => frames.findLast((frame) => frame.id !== undefined)?.id ?? "0", {
    onOpen: () => told.push("open"),
    onFrames: (some) => frames.push(...some),
    onCut: () => told.push("cut"),
    onRefused: (error) => told.push(`refused ${error.status}`),
  });
  for (let rounds = 0; rounds < 20; rounds++) await vi.advanceTimersByTimeAsync(11_000);
  stop();
  return { frames, told };
}

const event = (id: number) => `id: ${id}\nevent: message_created\ndata: {"n":${id}}\n\n`;

test("a stream that is cut, even within an event, goes on behind the last one", async () => {
  const { frames, told } = await run([
    { parts: [event(1), event(2).slice(0, 9)] },
    { status: 0 },
    { status: 503 },
    { parts: [event(2), event(3)] },
  ]);
  expect(frames.map((frame) => frame.id)).toEqual(["1", "2", "3"]);
  expect(asked.slice(0, 4).map(({ after }) => after)).toEqual(["0", "1", "1", "1"]);
  expect(told.slice(0, 5)).toEqual(["open", "cut", "cut", "cut", "open"]);
});

test("letters that are split between packets stay whole", async () => {
  const bytes = new TextEncoder().encode("data: Привіт\n\n");
  answers = [];
  vi.stubGlobal("fetch", () => {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
      },
    });
    return Promise.resolve(new Response(body));
  });
  const frames: Frame[] = [];
  const stop = follow("/events", () => undefined, {
    onOpen: () => undefined,
    onFrames: (some) => frames.push(...some),
    onCut: () => undefined,
    onRefused: () => undefined,
  });
  await vi.advanceTimersByTimeAsync(100);
  stop();
  expect(frames.map((frame) => frame.data)).toEqual(["Привіт"]);
});

test("a refusal ends it; too many requests do not", async () => {
  expect((await run([{ status: 401 }])).told).toEqual(["refused 401"]);
  expect((await run([{ status: 429 }, { parts: [event(1)] }])).frames).toHaveLength(1);
});

test("a silent connection is taken for dead", async () => {
  vi.stubGlobal("fetch", async (_path: string, init: { signal: AbortSignal }) => {
    asked.push({ after: null });
    return new Promise((_, reject) => init.signal.addEventListener("abort", () => reject(new Error("aborted"))));
  });
  await run([]);
  expect(asked.length).toBeGreaterThan(2);
});

test("the stream of all sessions continues after its last id, and begins anew where the server does not know it", async () => {
  const parts = (id: string) => [`id: ${id}\nevent: gap\ndata: {"type":"gap"}\n\n`];
  answers = [
    { parts: ["id: first\n\n"] },
    { parts: parts("AQ-_") },
    { parts: [] },
    { status: 422 },
    { parts: parts("x") },
  ];
  const told: string[] = [];
  const stop = followEverything({
    onOpen: (isResumed) => told.push(isResumed ? "resumed" : "begun"),
    onInputs: (events) => told.push(...events.map((event) => event.type)),
    onCut: () => undefined,
    onRefused: (error) => told.push(`refused ${error.status}`),
  });
  for (let rounds = 0; rounds < 20; rounds++) await vi.advanceTimersByTimeAsync(11_000);
  stop();
  expect(asked.slice(0, 6).map(({ after }) => after)).toEqual([null, null, "AQ-_", "AQ-_", null, "x"]);
  expect(told).toEqual(["begun", "begun", "gap", "resumed", "begun", "gap"]);
});
