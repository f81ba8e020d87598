// A diff that somebody wrote as text, line by line.
export interface PatchLine {
  type: "added" | "removed" | "same" | "place";
  text: string;
}

const PATCHES = new Set(["diff", "patch", "udiff"]);

export const isPatch = (language: string): boolean => PATCHES.has(language.toLowerCase());

export function patchLines(text: string): PatchLine[] {
  return text.split("\n").map((line): PatchLine => ({ type: typeOf(line), text: line }));
}

function typeOf(line: string): PatchLine["type"] {
  if (/^(@@|diff |index |--- |\+\+\+ )/.test(line)) return "place";
  if (line.startsWith("+")) return "added";
  return line.startsWith("-") ? "removed" : "same";
}
