import { expect, test } from "vitest";
import { workCommand } from "../src/state/work";

const here = { hostname: "127.0.0.1", origin: "http://127.0.0.1:8080" };
const there = { hostname: "lab.example", origin: "https://lab.example" };

test.each([
  [undefined, here, "codelab work --workspace .", false],
  [{ project_id: 1, is_default: true }, here, "codelab work --workspace .", false],
  [{ project_id: 7, is_default: false }, here, "codelab work --workspace . --project 7", false],
  [
    { project_id: 7, is_default: false },
    there,
    "codelab work --workspace . --project 7 --url https://lab.example --token TOKEN",
    true,
  ],
])("the command for %o at %o", (project, page, text, isRemote) => {
  expect(workCommand(project, page)).toEqual({ text, isRemote });
});
