// Prints what the first view weighs, and how long Chromium takes to show 5,000 messages and a plan of 50 tasks.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { takeStream } from "../stream";
import { World } from "../world";

const DIST = join(import.meta.dirname, "../../dist");
const MAX_FIRST_VIEW_BYTES = 150 * 1024;
const MESSAGES = 5_000;
const TASKS = 50;
const PROSE =
  "The **loader** asks once and throws on any other status. I would keep `request()` as it is and add:\n\n" +
  "1. a limit per call,\n2. growing pauses,\n3. a test for each.\n\n```ts\nconst answer = await retry(3, () => request(path));\n```\n";

let world: World;
beforeAll(async () => {
  world = await World.make();
});
afterAll(() => world.close());

test("the weight of the first view", () => {
  const html = readFileSync(join(DIST, "index.html"), "utf8");
  const scripts = [...html.matchAll(/(?:src|href)="\/(assets\/[^"]+\.js)"/g)].map((found) =>
    readFileSync(join(DIST, found[1]!)),
  );
  const styles = [...html.matchAll(/href="\/(assets\/[^"]+\.css)"/g)].map((found) =>
    readFileSync(join(DIST, found[1]!)),
  );
  const sum = (files: Buffer[], pack: (file: Buffer) => Buffer) =>
    files.reduce((bytes, file) => bytes + pack(file).length, 0);
  const gzip = sum(scripts, (file) => gzipSync(file, { level: 9 }));
  print("first view, JavaScript", `${kib(gzip)} gzip, ${kib(sum(scripts, (file) => brotliCompressSync(file)))} brotli`);
  print("first view, CSS", `${kib(sum(styles, (file) => gzipSync(file, { level: 9 })))} gzip`);
  expect(gzip).toBeLessThan(MAX_FIRST_VIEW_BYTES);
});

test(`a session of ${MESSAGES} messages`, async () => {
  const session = await world.session("Long");
  const events = Array.from({ length: MESSAGES }, (_, at) => ({
    type: "message_created",
    data: {
      message_id: `msg-${at}`,
      role: at % 2 === 0 ? "user" : "assistant",
      timestamp: "2026-01-01T00:00:00Z",
      content: at % 2 === 0 ? `Question number ${at}?` : `Answer ${at}. ${PROSE}`,
      agent_id: at % 2 === 1 ? "agent_coder" : undefined,
    },
  }));
  const { page } = await world.open("#/waiting");
  const send = await takeStream(page, session);
  const shown = await timed(page, `#/sessions/${session}`, () => send(events), `[data-id="msg-${MESSAGES - 1}"] .code`);
  print(`${MESSAGES} messages, until the last one is shown`, ms(shown));
  expect(
    await page.locator(".scroll").evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight),
  ).toBeLessThan(100);
  print("frames of this machine, nothing happening", shownFrames(await scroll(page, 0, 120)));
  print(`${MESSAGES} messages, scrolled up 240 px a frame`, shownFrames(await scroll(page, 240, 400)));
  await page.locator(".scroll").evaluate((box) => (box.scrollTop = 0));
  await page.locator('[data-id="msg-0"]').waitFor();
}, 180_000);

test(`a plan of ${TASKS} tasks`, async () => {
  const session = await world.session("Wide");
  const tasks = Array.from({ length: TASKS }, (_, at) => ({
    id: `t${at}`,
    agent: ["agent_coder", "agent_writer", "agent_analyzer"][at % 3],
    description: `Do part ${at} of the work`,
    depends_on: at < 5 ? [] : [`t${at - 5}`, `t${Math.floor(at / 5) * 5 - 5}`],
    status: "pending",
    estimated_tokens: 900,
    estimated_cost_usd: 0.04,
  }));
  const plan = {
    plan_id: "plan-1",
    workflow_id: "w",
    status: "running",
    fallback: false,
    estimated_cost_usd: 2,
    cost_known: true,
    requires_approval: false,
    tasks,
  };
  const { page } = await world.open("#/waiting");
  const send = await takeStream(page, session);
  const created = [{ type: "task_plan_created", data: plan }];
  const shown = await timed(page, `#/plans/${session}/plan-1`, () => send(created), ".node[data-task=t49]");
  print(`a plan of ${TASKS} tasks, until it is drawn`, ms(shown));
  expect(await page.locator(".node").count()).toBe(TASKS);
});

/** From the moment the events leave until something is shown, without the time the view itself takes to load. */
async function timed(page: Page, hash: string, send: () => void, shown: string): Promise<number> {
  await page.evaluate((to) => (location.hash = to), hash);
  await page.locator(".detail").waitFor();
  await page.evaluate((selector) => {
    const found = new Promise<number>((resolve) => {
      const look = () => {
        if (document.querySelector(selector) !== null) requestAnimationFrame(() => resolve(performance.now()));
        else requestAnimationFrame(look);
      };
      look();
    });
    Object.assign(window, { shownAt: found });
  }, shown);
  const startedAt = await page.evaluate(() => performance.now());
  send();
  return (await page.evaluate(() => (window as unknown as { shownAt: Promise<number> }).shownAt)) - startedAt;
}

/** How long each frame took while the list was moved towards its start; most rows on the way were never drawn before. */
async function scroll(page: Page, stepPx: number, frames: number): Promise<number[]> {
  return page.locator(".scroll").evaluate(
    async (box, { stepPx, frames }) => {
      const frame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve));
      const times: number[] = [];
      let before = await frame();
      while (times.length < frames) {
        box.scrollTop -= stepPx;
        const now = await frame();
        times.push(now - before);
        before = now;
      }
      return times.sort((a, b) => a - b);
    },
    { stepPx, frames },
  );
}

function shownFrames(times: number[]): string {
  const at = (share: number) => ms(times[Math.floor((times.length - 1) * share)] ?? 0);
  return `median ${at(0.5)}, 95 of 100 within ${at(0.95)}, longest ${at(1)}`;
}

const ms = (time: number) => `${Math.round(time)} ms`;
const kib = (bytes: number) => `${(bytes / 1024).toFixed(1)} KiB`;
const print = (what: string, value: string) => console.log(`${what}: ${value}`);
