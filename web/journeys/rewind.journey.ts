// Files and messages are taken back and given back, and a message is changed and sent again: with a real tool runner.
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasResult, lastOf, type ModelRequest } from "./model";
import { until, World } from "./world";

let world: World;
let runner: ChildProcess;
const asked: ModelRequest[] = [];
const folder = mkdtempSync(join(tmpdir(), "codelab-journey-folder-"));
const data = mkdtempSync(join(tmpdir(), "codelab-journey-client-"));
const file = (name: string) => join(folder, name);
const read = (name: string) => (existsSync(file(name)) ? readFileSync(file(name), "utf8") : undefined);

beforeAll(async () => {
  world = await World.make({
    rules: [
      (request) => {
        asked.push(request);
        const [, name] = /^Write (\S+)/.exec(lastOf(request, "user")) ?? [];
        if (name === undefined) return { text: "Nothing to write." };
        if (hasResult(request)) return { text: `${name} is written.` };
        return { call: { name: "write_file", args: { path: name, content: `${name} by the agent\n` } } };
      },
    ],
  });
  const args = ["work", "--workspace", folder, "--data-dir", data, "--url", world.server.url];
  const env = { PATH: process.env["PATH"], HOME: data, CODELAB_TOKEN: world.server.token() };
  runner = spawn(process.env["CODELAB_BIN"]!, args, { env, stdio: "ignore" });
  await isAttached();
});
afterAll(async () => {
  runner.kill();
  await world.close();
  for (const path of [folder, data]) rmSync(path, { recursive: true, force: true });
});

const isAttached = () =>
  until(async () => {
    const { clients } = await world.api<{ clients: unknown[] }>("/my/projects/1/clients/");
    return clients.length > 0 ? true : undefined;
  });

/** A session in which writes pass, with the agent that its messages go to. */
async function session(title: string): Promise<string> {
  const id = await world.session(title);
  await world.api(`/my/chat/sessions/${id}/`, { approve: "edits", agent: "coder" }, "PATCH");
  return id;
}

async function say(page: Page, text: string, answer: string) {
  await page.locator(".dock textarea").fill(text);
  await page.locator(".dock textarea").press("Enter");
  await page.locator(".role-assistant", { hasText: answer }).waitFor();
  await page.locator("[data-status=completed]").waitFor();
}

const mine = (page: Page, text: string) => page.locator(".role-user", { hasText: text });

test("files and messages are taken back, and given back", async () => {
  const id = await session("Rewind");
  const { page, complaints } = await world.open(`#/sessions/${id}`);
  await say(page, "Write one.txt", "one.txt is written.");
  await say(page, "Write two.txt", "two.txt is written.");
  expect(read("two.txt")).toBe("two.txt by the agent\n");
  writeFileSync(file("two.txt"), "by hand\n");

  await mine(page, "Write one.txt").locator("button.rewind").click();
  await page.locator("dialog button.primary", { hasText: "Rewind" }).click();
  const card = page.locator(".card.rewound").first();
  await card.locator("strong", { hasText: "Rewound: 1 files, " }).waitFor();
  await card.locator("summary", { hasText: "Left as they are (1)" }).click();
  await card.locator("li", { hasText: "two.txt: it was changed since, by hand" }).waitFor();
  expect([read("one.txt"), read("two.txt")]).toEqual([undefined, "by hand\n"]);
  await page.locator(".is-rewound .role-user", { hasText: "Write two.txt" }).waitFor();
  // What was taken back offers nothing but to be copied.
  expect(await page.locator(".is-rewound button[title^='Edit']").count()).toBe(0);
  expect(await page.locator(".dock textarea").inputValue()).toBe("Write one.txt");

  if (await world.loseOwner(true)) await isAttached();
  await card.locator("button", { hasText: "Undo" }).click();
  await page.locator(".card.rewound strong", { hasText: "Rewind undone: 1 files" }).waitFor();
  expect(read("one.txt")).toBe("one.txt by the agent\n");
  await page.locator(".is-rewound").first().waitFor({ state: "detached" });
  expect(complaints).toEqual([]);
});

test("a message is changed and sent again, in its place or in a fork", async () => {
  const id = await session("Edited");
  const { page, complaints } = await world.open(`#/sessions/${id}`);
  await say(page, "Write first.txt", "first.txt is written.");
  await say(page, "Write wrong.txt", "wrong.txt is written.");

  // Left with Escape, nothing happened.
  const edit = page.locator(".edit-message");
  await mine(page, "Write wrong.txt").locator("button[title='Edit and send again']").click();
  await edit.locator("textarea").press("Escape");
  await edit.waitFor({ state: "detached" });

  await mine(page, "Write wrong.txt").locator("button[title='Edit and send again']").click();
  expect(await edit.locator("textarea").inputValue()).toBe("Write wrong.txt");
  await edit.locator("textarea").fill("Write right.txt");
  await edit.locator("button", { hasText: "Send here" }).click();
  await page.locator(".role-assistant", { hasText: "right.txt is written." }).waitFor();
  await page.locator(".is-rewound .role-user", { hasText: "Write wrong.txt" }).waitFor();
  expect([read("first.txt"), read("wrong.txt"), read("right.txt")]).toEqual([
    "first.txt by the agent\n",
    undefined,
    "right.txt by the agent\n",
  ]);
  const last = JSON.stringify(asked.at(-1)!.messages);
  expect(last).toContain("first.txt is written.");
  expect(last).not.toContain("wrong.txt");
  await page.locator("[data-status=completed]").waitFor();

  await mine(page, "Write right.txt").locator("button[title='Edit and send again']").click();
  await edit.locator("textarea").fill("Write other.txt");
  await edit.locator("button", { hasText: "Send in a fork" }).click();
  await page.waitForFunction((from) => !location.hash.includes(from), id);
  await page.locator(".pane-head", { hasText: "Edited (fork)" }).waitFor();
  await mine(page, "Write other.txt").waitFor();
  expect(await mine(page, "Write right.txt").count()).toBe(0);
  expect(read("right.txt")).toBe("right.txt by the agent\n");
  // Of the first message there is no history to take along.
  await page.goto(`${world.url}/#/sessions/${id}`);
  await mine(page, "Write first.txt").locator("button[title='Edit and send again']").click();
  await edit.locator("textarea").fill("Only this");
  await edit.locator("button", { hasText: "Send in a fork" }).click();
  await page.waitForFunction((from) => !location.hash.includes(from), id);
  await page.locator(".role-assistant", { hasText: "Nothing to write." }).waitFor();
  expect(await page.locator(".role-user").count()).toBe(1);
  expect(complaints).toEqual([]);
});

test("without a tool runner the text stays, and the conversation alone can be taken back", async () => {
  const id = await session("Alone");
  const { page, complaints } = await world.open(`#/sessions/${id}`);
  await say(page, "Just talk", "Nothing to write.");
  const gone = new Promise((resolve) => runner.once("exit", resolve));
  runner.kill();
  await gone;
  const edit = page.locator(".edit-message");
  await mine(page, "Just talk").locator("button[title='Edit and send again']").click();
  await edit.locator("textarea").fill("Talk more");
  await edit.locator("button", { hasText: "Send here" }).click();
  await page.locator(".notice.is-error").waitFor();
  expect(await edit.locator("textarea").inputValue()).toBe("Talk more");
  await edit.locator("label", { hasText: "Take files back too" }).click();
  await edit.locator("button", { hasText: "Send here" }).click();
  await page.locator(".is-rewound .role-user", { hasText: "Just talk" }).waitFor();
  await mine(page, "Talk more").waitFor();
  expect(complaints).toEqual([]);
});
