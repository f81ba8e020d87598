// A session: words as they come, a question with its answer, the hint that nobody is there to run a tool.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RICH } from "./content";
import { hasResult, lastOf } from "./model";
import { until, World } from "./world";

let world: World;
let open: () => void = () => undefined;
let slowCalls = 0;
beforeAll(async () => {
  world = await World.make({
    rules: [
      (request) => (lastOf(request, "user").includes("rich answer") ? { text: RICH } : undefined),
      (request) => {
        if (!lastOf(request, "user").includes("slowly")) return undefined;
        slowCalls += 1;
        return { text: "One two three.", gate: new Promise((resolve) => (open = resolve)) };
      },
      (request) => {
        if (!request.messages.some((message) => message.content?.includes("needs a colour"))) return undefined;
        if (hasResult(request)) return { text: `Painted ${request.messages.at(-1)?.content}.` };
        return {
          call: { name: "ask_followup_question", args: { question: "Which colour?", options: ["red", "blue"] } },
        };
      },
      (request) =>
        lastOf(request, "user").includes("read the notes") && !hasResult(request)
          ? { call: { name: "read_file", args: { path: "notes.txt" } } }
          : undefined,
      (request) => (hasResult(request) ? { text: "The notes say hello." } : undefined),
    ],
  });
});
afterAll(() => world.close());

test("a message to a chosen agent is answered word by word", async () => {
  const { page, complaints } = await world.open("#/sessions");
  await page.locator(".side-head button").click();
  await page.locator(".dock textarea:focus").waitFor();
  // A session in which nothing was said is opened again instead of making one more.
  const blank = page.url();
  await page.locator(".side-item").waitFor();
  await page.locator("nav a[data-view=sessions]").click();
  await page.locator(".side-head button").click();
  await page.locator(".dock textarea:focus").waitFor();
  expect(page.url()).toBe(blank);
  await page.locator(".dock select").first().selectOption({ label: "coder" });
  await page.locator(".dock textarea").fill("Count slowly");
  await page.locator(".dock textarea").press("Enter");
  await page.locator(".line.is-live", { hasText: "One two" }).waitFor();
  await page.locator("[data-status=working]").waitFor();
  // The next owner makes the call again.
  if (await world.loseOwner(true)) await until(() => slowCalls === 2 || undefined);
  await page.locator(".line.is-live", { hasText: "One two" }).waitFor();
  open();
  await page.locator(".line.role-assistant:not(.is-live)", { hasText: "One two three." }).waitFor();
  await page.locator("[data-status=completed]").waitFor();
  expect(await page.locator(".line.role-assistant").count()).toBe(1);
  await page.locator(".trail .agent", { hasText: "coder" }).waitFor();
  await page.locator(".side-title", { hasText: "Count slowly" }).waitFor();
  // The chosen agent stays chosen, and what is not sent yet is still there after a look elsewhere.
  await page.locator(".dock textarea").fill("Not sent yet");
  await page.locator("nav a[data-view=waiting]").click();
  await page.goBack();
  expect(await page.locator(".dock textarea").inputValue()).toBe("Not sent yet");
  await page.reload();
  const chosen = page.locator(".dock select").first().locator("option:checked");
  await expect.poll(() => chosen.textContent()).toBe("coder");
  // The server keeps the choice, so it is the same in another browser.
  const other = (await world.open(new URL(page.url()).hash)).page;
  const there = other.locator(".dock select").first();
  await expect.poll(() => there.locator("option:checked").textContent()).toBe("coder");
  await there.selectOption({ label: "Make a plan" });
  const session = new URL(page.url()).hash.split("/")[2]!;
  const stored = async () => (await world.api<{ agent?: string }>(`/my/chat/sessions/${session}/`)).agent ?? null;
  await expect.poll(stored).toBeNull();
  expect(complaints).toEqual([]);
});

test("what is said meanwhile waits in line, and stopping ends the turn", async () => {
  const session = await world.session("Line");
  await world.send(session, "Speak slowly, please", "coder");
  const { page } = await world.open(`#/sessions/${session}`);
  await page.locator(".is-live").waitFor();
  await world.loseOwner();
  await page.locator(".dock select").first().selectOption({ label: "coder" });
  await page.locator(".dock textarea").fill("And then this");
  await page.locator(".dock textarea").press("Enter");
  await page.locator(".queue li", { hasText: "And then this" }).waitFor();
  expect(await page.locator(".line.role-user").count()).toBe(1);
  await page.locator(".writer-extra button", { hasText: "Stop" }).click();
  await page.locator(".stopped", { hasText: "Stopped." }).waitFor();
  expect(await page.locator(".error-line, .is-error, .tone-bad").count()).toBe(0);
  await page.locator(".line.role-user", { hasText: "And then this" }).waitFor();
  await page.locator("[data-status=completed]").waitFor();
  await page.locator(".queue").waitFor({ state: "detached" });
  expect(await page.locator(".is-live").count()).toBe(0);
});

