// The global Chat: agents speak first, whether somebody looks or not.
import { afterAll, beforeAll, expect, test } from "vitest";
import { World } from "./world";

let world: World;
beforeAll(async () => {
  world = await World.make({ rules: [() => ({ text: "I am listening." })] });
});
afterAll(() => world.close());

test("a message an agent wrote before anybody looked is seen after a late open", async () => {
  await world.agentSays("/chat/agent_message", { author: "Nightly", text: "The nightly run *finished*." });
  const { page, complaints } = await world.open("#/chat");
  await page.locator(".line", { hasText: "The nightly run finished." }).waitFor();
  await page.locator(".line em", { hasText: "finished" }).waitFor();
  await world.loseOthers();
  expect(await page.locator(".lead").textContent()).toContain("All users of this server share");

  await page.locator("nav a[data-view=approvals]").click();
  await world.agentSays("/chat/agent_message", { author: "Nightly", text: "A word while you looked away." });
  await page.locator(".mark-chat", { hasText: "1" }).waitFor();
  await page.locator("nav a[data-view=chat]").click();
  await page.locator(".new-mark + .line", { hasText: "A word while you looked away." }).waitFor();
  await page.locator(".mark-chat").waitFor({ state: "detached" });

  await world.agentSays("/chat/agent_message", { author: "Nightly", text: "And a word while you watch." });
  await page.locator(".line", { hasText: "And a word while you watch." }).waitFor();
  expect(await page.locator(".line").count()).toBe(3);
  await page.reload();
  await page.locator(".line", { hasText: "And a word while you watch." }).waitFor();
  expect(await page.locator(".line").count()).toBe(3);
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
