import { describe, expect, test } from "vitest";
import { drawAnswer, drawRequest, MAX_DIAGRAM_CHARACTERS, MAX_HEIGHT_PX } from "../src/state/diagram";
import { colour, MAX_COLOURED_CHARACTERS } from "../src/state/highlight";
import { parseMarkdown, safeHref, type Block, type Inline } from "../src/state/markdown";
import { MAX_FORMULA_CHARACTERS } from "../src/state/maths";
import { mathTree, type MathNode } from "../src/state/mathml";
import { patchLines } from "../src/state/patch";
import { compare, diffOfPreview, diffOfWrite, fold, visible } from "../src/state/diff";
import { TEXTS, LOCALES, startingLocale, translate } from "../src/i18n/text";
import { en, type Key } from "../src/i18n/en";
import { ERRORS, problemText } from "../src/i18n/errors";
import { REASONS, reasonDetails, reasonText } from "../src/i18n/reasons";
import openapi from "../../docs/openapi.json";
import rustCodes from "../../crates/protocol/src/error.rs?raw";

const keys = Object.keys(en) as Key[];
const placeholders = (text: string) => [...new Set(text.match(/\{+\w+\}+/g) ?? [])].sort();

describe("languages", () => {
  for (const locale of LOCALES) {
    test(`${locale} says everything, with the same values in it`, () => {
      for (const key of keys) {
        const text = TEXTS[locale][key];
        const forms = typeof text === "string" ? [text] : Object.values(text);
        const english = en[key];
        const wanted = placeholders(typeof english === "string" ? english : english.other);
        for (const form of forms) {
          expect(form.trim(), key).not.toBe("");
          expect(placeholders(form), `${locale} ${key}`).toEqual(wanted);
        }
      }
      expect(Object.keys(TEXTS[locale]).sort()).toEqual([...keys].sort());
    });
  }
  test("plurals follow the language", () => {
    const says = (locale: "ru" | "uk", n: number) => translate(locale, "sessions.messages", { n });
    expect([1, 3, 5, 21].map((n) => says("ru", n))).toEqual([
      "1 сообщение",
      "3 сообщения",
      "5 сообщений",
      "21 сообщение",
    ]);
    expect([1, 3, 5, 22].map((n) => says("uk", n))).toEqual([
      "1 повідомлення",
      "3 повідомлення",
      "5 повідомлень",
      "22 повідомлення",
    ]);
  });
  test("a value is put in, a template's own braces stay", () => {
    expect(translate("en", "chat.waiting", { author: "{n}" })).toBe("{n} is waiting for your answer");
    expect(translate("en", "agents.promptHint")).toContain("{{userId}}");
  });
  test("every text is used", () => {
    const sources = import.meta.glob<string>(["../src/**/*.{ts,tsx}", "!../src/i18n/*"], {
      query: "?raw",
      import: "default",
      eager: true,
    });
    const source = Object.values(sources).join("\n");
    const made = [...source.matchAll(/`([\w.]+\.)\$\{[^}]+\}`/g)].map((found) => found[1] ?? "");
    const isMade = (key: string) =>
      made.some((start) => key.startsWith(start) && !key.slice(start.length).includes("."));
    expect(keys.filter((key) => !source.includes(`"${key}"`) && !isMade(key))).toEqual([]);
  });
  test.each([
    [undefined, undefined, ["uk-UA", "en"], "uk"],
    [undefined, undefined, ["de", "ru-RU"], "ru"],
    [undefined, undefined, ["fr"], "en"],
    [undefined, undefined, [], "en"],
    [undefined, "uk", ["ru", "en"], "uk"],
    [undefined, "en", ["ru"], "en"],
    ["ru", "uk", ["en"], "ru"],
    ["xx", "yy", ["uk"], "uk"],
  ] as const)("chosen %s, set %s, wanted %s: %s", (chosen, configured, wanted, locale) => {
    expect(startingLocale(chosen, configured, wanted)).toBe(locale);
  });
});