test("a stopped answer stays, without an alarm, and the turn can be run again", async () => {
  const session = await world.session("Stopped");
  await world.send(session, "Speak slowly, please", "coder");
  const { page } = await world.open(`#/sessions/${session}`);
  const live = page.locator(".is-live");
  await expect.poll(() => live.textContent()).toContain("One ");
  await page.locator(".writer-extra button", { hasText: "Stop" }).click();
  const kept = page.locator(".line.role-assistant", { hasText: "Stopped" });
  await kept.waitFor();
  expect(await kept.textContent()).toContain("One ");
  expect(await page.locator(".error-line, .is-error, .tone-bad").count()).toBe(0);
  await page.reload();
  await kept.waitFor();
  await page.locator("button", { hasText: "Try again" }).click();
  await page.locator(".line.role-user", { hasText: "Again" }).waitFor();
  await live.waitFor();
  expect(await page.locator("button", { hasText: "Try again" }).count()).toBe(0);
  await page.locator(".writer-extra button", { hasText: "Stop" }).click();
  await page.locator("button", { hasText: "Try again" }).waitFor();
});

test("an emptied queue stays empty after a reload", async () => {
  const session = await world.session("Emptied");
  await world.send(session, "Speak slowly, please", "coder");
  const { page } = await world.open(`#/sessions/${session}`);
  await page.locator(".is-live").waitFor();
  await page.locator(".dock textarea").fill("Never said");
  await page.locator(".dock textarea").press("Enter");
  await page.locator(".queue li", { hasText: "Never said" }).waitFor();
  // The server has the text, so another page shows it as well.
  await page.reload();
  await page.locator(".queue li", { hasText: "Never said" }).waitFor();
  await page.locator(".queue .dock-note button").click();
  await page.locator(".queue").waitFor({ state: "detached" });
  await page.reload();
  await page.locator(".stopped").waitFor();
  expect(await page.locator(".queue").count()).toBe(0);
  expect(await page.locator(".line.role-user").count()).toBe(1);
});

test("an agent asks, the person answers, the turn goes on", async () => {
  const session = await world.session("Colours");
  await world.send(session, "This needs a colour", "coder");
  const { page } = await world.open(`#/sessions/${session}`);
  const card = page.locator(".question.is-open");
  await card.locator("text=Which colour?").waitFor();
  await world.loseOwner();
  await card.locator("button", { hasText: "blue" }).click();
  await page.locator(".line.role-assistant", { hasText: /Painted .*blue/ }).waitFor();
  await page.locator(".question .answer", { hasText: "blue" }).waitFor();
  expect(await page.locator(".question").count()).toBe(1);
});

test("an answer can be typed where messages are typed, to a chosen agent too", async () => {
  const session = await world.session("More colours");
  const { page } = await world.open(`#/sessions/${session}`);
  const say = async (text: string) => {
    await page.locator(".dock textarea").fill(text);
    await page.locator(".dock textarea").press("Enter");
  };
  await page.locator(".dock select").first().selectOption({ label: "coder" });
  await say("Good morning");
  await page.locator(".line.role-assistant:not(.is-live)").waitFor();
  await say("This needs a colour");
  await page.locator(".question .card-title", { hasText: /^coder asks/ }).waitFor();
  await page.locator(".dock textarea[placeholder='Your answer…']").waitFor();
  await say("green");
  await page.locator(".line.role-assistant", { hasText: /Painted .*green/ }).waitFor();
  expect(await page.locator(".queue").count()).toBe(0);
  // Several turns of one agent are one step.
  expect(await page.locator(".trail li").count()).toBe(1);
});

test("a tool call that nobody can run says what to do", async () => {
  const session = await world.session("Notes");
  await world.send(session, "Please read the notes", "coder");
  const { page } = await world.open(`#/sessions/${session}`, { viewport: { width: 1280, height: 480 } });
  await page.locator(".hint-box code", { hasText: "codelab work --workspace" }).waitFor();
  await world.loseOwner();
  const content = "hello\n".repeat(60);
  await world.finishCall(session, await world.awaitCall(session), { success: true, content, size: content.length });
  await page.locator(".line", { hasText: "The notes say hello." }).waitFor();
  await page.locator(".hint-box").waitFor({ state: "detached" });
  const summary = page.locator(".tool summary");
  const place = async () => Math.round((await summary.boundingBox())!.y);
  const before = await place();
  await summary.click();
  await page.locator(".tool-details .verbatim", { hasText: "hello" }).waitFor();
  // What was unfolded can be read from its beginning.
  await page.locator(".to-end", { hasText: "Go to latest" }).waitFor();
  expect(await place()).toBe(before);
  await summary.click();
  await page.locator(".to-end").waitFor({ state: "detached" });
});

