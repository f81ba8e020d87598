import { describe, expect, test } from "vitest";
import type { SessionEvent, ChatMessage, OpenApproval, Plan, Session, WaitingInSession } from "../src/api/types";
import { newsOf } from "../src/api/chat";
import { budgetOf } from "../src/state/budget";
import { answerDue, emptyChat, openQuestion, reduceChat, unread, type ChatInput } from "../src/state/chat";
import { applyDelta } from "../src/state/delta";
import { ago, duration, hueOf, money, timeLeft } from "../src/state/format";
import { withPlansOf } from "../src/state/plans";
import { Reads } from "../src/state/reads";
import { linkTo, parseRoute, ticketOf } from "../src/state/route";
import { markFound, pinnedFirst } from "../src/state/sessions";
import {
  bySession,
  changesSessions,
  inOrder,
  nothingWaits,
  reduceWaiting,
  waitingKey,
  type WaitingState,
} from "../src/state/waiting";
import budgetOpen from "../../tests/projection/budget-open.json";

const message = (id: number, more: Partial<ChatMessage> = {}): ChatMessage => ({
  id,
  ts: "2026-01-01T00:00:00Z",
  role: "agent",
  author: "A",
  text: `m${id}`,
  ...more,
});

describe("an answer in the Chat while it is written", () => {
  const delta = (answer_id: string, content: string, offset: number) => ({ answer_id, content, offset });
  const play = (...inputs: ChatInput[]) => inputs.reduce(reduceChat, emptyChat(0)).writing?.text.content;
  const one: ChatInput = { kind: "deltas", deltas: [delta("a", "One, ", 0), delta("a", "two", 5)] };
  const said = (id: number, more: Partial<ChatMessage>): ChatInput => ({
    kind: "messages",
    messages: [message(id, more)],
  });
  test.each<[string, string | undefined, ChatInput[]]>([
    ["grows", "One, two", [one]],
    ["is repeated from its beginning", "One, two", [one, one]],
    ["gives way to the next one", "Three", [one, { kind: "deltas", deltas: [delta("b", "Three", 0)] }]],
    ["is not shown without its beginning", undefined, [{ kind: "deltas", deltas: [delta("a", "two", 5)] }]],
    ["stays while others speak", "One, two", [one, said(1, { author: "ci" }), said(2, { role: "user" })]],
    ["ends as a message", undefined, [one, said(1, { author: "AdaptiveAgent" })]],
    ["ends when it is stopped", undefined, [one, said(1, { role: "system", meta: { tags: ["stopped"] } })]],
    ["ends with a failure", undefined, [one, said(1, { role: "system", meta: { tags: ["error"] } })]],
    ["stays while others' questions end", "One, two", [one, said(1, { role: "system", meta: { tags: ["expired"] } })]],
    ["is asked for again after a cut", undefined, [one, { kind: "connected" }]],
  ])("%s", (_, expected, inputs) => expect(play(...inputs)).toBe(expected));
  test("is not ended by a message that came before it, also when one read brings both", () => {
    const frame = (event: string, data: unknown) => ({ id: undefined, event, data: JSON.stringify(data) });
    const read = [
      frame("message", message(1, { role: "user" })),
      frame("message", message(2, { author: "AdaptiveAgent" })),
      frame("delta", delta("b", "Three", 0)),
    ];
    expect(play(...newsOf(read))).toBe("Three");
    expect(play(...newsOf([...read, frame("message", message(3, { author: "AdaptiveAgent" }))]))).toBeUndefined();
  });
});

describe("the global Chat", () => {
  const ids = (...lists: number[][]) =>
    lists
      .reduce(
        (state, list) => reduceChat(state, { kind: "messages", messages: list.map((id) => message(id)) }),
        emptyChat(0),
      )
      .messages.map(({ id }) => id);
  test.each([
    ["in order", [[1, 2], [3]], [1, 2, 3]],
    ["the stream before the history", [[5], [3, 4, 5], [6]], [3, 4, 5, 6]],
    [
      "all of it twice",
      [
        [1, 2],
        [1, 2],
        [2, 3],
      ],
      [1, 2, 3],
    ],
    ["nothing", [[], []], []],
  ])("%s: each message once, by id", (_, lists, expected) => {
    expect(ids(...lists)).toEqual(expected);
  });
  test("unread counts what others said since the person looked", () => {
    let state = reduceChat(emptyChat(1), {
      kind: "messages",
      messages: [message(1), message(2), message(3, { role: "user" })],
    });
    expect(unread(state)).toBe(1);
    state = reduceChat(state, { kind: "seen", id: 3 });
    expect(unread(state)).toBe(0);
    expect(reduceChat(state, { kind: "seen", id: 2 }).seenId).toBe(3);
  });
  test("a question is open until something replies to it", () => {
    const asked = reduceChat(emptyChat(0), {
      kind: "messages",
      messages: [message(1, { meta: { tags: ["question"] } }), message(2)],
    });
    expect(openQuestion(asked)?.id).toBe(1);
    const answered = reduceChat(asked, {
      kind: "messages",
      messages: [message(3, { role: "user", meta: { reply_to: 1 } })],
    });
    expect(openQuestion(answered)).toBeUndefined();
  });
});

