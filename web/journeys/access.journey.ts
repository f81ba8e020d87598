// Everybody can use it: axe finds nothing serious, the keyboard is enough, three languages, in and out.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SERVERS } from "./cluster";
import { contentRules, fill, type Content } from "./content";
import { World } from "./world";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let world: World;
let content: Content;
beforeAll(async () => {
  world = await World.make({ rules: contentRules });
  content = await fill(world);
});
afterAll(() => world.close());

interface Found {
  id: string;
  impact: string | null;
  nodes: { html: string; failureSummary?: string }[];
}

async function serious(page: Page): Promise<string[]> {
  // Evaluated by the debugger, so the page's policy stays as it is.
  await page.evaluate(AXE);
  const { violations, passes } = await page.evaluate(async () => {
    const axe = (window as unknown as { axe: { run(): Promise<{ violations: Found[]; passes: unknown[] }> } }).axe;
    return axe.run();
  });
  expect(passes.length).toBeGreaterThan(10);
  return violations
    .filter((violation) => violation.impact === "serious" || violation.impact === "critical")
    .flatMap((violation) =>
      violation.nodes.map((node) => `${violation.id}: ${node.html} ${node.failureSummary ?? ""}`),
    );
}

const views: Record<string, () => { hash: string; ready: string; click?: string }> = {
  chat: () => ({ hash: "#/chat", ready: ".line" }),
  "session with code": () => ({ hash: `#/sessions/${content.rich}`, ready: ".code-keyword" }),
  "session with diagrams": () => ({
    hash: `#/sessions/${content.drawn}`,
    ready: ".diagram:last-child iframe:not(.is-waiting)",
  }),
  session: () => ({ hash: `#/sessions/${content.loader}`, ready: ".approval" }),
  "session with a hint": () => ({ hash: `#/sessions/${content.lonely}`, ready: ".hint-box" }),
  waiting: () => ({ hash: "#/waiting", ready: ".command-parts" }),
  plan: () => ({
    hash: `#/plans/${content.running.session}/${content.running.planId}`,
    ready: ".node",
    click: ".node",
  }),
  agents: () => ({ hash: "#/agents", ready: ".side-item", click: ".side-item" }),
  operations: () => ({ hash: "#/operations", ready: ".audit, .panel select" }),
};

// What the page looks like and which words it uses does not depend on the number of servers.
const testOfLooks = test.skipIf(SERVERS > 0);

for (const colorScheme of ["light", "dark"] as const) {
  testOfLooks(`axe finds nothing serious, ${colorScheme}`, async () => {
    const { page, complaints } = await world.open("#/chat", { colorScheme });
    for (const [name, view] of Object.entries(views)) {
      const { hash, ready, click } = view();
      await page.evaluate((to) => (location.hash = to), hash);
      await page.locator(ready).first().waitFor();
      if (click !== undefined) await page.locator(click).first().click();
      expect(await serious(page), name).toEqual([]);
    }
    expect(complaints).toEqual([]);
  });
}

test("the keyboard reaches and does everything a decision needs", async () => {
  const { page } = await world.open(`#/sessions/${content.loader}`);
  await page.locator(".approval").waitFor();
  await world.loseOwner();
  const reached = async (text: string) => {
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press("Tab");
      const focused = await page.evaluate(() => document.activeElement?.textContent ?? "");
      if (focused.trim() === text) return;
    }
    throw new Error(`Tab never reached ${text}`);
  };
  await page.locator(".skip").focus();
  await page.keyboard.press("Enter");
  await reached("Reject");
  await page.keyboard.press("Enter");
  await page.locator(".reject textarea:focus").waitFor();
  await page.keyboard.type("Not today");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator(".tool .tone-bad", { hasText: "rejected" }).waitFor();
});

