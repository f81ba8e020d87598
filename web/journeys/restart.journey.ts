// The server dies in the middle of an answer and comes back: the page goes on, with nothing lost and nothing doubled.
import { afterAll, beforeAll, expect, test } from "vitest";
import { lastOf } from "./model";
import { World } from "./world";

let world: World;
let open: () => void = () => undefined;
let calls = 0;

beforeAll(async () => {
  world = await World.make({
    rules: [
      (request) => {
        if (!lastOf(request, "user").includes("long story")) return undefined;
        calls += 1;
        // The first attempt never ends; the server dies in it.
        const gate =
          calls === 1 ? new Promise<void>(() => undefined) : new Promise<void>((resolve) => (open = resolve));
        return { text: "Once upon a time there was a server.", gate };
      },
      (request) => ({ text: `You said: ${lastOf(request, "user")}` }),
    ],
  });
});
afterAll(() => world.close());

test("an open session survives a crash of the server", async () => {
  const session = await world.session("Story");
  await world.send(session, "First things first", "coder");
  const { page, complaints } = await world.open(`#/sessions/${session}`);
  await page.locator(".line", { hasText: "You said: First things first" }).waitFor();
  await page.locator("[data-status=completed]").waitFor();
  await world.send(session, "Tell me a long story", "coder");
  await page.locator(".is-live", { hasText: "Once upon a time" }).waitFor();

  await world.server.kill();
  await page.locator(".banner.is-warning").waitFor();
  await world.server.start();
  await page.locator(".banner.is-warning").waitFor({ state: "detached" });
  // The words from before the crash stay on the page, so they do not tell that the answer has begun again.
  await expect.poll(() => calls, { timeout: 30_000 }).toBe(2);
  await page.locator(".is-live", { hasText: "Once upon a time" }).waitFor();
  open();
  await page.locator(".line:not(.is-live)", { hasText: "there was a server." }).waitFor();
  await page.locator("[data-status=completed]").waitFor();

  await page.locator(".dock select").first().selectOption({ label: "coder" });
  await page.locator(".dock textarea").fill("And after the crash?");
  await page.locator(".dock textarea").press("Enter");
  await page.locator(".line", { hasText: "You said: And after the crash?" }).waitFor();

  const texts = await page.locator(".line .markdown").allInnerTexts();
  expect(texts).toEqual([
    "First things first",
    "You said: First things first",
    "Tell me a long story",
    "Once upon a time there was a server.",
    "And after the crash?",
    "You said: And after the crash?",
  ]);
  expect(complaints).toEqual([]);
});

test("what waits for a person is back after a crash", async () => {
  world.model.rules.unshift((request) =>
    lastOf(request, "user").includes("write it down")
      ? { call: { name: "write_file", args: { path: "a.txt", content: "a\n" } } }
      : undefined,
  );
  const session = await world.session("Notes");
  await world.send(session, "Please write it down", "coder");
  const { page } = await world.open("#/waiting");
  await page.locator(".approval").waitFor();
  const before = await page.locator(".approval").getAttribute("data-call");
  await world.server.kill();
  await page.locator(".banner.is-warning").waitFor();
  await world.server.start();
  await page.locator(".banner.is-warning").waitFor({ state: "detached" });
  expect(await page.locator(".approval").count()).toBe(1);
  expect(await page.locator(".approval").getAttribute("data-call")).toBe(before);
  await page.locator(".approval button", { hasText: "Approve" }).click();
  await page.locator(".empty-title").waitFor();
  await world.awaitCall(session, (name) => name === "write_file");
});

test("an open Chat goes on after a crash", async () => {
  await world.agentSays("/chat/agent_message", { author: "Nightly", text: "Before the crash." });
  const { page } = await world.open("#/chat");
  await page.locator(".line", { hasText: "Before the crash." }).waitFor();
  await world.server.kill();
  await page.locator(".banner.is-warning").waitFor();
  await world.server.start();
  await world.agentSays("/chat/agent_message", { author: "Nightly", text: "After the crash." });
  await page.locator(".line", { hasText: "After the crash." }).waitFor();
  expect(await page.locator(".line .markdown").allInnerTexts()).toEqual(["Before the crash.", "After the crash."]);
});
