// Approvals: what is shown is what runs, an edit is what runs instead, a rejection tells the model why.
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasResult, isPlanning } from "./model";
import { takeStream } from "./stream";
import { CLIENT, until, World } from "./world";

/** Long enough that it does not fit into a window. */
const LONG = Array.from({ length: 60 }, (_, at) => `- line ${at} of a text that goes on for a while\n`).join("");

/** Enough tasks that the plan needs an approval. */
const TASKS = Array.from({ length: 6 }, (_, at) => ({
  id: `t${at}`,
  agent: "agent_coder",
  description: `Step ${at}`,
  depends_on: [],
  estimated_tokens: 1400,
}));

let world: World;
beforeAll(async () => {
  world = await World.make({
    rules: [
      (request) => {
        if (!request.messages.some((message) => message.content?.includes("greeting"))) return undefined;
        const results = request.messages.filter((message) => message.role === "tool").length;
        if (results === 0) return { call: { name: "read_file", args: { path: "hello.txt" } } };
        if (results === 1)
          return { call: { name: "write_file", args: { path: "hello.txt", content: "hello\nbig world\n" } } };
        return { text: "The greeting is written." };
      },
      (request) => {
        if (!request.messages.some((message) => message.content?.includes("long file"))) return undefined;
        const results = request.messages.filter((message) => message.role === "tool").length;
        if (results === 0) return { text: LONG, call: { name: "read_file", args: { path: "long.txt" } } };
        if (results === 1)
          return { text: LONG, call: { name: "write_file", args: { path: "long.txt", content: `${LONG}end\n` } } };
        return { text: "The long file is written." };
      },
      (request) => {
        if (!request.messages.some((message) => message.content?.includes("tidy up"))) return undefined;
        if (hasResult(request)) return { text: "I leave it alone then." };
        return { call: { name: "execute_command", args: { command: "ls && rm -rf ./cache" } } };
      },
      (request) => {
        if (!request.messages.some((message) => message.content?.includes("needs a colour"))) return undefined;
        if (hasResult(request)) return { text: `Painted ${request.messages.at(-1)?.content}.` };
        return {
          call: { name: "ask_followup_question", args: { question: "Which colour?", options: ["red", "blue"] } },
        };
      },
      (request) => (isPlanning(request) ? { text: JSON.stringify({ tasks: TASKS }) } : undefined),
    ],
  });
  await world.attach();
});
afterAll(() => world.close());

test("a write is shown as a change, edited and approved; the edit is what runs", async () => {
  const session = await world.session("Greeting");
  const { page, complaints } = await world.open("#/waiting");
  await world.send(session, "Improve the greeting", "coder");
  await world.finishCall(session, await world.awaitCall(session), {
    success: true,
    content: "hello\nworld\n",
    size: 12,
  });
  const card = page.locator(".approval");
  // The sentence says it already.
  expect(await card.locator(".server-details").count()).toBe(0);
  await card.locator(".diff-line.removed", { hasText: "world" }).waitFor();
  await card.locator(".diff-line.added", { hasText: "big world" }).waitFor();
  await card.locator(".countdown").waitFor();
  await page.locator(".mark-waiting", { hasText: "1" }).waitFor();

  await world.loseOwner();
  await card.locator("button", { hasText: "Edit" }).click();
  await card.locator(".field", { hasText: "path" }).locator("textarea:focus").waitFor();
  await card.locator(".field", { hasText: "content" }).locator("textarea").fill("hello\nsmall world\n");
  await card.locator("button", { hasText: "Approve with changes" }).click();
  await page.locator(".empty-title", { hasText: "Nothing is waiting for you" }).waitFor();

  const call = await world.awaitCall(session, (name) => name === "write_file");
  const event = (await world.events(session)).findLast((found) => found.type === "tool_call")!;
  expect((event.data["tool_call"] as { arguments: unknown }).arguments).toEqual({
    path: "hello.txt",
    content: "hello\nsmall world\n",
  });
  await world.finishCall(session, call, { success: true, size: 18, timestamp: new Date().toISOString() });

  await page.evaluate((to) => (location.hash = to), `#/sessions/${session}`);
  await page.locator(".line", { hasText: "The greeting is written." }).waitFor();
  await page.evaluate(() => (location.hash = "#/operations"));
  await page.locator(".audit td", { hasText: "edited and approved" }).waitFor();
  await page.locator(".panel", { hasText: "Audit" }).locator("text=Chain verified").waitFor();
  expect(complaints).toEqual([]);
});