describe("errors", () => {
  const inRust = [...rustCodes.matchAll(/= "([A-Z_]+)" => (\d+)/g)].map(([, code = "", status = ""]) => ({
    code,
    status,
  }));
  const codes = new Set([...openapi.components.schemas.ErrorCode.enum, ...inRust.map(({ code }) => code)]);
  const answered = Object.values(openapi.paths).flatMap((path) =>
    Object.values(path).flatMap((operation: { responses?: object }) => Object.keys(operation.responses ?? {})),
  );
  const statuses = new Set(
    [...answered, ...inRust.map(({ status }) => status)].filter((status) => /^[45]/.test(status)),
  );
  test("the sources were found", () => {
    expect(codes.size).toBeGreaterThan(35);
    expect(statuses.size).toBeGreaterThan(8);
  });
  for (const locale of LOCALES) {
    test(`${locale} has a sentence for every code and status, and for no other code`, () => {
      const texts = ERRORS[locale];
      const lacking = [...codes, ...[...statuses].map((status) => `status_${status}`)].filter((key) => !texts[key]);
      expect(lacking).toEqual([]);
      expect(Object.keys(texts).filter((key) => !/^(status|kind|why)_/.test(key) && !codes.has(key))).toEqual([]);
      expect(Object.keys(texts)).toEqual(Object.keys(ERRORS.en));
      const sentences = Object.entries(texts).filter(([key]) => !key.startsWith("why_"));
      for (const [key, text] of sentences) expect(text, key).toMatch(/^\p{Lu}.+\.$/u);
    });
  }
  test.each([
    [{ code: "QUEUE_FULL", status: 429 }, ERRORS.en["QUEUE_FULL"]],
    [{ code: "", status: 413 }, ERRORS.en["status_413"]],
    [{ code: "NEWER_THAN_THIS_PAGE", status: 409 }, ERRORS.en["status_409"]],
    [{ code: "", status: 418 }, ERRORS.en["status_4xx"]],
    [{ code: "OFFLINE", status: 0 }, ERRORS.en["status_0"]],
    [{ code: "NEWER_THAN_THIS_PAGE" }, ERRORS.en["status_5xx"]],
    [{ code: "LLM_ERROR", kind: "quota" }, ERRORS.en["kind_quota"]],
    [{ code: "LLM_ERROR", kind: "newer_than_this_page" }, ERRORS.en["LLM_ERROR"]],
  ])("%o", (problem, text) => {
    expect(problemText("en", problem)).toBe(text);
  });
});

describe("reasons of approvals", () => {
  const sources = import.meta.glob<string>(
    ["../../crates/policy/src/**/*.rs", "../../crates/engine/src/plan/planning.rs", "!**/tests/**", "!**/tests.rs"],
    { query: "?raw", import: "default", eager: true },
  );
  const source = Object.values(sources).join("\n");
  const found = [
    // Reasons for a command, and why it was not understood.
    ...source.matchAll(/(?:AskReason::new|Unparsed)\(\s*(?:format!\(\s*)?"([^"]+)"/g),
    // What a dangerous program does.
    ...source.matchAll(/\],\s*"([a-z]+ [a-z, ]+)",\s*\)/g),
    // Reasons for plans.
    ...source.matchAll(/format!\("(The plan (?:has|may) [^"]+)"/g),
  ].map((match) => match[1]!.replace(/\{[^}]*\}/g, "x"));
  test("all of the policy's reasons are known", () => {
    expect(found.length).toBeGreaterThan(100);
    for (const locale of ["ru", "uk"] as const) {
      expect(Object.keys(REASONS[locale])).toEqual(Object.keys(REASONS.ru));
      const spaces = (text: string) => (text.match(/\{\w+\}/g) ?? []).sort();
      for (const [key, text] of Object.entries(REASONS[locale])) expect(spaces(text), key).toEqual(spaces(key));
      expect([...new Set(found)].filter((reason) => !/[а-я]/i.test(reasonText(locale, reason)))).toEqual([]);
    }
  });
  test.each([
    ["File modification requires approval: .git/hooks/x is protected", "Файл .git/hooks/x защищён"],
    ["Dangerous command: rm -rf", "Опасная команда: rm -rf"],
    ["Dangerous command: pipe to sh", "Опасная команда: передача в sh"],
    [
      "Command requires approval: git push: the option --force is not known to be safe (names a protected path)",
      "Команда требует одобрения: git push: неизвестно, безопасен ли параметр --force (затрагивает защищённый путь)",
    ],
    ["Command requires approval: something new", "Команда требует одобрения: something new"],
    ["Something: entirely new", "Something: entirely new"],
    [`${"a: ".repeat(9)}deletes files`, `${"a: ".repeat(9)}deletes files`],
  ])("%s", (reason, text) => {
    expect(reasonText("ru", reason)).toBe(text);
    expect(reasonText("en", reason)).toBe(reason);
  });
  test("what the sentence above says is not said again", () => {
    expect(reasonDetails("ru", "File modification requires approval")).toBeUndefined();
    expect(reasonDetails("en", "The plan has 8 tasks")).toBe("The plan has 8 tasks");
  });
});

