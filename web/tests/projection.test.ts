// The streams of tests/projection/, which every front of CodeLab reads alike.
import { describe, expect, test } from "vitest";
import type { SessionInput } from "../src/api/events";
import type { SessionEvent, TurnStatus } from "../src/api/types";
import { reduceSession } from "../src/state/reduce";
import { emptySession } from "../src/state/session";
import { project } from "./projection";

type Line = SessionEvent | { type: "done"; data: { status: TurnStatus } } | { type: "connected" };

interface Case {
  name: string;
  events: Line[];
  expected: unknown;
}

const cases = Object.entries(
  import.meta.glob<Case>("../../tests/projection/*.json", { import: "default", eager: true }),
).map(([path, content]) => ({ file: path.split("/").at(-1)!, ...content }));

function input(line: Line): SessionInput {
  switch (line.type) {
    case "done":
      return { kind: "done", status: line.data.status };
    case "connected":
      return { kind: "connected" };
    default:
      return { kind: "event", event: line };
  }
}

describe("projection", () => {
  test("there are cases, each in a file of its name", () => {
    expect(cases.length).toBeGreaterThan(30);
    expect(cases.map(({ name }) => `${name}.json`)).toEqual(cases.map(({ file }) => file));
  });
  test.each(cases)("$name", ({ events, expected }) => {
    const inputs = events.map(input);
    expect(project(reduceSession(emptySession, inputs))).toEqual(expected);
    const oneByOne = inputs.reduce((state, next) => reduceSession(state, [next]), emptySession);
    expect(project(oneByOne)).toEqual(expected);
  });
});
