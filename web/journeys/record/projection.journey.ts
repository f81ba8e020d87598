// Records the streams of tests/projection/*.json at the root of the repository from a real server. Only `events` is
// written; what a case expects is written by a person.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, test } from "vitest";
import { hasResult, isPlanning, lastOf, type ModelRequest, type Reply } from "../model";
import { until, World } from "../world";

const FOLDER = join(import.meta.dirname, "../../../tests/projection");
const IDS = /\b(msg|call|plan|workflow|chat)-[0-9a-f]{24}\b/g;
const TIMES = /\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g;
const START = Date.parse("2026-01-01T00:00:00.000Z");

interface Frame {
  event: string;
  data: unknown;
}

const PARALLEL = [
  { id: "read", agent: "agent_analyzer", description: "Read the code", depends_on: [] },
  { id: "build", agent: "agent_coder", description: "Build it", depends_on: [] },
  { id: "tell", agent: "agent_writer", description: "Describe it", depends_on: ["build"] },
].map((task) => ({ ...task, estimated_tokens: 400 }));
const SINGLE = [
  { id: "only", agent: "agent_coder", description: "Ask me which", depends_on: [], estimated_tokens: 400 },
];

let world: World;
/** Nobody has time here: whatever waits expires. */
let hasty: World;
let open: () => void = () => undefined;

/** The scripted model: what it says depends on the newest words of a person. */
function reply(request: ModelRequest): Reply | undefined {
  const said = lastOf(request, "user");
  const results = request.messages.filter((message) => message.role === "tool").length;
  if (isPlanning(request)) return { text: JSON.stringify({ tasks: said.includes("Plan one") ? SINGLE : PARALLEL }) };
  if (said.startsWith("Build it")) return { status: 400 };
  if (said.startsWith("Please wait")) return { text: "I waited.", gate: new Promise((resolve) => (open = resolve)) };
  if (said.startsWith("Please fail")) return { status: 400 };
  if (/^(Please ask me|Ask me)/.test(said) && !hasResult(request)) {
    return { call: { name: "ask_followup_question", args: { question: "Which one?", options: ["a", "b"] } } };
  }
  if (said.startsWith("Please write") && results === 0) {
    return { text: "Writing.", call: { name: "write_file", args: { path: "a.txt", content: "one\ntwo\n" } } };
  }
  if (said.startsWith("Please delete") && results === 0) {
    return { call: { name: "execute_command", args: { command: "rm -rf build" } } };
  }
  if (said.startsWith("Please read") && results === 0)
    return { call: { name: "read_file", args: { path: "missing.txt" } } };
  if (said.startsWith("Please finish") && results === 0) {
    return { call: { name: "attempt_completion", args: { result: "All done." } } };
  }
  if (said.startsWith("Please misuse") && results === 0) {
    return { call: { name: "write_file", args: { content: "no path" } } };
  }
  if (said.startsWith("Please switch") && results === 0) {
    return { call: { name: "switch_mode", args: { agent: "agent_writer", reason: "it is about text" } } };
  }
  if (said.startsWith("Hello")) return { text: "Good day — how can I help?" };
  return undefined;
}

beforeAll(async () => {
  world = await World.make({ rules: [reply], env: { CODELAB_CONTEXT__COMPACT_TOKENS: "60" } });
  const limits = { CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS: "1", CODELAB_LIMITS__TOOL_RESULT_TIMEOUT_SECONDS: "1" };
  hasty = await World.make({ rules: [reply], env: limits });
});
afterAll(async () => {
  await world.close();
  await hasty.close();
});

function save(name: string, frames: readonly Frame[]) {
  const path = join(FOLDER, `${name}.json`);
  const before = existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Case) : undefined;
  const events = plain(
    frames.map((frame) => (frame.event === "done" ? { type: "done", data: frame.data } : frame.data)),
  );
  writeCase(path, { name, events, expected: before?.expected ?? null });
}

interface Case {
  name: string;
  events: readonly unknown[];
  /** A new case has none, and fails until a person has written it. */
  expected: Record<string, unknown> | null;
}

