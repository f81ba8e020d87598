// The global Chat: agents speak first, whether somebody looks or not.
import { afterAll, beforeAll, expect, test } from "vitest";
import { lastOf, offers } from "./model";
import { until, World } from "./world";

let world: World;
let answer: () => void = () => undefined;
beforeAll(async () => {
  const gate = new Promise<void>((resolve) => (answer = resolve));
  world = await World.make({
    rules: [
      (request) => (lastOf(request, "user").includes("take your time") ? { text: "I took my time.", gate } : undefined),
      // The first request only asks which agent answers.
      (request) =>
        lastOf(request, "user").includes("for ever") && offers(request, "calculator")
          ? { text: "One, two, three", gate: new Promise(() => undefined) }
          : undefined,
      () => ({ text: "I am listening." }),
    ],
  });
});
afterAll(() => world.close());

test("the page opens on the sessions, and on the Chat while it has unread messages", async () => {
  const { page } = await world.open("");
  await page.locator("h1", { hasText: "Sessions" }).waitFor();
  await world.agentSays("/chat/agent_message", { author: "Morning", text: "Good morning." });
  await page.goto(`${world.url}/`);
  await page.reload();
  await page.locator(".line", { hasText: "Good morning." }).waitFor();
  expect(page.url()).toContain("#/chat");
  await page.locator(".mark-chat").waitFor({ state: "detached" });
  await page.goto(`${world.url}/?read`);
  await page.locator("h1", { hasText: "Sessions" }).waitFor();
});

test("the Chat says that an answer is coming, and where files can be worked on", async () => {
  const { page } = await world.open("#/chat");
  await page.locator(".dock textarea").fill("Please take your time");
  await page.locator(".dock textarea").press("Enter");
  await page.locator(".line.is-live", { hasText: "AdaptiveAgent" }).waitFor();
  await until(() =>
    world.model.requests.some((request) => lastOf(request, "user").includes("take your time")) ? true : undefined,
  );
  answer();
  await page.locator(".line", { hasText: "I took my time." }).waitFor();
  expect(await page.locator(".is-live").count()).toBe(0);
  // Who has just written watches the answer come.
  expect(await page.locator(".new-mark").count()).toBe(0);

  await page.locator(".dock-hint", { hasText: "cannot read or change your files" }).waitFor();
  await page.locator(".dock textarea").fill("Mend the loader");
  await page.locator(".dock-hint button", { hasText: "Start a session with this text" }).click();
  await page.locator("h2", { hasText: "New session" }).waitFor();
  await page.locator(".dock textarea:focus").waitFor();
  expect(await page.locator(".dock textarea").inputValue()).toBe("Mend the loader");
});

test("an answer is read while it is written, and can be stopped", async () => {
  const { page } = await world.open("#/chat");
  await page.locator(".dock textarea").fill("Count for ever");
  await page.locator(".dock textarea").press("Enter");
  const live = page.locator(".line.is-live");
  await live.locator(".markdown", { hasText: "One, two" }).waitFor();
  await live.locator("button", { hasText: "Stop" }).click();
  await page.locator(".line", { hasText: "You stopped the answer." }).waitFor();
  const partial = page.locator(".line", { hasText: "One, two" });
  await partial.locator(".meta", { hasText: "Stopped before its end" }).waitFor();
  expect(await live.count()).toBe(0);
});

test("a message an agent wrote before anybody looked is seen after a late open", async () => {
  await world.agentSays("/chat/agent_message", { author: "Nightly", text: "The nightly run *finished*." });
  const { page, complaints } = await world.open("#/chat");
  await page.locator(".line", { hasText: "The nightly run finished." }).waitFor();
  await page.locator(".line em", { hasText: "finished" }).waitFor();
  await world.loseOthers();
  expect(await page.locator(".lead").textContent()).toContain("All users of this server share");

  await page.locator("nav a[data-view=waiting]").click();
  await world.agentSays("/chat/agent_message", { author: "Nightly", text: "A word while you looked away." });
  await page.locator(".mark-chat", { hasText: "1" }).waitFor();
  await page.locator("nav a[data-view=chat]").click();
  await page.locator(".new-mark + .line", { hasText: "A word while you looked away." }).waitFor();
  await page.locator(".mark-chat").waitFor({ state: "detached" });

  await world.agentSays("/chat/agent_message", { author: "Nightly", text: "And a word while you watch." });
  await page.locator(".line", { hasText: "And a word while you watch." }).waitFor();
  expect(await page.locator(".line", { hasText: "word while you watch" }).count()).toBe(1);
  await page.reload();
  await page.locator(".line", { hasText: "And a word while you watch." }).waitFor();
  expect(await page.locator(".line", { hasText: "word while you watch" }).count()).toBe(1);
  expect(complaints).toEqual([]);
});

test("an agent asks, waits, gets the answer and goes on", async () => {
  const { page } = await world.open("#/chat");
  await page.locator(".line").first().waitFor();
  await world.loseOthers();
  let isAnswered = false;
  const asked = world
    .agentSays<{ answer: string }>("/chat/ask_user", { author: "Planner", question: "Which branch should I use?" })
    .finally(() => (isAnswered = true));
  await page.locator(".dock-note", { hasText: "Planner is waiting for your answer" }).waitFor();
  const field = page.locator(".dock textarea");
  const button = page.locator(".dock button[type=submit]");
  await field.fill("   ");
  expect(await button.isDisabled()).toBe(true);
  expect(isAnswered).toBe(false);

  await field.fill("the release branch");
  await field.press("Enter");
  const { answer } = await asked;
  expect(answer).toBe("the release branch");
  await world.agentSays("/chat/agent_message", { author: "Planner", text: `I go on with ${answer}.` });
  await page.locator(".line", { hasText: "I go on with the release branch." }).waitFor();
  await page.locator(".dock-note").waitFor({ state: "detached" });
  expect(await page.locator(".line.role-user", { hasText: "the release branch" }).count()).toBe(1);
  expect(await field.inputValue()).toBe("");
});
