// A file write as lines added, removed and kept, with long unchanged stretches folded away.
import { diffLines } from "diff";
import type { FilePreview } from "../api/types";
import { contentAfter, editsOf } from "./files";

export type DiffLine = { type: "same" | "added" | "removed"; text: string } | { type: "folded"; lines: number };

export type WriteDiff =
  /** Both sides are known. */
  | { kind: "change"; lines: DiffLine[] }
  /** Nobody has read the file in this session: it may be new, or it may be overwritten. */
  | { kind: "whole"; lines: DiffLine[] }
  /** There is no file yet. */
  | { kind: "new"; lines: DiffLine[] }
  /** Parts of a file, each as its own change. */
  | { kind: "edits"; edits: DiffLine[][] };

const CONTEXT_LINES = 3;
/** Larger files take too long to compare; the new text is shown instead. */
const MAX_COMPARED_CHARACTERS = 400_000;

export function diffOfWrite(args: Record<string, unknown>, before: string | undefined): WriteDiff | undefined {
  const after = contentAfter(args, before);
  const edits = editsOf(args);
  if (after === undefined) {
    if (edits === undefined) return undefined;
    return { kind: "edits", edits: edits.map((edit) => fold(compare(edit.old, edit.new))) };
  }
  if (before === undefined || before.length + after.length > MAX_COMPARED_CHARACTERS) {
    return { kind: "whole", lines: linesOf(after).map((text) => ({ type: "added", text })) };
  }
  return { kind: "change", lines: fold(compare(before, after)) };
}

/** What the client that would run the write says about the file as it is now; undefined: it is not text. */
export function diffOfPreview(preview: FilePreview): WriteDiff | undefined {
  const lines = unifiedLines(preview.diff);
  if (lines.length === 0 && preview.note != null) return undefined;
  return { kind: preview.base === null ? "new" : "change", lines };
}

const HUNK = /^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@/;

function unifiedLines(diff: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let next = 1;
  let isInside = false;
  for (const line of linesOf(diff)) {
    const hunk = HUNK.exec(line);
    if (hunk !== null) {
      const start = Number(hunk[1]);
      if (start > next) lines.push({ type: "folded", lines: start - next });
      next = start + Number(hunk[2] ?? 1);
      isInside = true;
    } else if (isInside && line.startsWith("+")) {
      lines.push({ type: "added", text: line.slice(1) });
    } else if (isInside && line.startsWith("-")) {
      lines.push({ type: "removed", text: line.slice(1) });
    } else if (isInside && line.startsWith(" ")) {
      lines.push({ type: "same", text: line.slice(1) });
    }
  }
  return lines;
}

export function compare(before: string, after: string): DiffLine[] {
  return diffLines(before, after).flatMap((part) => {
    const type = part.added ? "added" : part.removed ? "removed" : "same";
    return linesOf(part.value).map((text): DiffLine => ({ type, text }));
  });
}

export function fold(lines: readonly DiffLine[]): DiffLine[] {
  const isNear = lines.map((_, at) =>
    lines.slice(Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1).some((line) => line.type !== "same"),
  );
  const folded: DiffLine[] = [];
  let hidden = 0;
  lines.forEach((line, at) => {
    if (!isNear[at]) {
      hidden += 1;
      return;
    }
    if (hidden > 0) folded.push({ type: "folded", lines: hidden });
    hidden = 0;
    folded.push(line);
  });
  if (hidden > 0) folded.push({ type: "folded", lines: hidden });
  return folded;
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/**
 * Characters that hide or reorder text, made visible: what is approved must be what is read. The
 * selectors that only choose the look of an emoji stay.
 */
export function visible(text: string): string {
  return text.replace(
    /(?!\t|\n|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu,
    (character) => `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}
