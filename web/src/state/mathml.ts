// Formulas as a small tree of MathML, which the browser draws itself. Loaded with the first formula: KaTeX is large.
//
// KaTeX gives a tree, not text, so no markup is parsed here. Only the elements and attributes below are taken from it.
import katex from "katex";
import { MAX_FORMULA_CHARACTERS } from "./maths";

export type MathNode = string | { name: string; attributes: Record<string, string>; children: MathNode[] };

const MAX_EXPANSIONS = 500;
/** How deep braces may nest, and how deep the tree may be: everything here calls itself once for each level. */
const MAX_DEPTH = 60;
const MAX_NODES = 5_000;
/** The largest size a formula may ask for, in em. */
const MAX_SIZE_EM = 20;

/** A macro can repeat its argument, so a few of them make more than a browser can draw. */
const DEFINES_MACRO = /\\(?:[egx]?def|(?:re)?newcommand|providecommand|(?:future)?let|global|long)(?![a-zA-Z@])/;

const ELEMENTS = new Set(
  (
    "math semantics mrow mi mn mo mtext mspace ms mfrac msqrt mroot msub msup msubsup munder mover munderover " +
    "mtable mtr mtd mstyle mpadded mphantom menclose"
  ).split(" "),
);
/** No addresses, no styles and no colours. */
const ATTRIBUTES = new Set(
  (
    "display displaystyle scriptlevel mathvariant stretchy fence separator form lspace rspace minsize maxsize accent " +
    "accentunder columnalign columnspacing rowspacing columnlines rowlines linethickness width height depth notation"
  ).split(" "),
);

interface KatexNode {
  type?: string;
  text?: string;
  attributes?: Record<string, string>;
  children?: KatexNode[];
  /** A space has a width in em instead of a type, and for the usual widths a character. */
  width?: number;
  character?: string | null;
}

interface TreeMaker {
  __renderToDomTree(formula: string, options: object): KatexNode;
}

/** Nothing if KaTeX does not understand the formula, or if drawing it would hold up the page. */
export function mathTree(formula: string, isBlock: boolean): MathNode | undefined {
  if (formula.length > MAX_FORMULA_CHARACTERS || DEFINES_MACRO.test(formula)) return undefined;
  if (braceDepth(formula) > MAX_DEPTH) return undefined;
  const options = {
    output: "mathml",
    displayMode: isBlock,
    throwOnError: true,
    strict: "ignore",
    trust: false,
    maxExpand: MAX_EXPANSIONS,
    maxSize: MAX_SIZE_EM,
  };
  try {
    const root = (katex as unknown as TreeMaker).__renderToDomTree(formula, options);
    const budget = { nodes: MAX_NODES };
    return root.children?.map((child) => convert(child, 1, budget)).find((child) => typeof child !== "string");
  } catch {
    return undefined;
  }
}

function braceDepth(formula: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [mark] of formula.matchAll(/\\.|[{}]/gs)) {
    if (mark === "{") depth += 1;
    if (mark === "}") depth -= 1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

function convert(node: KatexNode, depth: number, budget: { nodes: number }): MathNode {
  budget.nodes -= 1;
  if (budget.nodes < 0 || depth > MAX_DEPTH) throw new Error("the formula is too large");
  if (node.text !== undefined) return node.text;
  if (node.type === undefined && node.width !== undefined) return spaceOf(node.width, node.character);
  const children = (node.children ?? [])
    // The source of the formula, which is not drawn.
    .filter((child) => child.type !== "annotation")
    .map((child) => convert(child, depth + 1, budget));
  const name = node.type ?? "";
  if (!ELEMENTS.has(name)) return { name: "mrow", attributes: {}, children };
  const attributes = Object.entries(node.attributes ?? {}).filter(([key]) => ATTRIBUTES.has(key));
  return { name, attributes: Object.fromEntries(attributes), children };
}

function spaceOf(width: number, character: string | null | undefined): MathNode {
  if (character) return { name: "mtext", attributes: {}, children: [character] };
  // A negative space would put the formula over other text.
  return { name: "mspace", attributes: { width: `${Math.max(0, width)}em` }, children: [] };
}
