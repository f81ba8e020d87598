// A plan: asked for in the composer, looked at as a graph, edited, approved, watched, retried.
import { afterAll, beforeAll, expect, test } from "vitest";
import { isPlanning, lastOf, type ModelRequest } from "./model";
import { until, World } from "./world";

const TASKS = [
  { id: "look", agent: "agent_analyzer", description: "Look around", depends_on: [] },
  { id: "build", agent: "agent_coder", description: "Build the thing", depends_on: ["look"] },
  { id: "extra", agent: "agent_coder", description: "Something nobody wants", depends_on: ["look"] },
  { id: "tell", agent: "agent_writer", description: "Tell the story", depends_on: ["build", "extra"] },
].map((task) => ({ ...task, estimated_tokens: 500 }));

let world: World;
let isBroken = true;
let finishBuild: () => void = () => undefined;

const isTask = (request: ModelRequest, text: string) => lastOf(request, "user").startsWith(text);

beforeAll(async () => {
  world = await World.make({
    rules: [
      (request) => (isPlanning(request) ? { text: JSON.stringify({ tasks: TASKS }) } : undefined),
      (request) =>
        isTask(request, "Build the thing")
          ? { text: "Built.", gate: new Promise((resolve) => (finishBuild = resolve)) }
          : undefined,
      (request) => (isTask(request, "Tell the whole story") && isBroken ? { status: 400 } : undefined),
      (request) => (isTask(request, "Results:") ? { text: "All parts are joined." } : undefined),
    ],
  });
});
afterAll(() => world.close());

test("a plan is edited, approved, watched and its failed task tried again", async () => {
  const { page, complaints } = await world.open("#/sessions");
  await page.locator(".side-head button").click();
  await page.locator(".dock textarea").fill("Make the thing and tell about it");
  await page.locator(".dock textarea").press("Enter");
  await page.locator(".plan-entry .approval", { hasText: "The plan has 4 tasks" }).waitFor();
  await page.locator(".plan-entry a", { hasText: "Open plan" }).first().click();

  const node = (id: string) => page.locator(`.node[data-task=${id}]`);
  await node("tell").waitFor();
  expect(await page.locator(".node").count()).toBe(4);
  expect(await page.locator("path.edge").count()).toBe(4);

  await page.locator("button", { hasText: "Edit" }).click();
  await page.locator(".plan-below", { hasText: "Click a task in the graph to edit or remove it." }).waitFor();
  await node("extra").click();
  await page.locator("button", { hasText: "Remove task" }).click();
  await node("tell").click();
  await page.locator(".task-editor textarea").first().fill("Tell the whole story");
  await page.locator("button", { hasText: "Approve with changes" }).click();

  await page.locator(".node[data-task=look][data-status=completed]").waitFor();
  await page.locator(".node[data-task=build][data-status=running]").waitFor();
  await page.locator(".node[data-task=tell][data-status=pending]").waitFor();
  await page.locator("[data-plan-status=running]").waitFor();
  const built = () => world.model.requests.filter((request) => isTask(request, "Build the thing")).length;
  await until(() => built() === 1 || undefined);
  let calls = 1;
  if (await world.loseOwner()) {
    // A task whose model call is lost has failed, and can be tried again.
    await page.locator(".node[data-task=build][data-status=failed]").waitFor();
    await page.locator("button", { hasText: "Retry failed tasks" }).click();
    calls += 1;
    await until(() => built() === calls || undefined);
    await page.locator(".node[data-task=build][data-status=running]").waitFor();
  }
  finishBuild();
  await page.locator(".node[data-task=build][data-status=completed]").waitFor();
  await page.locator(".node[data-task=tell][data-status=failed]").waitFor();
  await page.locator("[data-plan-status=partial]").waitFor();
  expect(await node("extra").count()).toBe(0);
  // A failed task is not done, and what was really spent stands beside the estimate.
  await page.locator(".plan-numbers", { hasText: "2 of 3 tasks, 1 failed" }).waitFor();
  await page.locator(".plan-numbers", { hasText: /cost \$0\.0\d+ \(estimated \$/ }).waitFor();

  isBroken = false;
  await page.locator("button", { hasText: "Retry failed tasks" }).click();
  await page.locator(".node[data-task=tell][data-status=completed]").waitFor();
  await page.locator("[data-plan-status=completed]").waitFor();
  await node("build").click();
  await page.locator("[data-task-panel=build]", { hasText: "Built." }).waitFor();
  expect(built()).toBe(calls);
  await page.evaluate(() => (location.hash = "#/sessions"));
  await page.locator(".side-item", { hasText: "Make the thing and tell" }).first().click();
  await page.locator(".plan-note", { hasText: "also includes planning and the summary" }).waitFor();
  expect(complaints).toEqual([]);
});

test("one request lists all plans, and one that is opened or goes on is read again alone", async () => {
  for (const name of ["One", "Two", "Three"]) await world.session(name);
  const session = await world.session("Watched");
  await world.send(session, "Make the thing");
  const { page } = await world.open("#/waiting");
  const card = page.locator(".approval", { hasText: "Look around" }).first();
  await card.waitFor();
  const read: string[] = [];
  page.on("request", (request) => {
    if (/\/plans\/?(\?|$)/.test(request.url())) read.push(request.url());
  });
  await page.evaluate(() => (location.hash = "#/plans"));
  await page.locator(".side-item", { hasText: "Watched" }).waitFor();
  const first = read.length;
  expect(first).toBe(1);
  await page.locator(".side-item", { hasText: "Watched" }).click();
  await page.locator(".node").first().waitFor();
  await page.locator("button", { hasText: "Reject" }).click();
  await page.locator("[data-plan-status=cancelled]").waitFor();
  await page.locator(".side-item .chip", { hasText: "Cancelled" }).first().waitFor();
  expect(read.slice(first).filter((address) => !address.includes(session))).toEqual([]);
});

test("a plan that nobody decided about says so and can be asked for again", async () => {
  const hasty = await World.make({
    rules: [(request) => (isPlanning(request) ? { text: JSON.stringify({ tasks: TASKS }) } : undefined)],
    env: { CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS: "1" },
  });
  try {
    const session = await hasty.session("Late");
    await hasty.send(session, "Make it while I am away");
    const { page } = await hasty.open(`#/sessions/${session}`);
    await page.locator(".plan-entry .chip", { hasText: "Expired" }).waitFor();
    await page.locator(".expired-note", { hasText: "Nobody decided about this plan in time" }).waitFor();
    await hasty.loseOwner();
    await page.locator(".expired-note button", { hasText: "Ask again" }).click();
    const requests = async () => (await hasty.events(session)).filter((event) => event.type === "plan_request");
    await until(async () => ((await requests()).length === 2 ? true : undefined));

    // After another message the plan does not wait again, but its request is at hand.
    await hasty.send(session, "Something else, then");
    await page.locator(".plan-entry .chip", { hasText: "Expired" }).nth(1).waitFor();
    await page.locator(".expired-note button", { hasText: "Ask again" }).first().click();
    await page.locator(".dock textarea:focus").waitFor();
    expect(await page.locator(".dock textarea").inputValue()).toBe("Make it while I am away");
  } finally {
    await hasty.close();
  }
});
