// Layout of a plan's graph: in layers, each task to the right of its dependencies.
import { graphlib, layout } from "@dagrejs/dagre";

export interface LaidOutNode {
  id: string;
  x: number;
  y: number;
}

interface Point {
  x: number;
  y: number;
}

export interface LaidOutEdge {
  from: string;
  to: string;
  points: Point[];
}

export interface PlanLayout {
  width: number;
  height: number;
  nodes: LaidOutNode[];
  edges: LaidOutEdge[];
}

export const NODE_WIDTH = 208;
export const NODE_HEIGHT = 92;
const MARGIN = 16;
const BEND = 24;

export interface Dependent {
  id: string;
  depends_on?: readonly string[];
}

export function layoutPlan(tasks: readonly Dependent[], direction: "LR" | "TB"): PlanLayout {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: direction, nodesep: 20, ranksep: 56, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const task of tasks) graph.setNode(task.id, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const task of tasks) {
    for (const needed of task.depends_on ?? []) {
      if (graph.hasNode(needed)) graph.setEdge(needed, task.id);
    }
  }
  layout(graph);
  /** The middle of a node's side towards what follows (1) or came before (-1). */
  const side = (id: string, sign: 1 | -1): Point => {
    const { x, y } = graph.node(id) as Point;
    return direction === "LR" ? { x: x + (sign * NODE_WIDTH) / 2, y } : { x, y: y + (sign * NODE_HEIGHT) / 2 };
  };
  const size = graph.graph() as { width?: number; height?: number };
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    nodes: graph.nodes().map((id) => {
      const { x, y } = graph.node(id) as Point;
      return { id, x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 };
    }),
    edges: graph.edges().map(({ v, w }) => {
      const { points } = graph.edge(v, w) as { points: Point[] };
      // Short edges have one point between their ends, which only bends them.
      const bends = points.length > 3 ? points.slice(1, -1) : [];
      return { from: v, to: w, points: [side(v, 1), ...bends, side(w, -1)] };
    }),
  };
}

/** A smooth line through the points of an edge, as an SVG path that leaves and arrives along the layout's direction. */
export function pathOf(points: readonly Point[], direction: "LR" | "TB"): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  let path = `M${first.x},${first.y}`;
  let from = first;
  for (const to of rest) {
    const middle = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
    path +=
      direction === "LR"
        ? `C${middle.x},${from.y} ${middle.x},${to.y} ${to.x},${to.y}`
        : `C${from.x},${middle.y} ${to.x},${middle.y} ${to.x},${to.y}`;
    from = to;
  }
  return path;
}

/** Lines between tasks that write the same files, bent so that they do not lie on the edges. */
export function layoutShared(plan: PlanLayout, pairs: readonly { from: string; to: string }[]) {
  const middle = new Map(plan.nodes.map(({ id, x, y }) => [id, { x: x + NODE_WIDTH / 2, y: y + NODE_HEIGHT / 2 }]));
  return pairs.flatMap(({ from, to }) => {
    const [one, other] = [middle.get(from), middle.get(to)];
    if (one === undefined || other === undefined) return [];
    const bend = { x: (one.x + other.x) / 2 + BEND, y: (one.y + other.y) / 2 + BEND };
    return [{ from, to, path: `M${one.x},${one.y}Q${bend.x},${bend.y} ${other.x},${other.y}` }];
  });
}

/** Whether an edit of the dependencies closed a circle. */
export function hasCycle(tasks: readonly Dependent[]): boolean {
  const needs = new Map(tasks.map((task) => [task.id, task.depends_on ?? []]));
  const done = new Set<string>();
  const open = new Set<string>();
  const visit = (id: string): boolean => {
    if (done.has(id)) return false;
    if (open.has(id)) return true;
    open.add(id);
    const isCircular = (needs.get(id) ?? []).some(visit);
    open.delete(id);
    done.add(id);
    return isCircular;
  };
  return tasks.some((task) => visit(task.id));
}