const links = (blocks: Block[]): string[] => JSON.stringify(blocks).match(/"href":"[^"]*"/g) ?? [];
const inlinesOf = (text: string): Inline[] => {
  const [block] = parseMarkdown(text);
  return block?.type === "paragraph" ? block.children : [];
};

describe("Markdown", () => {
  test.each([
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a <b onclick=alert(1)>b</b>",
    "<!-- --><iframe src=//evil></iframe>",
  ])("%s stays the text it is", (text) => {
    const shown = JSON.stringify(parseMarkdown(text));
    for (const piece of text.match(/<[^>]+>/g) ?? []) expect(shown).toContain(JSON.stringify(piece).slice(1, -1));
    expect(new Set(parseMarkdown(text).map((block) => block.type))).toEqual(new Set(["paragraph"]));
  });
  test.each([
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](java\nscript:alert(1))",
    "[x](data:text/html,<script>)",
    "[x](vbscript:x)",
    "[x](//evil.example)",
    "[x](/my/projects)",
    "[x](#login=1)",
    "<javascript:alert(1)>",
    "javascript:alert(1)",
    "[x][r]\n\n[r]: javascript:alert(1)",
    "![x](https://evil.example/a.png)",
    "[![x](https://evil.example/a.png)](javascript:alert(1))",
  ])("%s leads nowhere", (text) => {
    expect(links(parseMarkdown(text))).toEqual([]);
  });
  test("an image is its address as text", () => {
    expect(inlinesOf("![cat](https://x.example/cat.png)")).toEqual([
      { type: "text", value: "[cat](https://x.example/cat.png)" },
    ]);
  });
  test("plain addresses can be followed", () => {
    expect(inlinesOf("[a](https://x.example/)")).toMatchObject([{ type: "link", href: "https://x.example/" }]);
    expect(safeHref("mailto:a@x.example")).toBe("mailto:a@x.example");
    expect(links(parseMarkdown("see https://x.example/b now"))).toHaveLength(1);
  });
  test.each([
    ["```mermaid\ngraph TD\n```", "graph TD", undefined],
    ["```mermaid\ngraph TD\n```\n\nMore words", "graph TD", undefined],
    ["~~~mermaid\ngraph TD\n~~~~  ", "graph TD", undefined],
    ["```mermaid", "", true],
    ["```mermaid\ngraph TD\n", "graph TD", true],
    ["```mermaid\ngraph TD\n  A --> B", "graph TD\n  A --> B", true],
  ])("a diagram that is still being written is open: %j", (text, value, isOpen) => {
    expect(parseMarkdown(text)[0]).toEqual({ type: "code", language: "mermaid", value, isOpen });
  });
  test("what people write comes out as they meant it", () => {
    expect(
      parseMarkdown("# T\n\n- [x] a\n- b\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> q\n\n---").map((block) => block.type),
    ).toEqual(["heading", "list", "table", "quote", "rule"]);
    expect(inlinesOf("a **b** _c_ ~~d~~ `e` &amp;")).toMatchObject([
      { value: "a " },
      { type: "strong" },
      {},
      { type: "emphasis" },
      {},
      { type: "strike" },
      {},
      { type: "code" },
      { value: " &" },
    ]);
  });
  test("depth and length have ends", () => {
    expect(() => parseMarkdown(">".repeat(5000) + "x")).not.toThrow();
    expect(() => parseMarkdown("*a **b ".repeat(9000))).not.toThrow();
    expect(parseMarkdown("x".repeat(300_000))).toMatchObject([{ type: "code" }]);
  });
});