test("a command is shown in its parts and rejected with a reason that the model reads", async () => {
  const session = await world.session("Tidy");
  await world.send(session, "Please tidy up", "coder");
  const { page } = await world.open(`#/sessions/${session}`);
  const card = page.locator(".approval");
  await card.locator(".command-parts .asks", { hasText: "rm -rf ./cache" }).waitFor();
  await card.locator(".command-parts .passes", { hasText: "ls" }).waitFor();
  await page.locator(".settings select").nth(1).selectOption("uk");
  await card.locator(".server-details", { hasText: "Небезпечна команда: rm -rf" }).waitFor();
  await card.locator(".command-parts .asks", { hasText: "видаляє файли" }).waitFor();
  await page.locator(".settings select").nth(1).selectOption("en");
  await world.loseOwner();
  await card.locator("button", { hasText: "Reject" }).click();
  await card.locator("textarea").fill("The cache is still needed");
  await card.locator("textarea").press("Enter");
  await page.locator(".line", { hasText: "I leave it alone then." }).waitFor();
  await page.locator(".tool .tone-bad", { hasText: "rejected" }).waitFor();
  const told = await until(() =>
    world.model.requests.find((request) =>
      request.messages.some(
        (message) => message.role === "tool" && message.content?.includes("The cache is still needed"),
      ),
    ),
  );
  expect(told).toBeDefined();
});

test("a browser that looks elsewhere is notified", async () => {
  const { page } = await world.open("#/waiting");
  // What waited before the page knew the list is not told.
  await page.locator(".empty-title", { hasText: "Nothing is waiting" }).waitFor();
  await page.evaluate(() => {
    const shown: string[] = [];
    const stand = class {
      static permission = "default";
      static requestPermission = () => Promise.resolve("granted");
      constructor(title: string, { body }: { body: string }) {
        shown.push(`${title}: ${body}`);
      }
    };
    Object.assign(window, { Notification: stand, shown });
    document.hasFocus = () => false;
  });
  await page.locator("button", { hasText: "Turn on notifications" }).click();
  await page.locator("button[aria-pressed=true]", { hasText: "Notifications are on" }).waitFor();
  const session = await world.session("Look here");
  await world.send(session, "Please tidy up", "coder");
  await page.locator(".approval").waitFor();
  await expect
    .poll(() => page.evaluate(() => (window as unknown as { shown: string[] }).shown))
    .toEqual(["CodeLab is waiting for you: coder: execute_command ls && rm -rf ./cache"]);
  await world.loseOwner();
  await page.locator(".approval button", { hasText: "Approve" }).click();
  await page.locator(".empty-title").waitFor();
});

test("everything that waits is one list: a tool, a plan, a budget and a question, each with its session", async () => {
  const { page, complaints } = await world.open("#/waiting");
  const entry = (title: string) => page.locator(".waiting", { hasText: title });
  const painting = await world.session("Painting");
  await world.send(painting, "This needs a colour", "coder");
  await entry("Painting").locator(".question", { hasText: "Which colour?" }).waitFor();
  const cleaning = await world.session("Cleaning");
  await world.send(cleaning, "Please tidy up", "coder");
  await entry("Cleaning").locator(".approval .agent", { hasText: "coder" }).waitFor();
  const planning = await world.session("Planning");
  await world.send(planning, "Do it in many steps");
  await entry("Planning").locator(".plan-summary li", { hasText: "Step 5" }).waitFor();
  const { session_id: poor } = await world.api<{ session_id: string }>("/my/chat/sessions/", {
    title: "Poor",
    budget_tokens: 1,
  });
  await world.send(poor, "Say something", "coder");
  await entry("Poor").locator(".approval", { hasText: "Budget" }).waitFor();
  const kinds = () => page.locator(".waiting").evaluateAll((list) => list.map((found) => found.dataset["kind"]));
  expect(await kinds()).toEqual(["question", "tool", "plan", "budget"]);
  await page.locator(".mark-waiting", { hasText: "4" }).waitFor();
  await expect.poll(() => page.title()).toBe("(4) Waiting · CodeLab");

  // After a reload the list comes from the server, with what decisions need.
  await page.reload();
  await entry("Poor").locator(".approval").waitFor();
  expect(await kinds()).toEqual(["question", "tool", "plan", "budget"]);
  await entry("Cleaning").locator("button", { hasText: "Reject" }).click();
  await entry("Cleaning").locator("textarea").fill("Not now");
  await entry("Cleaning").locator("button", { hasText: "Reject" }).click();
  await entry("Cleaning").waitFor({ state: "detached" });

  // The question leads to its card.
  await world.loseOwner();
  await entry("Painting").locator("a", { hasText: "Answer" }).click();
  const inList = (title: string) => page.locator(".side-item", { hasText: title });
  await inList("Painting").locator(".chip", { hasText: "question" }).waitFor();
  await inList("Planning").locator(".chip", { hasText: "plan" }).waitFor();
  await inList("Poor").locator(".chip", { hasText: "budget" }).waitFor();
  expect(await inList("Cleaning").locator(".chip").count()).toBe(0);
  await page.locator(".question.is-open button", { hasText: "blue" }).click();
  await inList("Painting").locator(".chip").waitFor({ state: "detached" });
  await page.locator(".mark-waiting", { hasText: "2" }).waitFor();
  for (const session of [planning, poor]) await world.api(`/my/chat/${session}/cancel/`, {});
  await page.locator(".mark-waiting").waitFor({ state: "detached" });
  expect(complaints).toEqual([]);
});

