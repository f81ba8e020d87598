import { describe, expect, test } from "vitest";
import type { SessionInput } from "../src/api/events";
import { reduceSession } from "../src/state/reduce";
import {
  costOf,
  emptySession,
  messageBefore,
  progressOf,
  retryable,
  tasksEnded,
  waitingCall,
  type SessionState,
  type ToolItem,
} from "../src/state/session";
import { fixtures, isEvent, through } from "./fixtures";

const run = (inputs: SessionInput[], from = emptySession) => reduceSession(from, inputs);
const tools = (state: SessionState) => state.items.filter((item): item is ToolItem => item.kind === "tool");
const said = (state: SessionState) =>
  state.items.flatMap((item) => (item.kind === "message" && item.content !== "" ? [item.content] : []));

describe("any stream", () => {
  for (const [name, inputs] of Object.entries(fixtures)) {
    test(`${name}: one by one, all at once, and repeated after a cut give the same`, () => {
      const whole = run(inputs);
      const steps = inputs.reduce((state, input) => run([input], state), emptySession);
      expect(steps).toEqual(whole);
      for (let cut = 0; cut < inputs.length; cut += 3) {
        const before = run(inputs.slice(0, cut));
        // The server sends what is stored behind the last number seen; repeats of older events change nothing.
        const again = run([{ kind: "connected" }, ...inputs], before);
        expect({ ...again, items: again.items.map((item) => item.key) }).toEqual({
          ...whole,
          items: whole.items.map((item) => item.key),
        });
      }
    });
    test(`${name}: the given state is left as it was`, () => {
      const frozen = structuredClone(emptySession);
      run(inputs, frozen);
      expect(frozen).toEqual(emptySession);
    });
  }
});

describe("going another way from a message", () => {
  const message = (seq: number, role: string, more = {}): SessionInput => ({
    kind: "event",
    event: {
      type: "message_created",
      seq,
      session_id: "chat-1",
      timestamp: "2026-01-01T00:00:00Z",
      data: { message_id: `m${seq}`, role, content: "x", timestamp: "2026-01-01T00:00:00Z", ...more },
    } as never,
  });
  const rewound = (seq: number, to: string, more = {}): SessionInput => ({
    kind: "event",
    event: {
      type: "rewound",
      seq,
      session_id: "chat-1",
      timestamp: "2026-01-01T00:00:00Z",
      data: { rewind_id: "r", scope: "both", to_message_id: to, restored: [], left: [], not_covered: [], ...more },
    } as never,
  });
  const before = [message(1, "user"), message(2, "assistant"), message(3, "user"), message(4, "assistant")];
  test("it ends with the last message that counts", () => {
    expect(messageBefore(run(before), "m1")).toBeUndefined();
    expect(messageBefore(run(before), "m3")).toBe("m2");
    const steered = [...before, message(5, "user", { steered: true }), message(6, "user")];
    expect(messageBefore(run(steered), "m6")).toBe("m5");
  });
  test("what a rewind took back does not count, until it is undone", () => {
    const back = [...before, rewound(5, "m3"), message(6, "user")];
    expect(messageBefore(run(back), "m6")).toBe("m2");
    expect(messageBefore(run([...back, rewound(7, "m3", { undone: true })]), "m6")).toBe("m4");
  });
});

describe("tools", () => {
  test("a read waits for a client and finishes", () => {
    const waiting = run(through(fixtures.tools, "tool_call"));
    expect(tools(waiting)[0]).toMatchObject({ name: "read_file", state: { step: "waiting", clientAttached: false } });
    const read = run(through(fixtures.tools, "tool_result"));
    expect(tools(read)[0]?.state).toMatchObject({ step: "finished", result: { content: "one\n" } });
    expect(read.files.get("a.txt")).toBe("one\n");
  });
  test("an edited write keeps what was proposed and what ran", () => {
    const asking = run(through(fixtures.tools, "approval_request"));
    expect(tools(asking)[1]?.state.step).toBe("asking");
    const state = run(fixtures.tools);
    expect(tools(state)[1]).toMatchObject({
      args: { content: "one\nthree\n" },
      proposedArgs: { content: "one\ntwo\n" },
      decision: { decision: "edit" },
      state: { step: "finished" },
    });
    expect(state.files.get("a.txt")).toBe("one\nthree\n");
  });
  test("a rejected command is closed, with its parts", () => {
    expect(tools(run(fixtures.tools))[2]).toMatchObject({
      name: "execute_command",
      decision: { decision: "reject" },
      state: { step: "closed", outcome: "rejected" },
    });
  });
  test("tokens grow and their message takes their place", () => {
    const deltas = fixtures.tools.filter(isEvent("message_delta")).length;
    expect(deltas).toBeGreaterThan(2);
    const live = run(through(fixtures.tools, "message_delta", 3)).items.at(-1);
    expect(live).toMatchObject({ kind: "live" });
    expect("Reading — so geht das.".startsWith((live as { content: string }).content)).toBe(true);
    expect(said(run(fixtures.tools))).toEqual(["Please change the file", "Reading — so geht das.", "Changed."]);
  });
  test("usage is the sum of what the session's own messages used", () => {
    expect(run(fixtures.tools).usage.tokens).toBe(4 * 480);
  });
});

