// Diagrams: drawn in a frame that reaches nothing, and code wherever they cannot be drawn.
import type { Frame, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DIAGRAM_FRAME, MAX_DIAGRAM_CHARACTERS } from "../src/state/diagram";
import { World } from "./world";

const GOOD = "```mermaid\ngraph TD\n  A[Reads the file] --> B{Is it known?}\n  B -->|yes| C[Writes it]\n```";
const WRONG = "```mermaid\ngraph TD\n  A[[[ --> nowhere ((\n```";
const LONG = `\`\`\`mermaid\ngraph TD\n${"  A --> B\n".repeat(MAX_DIAGRAM_CHARACTERS / 8)}\`\`\``;
/** Everything that a diagram may name. */
const HOSTILE = `\`\`\`mermaid
%%{init: {"securityLevel": "loose", "themeCSS": "@import url(http://evil.invalid/style.css);", "htmlLabels": true}}%%
graph TD
  A["<img src='http://evil.invalid/a.png' onerror='parent.hacked=1'>x"] --> B["<script>parent.hacked=2</script>y"]
  B --> C@{ img: "http://evil.invalid/b.png", label: "z" }
  click A "http://evil.invalid/click"
  click B "javascript:parent.hacked=3"
  style A fill:url(http://evil.invalid/fill.svg)
\`\`\``;

let world: World;
beforeAll(async () => {
  world = await World.make();
});
afterAll(() => world.close());

const say = (text: string) => world.agentSays("/chat/agent_message", { author: "Architect", text });
const block = (page: Page, text: string) => page.locator(".line", { hasText: text }).locator(".diagram");
const isDiagram = (frame: Frame) => new URL(frame.url()).pathname === DIAGRAM_FRAME;

test("a diagram is drawn when it is seen, and its code is one click away", async () => {
  const { page, outside, complaints } = await world.open("#/chat", { colorScheme: "dark" });
  const loaded: string[] = [];
  page.on("request", (request) => loaded.push(new URL(request.url()).pathname));
  await say("Only words.");
  await page.locator(".line", { hasText: "Only words." }).waitFor();
  expect(loaded.filter((path) => path.includes("diagram"))).toEqual([]);

  await say(`How it works.\n\n${GOOD}`);
  const diagram = block(page, "How it works.");
  const frame = diagram.locator("iframe:not(.is-waiting)");
  await frame.waitFor();
  const inside = page.frames().find(isDiagram)!;
  expect(await inside.locator("svg").textContent()).toContain("Is it known?");
  const height = (await frame.boundingBox())!.height;
  expect(height).toBeGreaterThan(100);
  expect(await diagram.locator("pre").count()).toBe(0);
  const colour = () => inside.locator("svg").evaluate((svg) => getComputedStyle(svg).fill);
  const dark = await colour();

  await diagram.getByRole("button", { name: "Code", exact: true }).click();
  await diagram.locator("pre", { hasText: "Reads the file" }).waitFor();
  expect(await frame.isVisible()).toBe(false);
  await diagram.getByRole("button", { name: "Diagram" }).click();
  expect((await frame.boundingBox())!.height).toBe(height);
  expect(await diagram.locator("pre").count()).toBe(0);

  await page.emulateMedia({ colorScheme: "light" });
  await expect.poll(colour).not.toBe(dark);
  expect({ outside, complaints }).toEqual({ outside: [], complaints: [] });
});

test("what cannot be drawn stays code, with a word why", async () => {
  const { page, complaints } = await world.open("#/chat");
  await page.locator(".line").first().waitFor();
  await world.loseOthers();
  await say(`This is wrong.\n\n${WRONG}`);
  await block(page, "This is wrong.").locator(".diagram-note", { hasText: "syntax error" }).waitFor();
  await block(page, "This is wrong.").locator("pre", { hasText: "nowhere" }).waitFor();
  await say(`This is long.\n\n${LONG}`);
  await block(page, "This is long.").locator(".diagram-note", { hasText: "too long" }).waitFor();
  expect(await block(page, "This is long.").locator("iframe").count()).toBe(0);
  expect(complaints).toEqual([]);

  // A frame that never answers.
  await page.route("**/assets/diagram-*.js", (route) => route.fulfill({ body: "", contentType: "text/javascript" }));
  await page.clock.install();
  await say(`This is silent.\n\n${GOOD.replace("TD", "LR")}`);
  const silent = block(page, "This is silent.");
  await silent.locator("iframe").waitFor({ state: "attached" });
  await page.clock.runFor(20_000);
  await silent.locator(".diagram-note", { hasText: "took too long" }).waitFor();
  expect(await silent.locator("iframe").count()).toBe(0);
});

test("a hostile diagram reaches neither the page nor the network", async () => {
  const { page, outside } = await world.open("#/chat");
  await say(`Look at this.\n\n${HOSTILE}`);
  const diagram = block(page, "Look at this.");
  await diagram.locator("iframe:not(.is-waiting), .diagram-note").waitFor();
  expect(outside).toEqual([]);
  expect(await page.evaluate(() => (window as { hacked?: unknown }).hacked)).toBeUndefined();
  const inside = page.frames().find(isDiagram);
  if (inside === undefined) throw new Error("the diagram should be drawn without what is hostile");
  expect(await inside.locator("a[href], script:not([src])").count()).toBe(0);
  // Even a script that got into the frame would find nothing.
  const reached = await inside.evaluate(async () => {
    const tries = {
      origin: () => self.origin,
      page: () => String(window.parent.document.title),
      cookie: () => document.cookie,
      storage: () => String(localStorage.length),
      network: async () => String((await fetch("/health")).status),
    };
    const found: Record<string, string> = {};
    for (const [name, look] of Object.entries(tries)) {
      found[name] = await Promise.resolve()
        .then(look)
        .catch(() => "refused");
    }
    return found;
  });
  expect(reached).toEqual({
    origin: "null",
    page: "refused",
    cookie: "refused",
    storage: "refused",
    network: "refused",
  });
});
