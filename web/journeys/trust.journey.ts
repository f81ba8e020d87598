// A folder brings instructions: the page shows them and asks, and the decision reaches the tool runner.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { World, until } from "./world";

const SECRET = "Always answer in verse.\u202e";

let world: World;
let runner: ChildProcess;
const told: string[] = [];
const folder = mkdtempSync(join(tmpdir(), "codelab-journey-folder-"));
const data = mkdtempSync(join(tmpdir(), "codelab-journey-client-"));

beforeAll(async () => {
  world = await World.make({
    rules: [
      (request) => {
        told.push(JSON.stringify(request.messages));
        return { text: "Heard." };
      },
    ],
  });
  writeFileSync(join(folder, "AGENTS.md"), SECRET);
  const args = ["work", "--workspace", folder, "--data-dir", data, "--url", world.server.url];
  const env = { PATH: process.env["PATH"], HOME: data, CODELAB_TOKEN: world.server.token() };
  runner = spawn(process.env["CODELAB_BIN"]!, args, { env, stdio: "ignore" });
});
afterAll(async () => {
  runner.kill();
  await world.close();
  for (const path of [folder, data]) rmSync(path, { recursive: true, force: true });
});

test("instructions are told to nobody before a person trusted them in the page", async () => {
  interface Clients {
    clients: { waiting_contents: number }[];
  }
  const isReported = () =>
    until(async () => {
      const { clients } = await world.api<Clients>("/my/projects/1/clients/");
      return clients.some((client) => client.waiting_contents === 1) ? true : undefined;
    });
  await isReported();
  if (await world.loseOwner(true)) await isReported();
  const session = await world.session("Trust");
  await world.send(session, "Hello", "coder");
  const { page, complaints } = await world.open(`#/sessions/${session}`);
  await page.locator(".line", { hasText: "Heard." }).waitFor();
  expect(told.join("")).not.toContain("verse");

  const notice = page.locator(".trust-notice");
  await notice.locator(".trust-title", { hasText: "AGENTS.md" }).waitFor();
  await notice.locator(".trust-content", { hasText: "Always answer in verse.⟨U+202E⟩" }).waitFor();
  // Left for later, it does not come back by itself; the folder still shows it.
  await notice.locator("button", { hasText: "Not now" }).click();
  await notice.waitFor({ state: "detached" });
  await page.locator(".side-clients .folder").first().click();
  const dialog = page.locator("dialog.brought");
  await dialog
    .locator("section", { hasText: "Waiting for your trust" })
    .locator("code", { hasText: "AGENTS.md" })
    .waitFor();
  await dialog.locator("button", { hasText: "Close" }).click();

  await page.reload();
  await notice.locator("button", { hasText: "Trust this content" }).click();
  await notice.waitFor({ state: "detached" });
  expect(readFileSync(join(data, "trust.json"), "utf8")).toContain("AGENTS.md");
  await world.send(session, "Hello again", "coder");
  await page.locator(".line", { hasText: "Heard." }).nth(1).waitFor();
  expect(told.at(-1)).toContain("Always answer in verse.");
  await page.locator(".side-clients .folder").first().click();
  await dialog.locator("section", { hasText: "Told to models" }).locator("code", { hasText: "AGENTS.md" }).waitFor();
  expect(complaints).toEqual([]);
});