testOfLooks("on a phone each view has its word in the menu, and a title its line", async () => {
  for (const locale of ["en-GB", "ru", "uk"]) {
    const { page } = await world.open("#/waiting", { viewport: { width: 390, height: 844 }, locale });
    await page.locator(".approval").first().waitFor();
    const words = await page.locator(".sidebar .nav-text").evaluateAll((all) =>
      all.map((word) => {
        const { left, right, width } = word.getBoundingClientRect();
        return width > 10 && left >= 0 && right <= window.innerWidth;
      }),
    );
    expect(words, locale).toEqual(Array(8).fill(true));
    const title = await page.locator("h1").evaluate((found) => found.getClientRects().length && found.clientHeight);
    expect(title, locale).toBeLessThan(32);
  }
});

testOfLooks("the page speaks three languages and remembers which", async () => {
  const { page } = await world.open("#/waiting");
  for (const [locale, title, failure] of [
    ["uk", "Чекають на вас", "Сервер моделі надіслав не відповідь або не зрозумів запит"],
    ["ru", "Ждут вас", "Сервер модели прислал не ответ или не понял запрос"],
    ["en", "Waiting for you", "The model server sent something that is not an answer"],
  ] as const) {
    await page.locator(".settings select").nth(1).selectOption(locale);
    await page.locator("h1", { hasText: title }).waitFor();
    await page.reload();
    await page.locator("h1", { hasText: title }).waitFor();
    expect(await page.evaluate(() => document.documentElement.lang)).toBe(locale);
    // An error is told in the person's language, with the words of the model server beneath.
    await page.evaluate((id) => (location.hash = `#/sessions/${id}`), content.failed);
    await page
      .locator(".error-line", { hasText: failure })
      .locator(".server-details", { hasText: "scripted failure" })
      .waitFor();
    await page.evaluate(() => (location.hash = "#/waiting"));
  }
});

testOfLooks("until a person chooses, the page speaks the server's language", async ({ skip }) => {
  const set = await World.make({ isDemo: true, env: { CODELAB_LOCALE: "uk" } });
  try {
    // The page from dist/ comes past the server, which is what tells the language.
    skip(set.url !== set.server.url);
    const { page } = await set.open("#/waiting");
    await page.locator("h1", { hasText: "Чекають на вас" }).waitFor();
    expect(await page.evaluate(() => document.documentElement.lang)).toBe("uk");
    await page.locator(".settings select").nth(1).selectOption("en");
    await page.locator("h1", { hasText: "Waiting for you" }).waitFor();
    await page.reload();
    await page.locator("h1", { hasText: "Waiting for you" }).waitFor();
  } finally {
    await set.close();
  }
});

testOfLooks("a server without a model says that a demonstration answers", async () => {
  const demo = await World.make({ isDemo: true });
  const { page } = await demo.open("#/chat");
  await page.locator(".banner", { hasText: "Demo mode" }).waitFor();
  await demo.close();
  const real = await world.open("#/operations");
  await real.page.locator(".checklist", { hasText: "model" }).first().waitFor();
  expect(await real.page.locator(".banner").count()).toBe(0);
});

test("a login link works once, and logging out ends it", async () => {
  const { page } = await world.open("#/chat");
  expect(page.url()).not.toContain("login");
  await world.loseOwner();
  await page.locator("button", { hasText: "Log out" }).click();
  await page.locator("h1", { hasText: "Log in to CodeLab" }).waitFor();
  expect(await serious(page)).toEqual([]);
  await page.reload();
  await page.locator("h1", { hasText: "Log in to CodeLab" }).waitFor();
  await page.goto(`${world.url}/?again#login=0123456789abcdef`);
  await page.locator("[role=alert]", { hasText: "did not work" }).waitFor();
});