describe("what waits for the user", () => {
  test.each([
    [fixtures.tools, "approval_request"],
    [fixtures.question, "question"],
    [fixtures.plan, "plan_request"],
  ] as const)("a call of the stream %# waits until it is decided", (stream, type) => {
    const inputs = through(stream, type);
    const last = inputs.at(-1);
    const data = last?.kind === "event" ? (last.event.data as { call_id?: string }) : {};
    expect(waitingCall(run(inputs.slice(0, -1)))).toBeUndefined();
    expect(waitingCall(run(inputs))).toBe(data.call_id);
    expect(waitingCall(run(inputs), "not waiting")).toBe(data.call_id);
    expect(waitingCall(run(stream), data.call_id)).toBeUndefined();
  });
});

describe("questions", () => {
  test("a question is one item, open until its answer", () => {
    const open = run(through(fixtures.question, "question"));
    expect(tools(open)).toEqual([]);
    expect(open.items.at(-1)).toMatchObject({ kind: "question", isOpen: true, options: ["a", "b"] });
    const answered = run(fixtures.question);
    expect(answered.items.find((item) => item.kind === "question")).toMatchObject({ isOpen: false, answer: "b" });
    expect(answered.status).toBe("completed");
  });

  test("an answer is shown with its question, not as a message of its own", () => {
    const at = "2026-01-01T00:00:00.000Z";
    const event = (seq: number, type: string, data: object) =>
      ({ kind: "event", event: { type, data, seq, session_id: "s", timestamp: at } }) as unknown as SessionInput;
    const asked = event(1, "question", { call_id: "q", question: "Which?", agent: "agent_coder" });
    const message = { message_id: "m", role: "user", content: "this", answers: "q", timestamp: at };
    const state = reduceSession(emptySession, [asked, event(2, "message_created", message)]);
    expect(state.items).toMatchObject([{ kind: "question", answer: "this", isOpen: false }]);
  });
});

describe("the queue", () => {
  test("a message waits in line until its turn begins", () => {
    const waiting = run(through(fixtures.queue, "message_queued"));
    expect(waiting.queue).toHaveLength(1);
    expect(said(waiting)).toEqual(["Please wait"]);
    const message_id = waiting.queue[0]!.id;
    const back = {
      type: "message_dequeued",
      data: { message_id, reason: "stopped" },
      seq: waiting.lastSeq + 1,
      session_id: "s",
      timestamp: "2026-01-01T00:00:00Z",
    } as const;
    expect(run([{ kind: "event", event: back }], waiting).queue).toEqual([]);
    const done = run(fixtures.queue);
    expect(done.queue).toEqual([]);
    expect(said(done)).toEqual(["Please wait", "Second", "Understood."]);
  });
  test("what a cancelled turn had begun to say is gone", () => {
    const cancelled = fixtures.queue.findIndex((input) => input.kind === "done" && input.status === "cancelled");
    const state = run(fixtures.queue.slice(0, cancelled + 1));
    expect(state.items.some((item) => item.kind === "live")).toBe(false);
    expect(state.status).toBe("cancelled");
  });
});

