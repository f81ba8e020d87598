// Records what a real server streams, for the reducers' tests: tests/fixtures/*.json
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasResult, isPlanning, lastOf } from "../model";
import { until, World } from "../world";

const FOLDER = join(import.meta.dirname, "../../tests/fixtures");
const TASKS = [
  { id: "look", agent: "agent_analyzer", description: "Look around", depends_on: [] },
  { id: "build", agent: "agent_coder", description: "Build it", depends_on: ["look"] },
  { id: "tell", agent: "agent_writer", description: "Tell it", depends_on: ["build"] },
].map((task) => ({ ...task, estimated_tokens: 400 }));

let world: World;
let isBroken = true;
let open: () => void = () => undefined;

beforeAll(async () => {
  mkdirSync(FOLDER, { recursive: true });
  world = await World.make({
    rules: [
      (request) => (isPlanning(request) ? { text: JSON.stringify({ tasks: TASKS }) } : undefined),
      (request) => (lastOf(request, "user").startsWith("Build it") && isBroken ? { status: 400 } : undefined),
      (request) =>
        lastOf(request, "user").includes("wait")
          ? { text: "I waited.", gate: new Promise((resolve) => (open = resolve)) }
          : undefined,
      (request) =>
        lastOf(request, "user").includes("ask me") && !hasResult(request)
          ? { call: { name: "ask_followup_question", args: { question: "Which one?", options: ["a", "b"] } } }
          : undefined,
      (request) => {
        if (!request.messages.some((message) => message.content?.includes("change the file"))) return undefined;
        const results = request.messages.filter((message) => message.role === "tool").length;
        if (results === 0)
          return { text: "Reading — so geht das.", call: { name: "read_file", args: { path: "a.txt" } } };
        if (results === 1) return { call: { name: "write_file", args: { path: "a.txt", content: "one\ntwo\n" } } };
        if (results === 2) return { call: { name: "execute_command", args: { command: "rm -rf x" } } };
        return { text: "Changed." };
      },
    ],
  });
  await world.api("/my/projects/");
});
afterAll(() => world.close());

function save(name: string, frames: unknown[]) {
  writeFileSync(join(FOLDER, `${name}.json`), `${JSON.stringify(frames, null, 1)}\n`);
}

const isDone = (status: string) => (frame: { event: string; data: unknown }) =>
  frame.event === "done" && (frame.data as { status: string }).status === status;

const approvalOf = (session: string) =>
  until(
    async () =>
      (await world.api<{ approvals: { call_id: string }[] }>(`/my/chat/${session}/approvals/`)).approvals[0]?.call_id,
  );

test("tools: read, write with an edit, a rejected command", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Please change the file", "coder");
  await world.finishCall(session, await world.awaitCall(session), { success: true, content: "one\n", size: 4 });
  const write = await approvalOf(session);
  await world.api(`/my/chat/${session}/approvals/${write}/decision/`, {
    decision: "edit",
    modified_args: { path: "a.txt", content: "one\nthree\n" },
  });
  await world.finishCall(session, await world.awaitCall(session), {
    success: true,
    size: 10,
    timestamp: "2026-01-01T00:00:00Z",
  });
  const command = await approvalOf(session);
  await world.api(`/my/chat/${session}/approvals/${command}/decision/`, { decision: "reject", feedback: "No." });
  save("tools", await frames);
});

test("a question with its answer", async () => {
  const session = await world.session();
  const frames = world.record(session, isDone("completed"));
  await world.send(session, "Please ask me", "coder");
  const call = await until(
    async () =>
      (await world.events(session)).find((event) => event.type === "question")?.data["call_id"] as string | undefined,
  );
  await world.api(`/my/chat/${session}/questions/${call}/answer/`, { answer: "b" });
  save("question", await frames);
});

test("a plan whose second task fails and is tried again", async () => {
  const session = await world.session();
  let ends = 0;
  const frames = world.record(session, (frame) => frame.event === "done" && isDone("completed")(frame) && ++ends === 2);
  await world.send(session, "Plan it");
  const plan = await approvalOf(session);
  await world.api(`/my/chat/${session}/plans/${plan}/decision/`, { decision: "approve" });
  await until(async () => (await world.events(session)).find((event) => event.type === "workflow_completed"));
  isBroken = false;
  await world.api(`/my/chat/${session}/plans/${plan}/retry/`, {});
  save("plan", await frames);
  expect(ends).toBe(2);
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
  await world.send(session, "Second", "coder");
  await until(async () => (await world.events(session)).find((event) => event.type === "message_queued"));
  await world.api(`/my/chat/${session}/cancel/`, {});
  save("queue", await frames);
  open();
});
