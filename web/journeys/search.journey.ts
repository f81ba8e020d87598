// The list of sessions: the search over titles and messages, and the folder that agents can work in.
import { afterAll, beforeAll, expect, test } from "vitest";
import { lastOf } from "./model";
import { World } from "./world";

let world: World;
beforeAll(async () => {
  world = await World.make({
    rules: [
      (request) => (lastOf(request, "user").includes("hang") ? { text: "It is a Deadlock, I think." } : undefined),
    ],
  });
});
afterAll(() => world.close());

test("a session is found by what was said in it", async () => {
  const first = await world.session("Morning");
  await world.session("Deadlines");
  await world.send(first, "Why does it hang?", "coder");
  const { page, complaints } = await world.open("#/sessions");
  const titles = () => page.locator(".side-title").allTextContents();
  const field = page.locator("input[type=search]");
  await page.locator(".side-title", { hasText: "Morning" }).waitFor();

  await field.fill("DEADLOC think");
  // The list is read again when the answer comes.
  const snippet = page.locator(".side-snippet", { hasText: "It is a Deadlock, I think." });
  await snippet.waitFor();
  expect(await titles()).toEqual(["Morning"]);
  expect(await page.locator(".side-snippet mark").allTextContents()).toEqual(["Deadlock", "think"]);
  await world.loseOwner();
  await page.locator(".side-item", { hasText: "Morning" }).click();
  await page.locator(".line.role-assistant", { hasText: "It is a Deadlock" }).waitFor();

  // An answer to what nobody asks any more is dropped.
  let answer: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (answer = resolve));
  await page.route(/[?&]q=deadlines/, async (route) => {
    await held;
    await route.continue();
  });
  const asked = page.waitForRequest(/[?&]q=deadlines/);
  await field.fill("deadlines");
  const late = (await asked).response();
  await field.fill("morning");
  await page.locator(".side-snippet", { hasText: "Morning" }).waitFor();
  answer();
  await (await late)?.finished();
  // The page has the answer now, and two frames to show it.
  await page.evaluate(
    () => new Promise<void>((shown) => requestAnimationFrame(() => requestAnimationFrame(() => shown()))),
  );
  expect(await titles()).toEqual(["Morning"]);
  expect(await page.locator(".side-snippet").allTextContents()).toEqual(["Morning"]);

  // A search that is refused says so in the list.
  await field.fill("a b c d e f g h i j k l m n o p q");
  await page.locator(".side-note", { hasText: "at most 16 words" }).waitFor();

  await field.fill("nowhere");
  await page.locator(".side-note", { hasText: "No session has all of these words" }).waitFor();
  await field.fill("");
  await expect.poll(titles).toEqual(["Morning", "Deadlines"]);
  expect(complaints).toEqual([]);
});

test("the folder that is attached to the project is shown", async () => {
  const { page, complaints } = await world.open("#/sessions");
  await page.locator(".side-clients", { hasText: "No folder is attached" }).waitFor();
  await world.attach();
  await page.reload();
  const folder = page.locator(".side-clients li", { hasText: "demo" });
  await folder.waitFor();
  expect(await folder.getAttribute("title")).toContain("sandbox: none");
  expect(complaints).toEqual([]);
});