test("sessions are pinned, archived, brought back and exported", async () => {
  const first = await world.session("Kept at hand");
  await world.session("Newer one");
  const { page, complaints } = await world.open("#/sessions");
  const row = (title: string) => page.locator(".side-row", { hasText: title });
  const titles = () => page.locator(".side-title").allTextContents();
  await row("Newer one").waitFor();
  await row("Kept at hand").hover();
  await row("Kept at hand").locator("button[title=Pin]").click();
  await row("Kept at hand").locator("button[title=Unpin]").waitFor();
  expect((await titles())[0]).toBe("Kept at hand");
  await row("Newer one").hover();
  await row("Newer one").locator("button[title=Archive]").click();
  await row("Newer one").waitFor({ state: "detached" });
  await page.reload();
  await row("Kept at hand").waitFor();
  expect((await titles())[0]).toBe("Kept at hand");
  expect(await titles()).not.toContain("Newer one");

  await world.loseOwner();
  await page.locator("button", { hasText: "Archived sessions" }).click();
  await expect.poll(titles).toEqual(["Newer one"]);
  await row("Newer one").locator("a").click();
  await page.locator(".pane-head .chip", { hasText: "archived" }).waitFor();
  await page.locator(".pane-head .menu summary").click();
  await page.locator(".menu-body button", { hasText: "Unarchive" }).click();
  await page.locator(".pane-title", { hasText: "Newer one" }).waitFor();
  await page.locator(".side-note", { hasText: "No archived sessions" }).waitFor();
  await page.locator("button", { hasText: "Archived sessions" }).click();
  await row("Newer one").waitFor();

  await world.send(first, "Give me a rich answer", "coder");
  await row("Kept at hand").locator("a").click();
  await page.locator(".line.role-assistant:not(.is-live)").waitFor();
  for (const [name, end] of [
    ["Markdown", ".md"],
    ["JSON", ".json"],
  ] as const) {
    await page.locator(".pane-head .menu summary").click();
    const download = page.waitForEvent("download");
    await page.locator(".menu-body a", { hasText: name }).click();
    const file = await download;
    expect(file.suggestedFilename().endsWith(end)).toBe(true);
    expect(readFileSync(await file.path(), "utf8")).toContain("Give me a rich answer");
    expect(await page.locator(".menu[open]").count()).toBe(0);
  }
  expect(complaints).toEqual([]);
});

test("code has colours, tables scroll, formulas are drawn, and everything can be copied", async () => {
  const session = await world.session("Rich");
  await world.send(session, "Give me a rich answer", "coder");
  const { page, complaints } = await world.open(`#/sessions/${session}`, {
    permissions: ["clipboard-read", "clipboard-write"],
    viewport: { width: 390, height: 844 },
  });
  const answer = page.locator(".line.role-assistant");
  await answer.locator(".code .code-keyword", { hasText: "const" }).waitFor();
  await answer.locator(".code .code-comment", { hasText: "// the answer" }).waitFor();
  await answer.locator(".patch-added", { hasText: "+const answer = 42;" }).waitFor();
  await answer.locator(".patch-removed", { hasText: "-const answer = 41;" }).waitFor();
  await answer.locator("math[display=block] munderover").waitFor();
  await answer.locator("p math mfrac").waitFor();
  await answer.locator("p", { hasText: "It costs $5 to $10." }).waitFor();

  const table = answer.locator(".table-scroll");
  expect(await table.evaluate((box) => box.scrollWidth > box.clientWidth)).toBe(true);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  const number = table.locator("td", { hasText: "1,024" });
  expect(await number.evaluate((cell) => getComputedStyle(cell).textAlign)).toBe("end");

  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  await answer.locator(".code button").first().click();
  await answer.locator(".code button", { hasText: "Copied" }).waitFor();
  expect(await copied()).toBe("const answer = 42; // the answer");
  await answer.locator("header button[title='Copy message']").click();
  await answer.locator("header button", { hasText: "Copied" }).waitFor();
  expect(await copied()).toBe(RICH);
  expect(complaints).toEqual([]);
});
