// The files and folders that tasks declare to write, and which tasks wait for each other because of them.
import type { Plan, Task } from "../api/types";

const ROOT = ".";

/** Whether both declare the same path, or one beneath the other's. Letters are compared without case. */
export function pathsOverlap(some: readonly string[], others: readonly string[]): boolean {
  return some.some((one) => others.some((other) => overlap(one.toLowerCase(), other.toLowerCase())));
}

function overlap(one: string, other: string): boolean {
  return one === ROOT || other === ROOT || isBeneath(one, other) || isBeneath(other, one);
}

/** Also whether they are the same. */
function isBeneath(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

/** The tasks that this one waits for only because they write the same files. */
export function waitsFor(plan: Pick<Plan, "status" | "tasks">, task: Task): string[] {
  const place = plan.tasks.findIndex(({ id }) => id === task.id);
  if (plan.status !== "running" || !mayStart(plan.tasks, task)) return [];
  const holds = (other: Task, at: number) => {
    if (other.status === "pending") return at < place && mayStart(plan.tasks, other);
    return other.status === "queued" || other.status === "running" || other.status === "waiting";
  };
  return plan.tasks
    .filter((other, at) => holds(other, at) && pathsOverlap(pathsOf(task), pathsOf(other)))
    .map(({ id }) => id);
}

/** Plans of earlier versions have no paths. */
export function pathsOf(task: { paths?: readonly string[] }): readonly string[] {
  return task.paths ?? [];
}

/** It has not begun, and everything that it depends on is done. */
function mayStart(tasks: readonly Task[], task: Task): boolean {
  const isDone = (id: string) => tasks.some((other) => other.id === id && other.status === "completed");
  return task.status === "pending" && task.depends_on.every(isDone);
}

interface Declared {
  id: string;
  depends_on?: readonly string[];
  paths?: readonly string[];
}

/** Pairs of tasks that do not run at once although neither depends on the other. The earlier one of the plan comes first. */
export function sharedFiles(tasks: readonly Declared[]): { from: string; to: string }[] {
  const needs = new Map(tasks.map((task) => [task.id, task.depends_on ?? []]));
  const reaches = (from: string, to: string, seen = new Set<string>()): boolean => {
    if (seen.has(from)) return false;
    seen.add(from);
    return (needs.get(from) ?? []).some((needed) => needed === to || reaches(needed, to, seen));
  };
  return tasks.flatMap((task, at) =>
    tasks
      .slice(at + 1)
      .filter((other) => pathsOverlap(pathsOf(task), pathsOf(other)))
      .filter((other) => !reaches(task.id, other.id) && !reaches(other.id, task.id))
      .map((other) => ({ from: task.id, to: other.id })),
  );
}
