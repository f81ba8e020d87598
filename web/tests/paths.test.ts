// Which tasks write the same files.
import { expect, test } from "vitest";
import { layoutPlan, layoutShared } from "../src/state/layout";
import { pathsOverlap, sharedFiles } from "../src/state/paths";

test.each([
  ["src/a.rs", "src/a.rs", true],
  ["src", "src/a.rs", true],
  ["SRC/A.rs", "src/a.rs", true],
  [".", "anything", true],
  ["src", "src2", false],
  ["src/a", "src/ab", false],
])("%s and %s", (one, other, expected) => {
  expect(pathsOverlap([one], [other])).toBe(expected);
  expect(pathsOverlap([other], [one])).toBe(expected);
});

test("tasks that depend on each other need no line for their files", () => {
  const tasks = [
    { id: "a", paths: ["src"] },
    { id: "b", depends_on: ["a"], paths: ["src/b"] },
    { id: "c", paths: ["src/c"] },
    { id: "d", depends_on: ["b"], paths: ["src/d"] },
    { id: "e", paths: [] },
  ];
  const pairs = sharedFiles(tasks);
  expect(pairs).toEqual([{ from: "a", to: "c" }]);
  const lines = layoutShared(layoutPlan(tasks, "LR"), [...pairs, { from: "a", to: "gone" }]);
  expect(lines).toHaveLength(1);
  expect(lines[0]?.path).toMatch(/^M[\d.]+,[\d.]+Q/);
});