describe("the frame for diagrams", () => {
  test.each([
    [{ height: 120.2 }, { height: 121 }],
    [{ height: 1e9 }, { height: MAX_HEIGHT_PX }],
    [{ height: -5 }, { height: 24 }],
    [{ height: Number.NaN }, undefined],
    [{ height: "120" }, undefined],
    [{ failed: true, height: 5 }, { failed: true }],
    [{ failed: "yes" }, undefined],
    ["height", undefined],
    [null, undefined],
  ])("%j tells the page %j", (data, answer) => {
    expect(drawAnswer(data)).toEqual(answer);
  });
  test("draws nothing but a text of a bounded length", () => {
    expect(drawRequest({ text: "graph TD", isDark: true })).toEqual({ text: "graph TD", isDark: true });
    expect(drawRequest({ text: "x".repeat(MAX_DIAGRAM_CHARACTERS + 1) })).toBeUndefined();
    expect(drawRequest({ text: 1 })).toBeUndefined();
    expect(drawRequest(undefined)).toBeUndefined();
  });
});

describe("formulas", () => {
  test.each([
    ["so $a+b$ is", [{ value: "so " }, { type: "math", value: "a+b", isBlock: false }, { value: " is" }]],
    ["so \\(a_1 + b_2\\).", [{}, { type: "math", value: "a_1 + b_2", isBlock: false }, {}]],
    ["so $$a$$ is", [{}, { type: "math", value: "a", isBlock: true }, {}]],
  ])("%s", (text, expected) => {
    expect(inlinesOf(text)).toMatchObject(expected);
  });
  test.each(["$$\na\n\n- b\n$$", "\\[\na\n\n- b\n\\]", "$$a - b$$"])("%j is one block", (text) => {
    expect(parseMarkdown(text)).toEqual([{ type: "math", value: text.slice(2, -2).trim() }]);
  });
  test.each([
    "from $5 to $10",
    "$5-$10",
    "$HOME/bin:$PATH",
    "US$5 and US$6",
    "a $ b $ c",
    "`$a$`",
    "$$",
    "$$ $$",
    "$$\nnever closed",
    "\\$a\\$",
  ])("%j has none", (text) => {
    expect(JSON.stringify(parseMarkdown(text))).not.toContain('"math"');
  });
  const names = (node: MathNode): string[] =>
    typeof node === "string" ? [] : [node.name, ...Object.keys(node.attributes), ...node.children.flatMap(names)];
  test("a formula becomes MathML", () => {
    const tree = mathTree("\\frac{a}{b} + \\sqrt{2}", true)!;
    expect(names(tree)).toEqual(expect.arrayContaining(["math", "display", "mfrac", "msqrt"]));
    expect(JSON.stringify(tree)).not.toContain("annotation");
  });
  test.each([
    "\\href{javascript:alert(1)}{x}",
    "\\url{javascript:alert(1)}",
    "\\includegraphics{https://evil.example/a.png}",
    "\\htmlStyle{position: fixed}{x}",
    "\\htmlData{a=b}{x}",
    "\\color{red}{x}",
    "\\text{<script>alert(1)</script>}",
  ])("%s can do nothing", (formula) => {
    const tree = mathTree(formula, false);
    const found = tree === undefined ? [] : names(tree);
    const allowed = /^(m[a-z]+|semantics|display|displaystyle|scriptlevel|stretchy|fence|lspace|rspace|width|height)$/;
    expect(found.filter((name) => !allowed.test(name) || name === "mathcolor")).toEqual([]);
  });
  test("what is not a formula is none", () => {
    expect(mathTree("\\frac{a", false)).toBeUndefined();
    expect(mathTree("\\def\\a{\\a\\a}\\a", false)).toBeUndefined();
    expect(mathTree("{".repeat(1500), false)).toBeUndefined();
    expect(mathTree("x".repeat(MAX_FORMULA_CHARACTERS + 1), false)).toBeUndefined();
  });
  test.each([
    ["a macro", "\\def\\a{x}\\a"],
    ["a macro that repeats its argument", "\\def\\a#1{#1#1}\\a{\\a{x}}"],
    ["a new command", "\\newcommand{\\a}{x}\\a"],
    ["another name", "\\global\\let\\a=b \\a"],
    ["deep braces", "x^{".repeat(100) + "x" + "}".repeat(100)],
    ["very deep braces", "x^{".repeat(1000) + "x" + "}".repeat(1000)],
    ["deep brackets", "\\left(".repeat(100) + "x" + "\\right)".repeat(100)],
    ["too many parts", "\\begin{matrix}" + "&".repeat(1900) + "\\end{matrix}"],
  ])("%s: not drawn", (_, formula) => {
    expect(mathTree(formula, false)).toBeUndefined();
  });
  test("what only looks like one of these is drawn", () => {
    expect(mathTree("\\longrightarrow", false)).toBeDefined();
    expect(mathTree("\\begin{matrix}" + "&".repeat(100) + "\\end{matrix}", false)).toBeDefined();
    expect(mathTree("\\{".repeat(100), false)).toBeDefined();
  });
  test("spaces stay, and none is negative", () => {
    expect(JSON.stringify(mathTree("a\\quad b", false))).toContain('"mspace","attributes":{"width":"1em"}');
    expect(JSON.stringify(mathTree("a\\, b", false))).toContain(
      '{"name":"mtext","attributes":{},"children":["\u2009"]}',
    );
    expect(JSON.stringify(mathTree("a\\kern-9em b", false))).not.toContain("-9");
  });
  test("one that is never closed is looked for only a little way", () => {
    for (const text of ["\\[\n".repeat(3000), "\\(".repeat(50_000), "$a\\".repeat(30_000), "$$a ".repeat(20_000)])
      expect(parseMarkdown(text).length).toBeGreaterThan(0);
    expect(JSON.stringify(parseMarkdown(`\\[${"x".repeat(MAX_FORMULA_CHARACTERS)}\\]`))).not.toContain('"math"');
  });
  test("one stays in its list item and its quote", () => {
    const [list, ...more] = parseMarkdown("- \\[ a\n- second\n\\]");
    expect(list).toMatchObject({ type: "list", items: [{}, {}] });
    expect(JSON.stringify([list, ...more])).not.toContain('"math"');
    const inside = { type: "math", value: "a\nb" };
    expect(parseMarkdown("- \\[ a\n  b \\]\n- second")).toMatchObject([{ items: [{ children: [inside] }, {}] }]);
    expect(parseMarkdown("> \\[ a\n> b\n> \\]")).toMatchObject([{ type: "quote", children: [inside] }]);
    expect(parseMarkdown("> \\[ a\nb\n\\]")).toMatchObject([{ type: "quote", children: [{ type: "paragraph" }] }]);
    expect(parseMarkdown("- item\n\\[ a\nb\n\\]")).toMatchObject([{ type: "list" }, inside]);
  });
  test("a message has a limited number of them", () => {
    const found = JSON.stringify(parseMarkdown("$a$ ".repeat(200) + "\n\n" + "$$a$$\n\n".repeat(200)));
    expect(found.match(/"math"/g)).toHaveLength(300);
  });
});

