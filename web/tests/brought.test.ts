// What folders bring, in the page: what is asked about, and that nothing of it is hidden.
import { describe, expect, test } from "vitest";
import type { ClientInstructions, WaitingContent } from "../src/api/types";
import { folderOf, keyOf, revealed, toAsk } from "../src/state/brought";

const content = (path: string, digest = "a".repeat(64)): WaitingContent => ({
  kind: "instructions",
  path,
  digest,
  bytes: 1,
  changed: false,
  content: "x",
});

const brought = (client_id: string, workspace: string, waiting: WaitingContent[]): ClientInstructions => ({
  client_id,
  workspace,
  files: [],
  skills: [],
  commands: [],
  waiting,
  notices: [],
});

describe("what is asked about", () => {
  const shop = brought("laptop", "/srv/shop", [content("AGENTS.md"), content("web/AGENTS.md")]);

  test("two tool runners in one folder ask once, two folders twice", () => {
    const same = brought("chat", "/srv/shop", [content("AGENTS.md")]);
    const other = brought("desktop", "/srv/blog", [content("AGENTS.md")]);
    const asked = toAsk([shop, same, other], new Set());
    expect(asked.map(({ clientId, content }) => [clientId, content.path])).toEqual([
      ["laptop", "AGENTS.md"],
      ["laptop", "web/AGENTS.md"],
      ["desktop", "AGENTS.md"],
    ]);
  });

  test("what was left for later is not asked about, until its content is another one", () => {
    const passed = new Set([keyOf("laptop", content("AGENTS.md"))]);
    expect(toAsk([shop], passed).map(({ content }) => content.path)).toEqual(["web/AGENTS.md"]);
    const changed = brought("laptop", "/srv/shop", [content("AGENTS.md", "b".repeat(64))]);
    expect(toAsk([changed], passed)).toHaveLength(1);
  });
});

test("nothing in a content is hidden", () => {
  for (const hidden of [
    "\u202e",
    "\u200b",
    "\u001b",
    "\u{e0041}",
    "\u{e0100}",
    "\ufe0f",
    "\u3164",
    "\u2800",
    "\ue000",
  ]) {
    const code = hidden.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");
    expect(revealed(`a${hidden}b`)).toBe(`a⟨U+${code}⟩b`);
  }
  expect(revealed("# Заголовок\n\tcode — 🎉")).toBe("# Заголовок\n\tcode — 🎉");
});

test("the folder of a file says when it is told", () => {
  expect(folderOf("AGENTS.md")).toBeUndefined();
  expect(folderOf("web/app/AGENTS.md")).toBe("web/app");
});