describe("an answer in the Chat", () => {
  const due = (...messages: ChatMessage[]) => answerDue(reduceChat(emptyChat(0), { kind: "messages", messages }));
  test("is expected after a user's message, for a while", () => {
    expect(due()).toBeUndefined();
    expect(due(message(1))).toBeUndefined();
    expect(due(message(1, { role: "user" }))).toBe(Date.parse("2026-01-01T00:05:00Z"));
    expect(due(message(1, { role: "user" }), message(2))).toBeUndefined();
  });
  test("is not expected after an answer to a question", () => {
    expect(due(message(1), message(2, { role: "user", meta: { reply_to: 1 } }))).toBeUndefined();
  });
});

describe("the list of sessions", () => {
  const session = (session_id: string, more: Partial<Session> = {}) =>
    ({ session_id, pinned: false, archived: false, ...more }) as Session;
  const ids = (list: Session[]) => list.map((found) => found.session_id);
  const list = [session("a"), session("b", { pinned: true }), session("c"), session("d", { pinned: true })];
  test("pinned ones come first, and otherwise the order stays", () => {
    expect(ids(pinnedFirst(list))).toEqual(["b", "d", "a", "c"]);
  });
  test("the words that a search found are marked, in any case and by their beginning", () => {
    const marked = (snippet: string, search: string) =>
      markFound(snippet, search)
        .map((part) => (part.isFound ? `[${part.text}]` : part.text))
        .join("");
    expect(marked("A Deadlock in src/queue.rs", "DEAD queue.r")).toBe("A [Deadlock] in src/[queue].[rs]");
    expect(marked("Привіт, світе", "СВІТ")).toBe("Привіт, [світе]");
    expect(marked("<b>undead</b>", "dead ?")).toBe("<b>undead</b>");
  });
  test("an older answer does not undo a newer one, and every newer one is taken", () => {
    const reads = new Reads();
    const [first, second, third] = [reads.begin(), reads.begin(), reads.begin()];
    expect([second(), first(), third()]).toEqual([true, false, true]);
  });
  test("what was asked before a change is old, however late it is answered", () => {
    const reads = new Reads();
    const before = [reads.begin(), reads.begin()];
    reads.outdate();
    expect([...before, reads.begin()].map((isNewer) => isNewer())).toEqual([false, false, true]);
  });
});

describe("the list of plans", () => {
  const plan = (plan_id: string, more: Partial<Plan> = {}) => ({ plan_id, status: "running", ...more }) as Plan;
  const listed = (plan_id: string, session_id: string) => ({ ...plan(plan_id), session_id, title: session_id });
  const ids = (plans: { plan_id: string }[]) => plans.map((found) => found.plan_id);
  // The session "s" has older plans than the list can show.
  const known = [listed("s3", "s"), listed("t1", "t"), listed("s2", "s")];
  test("new plans come first, and older ones than are listed stay out", () => {
    const now = [plan("s0"), plan("s1"), plan("s2"), plan("s3"), plan("s4"), plan("s5")];
    const plans = withPlansOf(known, "s", now);
    expect(ids(plans)).toEqual(["s5", "s4", "s3", "t1", "s2"]);
    expect(plans[0]).toMatchObject({ session_id: "s", title: "s" });
  });
  test("a plan that is gone leaves the list, and the others are as they are now", () => {
    const plans = withPlansOf(known, "s", [plan("s1"), plan("s3", { status: "completed" })]);
    expect(plans.map(({ plan_id, status }) => [plan_id, status])).toEqual([
      ["s3", "completed"],
      ["t1", "running"],
    ]);
    expect(ids(withPlansOf(known, "u", [plan("u0")]))).toEqual(["s3", "t1", "s2"]);
  });
});

