// Untrusted Markdown as a small tree that components can only show. No HTML is ever made or parsed: raw HTML and
// images become the text they are, a link keeps its address only where that is plain http, https or mailto.
import MarkdownIt from "markdown-it";
import { DIAGRAM_LANGUAGE } from "./diagram";
import { addMaths, MATH_BLOCK, MATH_INLINE } from "./maths";

export type Block =
  | { type: "paragraph"; children: Inline[] }
  | { type: "heading"; depth: number; children: Inline[] }
  | { type: "quote"; children: Block[] }
  | { type: "list"; ordered: boolean; start: number; items: ListItem[] }
  /** A diagram that is still being written has no end yet. */
  | { type: "code"; language: string; value: string; isOpen?: true }
  | { type: "table"; aligns: Align[]; rows: Inline[][][] }
  | { type: "math"; value: string }
  | { type: "rule" };

/** How the cells of a column stand. */
export type Align = "start" | "center" | "end";

export interface ListItem {
  checked: boolean | undefined;
  children: Block[];
}

export type Inline =
  | { type: "text"; value: string }
  | { type: "code"; value: string }
  | { type: "strong" | "emphasis" | "strike"; children: Inline[] }
  | { type: "link"; href: string; children: Inline[] }
  | { type: "math"; value: string; isBlock: boolean }
  | { type: "break" };

/** Past this the text is shown as it is: nobody reads it as Markdown, and parsing it would hold up the page. */
const MAX_CHARACTERS = 100_000;
const SAFE_SCHEMES = new Set(["http:", "https:", "mailto:"]);

const parser = new MarkdownIt({ html: false, linkify: true });
addMaths(parser);
type Token = ReturnType<typeof parser.parse>[number];

export function parseMarkdown(text: string): Block[] {
  if (text.length > MAX_CHARACTERS) return [{ type: "code", language: "", value: text }];
  return blocks(new Tokens(parser.parse(text, {}), text), undefined);
}