/** One event per line, so that a case can be read from top to bottom. */
function writeCase(path: string, { name, events, expected }: Case) {
  const lines = (list: readonly unknown[], indent: string) =>
    list.map((entry) => `\n${indent}  ${JSON.stringify(entry)}`).join(",") + `\n${indent}`;
  const fields = Object.entries(expected ?? {}).map(([field, value]) => {
    const isList = Array.isArray(value) && value.length > 0;
    return `\n    "${field}": ${isList ? `[${lines(value, "    ")}]` : JSON.stringify(value)}`;
  });
  const wanted = expected === null ? "null" : `{${fields.join(",")}\n  }`;
  writeFileSync(path, `{\n  "name": "${name}",\n  "events": [${lines(events, "  ")}],\n  "expected": ${wanted}\n}\n`);
}

const wholeSeconds = (ms: number) => Math.floor(ms / 1000) * 1000;

/** Short ids, and times that begin with the year 2026: a new recording differs only where the server does. */
function plain(events: readonly unknown[]): unknown[] {
  const text = JSON.stringify(events);
  const ids = new Map<string, string>();
  const counts = new Map<string, number>();
  const first = Date.parse(TIMES.exec(text)?.[0] ?? "");
  TIMES.lastIndex = 0;
  const renamed = text
    .replace(IDS, (id, kind: string) => {
      const known = ids.get(id);
      if (known !== undefined) return known;
      const n = (counts.get(kind) ?? 0) + 1;
      counts.set(kind, n);
      ids.set(id, `${kind}-${n}`);
      return `${kind}-${n}`;
    })
    .replace(TIMES, (time) => new Date(START + wholeSeconds(Date.parse(time) - first)).toISOString());
  return JSON.parse(renamed) as unknown[];
}

const isDone = (status: string) => (frame: Frame) =>
  frame.event === "done" && (frame.data as { status: string }).status === status;

const approvalOf = (session: string) =>
  until(
    async () =>
      (await world.api<{ approvals: { call_id: string }[] }>(`/my/chat/${session}/approvals/`)).approvals[0]?.call_id,
  );

const eventOf = (session: string, type: string) =>
  until(async () => (await world.events(session)).find((event) => event.type === type));

const decide = (session: string, call: string, decision: object) =>
  world.api(`/my/chat/${session}/approvals/${call}/decision/`, decision);

const upTo = (frames: Frame[], isLast: (frame: Frame) => boolean) => frames.slice(0, frames.findIndex(isLast) + 1);

test("direct answers", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Hello", "coder");
  save("direct-answer", await frames);
});

test("a model that fails", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("failed"));
  await world.send(session, "Please fail", "coder");
  save("model-error", await frames);
});

test("a write that is approved", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Please write", "coder");
  await decide(session, await approvalOf(session), { decision: "approve" });
  const result = { success: true, size: 8, timestamp: "2026-01-01T00:00:00Z" };
  await world.finishCall(session, await world.awaitCall(session), result);
  const all = await frames;
  save("tool-approved", all);
  save("tool-awaiting-approval", upTo(all, isDone("awaiting_approval")));
  save("tool-awaiting-client", upTo(all, isDone("awaiting_tool_result")));
});

test("a write that is edited", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Please write", "coder");
  const modified_args = { path: "a.txt", content: "one\nthree\n" };
  await decide(session, await approvalOf(session), { decision: "edit", modified_args });
  const result = { success: true, size: 10, timestamp: "2026-01-01T00:00:00Z" };
  await world.finishCall(session, await world.awaitCall(session), result);
  save("tool-edited", await frames);
});

test("a command that is rejected", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Please delete", "coder");
  await decide(session, await approvalOf(session), { decision: "reject", feedback: "Keep it." });
  save("tool-rejected", await frames);
});

test("a command whose turn is cancelled", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("cancelled"));
  await world.send(session, "Please delete", "coder");
  await approvalOf(session);
  await world.api(`/my/chat/${session}/cancel/`, {});
  save("tool-cancelled", await frames);
});

test("a read that fails", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Please read", "coder");
  const result = { success: false, error: "missing.txt does not exist" };
  await world.finishCall(session, await world.awaitCall(session), result);
  save("tool-failed", await frames);
});