describe("code", () => {
  test("its text stays, its pieces have kinds", () => {
    const code = "const answer = 42; // <b>why</b>\n";
    const pieces = colour("ts", code)!;
    expect(pieces.map((piece) => piece.text).join("")).toBe(code);
    expect(pieces.filter((piece) => piece.kind !== undefined).map((piece) => [piece.kind, piece.text])).toEqual([
      ["keyword", "const"],
      ["number", "42"],
      ["comment", "// <b>why</b>"],
    ]);
  });
  test("an unknown language and very long code stay plain", () => {
    expect(colour("klingon", "x")).toBeUndefined();
    expect(colour("ts", "x\n".repeat(MAX_COLOURED_CHARACTERS / 2))).toBeDefined();
    expect(colour("ts", "x\n".repeat(MAX_COLOURED_CHARACTERS / 2 + 1))).toBeUndefined();
    expect(colour("ts", "x".repeat(1000))).toBeDefined();
    expect(colour("ts", "x".repeat(1001))).toBeUndefined();
    for (const name of ["rust", "py", "SH", "jsonc", "toml", "yml", "html", "mjs", "kt"])
      expect(colour(name, "x"), name).toBeDefined();
  });
  test("a patch is told line by line", () => {
    const lines = patchLines("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same");
    expect(lines.map((line) => line.type)).toEqual(["place", "place", "place", "removed", "added", "same"]);
  });
  test("columns stand as they were told to", () => {
    expect(parseMarkdown("| a | b | c |\n|---|:-:|--:|\n| 1 | 2 | 3 |")).toMatchObject([
      {
        type: "table",
        aligns: ["start", "center", "end"],
        rows: [
          [{}, {}, {}],
          [{}, {}, {}],
        ],
      },
    ]);
  });
});

