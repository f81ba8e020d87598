// Pictures of every view, light and dark, wide and narrow, for people to look at: journeys/output/*.png
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, test } from "vitest";
import { contentRules, fill, type Content } from "../content";
import { World } from "../world";

const OUTPUT = join(import.meta.dirname, "../output");
const SIZES = { wide: { width: 1360, height: 880 }, narrow: { width: 390, height: 844 } } as const;

const LOCALES: Record<string, string> = { "wide dark": "ru", "narrow dark": "uk" };

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

const views: Record<string, () => { hash: string; ready: string; click?: string }> = {
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
    test(`${size} ${colorScheme}`, async () => {
      const { page } = await world.open("#/chat", {
        viewport,
        colorScheme,
        locale: LOCALES[`${size} ${colorScheme}`] ?? "en-GB",
      });
      for (const [name, view] of Object.entries(views)) {
        const { hash, ready, click } = view();
        await page.evaluate((to) => (location.hash = to), hash);
        await page.locator(ready).first().waitFor();
        if (click !== undefined) await page.locator(click).first().click();
        await page.waitForLoadState("networkidle", { timeout: 700 }).catch(() => undefined);
        await page.screenshot({ path: join(OUTPUT, `${name}-${size}-${colorScheme}.png`) });
      }
      // A project in which nothing was done yet.
      await page.evaluate((id) => localStorage.setItem("codelab.project", String(id)), empty);
      await page.evaluate(() => (location.hash = "#/sessions"));
      await page.reload();
      await page.locator(".step").first().waitFor();
      await page.screenshot({ path: join(OUTPUT, `start-${size}-${colorScheme}.png`) });
    });
  }
}
