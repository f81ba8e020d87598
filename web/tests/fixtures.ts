// Streams as a real server sent them; `npm run record` writes them anew.
import type { SessionInput } from "../src/api/events";
import type { SessionEvent, TurnStatus } from "../src/api/types";
import plan from "./fixtures/plan.json";
import question from "./fixtures/question.json";
import queue from "./fixtures/queue.json";
import tools from "./fixtures/tools.json";

interface Frame {
  event: string;
  data: unknown;
}

const inputs = (frames: Frame[]): SessionInput[] =>
  frames.map((frame) =>
    frame.event === "done"
      ? { kind: "done", status: (frame.data as { status: TurnStatus }).status }
      : { kind: "event", event: frame.data as SessionEvent },
  );

export const fixtures = { plan: inputs(plan), question: inputs(question), queue: inputs(queue), tools: inputs(tools) };

export const isEvent = (type: string) => (input: SessionInput) => input.kind === "event" && input.event.type === type;

/** Everything up to and with the nth event of a type. */
export function through(list: SessionInput[], type: string, nth = 1): SessionInput[] {
  let seen = 0;
  const at = list.findIndex((input) => isEvent(type)(input) && ++seen === nth);
  return list.slice(0, at + 1);
}
