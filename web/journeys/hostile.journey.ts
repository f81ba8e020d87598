// Hostile words from a model or a tool: nothing runs, nothing is fetched, everything can be read.
import { afterAll, beforeAll, expect, test } from "vitest";
import { DIAGRAM_FRAME } from "../src/state/diagram";
import { hasResult, isPlanning, lastOf } from "./model";
import { World } from "./world";

const OUTSIDE = "http://evil.invalid";
const PAYLOAD = `Plain words.

<script>window.hacked = 1</script>
<img src="${OUTSIDE}/pixel.png" onerror="window.hacked = 2">
<svg onload="window.hacked = 3"></svg>
<iframe src="${OUTSIDE}/frame"></iframe>
<style>@import url("${OUTSIDE}/style.css");</style>
<a href="javascript:window.hacked=4">raw</a>

![alt](${OUTSIDE}/image.png) ![data](data:text/html,<script>window.hacked=5</script>)

[run me](javascript:window.hacked=6) [odd](JaVaScRiPt:window.hacked=7) [vb](vbscript:x) [data](data:text/html;base64,PHNjcmlwdD4=)
[a bank](${OUTSIDE}/phish) <${OUTSIDE}/auto> ${OUTSIDE}/bare

[ref][1]

[1]: javascript:window.hacked=8

\`\`\`mermaid
graph TD
A["<img src=x onerror=window.hacked=9>"] --> B
click A "${OUTSIDE}/mermaid"
\`\`\`

\`\`\`html
<script>window.hacked = 10</script>
\`\`\`

| a | b |
|---|---|
| <b onmouseover="window.hacked=11">x</b> | ![t](${OUTSIDE}/table.png) |

$$\\href{javascript:window.hacked=12}{x}$$ {{constructor.constructor('window.hacked=13')()}}
`;

let world: World;
beforeAll(async () => {
  world = await World.make({
    rules: [
      (request) =>
        isPlanning(request)
          ? {
              text: JSON.stringify({
                tasks: ["a", "b", "c"].map((id) => ({
                  id,
                  agent: "agent_coder",
                  description: `Turn\u202earound and hide\u200bthis. ${PAYLOAD}`,
                  depends_on: [],
                  estimated_tokens: 9,
                })),
              }),
            }
          : undefined,
      (request) => {
        if (!lastOf(request, "user").includes("hostile") && !hasResult(request)) return undefined;
        const results = request.messages.filter((message) => message.role === "tool").length;
        if (results === 0)
          return { text: PAYLOAD, call: { name: "read_file", args: { path: `${PAYLOAD}\u202egnp.exe` } } };
        if (results === 1)
          return {
            text: PAYLOAD,
            call: { name: "execute_command", args: { command: `rm -rf x \u202e # ${PAYLOAD}` } },
          };
        return { text: PAYLOAD };
      },
    ],
  });
});
afterAll(() => world.close());

async function expectHarmless(opened: Awaited<ReturnType<World["open"]>>) {
  const { page, outside, complaints } = opened;
  expect(await page.evaluate(() => (window as { hacked?: unknown }).hacked)).toBeUndefined();
  expect(outside).toEqual([]);
  expect(complaints).toEqual([]);
  expect(await page.locator(":is(main img, main script, main style, main object, main embed)").count()).toBe(0);
  // The only frames are those of the page's own, which draw diagrams and have no origin.
  const frames = await page
    .locator("main iframe")
    .evaluateAll((all) => all.map((frame) => [frame.getAttribute("src"), frame.getAttribute("sandbox")]));
  for (const frame of frames) expect(frame).toEqual([DIAGRAM_FRAME, "allow-scripts"]);
  const addresses = await page
    .locator("main a")
    .evaluateAll((links) => links.map((link) => link.getAttribute("href") ?? ""));
  // The page's own links to the session's export are the only ones to the server.
  const own = /^(https?:|mailto:|#\/)|^\/my\/chat\/sessions\/[\w-]+\/export\/\?format=(markdown|json)$/;
  expect(addresses.filter((address) => !own.test(address))).toEqual([]);
  const attributes = await page.evaluate(() =>
    [...document.querySelectorAll("main *")].flatMap((element) =>
      element.getAttributeNames().filter((name) => name.startsWith("on")),
    ),
  );
  expect(attributes).toEqual([]);
}

test("the watch itself sees what it watches for", async () => {
  const { page, outside, complaints } = await world.open("#/chat");
  await page.evaluate((address) => {
    const image = document.createElement("img");
    image.src = `${address}/seen.png`;
    const script = document.createElement("script");
    script.textContent = "window.hacked = 99";
    document.querySelector("main")?.append(image, script);
  }, OUTSIDE);
  await expect.poll(() => complaints.length).toBeGreaterThan(1);
  expect(outside.length + complaints.length).toBeGreaterThan(1);
  expect(await page.evaluate(() => (window as { hacked?: unknown }).hacked)).toBeUndefined();
});

test("a hostile answer in the Chat", async () => {
  await world.agentSays("/chat/agent_message", { author: "<img src=x onerror=window.hacked=20>", text: PAYLOAD });
  const opened = await world.open("#/chat");
  const { page } = opened;
  await page.locator(".line", { hasText: "Plain words." }).waitFor();
  await page.locator(".diagram iframe:not(.is-waiting)").waitFor();
  await page.locator(".line", { hasText: "<script>window.hacked = 1</script>" }).waitFor();
  const link = page.locator(".line a", { hasText: "a bank" }).first();
  expect(await link.getAttribute("rel")).toBe("noopener noreferrer nofollow");
  expect(await page.locator(".link-target").first().textContent()).toContain(`${OUTSIDE}/phish`);
  await expectHarmless(opened);
});

test("hostile words in a session, its tools, its approvals and its plans", async () => {
  const session = await world.session("<img src=x onerror=window.hacked=21>");
  await world.send(session, "something hostile", "coder");
  const opened = await world.open(`#/sessions/${session}`);
  const { page } = opened;
  await page.locator(".line", { hasText: "Plain words." }).first().waitFor();
  await world.awaitCall(session);
  await world.loseOwner();
  await world.finishCall(session, await world.awaitCall(session), {
    success: true,
    content: PAYLOAD,
    size: PAYLOAD.length,
  });
  await page.locator(".approval .command", { hasText: "⟨U+202E⟩" }).waitFor();
  await page.locator(".tool summary").first().click();
  await page.locator(".tool-details .verbatim", { hasText: "Plain words." }).waitFor();
  await expectHarmless(opened);

  await page.evaluate(() => (location.hash = "#/waiting"));
  await page.locator(".approval .command").waitFor();
  await expectHarmless(opened);

  const planned = await world.session();
  await world.send(planned, "plan something");
  const shown = "Turn⟨U+202E⟩around and hide⟨U+200B⟩this.";
  await page.locator(".approval .plan-summary li", { hasText: shown }).first().waitFor();
  await expectHarmless(opened);

  await page.evaluate((to) => (location.hash = to), `#/sessions/${planned}`);
  await page.locator(".plan-entry a").first().click();
  await page.locator(".node-text", { hasText: shown }).first().waitFor();
  await page.locator(".node").first().click();
  await page.locator(".task-panel", { hasText: "Plain words." }).waitFor();
  await page.locator(".task-panel p", { hasText: shown }).waitFor();
  await expectHarmless(opened);
});
