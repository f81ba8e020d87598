// Splits code into coloured pieces. Loaded when the first code block is shown: the grammars are large.
import { common, createLowlight } from "lowlight";

/** What a piece of code is. Each kind has one colour. */
export type CodeKind = "keyword" | "string" | "number" | "comment" | "name" | "type" | "attribute" | "meta";

export interface CodePiece {
  text: string;
  kind: CodeKind | undefined;
}

/**
 * Longer code, and code with a longer line, stays plain. Some grammars look at the rest of the code again for every
 * word, so colouring it would hold up the page.
 */
export const MAX_COLOURED_CHARACTERS = 10_000;
const LONG_LINE = /[^\n]{1001}/;

const KINDS: Readonly<Record<string, CodeKind>> = {
  "hljs-keyword": "keyword",
  "hljs-literal": "keyword",
  "hljs-selector-tag": "keyword",
  "hljs-operator": "keyword",
  "hljs-string": "string",
  "hljs-regexp": "string",
  "hljs-char": "string",
  "hljs-link": "string",
  "hljs-code": "string",
  "hljs-number": "number",
  "hljs-symbol": "number",
  "hljs-bullet": "number",
  "hljs-comment": "comment",
  "hljs-quote": "comment",
  "hljs-doctag": "comment",
  "hljs-title": "name",
  "hljs-section": "name",
  "hljs-name": "name",
  "hljs-type": "type",
  "hljs-built_in": "type",
  "hljs-class": "type",
  "hljs-selector-class": "type",
  "hljs-selector-id": "type",
  "hljs-attr": "attribute",
  "hljs-attribute": "attribute",
  "hljs-property": "attribute",
  "hljs-variable": "attribute",
  "hljs-template-variable": "attribute",
  "hljs-meta": "meta",
  "hljs-tag": "meta",
};

const lowlight = createLowlight(common);

/** The grammars know most file extensions as names; these are missing. */
lowlight.registerAlias({
  bash: ["ksh", "fish", "console"],
  ini: ["conf", "env", "properties"],
  javascript: ["mjs", "cjs"],
  typescript: ["mts", "cts"],
  xml: ["vue", "svelte"],
});

/** Nothing if the language is unknown or the code is too long. */
export function colour(language: string, code: string): CodePiece[] | undefined {
  const name = language.toLowerCase();
  if (code.length > MAX_COLOURED_CHARACTERS || LONG_LINE.test(code)) return undefined;
  if (!lowlight.registered(name)) return undefined;
  const pieces: CodePiece[] = [];
  collect(lowlight.highlight(name, code).children, undefined, pieces);
  return pieces;
}

type Nodes = ReturnType<typeof lowlight.highlight>["children"];

/** The innermost known kind colours a piece. */
function collect(nodes: Nodes, kind: CodeKind | undefined, pieces: CodePiece[]) {
  for (const node of nodes) {
    if (node.type === "text") pieces.push({ text: node.value, kind });
    if (node.type === "element") collect(node.children, kindOf(node.properties["className"]) ?? kind, pieces);
  }
}

function kindOf(classes: unknown): CodeKind | undefined {
  if (!Array.isArray(classes)) return undefined;
  return classes.map((name) => KINDS[String(name)]).find((kind) => kind !== undefined);
}
