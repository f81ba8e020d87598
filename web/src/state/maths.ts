// Finds formulas in Markdown: $…$ and \(…\) in a line, $$…$$ and \[…\] as a block. Only their source is taken here;
// state/mathml.ts turns it into MathML.
import type MarkdownIt from "markdown-it";

export const MATH_INLINE = "math_inline";
export const MATH_BLOCK = "math_block";

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
  if (mark === undefined) return false;
  const start = state.pos + mark.open.length;
  const end = mark.open === "$" ? endOfDollar(state.src, state.pos) : state.src.indexOf(mark.close, start);
  if (end < 0 || end >= state.posMax || state.src.slice(start, end).trim() === "") return false;
  if (!isSilent) {
    const token = state.push(MATH_INLINE, "math", 0);
    token.content = state.src.slice(start, end);
    token.info = mark.isBlock ? "block" : "";
  }
  state.pos = end + mark.close.length;
  return true;
};

/** A dollar sign also means money and shell variables, so it must touch its formula and no word. */
function endOfDollar(text: string, at: number): number {
  if (WORD.test(text[at - 1] ?? "") || /\s/.test(text[at + 1] ?? " ")) return -1;
  for (let end = text.indexOf("$", at + 1); end > 0; end = text.indexOf("$", end + 1)) {
    const before = text[end - 1] ?? "";
    if (before === "\\") continue;
    return /\s/.test(before) || WORD.test(text[end + 1] ?? "") ? -1 : end;
  }
  return -1;
}

const blockMaths: BlockRule = (state, first, last, isSilent) => {
  const lineAt = (line: number) =>
    state.src.slice((state.bMarks[line] ?? 0) + (state.tShift[line] ?? 0), state.eMarks[line]);
  const mark = MARKS.find(({ open, isBlock }) => isBlock && lineAt(first).startsWith(open));
  if (mark === undefined) return false;
  let content = lineAt(first).slice(mark.open.length);
  let line = first;
  while (!content.trimEnd().endsWith(mark.close)) {
    // A closing mark in the middle of a line: the formula is part of a sentence.
    if (content.includes(mark.close)) return false;
    line += 1;
    if (line >= last) return false;
    content += `\n${lineAt(line)}`;
  }
  const formula = content.trimEnd().slice(0, -mark.close.length).trim();
  if (formula === "" || formula.includes(mark.close)) return false;
  if (isSilent) return true;
  const token = state.push(MATH_BLOCK, "math", 0);
  token.block = true;
  token.content = formula;
  state.line = line + 1;
  return true;
};
