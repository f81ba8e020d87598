// Finds formulas in Markdown: $…$ and \(…\) in a line, $$…$$ and \[…\] as a block. Only their source is taken here;
// state/mathml.ts turns it into MathML.
import type MarkdownIt from "markdown-it";

export const MATH_INLINE = "math_inline";
export const MATH_BLOCK = "math_block";

/** A longer formula is not meant to be read. It also bounds the search for the mark that closes a formula. */
export const MAX_FORMULA_CHARACTERS = 2_000;
/** In one message. The others stay as they were written. */
const MAX_FORMULAS = 300;

type Parser = InstanceType<typeof MarkdownIt>;
type InlineRule = Parameters<Parser["inline"]["ruler"]["before"]>[2];
type BlockRule = Parameters<Parser["block"]["ruler"]["before"]>[2];

/** The longer mark comes first: `$$` also begins with `$`. */
const MARKS = [
  { open: "$$", close: "$$", isBlock: true },
  { open: "\\[", close: "\\]", isBlock: true },
  { open: "\\(", close: "\\)", isBlock: false },
  { open: "$", close: "$", isBlock: false },
] as const;

const WORD = /[\p{L}\p{N}_$]/u;

export function addMaths(parser: Parser) {
  parser.inline.ruler.before("escape", MATH_INLINE, inlineMaths);
  parser.block.ruler.before("fence", MATH_BLOCK, blockMaths, { alt: ["paragraph", "blockquote", "list"] });
}

const inlineMaths: InlineRule = (state, isSilent) => {
  const mark = MARKS.find(({ open }) => state.src.startsWith(open, state.pos));
  if (mark === undefined || isFull(state.env)) return false;
  const start = state.pos + mark.open.length;
  const end = mark.open === "$" ? endOfDollar(state.src, state.pos) : closeOf(state.src, mark.close, start);
  if (end < 0 || end >= state.posMax || state.src.slice(start, end).trim() === "") return false;
  if (!isSilent) {
    count(state.env);
    const token = state.push(MATH_INLINE, "math", 0);
    token.content = state.src.slice(start, end);
    token.info = mark.isBlock ? "block" : "";
  }
  state.pos = end + mark.close.length;
  return true;
};

/** How many formulas a message has so far. The parser passes the same object to all rules for one message. */
const formulas = new WeakMap<object, number>();

function isFull(message: object): boolean {
  return (formulas.get(message) ?? 0) >= MAX_FORMULAS;
}

function count(message: object) {
  formulas.set(message, (formulas.get(message) ?? 0) + 1);
}

/** Where the formula that begins at `start` ends. Below 0 if it has no end, or is too long. */
function closeOf(text: string, close: string, start: number): number {
  const at = text.slice(start, start + MAX_FORMULA_CHARACTERS).indexOf(close);
  return at < 0 ? -1 : start + at;
}

/** A dollar sign also means money and shell variables, so it must touch its formula and no word. */
function endOfDollar(text: string, at: number): number {
  if (WORD.test(text[at - 1] ?? "") || /\s/.test(text[at + 1] ?? " ")) return -1;
  for (let end = closeOf(text, "$", at + 1); end > 0; end = closeOf(text, "$", end + 1)) {
    const before = text[end - 1] ?? "";
    if (end - at > MAX_FORMULA_CHARACTERS) return -1;
    if (before === "\\") continue;
    return /\s/.test(before) || WORD.test(text[end + 1] ?? "") ? -1 : end;
  }
  return -1;
}

const blockMaths: BlockRule = (state, first, last, isSilent) => {
  const startOf = (line: number) => (state.bMarks[line] ?? 0) + (state.tShift[line] ?? 0);
  const endOf = (line: number) => state.eMarks[line] ?? 0;
  const indentOf = (line: number) => state.sCount[line] ?? 0;
  const mark = MARKS.find(({ open, isBlock }) => isBlock && state.src.startsWith(open, startOf(first)));
  if (mark === undefined || isFull(state.env)) return false;
  const from = startOf(first) + mark.open.length;
  const close = closeOf(state.src, mark.close, from);
  if (close < 0) return false;
  const indent = Math.min(state.blkIndent, indentOf(first));
  const lines = [];
  let line = first;
  for (; endOf(line) < close; line += 1) {
    lines.push(state.src.slice(line === first ? from : startOf(line), endOf(line)));
    const next = line + 1;
    // The list item or the quote that the formula began in ends before the formula does.
    if (next >= last || (startOf(next) < endOf(next) && indentOf(next) < indent)) return false;
  }
  lines.push(state.src.slice(line === first ? from : startOf(line), close));
  const formula = lines.join("\n").trim();
  // Words behind the closing mark: the formula is part of a sentence.
  const rest = state.src.slice(close + mark.close.length, endOf(line));
  if (formula === "" || rest.trim() !== "") return false;
  if (isSilent) return true;
  count(state.env);
  const token = state.push(MATH_BLOCK, "math", 0);
  token.block = true;
  token.content = formula;
  state.line = line + 1;
  return true;
};