describe("what waits", () => {
  const session_id = "s";
  const event = (type: string, data: object) => ({ type, session_id, data }) as unknown as SessionEvent;
  const entry = (call_id: string, more: Partial<WaitingInSession> = {}): WaitingInSession => ({
    kind: "tool",
    call_id,
    agent: "coder",
    text: "write_file a.txt",
    created_at: "2026-01-01T00:00:01Z",
    session_id,
    project_id: 1,
    title: "Title",
    ...more,
  });
  const { session_id: _, project_id: __, title: ___, ...told } = entry("a");
  const added = event("waiting_added", told);
  const removed = event("waiting_removed", { call_id: "a" });
  const request = event("approval_request", { call_id: "a", digest: "d" });
  const take = (from: WaitingState, ...events: SessionEvent[]) => reduceWaiting(from, { kind: "events", events });
  const loaded = (from: WaitingState, ...waiting: WaitingInSession[]) =>
    reduceWaiting(from, { kind: "loaded", waiting });

  test("events add and remove entries and what decides them, in any order", () => {
    for (const open of [take(nothingWaits, request, added), take(nothingWaits, added, request)]) {
      expect(inOrder(open)).toHaveLength(1);
      expect(open.approvals.get("s/a")?.digest).toBe("d");
      const closed = take(open, removed);
      expect([closed.open.size, closed.approvals.size]).toEqual([0, 0]);
    }
  });
  test("a preview is part of the approval that it is about, and of no other", () => {
    const base = "a".repeat(64);
    const preview = event("approval_preview", { call_id: "a", base: null, diff: "" });
    const changed = event("approval_preview", { call_id: "a", base, diff: "+x", is_unread: true });
    const open = take(nothingWaits, request, added, preview);
    expect(open.approvals.get("s/a")?.preview?.base).toBeNull();
    expect(take(open, changed).approvals.get("s/a")?.preview).toMatchObject({ base, diff: "+x", is_unread: true });
    expect(take(open, changed).approvals.get("s/a")?.digest).toBe("d");
    expect(take(nothingWaits, preview).approvals.size).toBe(0);
  });
  test("the list adds the title that an event does not have, and an event keeps it", () => {
    const named = loaded(take(nothingWaits, added), entry("a"));
    expect(inOrder(named)[0]?.title).toBe("Title");
    expect(inOrder(take(named, added))[0]?.title).toBe("Title");
  });
  test("a list that was read before an event does not bring back what the event removed", () => {
    const closed = take(reduceWaiting(nothingWaits, { kind: "connected" }), added, removed);
    expect(inOrder(loaded(closed, entry("a")))).toEqual([]);
    const approvals = [{ call_id: "a", session_id }] as OpenApproval[];
    expect(reduceWaiting(closed, { kind: "approvals", approvals }).approvals.size).toBe(0);
  });
  test("a list that was read before an event does not lose what the event added", () => {
    expect(inOrder(loaded(take(nothingWaits, added)))).toHaveLength(1);
  });
  test("what waits again under the same id is shown again", () => {
    expect(inOrder(loaded(take(nothingWaits, added, removed, added), entry("a")))).toHaveLength(1);
  });
  test("after a new connection the list is the truth", () => {
    expect(inOrder(loaded(reduceWaiting(take(nothingWaits, added), { kind: "connected" })))).toEqual([]);
  });
  test("what is decided here is gone at once", () => {
    const opened = take(nothingWaits, added);
    expect(inOrder(reduceWaiting(opened, { kind: "gone", key: waitingKey(entry("a")) }))).toEqual([]);
  });
  test("the oldest comes first, and each session knows its own", () => {
    const other = entry("c", { session_id: "t", kind: "question", created_at: null });
    const state = loaded(nothingWaits, entry("b", { created_at: "2026-01-01T00:00:02Z" }), entry("a"), other);
    expect(inOrder(state).map((found) => found.call_id)).toEqual(["c", "a", "b"]);
    const sessions = bySession(inOrder(state));
    expect(sessions.get("s")?.map((found) => found.call_id)).toEqual(["a", "b"]);
    expect(sessions.get("t")?.[0]?.kind).toBe("question");
  });

  test("messages and plans change the list of sessions", () => {
    expect(changesSessions(event("message_created", {}))).toBe(true);
    expect(changesSessions(event("gap", { from: 1, to: 2 }))).toBe(true);
    expect(changesSessions(event("plan_resolved", {}))).toBe(true);
    expect(changesSessions(event("workflow_completed", {}))).toBe(true);
    expect(changesSessions(event("task_progress", {}))).toBe(false);
    expect(changesSessions(added)).toBe(false);
  });
});