test("a plan with parallel tasks, of which one fails", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Plan it");
  const plan = await approvalOf(session);
  await world.api(`/my/chat/${session}/plans/${plan}/decision/`, { decision: "approve" });
  const all = await frames;
  save("plan-partial", all);
  save("plan-awaiting-approval", upTo(all, isDone("awaiting_approval")));
});

test("a plan that a person edits", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Plan it");
  const plan = await approvalOf(session);
  const [read] = PARALLEL;
  const tasks = [{ ...read, description: "Read the tests" }];
  await world.api(`/my/chat/${session}/plans/${plan}/decision/`, { decision: "edit", tasks });
  save("plan-edited", await frames);
});

test("a plan that a person rejects", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("cancelled"));
  await world.send(session, "Plan it");
  const plan = await approvalOf(session);
  await world.api(`/my/chat/${session}/plans/${plan}/decision/`, { decision: "reject", feedback: "Not now." });
  save("plan-rejected", await frames);
});

test("a question of an agent", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Please ask me", "coder");
  const call = String((await eventOf(session, "question")).data["call_id"]);
  await world.api(`/my/chat/${session}/questions/${call}/answer/`, { answer: "b" });
  const all = await frames;
  save("question-answered", all);
  save("question-open", upTo(all, isDone("awaiting_answer")));
});

test("a question of a task", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Plan one");
  const call = String((await eventOf(session, "question")).data["call_id"]);
  await world.api(`/my/chat/${session}/questions/${call}/answer/`, { answer: "a" });
  const all = await frames;
  save("question-of-task", all);
  save("question-of-task-open", upTo(all, isDone("awaiting_answer")));
});

test("a question whose turn is cancelled", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("cancelled"));
  await world.send(session, "Please ask me", "coder");
  await eventOf(session, "question");
  await world.api(`/my/chat/${session}/cancel/`, {});
  save("question-cancelled", await frames);
});

test("a budget that is spent", async () => {
  const body = { budget_tokens: 10 };
  const { session_id: session } = await world.api<{ session_id: string }>("/my/chat/sessions/", body);
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Hello", "coder");
  const call = await approvalOf(session);
  await decide(session, call, { decision: "edit", modified_args: { budget_tokens: null } });
  const all = await frames;
  save("budget-approved", all);
  save("budget-open", upTo(all, isDone("awaiting_approval")));
});

test("messages that wait in line, and a cancelled turn", async () => {
  const session = await world.session();
  let isCancelled = false;
  const frames = world.record(session, (frame) => {
    isCancelled ||= isDone("cancelled")(frame);
    return isCancelled && isDone("completed")(frame);
  });
  await world.send(session, "Please wait", "coder");
  await until(() =>
    world.model.requests.some((request) => lastOf(request, "user").includes("wait")) ? true : undefined,
  );
  await world.send(session, "Hello", "coder");
  await eventOf(session, "message_queued");
  await world.api(`/my/chat/${session}/cancel/`, {});
  const all = await frames;
  save("queue-worked-off", all);
  save(
    "queue-waiting",
    upTo(all, (frame) => frame.event === "message_queued"),
  );
  open();
});

test("a history that is summed up", async () => {
  const session = await world.session();
  const frames = world.record(session, (frame) => frame.event === "history_compacted");
  await world.send(session, `Hello. ${"This is a long message. ".repeat(12)}`, "coder");
  save("history-compacted", await frames);
});

test("an agent that ends the turn itself", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Please finish", "coder");
  save("attempt-completion", await frames);
});

test("a call with wrong arguments", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Please misuse", "coder");
  save("tool-refused", await frames);
});

test("an agent that hands over to another", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Please switch", "coder");
  save("agent-switched", await frames);
});

test.each([
  ["approval-expired", "Please write", "coder"],
  ["tool-not-claimed", "Please read", "coder"],
  ["plan-expired", "Plan it", undefined],
])("%s", async (name, said, agent) => {
  const session = await hasty.session();
  const frames = hasty.record(session, (frame) => isDone("completed")(frame) || isDone("cancelled")(frame));
  await hasty.send(session, said, agent);
  save(name, await frames);
});
