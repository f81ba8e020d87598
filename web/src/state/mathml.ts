// Formulas as a small tree of MathML, which the browser draws itself. Loaded with the first formula: KaTeX is large.
//
// KaTeX gives a tree, not text, so no markup is parsed here. Only the elements and attributes below are taken from it.
import katex from "katex";

export type MathNode = string | { name: string; attributes: Record<string, string>; children: MathNode[] };

/** A formula of this length is not meant to be read. */
const MAX_CHARACTERS = 5_000;
const MAX_EXPANSIONS = 500;
/** The largest size a formula may ask for, in em. */
const MAX_SIZE_EM = 20;

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
}

interface TreeMaker {
  __renderToDomTree(formula: string, options: object): KatexNode;
}

/** Nothing if KaTeX does not understand the formula. */
export function mathTree(formula: string, isBlock: boolean): MathNode | undefined {
  if (formula.length > MAX_CHARACTERS) return undefined;
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
    return root.children?.map(convert).find((child) => typeof child !== "string");
  } catch {
    return undefined;
  }
}

function convert(node: KatexNode): MathNode {
  if (node.text !== undefined) return node.text;
  const children = (node.children ?? [])
    // The source of the formula, which is not drawn.
    .filter((child) => child.type !== "annotation")
    .map(convert);
  const name = node.type ?? "";
  if (!ELEMENTS.has(name)) return { name: "mrow", attributes: {}, children };
  const attributes = Object.entries(node.attributes ?? {}).filter(([key]) => ATTRIBUTES.has(key));
  return { name, attributes: Object.fromEntries(attributes), children };
}