test("the API's description is linked, and a lost connection is told in a sentence", async () => {
  const { page } = await world.open("#/sessions");
  const docs = page.locator(".settings a", { hasText: "API documentation" });
  expect((await page.request.get(`${world.url}${await docs.getAttribute("href")}`)).ok()).toBe(true);
  // The file of a view cannot be loaded, and neither can anything else.
  await page.route("**/assets/AgentsView*", (route) => route.abort());
  await page.route("**/my/projects**", (route) => route.abort());
  await page.evaluate(() => sessionStorage.setItem("view.reloaded", "1"));
  await page.locator("nav a[data-view=agents]").click();
  await page.locator(".notice", { hasText: "The server does not answer. Check that it is running" }).waitFor();
  expect(await page.locator("body").textContent()).not.toContain("TypeError");
});

/** The guide looks for a tool runner only while somebody sees it. */
async function seenOnly(page: Page) {
  let looks = 0;
  page.on("request", (request) => (looks += request.url().includes("/worker-space") ? 1 : 0));
  const show = (state: string) =>
    page.evaluate((to) => {
      Object.defineProperty(document, "visibilityState", { value: to, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
  await page.clock.install();
  await page.reload();
  await page.locator("[data-step='2'].is-done").waitFor();
  await show("hidden");
  looks = 0;
  await page.clock.runFor(10_000);
  expect(looks).toBe(0);
  await show("visible");
  await expect.poll(() => looks).toBeGreaterThan(0);
}

testOfLooks("in a window without room the settings lie over the view only while they are used", async () => {
  const { page } = await world.open("#/sessions", { viewport: { width: 900, height: 700 } });
  await page.locator(".side-item").first().waitFor();
  expect(await page.locator(".settings[open]").count()).toBe(0);
  await page.locator(".settings summary").click();
  await page.locator(".settings select").first().waitFor();
  await page.locator(".detail").click();
  await page.locator(".settings:not([open])").waitFor();
});

testOfLooks("a first start is three steps, and the models of the providers are listed", async () => {
  const demo = await World.make({ isDemo: true });
  try {
    const { page } = await demo.open("#/sessions");
    await page.locator("[data-step='1']", { hasText: "No model is connected yet" }).waitFor();
    await page.locator("[data-step='2'] code", { hasText: /^codelab work --workspace \.$/ }).waitFor();
    expect(await serious(page)).toEqual([]);
    await page.setViewportSize({ width: 390, height: 844 });
    await page.locator("[data-step='3'] button").waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
    await page.setViewportSize({ width: 1280, height: 860 });
    await demo.attach();
    await page.locator("[data-step='2'].is-done", { hasText: "A tool runner is connected." }).waitFor();
    await seenOnly(page);
    await page.setViewportSize({ width: 1280, height: 500 });
    await page.locator("[data-step='1'] a").click();
    await page.locator(".how-to[open] code", { hasText: "LLM_PROXY_URL=" }).waitFor();
    const top = () =>
      page.locator(".panel", { has: page.locator(".how-to") }).evaluate((it) => it.getBoundingClientRect().top);
    await expect.poll(top).toBeLessThan(200);
    await page.goBack();
    await page.setViewportSize({ width: 1280, height: 860 });
    await page.locator("[data-step='3'] button").click();
    await page.locator(".dock textarea:focus").waitFor();
    // A tool runner serves the default project unless it is told another one.
    const { project_id: second } = await demo.api<{ project_id: number }>("/my/projects/", { name: "Second" });
    await page.reload();
    await page.locator(".settings select").first().selectOption({ label: "Second" });
    await page.locator("[data-step='2'] code", { hasText: `codelab work --workspace . --project ${second}` }).waitFor();
  } finally {
    await demo.close();
  }
  const { page } = await world.open("#/operations");
  const row = page.locator(".provider", { hasText: "default" }).locator("tr", { hasText: "scripted" });
  await row.locator("button", { hasText: "Test" }).click();
  await row.locator(".chip", { hasText: "answers" }).waitFor();
  world.model.rules.unshift(() => ({ status: 401 }));
  await row.locator("button", { hasText: "Test" }).click();
  await row.locator(".bad", { hasText: "scripted failure" }).waitFor();
  world.model.rules.shift();
  expect(await page.locator(".how-to[open]").count()).toBe(0);
});
