// A long session: how full the model's window is, summing up, and taking back what was allowed.
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasResult, lastOf } from "./model";
import { World } from "./world";

let world: World;
let open: () => void = () => undefined;
beforeAll(async () => {
  world = await World.make({
    env: { CODELAB_MODELS__scripted__WINDOW: "128000" },
    rules: [
      (request) =>
        lastOf(request, "user").startsWith("Sum up the older part")
          ? { text: "They spoke of the loader.", gate: new Promise((resolve) => (open = resolve)) }
          : undefined,
      (request) =>
        lastOf(request, "user").includes("write it") && !hasResult(request)
          ? { call: { name: "write_file", args: { path: "a.txt", content: "x" } } }
          : undefined,
    ],
  });
});
afterAll(() => world.close());

test("the history is summed up from the session's menu, and the server may die meanwhile", async () => {
  const session = await world.session("Long");
  await world.api(`/my/chat/sessions/${session}/`, { model: "scripted" }, "PATCH");
  await world.send(session, "Tell me about the loader", "coder");
  const { page, complaints } = await world.open(`#/sessions/${session}`);
  await page.locator("[data-status=completed]").waitFor();
  // 480 tokens of 128,000.
  await page.locator(".pane-head .usage", { hasText: "context 1 % of 128k" }).waitFor();
  const menu = page.locator(".pane-head .menu summary");
  await menu.click();
  await page.locator(".menu-body button", { hasText: "Summarise history" }).click();
  await page.locator(".pane-head", { hasText: "Summarising…" }).waitFor();
  await world.loseOwner(true);
  await expect
    .poll(
      () => {
        open();
        return page.locator("details.tool summary", { hasText: "2 earlier messages were summarised" }).count();
      },
      { timeout: 40_000 },
    )
    .toBe(1);
  await page.locator(".pane-head", { hasText: "Summarising…" }).waitFor({ state: "detached" });
  expect(await page.locator(".pane-head .usage").textContent()).not.toContain("context");
  await menu.click();
  await page.locator(".menu-body button", { hasText: "Summarise history" }).click();
  await page.locator(".notice", { hasText: "There is nothing new to summarise" }).waitFor();
  expect(complaints).toEqual([]);
});

test("what was allowed for the session is listed and taken back", async () => {
  const session = await world.session("Allowed");
  await world.send(session, "Please write it", "coder");
  const { page } = await world.open(`#/sessions/${session}`);
  const card = page.locator(".approval");
  await card.locator("input[type=checkbox]").check();
  await card.locator("button.primary").click();
  await page.locator(".approval").waitFor({ state: "detached" });
  await page.locator(".pane-head .menu summary").click();
  await page.locator(".menu-body button", { hasText: "Allowed in this session" }).click();
  const dialog = page.locator("dialog.allowed");
  await dialog.locator("li", { hasText: "Writes of files" }).locator("button").click();
  await dialog.getByText("Nothing. Every call").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.locator(".switch", { hasText: "Taken back: Writes of files" }).waitFor();
});