describe("changes", () => {
  const types = (lines: { type: string }[]) => lines.map((line) => line.type).join(" ");
  test("lines added, removed and kept", () => {
    expect(types(compare("a\nb\nc\n", "a\nx\nc\n"))).toBe("same removed added same");
    expect(types(compare("", "a\n"))).toBe("added");
  });
  test("long unchanged stretches are folded", () => {
    const text = Array.from({ length: 40 }, (_, at) => `line ${at}`).join("\n");
    const folded = fold(compare(text, text.replace("line 20", "changed")));
    expect(folded[0]).toEqual({ type: "folded", lines: 17 });
    expect(folded.filter((line) => line.type === "same")).toHaveLength(6);
  });
  test.each([
    ["a known file", { content: "b\n" }, "a\n", "change"],
    ["an unknown file", { content: "b\n" }, undefined, "whole"],
    ["edits of a known file", { edits: [{ old: "a", new: "b" }] }, "a\n", "change"],
    ["edits of an unknown file", { edits: [{ old: "a", new: "b" }] }, undefined, "edits"],
    ["edits that do not fit", { edits: [{ old: "z", new: "b" }] }, "a\n", "edits"],
  ])("a write to %s", (_, args, before, kind) => {
    expect(diffOfWrite(args, before)?.kind).toBe(kind);
  });
  test("a write of neither is no change to show", () => {
    expect(diffOfWrite({ path: "x" }, undefined)).toBeUndefined();
  });
  test("a preview of the client that writes is lines as well", () => {
    const diff =
      "--- a/x\n+++ b/x\n@@ -3,2 +3,2 @@\n same\n-old\n+new\n\\ No newline at end of file\n@@ -9 +9,2 @@\n--- a\n+b\n";
    expect(diffOfPreview({ base: "a".repeat(64), diff })).toEqual({
      kind: "change",
      lines: [
        { type: "folded", lines: 2 },
        { type: "same", text: "same" },
        { type: "removed", text: "old" },
        { type: "added", text: "new" },
        { type: "folded", lines: 4 },
        { type: "removed", text: "-- a" },
        { type: "added", text: "b" },
      ],
    });
    expect(diffOfPreview({ base: null, diff: "@@ -0,0 +1 @@\n+a\n" })?.kind).toBe("new");
    expect(diffOfPreview({ base: null, diff: "", note: "it is not text" })).toBeUndefined();
  });
  test("what hides or turns text is made visible", () => {
    expect(visible("a\u202eb\u200bc\u001b[0m\td\n")).toBe("a⟨U+202E⟩b⟨U+200B⟩c⟨U+001B⟩[0m\td\n");
    expect(visible("❤\ufe0f a\u3164b\u2800c\u{e000}")).toBe("❤\ufe0f a⟨U+3164⟩b⟨U+2800⟩c⟨U+E000⟩");
  });
});
