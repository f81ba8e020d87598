// Files in a message: chosen, dropped and pasted, taken away again, sent, and shown.
import { afterAll, beforeAll, expect, test } from "vitest";
import { World } from "./world";

/** One red dot. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

let world: World;
beforeAll(async () => {
  world = await World.make({ env: { LLM_MODEL: "gpt-4o" } });
});
afterAll(() => world.close());

test("an image and a text file are sent with a message and shown in it", async () => {
  const session = await world.session("Files");
  const { page, complaints } = await world.open(`#/sessions/${session}`);
  await page.locator(".dock select").first().selectOption({ label: "coder" });
  const image = { name: "dot.png", mimeType: "image/png", buffer: Buffer.from(PNG, "base64") };
  const notes = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("remember the milk") };
  const archive = { name: "a.zip", mimeType: "application/zip", buffer: Buffer.from("PK\x03\x04\0\0") };
  await page.locator(".dock input[type=file]").setInputFiles([image, notes, archive]);
  const chips = page.locator(".dock .file-chip");
  await chips.filter({ hasText: "notes.txt" }).waitFor();
  await page.locator(".files-refused", { hasText: "a.zip was not added" }).waitFor();
  // A second image is dropped on the form, and a third one is pasted; both are taken away again.
  const give = (kind: "drop" | "paste", name: string) =>
    page.locator(".dock textarea").evaluate(
      (field, [kind, name, data]) => {
        const bytes = Uint8Array.from(atob(data!), (letter) => letter.charCodeAt(0));
        const transfer = new DataTransfer();
        transfer.items.add(new File([bytes], name!, { type: "image/png" }));
        const options = { bubbles: true, cancelable: true };
        field.dispatchEvent(
          kind === "drop"
            ? new DragEvent("drop", { ...options, dataTransfer: transfer })
            : new ClipboardEvent("paste", { ...options, clipboardData: transfer }),
        );
      },
      [kind, name, PNG],
    );
  for (const [kind, name] of [
    ["drop", "dropped.png"],
    ["paste", "pasted.png"],
  ] as const) {
    await give(kind, name);
    const chip = chips.filter({ hasText: name });
    await chip.getByRole("button", { name: `Remove ${name}` }).click();
    await chip.waitFor({ state: "detached" });
  }
  await world.loseOwner();
  await page.locator(".dock textarea").fill("What is this?");
  await page.locator(".dock textarea").press("Enter");
  const said = page.locator(".line.role-user");
  const shown = said.locator(".file-image img");
  await shown.waitFor();
  await expect.poll(() => shown.evaluate((image) => (image as HTMLImageElement).naturalWidth)).toBe(1);
  await said.locator("a.file-chip[download='notes.txt']").waitFor();
  await page.locator("[data-status=completed]").waitFor();
  expect(await chips.count()).toBe(0);
  const asked = JSON.stringify(world.model.requests.at(-1)?.messages.at(-1));
  expect(asked).toContain(`data:image/png;base64,${PNG}`);
  expect(asked).toContain("remember the milk");
  // They are still there after a reload, and the image opens.
  await page.reload();
  await shown.waitFor();
  const link = await said.locator("a.file-image").getAttribute("href");
  const opened = await page.request.get(new URL(link!, page.url()).href);
  expect(opened.status()).toBe(200);
  expect(opened.headers()["content-type"]).toBe("image/png");
  expect(complaints).toEqual([]);
});