test("of two that decide at once the second learns that it is decided", async () => {
  const session = await world.session("Tidy twice");
  await world.send(session, "Please tidy up", "coder");
  const { page } = await world.open("#/waiting");
  const card = page.locator(".approval");
  await card.waitFor();
  const call = await card.getAttribute("data-call");
  // The page does not hear of the other decision before its own.
  await page.route("**/my/events/**", (route) => route.abort());
  await page.route("**/decision*", async (route) => {
    await world.api(`/my/chat/${session}/approvals/${call}/decision/`, { decision: "reject" });
    await route.continue();
  });
  await card.locator("button", { hasText: "Approve" }).click();
  await page.locator(".notice", { hasText: "already decided" }).waitFor();
});

for (const viewport of [
  { width: 390, height: 844 },
  { width: 1280, height: 700 },
]) {
  test(`the view follows to an approval and its buttons can be reached, ${viewport.width} px`, async () => {
    const session = await world.session("Long");
    const { page } = await world.open(`#/sessions/${session}`, { viewport });
    await page.locator(".dock textarea").waitFor();
    await world.send(session, "Write the long file", "coder");
    const call = await world.awaitCall(session);
    await page.locator(".tool", { hasText: "long.txt" }).waitFor();
    await world.loseOwner();
    await world.finishCall(session, call, { success: true, content: LONG, size: LONG.length });
    const approve = page.locator(".approval button", { hasText: "Approve" });
    await approve.waitFor();
    // What the user would hit with a click in the middle of the button.
    const isReachable = () =>
      approve.evaluate((button) => {
        const { left, top, width, height } = button.getBoundingClientRect();
        return button.contains(document.elementFromPoint(left + width / 2, top + height / 2));
      });
    await expect.poll(isReachable).toBe(true);

    // Somebody who reads further up is not moved, and is told what waits.
    const scroll = page.locator(".scroll");
    await scroll.evaluate((box) => (box.scrollTop = 0));
    await page.locator(".to-end", { hasText: "Waiting for you" }).waitFor();
    expect(await scroll.evaluate((box) => box.scrollTop)).toBe(0);
    await page.locator(".to-end").click();
    await expect.poll(isReachable).toBe(true);
    // The buttons stay while the card is read.
    await scroll.evaluate((box) => (box.scrollTop -= 150));
    expect(await isReachable()).toBe(true);
    await approve.click();
    await page.locator(".tool", { hasText: "write_file" }).waitFor();
  });
}

const FAR = 10;
const MESSAGES = 240;

/** A long session in which two things wait, both far from its end. */
const longSession = () => {
  const events: object[] = Array.from({ length: MESSAGES }, (_, at) =>
    said(`msg-${at}`, `Message ${at}.\n\n${LONG.slice(0, 400)}`),
  );
  const asks = (call_id: string) => ({
    type: "approval_request",
    data: {
      call_id,
      kind: "tool",
      tool_name: "write_file",
      arguments: { path: `${call_id}.txt`, content: "one\ntwo\n" },
      digest: "0".repeat(64),
      reason: "File modification requires approval",
      created_at: "2026-01-01T00:00:00Z",
      agent: "agent_coder",
    },
  });
  events.splice(MESSAGES / 2, 0, asks("call-middle"));
  events.splice(FAR, 0, asks("call-far"));
  return events;
};

