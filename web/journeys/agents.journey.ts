// Agents: made, changed, tried, taken out of service, and asked what they remember.
import { afterAll, beforeAll, expect, test } from "vitest";
import { lastOf } from "./model";
import { World } from "./world";

let world: World;
beforeAll(async () => {
  world = await World.make({ rules: [(request) => ({ text: `The reviewer read: ${lastOf(request, "user")}` })] });
});
afterAll(() => world.close());

test("an agent is made, changed, tried, and remembers", async () => {
  const { page, complaints } = await world.open("#/agents");
  await page.locator(".side-head a", { hasText: "New agent" }).click();
  const field = (label: string) => page.locator(".field", { hasText: label }).locator("input, textarea").first();
  await field("Name").fill("reviewer");
  await field("Model").fill("gpt-4");
  await field("System prompt").fill("You review. {{nonsense}}");
  await page.locator("button", { hasText: "Create" }).click();
  await page.locator(".notice", { hasText: "nonsense" }).waitFor();
  await page.locator("h2", { hasText: "reviewer" }).waitFor();
  await page.locator(".side-item", { hasText: "reviewer" }).waitFor();

  await world.loseOwner();
  await field("Description").fill("Reads changes twice");
  await page.locator("button", { hasText: "Save" }).click();
  await page.locator(".side-item", { hasText: "Reads changes twice" }).waitFor();

  await page.locator("[role=tab]", { hasText: "Try it" }).click();
  await page.locator(".try textarea").fill("Is this bicycle shed blue?");
  await page.locator(".try button[type=submit]").click();
  await page.locator(".tried .role-assistant", { hasText: "The reviewer read: Is this bicycle shed blue?" }).waitFor();

  await page.locator("[role=tab]", { hasText: "Memory" }).click();
  await page.locator(".memory input[type=text]").fill("Sheds are painted on Fridays");
  await page.locator(".memory button", { hasText: "Add to memory" }).click();
  await page.locator(".notice", { hasText: "Added to memory" }).waitFor();
  // What it remembers is listed, and what is chosen is forgotten.
  await page.locator(".memory .hint", { hasText: "Newest" }).waitFor();
  const entry = (text: string) => page.locator(".hit", { hasText: text });
  await entry("Sheds are painted on Fridays").waitFor();
  await page.locator(".memory input[type=text]").fill("A wrong note");
  await page.locator(".memory button", { hasText: "Add to memory" }).click();
  await entry("A wrong note").locator("button[title='Forget this']").click();
  await entry("A wrong note").waitFor({ state: "detached" });
  expect(await entry("Sheds are painted on Fridays").count()).toBe(1);
  await page.locator(".memory input[type=search]").fill("painting a shed");
  // What was noted can be found a moment later.
  const search = async () => {
    await page.locator(".memory button", { hasText: "Search" }).click();
    return page.locator(".hit", { hasText: "Sheds are painted on Fridays" }).count();
  };
  await expect.poll(search, { timeout: 15_000, interval: 300 }).toBe(1);

  const noted = page.locator(".hit", { hasText: "Sheds are painted on Fridays" });
  await noted.locator("button[title='Forget this']").click();
  await noted.waitFor({ state: "detached" });
  const asked = page.waitForRequest((request) => request.url().includes("/context/search"));
  await page.locator(".memory button", { hasText: "Search" }).click();
  const answer = await (await asked).response();
  expect(answer?.status()).toBe(200);
  expect(await answer?.text()).not.toContain("Sheds are painted on Fridays");
  await expect.poll(() => noted.count()).toBe(0);

  await page.locator("button", { hasText: "Disable" }).click();
  await page.locator(".chip", { hasText: "Disabled" }).waitFor();
  expect(complaints).toEqual([]);
});

test("a project is made, renamed, left and deleted, and its sessions do not stay open in another one", async () => {
  const { page } = await world.open("#/sessions");
  const settings = page.locator(".settings");
  const projects = settings.locator("select").first();
  await projects.selectOption("new");
  await settings.locator("input").fill("Second");
  await settings.locator("button", { hasText: "Create" }).click();
  await expect.poll(() => projects.locator("option:checked").textContent()).toBe("Second");
  await settings.locator("button[title='Rename project']").click();
  await settings.locator("input").fill("Garden");
  await settings.locator("button", { hasText: "Save" }).click();
  await expect.poll(() => projects.locator("option:checked").textContent()).toBe("Garden");

  await page.locator(".side-head button").click();
  await page.locator(".dock textarea:focus").waitFor();
  const session = page.url();
  await projects.selectOption({ label: "Default" });
  await page.locator(".empty-title").waitFor();
  expect(await page.locator(".dock").count()).toBe(0);
  expect(new URL(page.url()).hash).toBe("#/sessions");
  // A link to a session leads to its project.
  await page.goto(session);
  await expect.poll(() => projects.locator("option:checked").textContent()).toBe("Garden");
  await page.locator(".side-item[aria-current]").waitFor();

  const asked = new Promise<string>((resolve) => {
    page.once("dialog", (dialog) => {
      resolve(dialog.message());
      void dialog.accept();
    });
  });
  await settings.locator("button[title='Delete project']").click();
  expect(await asked).toContain("“Garden”? This also deletes: 1 session with all messages, 4 agents");
  await page.locator(".notice", { hasText: "Project “Garden” deleted" }).waitFor();
  await expect.poll(() => projects.locator("option").allTextContents()).toEqual(["Default", "New project…"]);
  expect(await settings.locator("button[title='Delete project']").count()).toBe(0);
});
