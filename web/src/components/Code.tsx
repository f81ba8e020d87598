// Code with colours, and formulas. What they need is loaded when the first one is shown.
import { createElement, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../feeds/preferences";
import type { CodePiece } from "../state/highlight";
import type { MathNode } from "../state/mathml";
import { isPatch, patchLines, type PatchLine } from "../state/patch";
import { CopyButton } from "./parts";

/** A text that still grows is coloured when it rests, so that colouring does not slow down an answer. */
const REST_MS = 150;

interface Made<T> {
  kind: string;
  text: string;
  value: T | undefined;
}

/** What `make` gives for a text. Nothing while its code is not loaded, or if it cannot make anything of the text. */
function useMade<T>(
  make: (kind: string, text: string) => Promise<T | undefined>,
  kind: string,
  text: string,
): T | undefined {
  const [made, setMade] = useState<Made<T> | undefined>(undefined);
  const isGrowing = useRef(false);
  useEffect(() => {
    const delayMs = isGrowing.current ? REST_MS : 0;
    isGrowing.current = true;
    const timer = setTimeout(() => {
      make(kind, text).then(
        (value) => setMade({ kind, text, value }),
        // The file is missing after an upgrade of the server. The text stays as it is.
        () => undefined,
      );
    }, delayMs);
    return () => clearTimeout(timer);
  }, [make, kind, text]);
  return made?.kind === kind && made.text === text ? made.value : undefined;
}

async function makeColours(language: string, code: string): Promise<CodePiece[] | undefined> {
  if (language === "") return undefined;
  return (await import("../state/highlight")).colour(language, code);
}

const BLOCK = "block";

async function makeMaths(kind: string, formula: string): Promise<MathNode | undefined> {
  return (await import("../state/mathml")).mathTree(formula, kind === BLOCK);
}

/** Code with the colours of its language. Unknown languages stay plain. */
export function Coloured({ language, code }: { language: string; code: string }) {
  const pieces = useMade(makeColours, language, code);
  if (pieces === undefined) return <>{code}</>;
  return <>{pieces.map(showPiece)}</>;
}

function showPiece({ text, kind }: CodePiece): ComponentChildren {
  return kind === undefined ? text : <span class={`code-${kind}`}>{text}</span>;
}

const LONG_CHARACTERS = 1600;

interface VerbatimProps {
  text: string;
  label: string;
  language?: string;
}

/** Preformatted text. Long text is cut until the user expands it. */
export function Verbatim({ text, label, language = "" }: VerbatimProps) {
  const [isWhole, setWhole] = useState(false);
  const isLong = text.length > LONG_CHARACTERS;
  const shown = isLong && !isWhole ? `${text.slice(0, LONG_CHARACTERS)}…` : text;
  return (
    <>
      <pre class="verbatim" tabIndex={0} aria-label={label}>
        <Coloured language={language} code={shown} />
      </pre>
      {isLong && (
        <button type="button" class="quiet unfold" onClick={() => setWhole(!isWhole)}>
          {isWhole ? t("app.showLess") : t("app.showMore")}
        </button>
      )}
    </>
  );
}

/** A block of code with its language and a button that copies it. */
export function CodeBlock({ language, code }: { language: string; code: string }) {
  return (
    <figure class="code">
      <figcaption>
        <span>{language}</span>
        <CopyButton text={code} label={t("app.copyCode")} />
      </figcaption>
      <CodeText language={language} code={code} />
    </figure>
  );
}

export function CodeText({ language, code }: { language: string; code: string }) {
  return (
    <pre tabIndex={0}>
      <code>
        {isPatch(language) ? patchLines(code).map(showPatchLine) : <Coloured language={language} code={code} />}
      </code>
    </pre>
  );
}

function showPatchLine({ type, text }: PatchLine) {
  return <span class={`patch-line patch-${type}`}>{`${text}\n`}</span>;
}

/** A formula. It is shown as it was written where it cannot be understood. */
export function Maths({ formula, isBlock }: { formula: string; isBlock: boolean }) {
  const tree = useMade(makeMaths, isBlock ? BLOCK : "", formula);
  const shown = tree === undefined ? <code>{formula}</code> : showMath(tree);
  return <span class={isBlock ? "math-block" : "math"}>{shown}</span>;
}

function showMath(node: MathNode): ComponentChildren {
  return typeof node === "string" ? node : createElement(node.name, node.attributes, node.children.map(showMath));
}