/** The address, if it may be followed at all. */
export function safeHref(address: string): string | undefined {
  try {
    const url = new URL(address);
    return SAFE_SCHEMES.has(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** The parser gives a flat list in which things open and close; its nesting is bounded by the parser. */
class Tokens {
  private at = 0;
  constructor(
    private readonly list: readonly Token[],
    private readonly text = "",
  ) {}

  /** Whether a fence stands at the end of the text without the mark that closes it. */
  isOpen({ markup, map }: Token): boolean {
    if (map === null) return false;
    const [first, end] = map;
    const last = this.text.split("\n")[end - 1] ?? "";
    return end - first < 2 || !last.trimEnd().endsWith(markup);
  }

  /** The next token, unless it closes what the caller is in. */
  next(until: string | undefined): Token | undefined {
    const token = this.list[this.at];
    if (token !== undefined) this.at += 1;
    return token?.type === until ? undefined : token;
  }
}

function blocks(tokens: Tokens, until: string | undefined): Block[] {
  const found: Block[] = [];
  for (let token = tokens.next(until); token !== undefined; token = tokens.next(until)) {
    const block = blockOf(token, tokens);
    if (block !== undefined) found.push(block);
  }
  return found;
}

function blockOf(token: Token, tokens: Tokens): Block | undefined {
  switch (token.type) {
    case "paragraph_open":
      return { type: "paragraph", children: inlineUntil(tokens, "paragraph_close") };
    case "heading_open":
      return { type: "heading", depth: Number(token.tag.slice(1)), children: inlineUntil(tokens, "heading_close") };
    case "blockquote_open":
      return { type: "quote", children: blocks(tokens, "blockquote_close") };
    case "bullet_list_open":
      return { type: "list", ordered: false, start: 1, items: listItems(tokens, "bullet_list_close") };
    case "ordered_list_open": {
      const items = listItems(tokens, "ordered_list_close");
      return { type: "list", ordered: true, start: Number(token.attrGet("start") ?? 1), items };
    }
    case "fence":
    case "code_block": {
      const language = token.info.trim().split(/\s/)[0] ?? "";
      const value = token.content.replace(/\n$/, "");
      const isOpen = language === DIAGRAM_LANGUAGE && tokens.isOpen(token);
      return isOpen ? { type: "code", language, value, isOpen } : { type: "code", language, value };
    }
    case "table_open":
      return { type: "table", ...tableOf(tokens) };
    case MATH_BLOCK:
      return { type: "math", value: token.content };
    case "hr":
      return { type: "rule" };
    case "inline":
      return { type: "paragraph", children: inlines(new Tokens(token.children ?? []), undefined) };
    default:
      // What is not known here is shown as the text it was.
      return token.content === ""
        ? undefined
        : { type: "paragraph", children: [{ type: "text", value: token.content }] };
  }
}

function listItems(tokens: Tokens, until: string): ListItem[] {
  const items: ListItem[] = [];
  for (let token = tokens.next(until); token !== undefined; token = tokens.next(until)) {
    if (token.type === "list_item_open") items.push(checkItem(blocks(tokens, "list_item_close")));
  }
  return items;
}

/** `[x] done` and `[ ] to be done` are a mark and a text. */
function checkItem(children: Block[]): ListItem {
  const first = children[0];
  const start = first?.type === "paragraph" ? first.children[0] : undefined;
  const mark = start?.type === "text" ? /^\[([ xX])\] /.exec(start.value) : null;
  if (first?.type !== "paragraph" || start?.type !== "text" || mark === null) return { checked: undefined, children };
  const rest: Inline[] = [{ type: "text", value: start.value.slice(mark[0].length) }, ...first.children.slice(1)];
  return { checked: mark[1] !== " ", children: [{ type: "paragraph", children: rest }, ...children.slice(1)] };
}

function tableOf(tokens: Tokens): { aligns: Align[]; rows: Inline[][][] } {
  const rows: Inline[][][] = [];
  const aligns: Align[] = [];
  for (let token = tokens.next("table_close"); token !== undefined; token = tokens.next("table_close")) {
    if (token.type === "tr_open") rows.push([]);
    if (token.type === "th_open") {
      aligns.push(alignOf(String(token.attrGet("style") ?? "")));
      rows.at(-1)?.push(inlineUntil(tokens, "th_close"));
    }
    if (token.type === "td_open") rows.at(-1)?.push(inlineUntil(tokens, "td_close"));
  }
  return { aligns, rows };
}

/** The parser tells the alignment as a style, which is never given to the browser. */
function alignOf(style: string): Align {
  if (style.includes("right")) return "end";
  return style.includes("center") ? "center" : "start";
}

function inlineUntil(tokens: Tokens, until: string): Inline[] {
  const found: Inline[] = [];
  for (let token = tokens.next(until); token !== undefined; token = tokens.next(until)) {
    found.push(...inlines(new Tokens(token.children ?? []), undefined));
  }
  return found;
}

function inlines(tokens: Tokens, until: string | undefined): Inline[] {
  const found: Inline[] = [];
  for (let token = tokens.next(until); token !== undefined; token = tokens.next(until)) {
    found.push(...inlineOf(token, tokens));
  }
  return found;
}

function inlineOf(token: Token, tokens: Tokens): Inline[] {
  switch (token.type) {
    case "code_inline":
      return [{ type: "code", value: token.content }];
    case "strong_open":
      return [{ type: "strong", children: inlines(tokens, "strong_close") }];
    case "em_open":
      return [{ type: "emphasis", children: inlines(tokens, "em_close") }];
    case "s_open":
      return [{ type: "strike", children: inlines(tokens, "s_close") }];
    case "softbreak":
      return [{ type: "text", value: "\n" }];
    case "hardbreak":
      return [{ type: "break" }];
    case "link_open": {
      const address = String(token.attrGet("href") ?? "");
      const href = safeHref(address);
      const children = inlines(tokens, "link_close");
      return href === undefined
        ? [...children, { type: "text", value: ` (${address})` }]
        : [{ type: "link", href, children }];
    }
    case MATH_INLINE:
      return [{ type: "math", value: token.content, isBlock: token.info === "block" }];
    case "image":
      return [{ type: "text", value: `[${token.content}](${token.attrGet("src") ?? ""})` }];
    default:
      return token.content === "" ? [] : [{ type: "text", value: token.content }];
  }
}
