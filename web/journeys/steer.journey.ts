// A turn that is steered, a session that is forked, and tasks that write the same files.
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasResult, isPlanning, lastOf } from "./model";
import { World } from "./world";

const TASKS = [
  { id: "one", agent: "agent_coder", description: "Do one", depends_on: [], paths: ["src/a.ts"], estimated_tokens: 10 },
  { id: "two", agent: "agent_writer", description: "Do two", depends_on: [], paths: ["src"], estimated_tokens: 10 },
];

let world: World;
let finishOne: () => void = () => undefined;
beforeAll(async () => {
  world = await World.make({
    rules: [
      (request) =>
        isPlanning(request) && lastOf(request, "user") === "Do both"
          ? { text: JSON.stringify({ tasks: TASKS }) }
          : undefined,
      (request) =>
        lastOf(request, "user").startsWith("Do one")
          ? { text: "One is done.", gate: new Promise((resolve) => (finishOne = resolve)) }
          : undefined,
      (request) =>
        lastOf(request, "user").includes("look around") && !hasResult(request)
          ? { call: { name: "list_files", args: { path: "." } } }
          : undefined,
      (request) => (lastOf(request, "user") === "Use tabs" ? { text: "With tabs, then." } : undefined),
    ],
  });
});
afterAll(() => world.close());

test("a running turn is steered, and the session forked from its answer", async () => {
  const session = await world.session("Steered");
  await world.send(session, "Please look around", "coder");
  const { page, complaints } = await world.open(`#/sessions/${session}`);
  await page.locator("[data-status=awaiting_tool_result]").waitFor();
  await page.locator(".dock textarea").fill("Use tabs");
  await page.locator(".dock button", { hasText: "Steer" }).click();
  await page.locator(".queue li[data-steers=true]", { hasText: "Use tabs" }).waitFor();
  await page.locator(".dock textarea").fill("Later");
  await page.locator(".dock textarea").press("Enter");
  await page.locator(".queue li[data-steers=false]", { hasText: "Later" }).waitFor();
  await world.loseOwner(true);
  const call = await world.awaitCall(session);
  await world.finishCall(session, call, { success: true, files: [] });
  await page.locator(".role-user", { hasText: "Use tabs" }).locator(".chip", { hasText: "Steered" }).waitFor();
  await page.locator(".role-assistant", { hasText: "With tabs, then." }).waitFor();
  await page.locator(".queue").waitFor({ state: "detached" });
  await page.locator("[data-status=completed]").waitFor();

  const answer = page.locator(".role-assistant", { hasText: "With tabs, then." });
  await answer.locator("button[title^='Fork from here']").click();
  await page.waitForFunction((id) => !location.hash.includes(id), session);
  await page.locator(".pane-head", { hasText: "Steered (fork)" }).waitFor();
  await page.locator(".role-assistant", { hasText: "With tabs, then." }).waitFor();
  expect(await page.locator(".role-user", { hasText: "Later" }).count()).toBe(0);
  await page.locator(".pane-head a", { hasText: "Fork" }).click();
  await page.locator(".role-user", { hasText: "Later" }).waitFor();
  expect(complaints).toEqual([]);
});

test("a message that waits steers instead, waits again, or is taken back", async () => {
  const session = await world.session("Waiting");
  await world.send(session, "Please look around", "coder");
  const { page, complaints } = await world.open(`#/sessions/${session}`);
  await page.locator("[data-status=awaiting_tool_result]").waitFor();
  for (const text of ["Use tabs", "Never mind"]) {
    await page.locator(".dock textarea").fill(text);
    await page.locator(".dock textarea").press("Enter");
    await page.locator(".queue li[data-steers=false]", { hasText: text }).waitFor();
  }
  const waiting = page.locator(".queue li", { hasText: "Use tabs" });
  await waiting.locator("button", { hasText: "Steer with it" }).click();
  await page.locator(".queue li[data-steers=true]", { hasText: "Use tabs" }).waitFor();
  await waiting.locator("button", { hasText: "Let it wait" }).click();
  await page.locator(".queue li[data-steers=false]", { hasText: "Use tabs" }).waitFor();
  await waiting.locator("button", { hasText: "Steer with it" }).click();
  await page.locator(".queue li[data-steers=true]", { hasText: "Use tabs" }).waitFor();

  await page.locator(".dock textarea").fill("Half a thought");
  const other = page.locator(".queue li", { hasText: "Never mind" });
  await other.locator("button[title^='Take this message']").click();
  await other.waitFor({ state: "detached" });
  expect(await page.locator("[data-status=awaiting_tool_result]").count()).toBe(1);
  expect(await page.locator(".dock textarea").inputValue()).toBe("Never mind\n\nHalf a thought");
  const call = await world.awaitCall(session);
  await world.finishCall(session, call, { success: true, files: [] });
  await page.locator(".role-user", { hasText: "Use tabs" }).locator(".chip", { hasText: "Steered" }).waitFor();
  await page.locator(".role-assistant", { hasText: "With tabs, then." }).waitFor();
  await page.locator(".queue").waitFor({ state: "detached" });
  expect(await page.locator(".role-user", { hasText: "Never mind" }).count()).toBe(0);
  expect(complaints).toEqual([]);
});

test("tasks with the same files run one after the other", async () => {
  const session = await world.session("Files");
  await world.send(session, "Do both");
  const { page, complaints } = await world.open(`#/sessions/${session}`);
  await page.locator(".plan-entry a", { hasText: "Open plan" }).first().click();
  await page.locator(".node[data-task=one][data-status=running]").waitFor();
  await page.locator("path.edge.is-shared[data-shared='one two']").waitFor({ state: "attached" });
  await page.locator(".graph.is-fitted").waitFor();
  await page.locator(".node[data-task=two]").click();
  await page.locator(".task-panel", { hasText: "Waits for one, because of the same files" }).waitFor();
  await page.locator(".task-panel [data-paths]", { hasText: "Writes: src" }).waitFor();
  expect(await page.locator(".node[data-task=two]").getAttribute("data-status")).toBe("pending");
  finishOne();
  await page.locator(".node[data-task=two][data-status=completed]").waitFor();
  await page.locator(".task-panel", { hasText: "Waits for one" }).waitFor({ state: "detached" });
  expect(complaints).toEqual([]);
});