describe("plans", () => {
  const planOf = (state: SessionState) => [...state.plans.values()][0]!;
  const statuses = (state: SessionState) => planOf(state).tasks.map((task) => task.status);
  test("a plan waits, runs, fails in part, and is finished by a retry", () => {
    const asked = run(through(fixtures.plan, "plan_request"));
    expect(planOf(asked)).toMatchObject({ status: "awaiting_approval", request: { kind: "plan" } });
    const approved = run(through(fixtures.plan, "plan_resolved"));
    expect(planOf(approved)).toMatchObject({ status: "running", request: undefined });
    const partial = run(through(fixtures.plan, "workflow_completed"));
    expect(planOf(partial).status).toBe("partial");
    expect(statuses(partial)).toEqual(["completed", "failed", "skipped"]);
    expect(tasksEnded(planOf(partial))).toBe(3);
    expect(progressOf(planOf(partial))).toEqual({ total: 3, done: 1, failed: 1, skipped: 1 });
    expect(costOf(planOf(asked))).toBeUndefined();
    const again = run(through(fixtures.plan, "task_started", 3));
    expect(planOf(again).status).toBe("running");
    const whole = run(fixtures.plan);
    expect(statuses(whole)).toEqual(["completed", "completed", "completed"]);
    expect(planOf(whole).status).toBe("completed");
    expect(whole.items.filter((item) => item.kind === "plan")).toHaveLength(1);
  });
  test("a plan costs what its tasks used", () => {
    const plan = planOf(run(fixtures.plan));
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const withCosts = (...costs: (number | null)[]) =>
      costOf({ ...plan, tasks: costs.map((cost_usd, at) => ({ ...plan.tasks[at]!, usage: { ...usage, cost_usd } })) });
    expect(withCosts(0.25, 0.5)).toEqual({ usd: 0.75, isKnown: true });
    expect(withCosts(0.25, null)).toEqual({ usd: 0.25, isKnown: false });
  });
  test("a plan that expired says so", () => {
    expect(planOf(run(fixtures.plan)).isExpired).toBe(false);
    const inputs = through(fixtures.plan, "plan_resolved").map((input) =>
      input.kind === "event" && input.event.type === "plan_resolved"
        ? { ...input, event: { ...input.event, data: { ...input.event.data, decision: "expired" as const } } }
        : input,
    );
    expect(planOf(run(inputs))).toMatchObject({ isExpired: true, status: "cancelled" });
  });
  test("an older plan that fails again is tried again with its own message", () => {
    const at = "2026-01-01T00:00:00.000Z";
    let seq = 0;
    const event = (type: string, data: object) =>
      ({ kind: "event", event: { type, data, seq: ++seq, session_id: "s", timestamp: at } }) as unknown as SessionInput;
    const ends = (status: "failed" | "completed") => ({ kind: "done", status }) as unknown as SessionInput;
    const asks = (message_id: string) =>
      event("message_created", { message_id, role: "user", content: message_id, timestamp: at });
    const plans = (plan_id: string) => event("task_plan_created", { plan_id, status: "running", tasks: [] });
    const first = [asks("first"), plans("older"), ends("failed")];
    const second = [asks("second"), plans("newer"), ends("completed")];
    expect(retryable(run(first))?.key).toBe("first");
    expect(retryable(run([...first, ...second]))).toBeUndefined();
    const again = run([...first, ...second, plans("older"), ends("failed")]);
    expect(retryable(again)?.key).toBe("first");
    expect(retryable(run([asks("third"), ends("failed")], again))?.key).toBe("third");
    expect(retryable(run([plans("newer"), ends("failed")], again))?.key).toBe("second");
  });
  test("what a task says belongs to the task", () => {
    const ofTask = run(fixtures.plan).items.filter((item) => item.origin?.taskId === "build");
    expect(ofTask.map((item) => item.kind)).toContain("message");
  });
});

test("what was said before the kept events comes from the history, once", () => {
  const messages = fixtures.tools.flatMap((input) =>
    input.kind === "event" && input.event.type === "message_created" ? [input.event.data] : [],
  );
  const result = {
    message_id: "r",
    role: "tool",
    content: '{"success":true}',
    tool_call_id: messages[1]!.tool_calls![0]!.call_id,
    timestamp: "",
  } as const;
  const kept = run(fixtures.tools.slice(-4));
  const whole = run([{ kind: "history", messages: [...messages, result] }], kept);
  expect(said(whole)).toEqual(said(run(fixtures.tools)));
  expect(tools(whole)[0]?.state).toEqual({ step: "finished", result: { success: true }, late: false });
  expect(run([{ kind: "history", messages }], whole).items).toHaveLength(whole.items.length);
});

test("pruned events are noted and the numbers go on behind them", () => {
  const event = { type: "gap", data: { from: 1, to: 40 }, session_id: "s", timestamp: "2026-01-01T00:00:00Z" } as const;
  const state = run([{ kind: "event", event }]);
  expect(state.lastSeq).toBe(40);
  expect(state.items).toMatchObject([{ kind: "note", note: { type: "gap", to: 40 } }]);
});

test("a log that starts over replaces what was known", () => {
  const before = run(fixtures.tools);
  const data = { from: 1, to: before.lastSeq };
  const event = { type: "gap", data, seq: 0, session_id: "s", timestamp: "2026-01-01T00:00:00Z" } as const;
  const empty = run([{ kind: "event", event }], before);
  expect(empty.lastSeq).toBe(0);
  expect(empty.items).toMatchObject([{ kind: "note", note: { type: "start_over" } }]);
  expect(said(run(fixtures.tools, empty))).toEqual(said(before));
});