const said = (message_id: string, content: string) => ({
  type: "message_created",
  data: { message_id, role: "assistant", timestamp: "2026-01-01T00:00:00Z", content, agent_id: "agent_coder" },
});

test("a card far up is shown by its link, and nobody is taken back to it", async () => {
  const session = await world.session("Far up");
  const { page } = await world.open("#/waiting");
  const send = await takeStream(page, session);
  await page.evaluate((to) => (location.hash = to), `#/sessions/${session}/call-far`);
  send(longSession());
  const isShown = (call: string) =>
    page.evaluate((selector) => {
      const button = document.querySelector(selector);
      if (button === null) return false;
      const { left, top, width, height } = button.getBoundingClientRect();
      return button.contains(document.elementFromPoint(left + width / 2, top + height / 2));
    }, `[data-call=${call}] .card-foot .primary`);
  await expect.poll(() => isShown("call-far")).toBe(true);

  const list = page.locator(".scroll");
  const toEnd = () => list.evaluate((box) => Math.round(box.scrollHeight - box.scrollTop - box.clientHeight));
  await list.evaluate((box) => (box.scrollTop = box.scrollHeight));
  await page.locator(".to-end", { hasText: "Waiting for you" }).waitFor();
  send([said("msg-late", "A late message.")]);
  await page.locator("[data-id=msg-late]").waitFor();
  await expect.poll(toEnd).toBe(0);
  expect(await isShown("call-far")).toBe(false);

  // A click on another link is a wish to see that card, wherever the user reads.
  await list.evaluate((box) => (box.scrollTop -= 3000));
  await page.evaluate((to) => (location.hash = to), `#/sessions/${session}/call-middle`);
  await expect.poll(() => isShown("call-middle")).toBe(true);
  await list.evaluate((box) => (box.scrollTop += 2000));
  await page.locator(".to-end", { hasText: "Waiting for you" }).waitFor();
  send([said("msg-later", "A later message.")]);
  await page.locator("[data-id=msg-later]").waitFor({ state: "attached" });
  expect(await isShown("call-middle")).toBe(false);
  await page.locator(".to-end").click();
  await expect.poll(() => isShown("call-middle")).toBe(true);
});

test("a write is shown again when its file changes, and a stale look approves nothing", async () => {
  const session = await world.session("Previewed");
  const { page, complaints } = await world.open("#/waiting");
  await world.send(session, "Improve the greeting", "coder");
  await world.finishCall(session, await world.awaitCall(session), {
    success: true,
    content: "hello\nworld\n",
    size: 12,
  });
  const card = page.locator(".approval");
  await card.locator(".diff-line.added", { hasText: "big world" }).waitFor();
  const callId = await card.getAttribute("data-call");
  const show = (base: string | null, before: string, more = {}) =>
    world.api(
      `/my/chat/${session}/approvals/${callId}/preview/`,
      {
        client_id: CLIENT,
        base,
        diff: `--- a/hello.txt\n+++ b/hello.txt\n@@ -1 +1,2 @@\n-${before}\n+hello\n+big world\n`,
        ...more,
      },
      "PUT",
    );
  await show("1".repeat(64), "somebody was here", { is_outdated: true });
  await card.locator(".diff-line.removed", { hasText: "somebody was here" }).waitFor();
  await card.locator(".notice", { hasText: "changed since the agent read it" }).waitFor();
  // The file changes between the look and the click: the page has not heard of it yet.
  let isFirst = true;
  await page.route("**/decision", async (route) => {
    if (isFirst) {
      isFirst = false;
      await show("2".repeat(64), "and somebody else", { is_unread: true });
    }
    await route.continue();
  });
  await card.locator("button", { hasText: "Approve" }).first().click();
  await card.locator(".diff-line.removed", { hasText: "and somebody else" }).waitFor();
  await card.locator("button", { hasText: "Approve" }).first().click();
  await page.locator(".empty-title", { hasText: "Nothing is waiting for you" }).waitFor();
  const approved = await until(async () => {
    const calls = (await world.events(session)).filter((event) => event.type === "tool_call");
    return calls.find((event) => event.data["approved"] === true);
  });
  expect(approved.data["base"]).toBe("2".repeat(64));
  await world.finishCall(session, callId ?? "", { success: true, size: 1, timestamp: "2026-01-01T00:00:00Z" });
  expect(complaints.filter((complaint) => !complaint.includes("409"))).toEqual([]);
});