describe("tokens", () => {
  const start = applyDelta(undefined, { content: "Привіт", attempt: 0, offset: 0 });
  test.each([
    ["the next piece", { content: ", світ", attempt: 0, offset: 12 }, "Привіт, світ"],
    ["a repeat from the middle", { content: "віт!", attempt: 0, offset: 6 }, "Привіт!"],
    ["all of it again", { content: "Привіт усім", attempt: 0, offset: 0 }, "Привіт усім"],
    ["a new attempt", { content: "Hi", attempt: 1, offset: 0 }, "Hi"],
    ["a piece behind a hole", { content: "x", attempt: 0, offset: 99 }, "Привіт"],
  ])("%s", (_, delta, expected) => {
    expect(applyDelta(start, delta).content).toBe(expected);
  });
  test("an older attempt changes nothing", () => {
    const newer = applyDelta(start, { content: "Hi", attempt: 1, offset: 0 });
    expect(applyDelta(newer, { content: "!", attempt: 0, offset: 2 }).content).toBe("Hi");
  });
});

describe("addresses", () => {
  test.each([
    ["", { view: "sessions", sessionId: undefined }],
    ["#/nowhere", { view: "sessions", sessionId: undefined }],
    ["#/chat", { view: "chat" }],
    ["#/sessions", { view: "sessions", sessionId: undefined }],
    [linkTo("sessions", "a/b c"), { view: "sessions", sessionId: "a/b c" }],
    [linkTo("plans", "s", "p"), { view: "plans", sessionId: "s", planId: "p" }],
    [linkTo("sessions", "s", "c"), { view: "sessions", sessionId: "s", callId: "c" }],
    [linkTo("operations", "models"), { view: "operations", panel: "models" }],
    ["#/approvals", { view: "waiting" }],
    ["#/sessions/%E0%A4%A", { view: "sessions", sessionId: undefined }],
  ])("%s", (hash, expected) => {
    expect(parseRoute(hash)).toEqual(expected);
  });
  test.each([
    ["#login=abc123", "abc123"],
    ["#/login=abc", undefined],
    ["#login=<x>", undefined],
  ])("ticket of %s", (hash, ticket) => {
    expect(ticketOf(hash)).toBe(ticket);
  });
});

describe("numbers and times", () => {
  const at = "2026-01-01T00:00:00Z";
  const ms = Date.parse(at);
  test("countdowns end", () => {
    expect(timeLeft(at, ms - 245_000)).toBe("4:05");
    expect(timeLeft(at, ms - 3_661_000)).toBe("1:01:01");
    expect(timeLeft(at, ms)).toBeUndefined();
  });
  test("how long ago", () => {
    expect(ago(at, ms + 30_000)).toEqual({ unit: "now" });
    expect(ago(at, ms + 3_600_000 * 5)).toEqual({ unit: "hours", n: 5 });
  });
  test("money keeps small amounts", () => {
    expect(money("en", 0.0324)).toBe("$0.0324");
    expect(money("en", 12)).toBe("$12.00");
    expect(duration("en", 125)).toBe("2 min");
  });
  test("the agents of a new project look different", () => {
    const names = [
      "agent_coder",
      "agent_analyzer",
      "agent_writer",
      "agent_researcher",
      "orchestrator",
      "AdaptiveAgent",
    ];
    expect(new Set(names.map(hueOf)).size).toBe(names.length);
  });
});

describe("a question about a budget", () => {
  const request = budgetOpen.events.find((event) => event.type === "approval_request");
  test("says what was spent, of what limit", () => {
    const args = (request?.data as { arguments: Record<string, unknown> }).arguments;
    expect(budgetOf(args)).toEqual({
      scope: "session",
      limit: { usd: undefined, tokens: 10 },
      spent: { usd: 0, tokens: 0 },
      reserved: { usd: 0, tokens: 0 },
      model: undefined,
    });
  });
  test("may be about a model without a price", () => {
    expect(budgetOf({ scope: "project", limit: { usd: 2, tokens: null }, model: "mine" })).toMatchObject({
      scope: "project",
      limit: { usd: 2, tokens: undefined },
      model: "mine",
    });
  });
});
