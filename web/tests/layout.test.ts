import { describe, expect, test } from "vitest";
import { hasCycle, layoutPlan, NODE_HEIGHT, NODE_WIDTH, pathOf } from "../src/state/layout";

const task = (id: string, ...depends_on: string[]) => ({ id, depends_on });
const chain = [task("a"), task("b", "a"), task("c", "b")];
const diamond = [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c", "a")];
const many = Array.from({ length: 50 }, (_, at) =>
  task(`t${at}`, ...(at === 0 ? [] : [`t${Math.floor((at - 1) / 2)}`])),
);

describe.each([
  ["chain", chain],
  ["diamond", diamond],
  ["fifty", many],
  ["apart", [task("a"), task("b")]],
  ["a missing dependency", [task("a", "gone")]],
])("%s", (_, tasks) => {
  test.each(["LR", "TB"] as const)("%s: every task stands behind what it needs, and none on another", (direction) => {
    const plan = layoutPlan(tasks, direction);
    const at = new Map(plan.nodes.map((node) => [node.id, node]));
    expect(at.size).toBe(tasks.length);
    for (const { id, depends_on } of tasks) {
      for (const needed of depends_on) {
        const before = at.get(needed);
        if (before === undefined) continue;
        const gap = direction === "LR" ? at.get(id)!.x - before.x - NODE_WIDTH : at.get(id)!.y - before.y - NODE_HEIGHT;
        expect(gap).toBeGreaterThan(0);
      }
    }
    for (const one of plan.nodes) {
      expect(one.x >= 0 && one.y >= 0 && one.x + NODE_WIDTH <= plan.width && one.y + NODE_HEIGHT <= plan.height).toBe(
        true,
      );
      for (const other of plan.nodes) {
        const isApart = Math.abs(one.x - other.x) >= NODE_WIDTH || Math.abs(one.y - other.y) >= NODE_HEIGHT;
        expect(one === other || isApart).toBe(true);
      }
    }
  });
});

test("an edge leaves one side and arrives at the other", () => {
  const plan = layoutPlan(chain, "LR");
  const [first, second] = [plan.nodes[0]!, plan.nodes[1]!];
  const points = plan.edges[0]!.points;
  expect(points[0]).toEqual({ x: first.x + NODE_WIDTH, y: first.y + NODE_HEIGHT / 2 });
  expect(points.at(-1)).toEqual({ x: second.x, y: second.y + NODE_HEIGHT / 2 });
  expect(pathOf(points, "LR")).toMatch(/^M[\d.]+,[\d.]+C/);
});

test("circles are found", () => {
  expect(hasCycle(diamond)).toBe(false);
  expect(hasCycle([task("a", "b"), task("b", "a")])).toBe(true);
  expect(hasCycle([task("a", "a")])).toBe(true);
});
