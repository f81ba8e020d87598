// Pictures of every view, light and dark, wide and narrow, in every language, for people to look at:
// journeys/output/*.png
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, test } from "vitest";
import { contentRules, fill, type Content } from "../content";
import { World } from "../world";

const OUTPUT = join(import.meta.dirname, "../output");
const SIZES = { wide: { width: 1360, height: 880 }, narrow: { width: 390, height: 844 } } as const;

const LOCALES = { en: "en-GB", ru: "ru", uk: "uk" } as const;

let world: World;
let content: Content;
let empty = 0;

beforeAll(async () => {
  mkdirSync(OUTPUT, { recursive: true });
  world = await World.make({ rules: contentRules });
  content = await fill(world);
  empty = (await world.api<{ project_id: number }>("/my/projects/", { name: "Empty" })).project_id;
}, 120_000);
afterAll(() => world.close());

interface View {
  hash: string;
  ready: string;
  /** Clicked one after the other. */
  click?: string;
  /** Clicked after the picture. */
  leave?: string;
}

const views: Record<string, () => View> = {
  chat: () => ({ hash: "#/chat", ready: ".line" }),
  sessions: () => ({ hash: `#/sessions/${content.loader}`, ready: ".approval" }),
  "sessions-code": () => ({ hash: `#/sessions/${content.rich}`, ready: ".code-keyword" }),
  "sessions-diagram": () => ({
    hash: `#/sessions/${content.drawn}`,
    ready: ".diagram:last-child iframe:not(.is-waiting)",
  }),
  "sessions-hint": () => ({ hash: `#/sessions/${content.lonely}`, ready: ".hint-box" }),
  "sessions-plan": () => ({ hash: `#/sessions/${content.running.session}`, ready: ".plan-entry" }),
  "sessions-error": () => ({ hash: `#/sessions/${content.failed}`, ready: ".error-line" }),
  "sessions-budget": () => ({ hash: `#/sessions/${content.poor}`, ready: ".approval" }),
  "sessions-menu": () => ({ hash: `#/sessions/${content.rich}`, ready: ".code-keyword", click: ".menu summary" }),
  "sessions-allowed": () => ({
    hash: `#/sessions/${content.loader}`,
    ready: ".approval",
    click: ".menu summary, .menu-body button:has(path[d^='M12 3.5'])",
    leave: "dialog.allowed form button",
  }),
  waiting: () => ({ hash: "#/waiting", ready: ".approval" }),
  "plan-waits": () => ({ hash: `#/plans/${content.plan.session}/${content.plan.planId}`, ready: ".node" }),
  "plan-runs": () => ({
    hash: `#/plans/${content.running.session}/${content.running.planId}`,
    ready: ".node",
    click: "[data-task=design]",
  }),
  agents: () => ({ hash: "#/agents", ready: ".side-item", click: ".side-item" }),
  operations: () => ({ hash: "#/operations", ready: ".audit, .panel .hint" }),
};

for (const [size, viewport] of Object.entries(SIZES)) {
  for (const colorScheme of ["light", "dark"] as const) {
    for (const [language, locale] of Object.entries(LOCALES)) {
      const file = (name: string) => join(OUTPUT, `${name}-${size}-${colorScheme}-${language}.png`);
      test(`${size} ${colorScheme} ${language}`, async () => {
        const { page } = await world.open("#/chat", { viewport, colorScheme, locale });
        for (const [name, view] of Object.entries(views)) {
          const { hash, ready, click, leave } = view();
          await page.evaluate((to) => (location.hash = to), hash);
          await page.locator(ready).first().waitFor();
          for (const target of click?.split(", ") ?? []) await page.locator(target).first().click();
          await page.waitForLoadState("networkidle", { timeout: 700 }).catch(() => undefined);
          await page.screenshot({ path: file(name) });
          if (leave !== undefined) await page.locator(leave).click();
        }
        // A project in which nothing was done yet.
        await page.evaluate((id) => localStorage.setItem("codelab.project", String(id)), empty);
        await page.evaluate(() => (location.hash = "#/sessions"));
        await page.reload();
        await page.locator(".step").first().waitFor();
        await page.screenshot({ path: file("start") });
        await page.context().clearCookies();
        await page.reload();
        await page.locator("main, .login").first().waitFor();
        await page.screenshot({ path: file("login") });
      });
    }
  }
}
