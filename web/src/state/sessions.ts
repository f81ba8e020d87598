// The list of sessions as it is shown.
import type { Session } from "../api/types";

/** The longest search that the server accepts. */
export const MAX_SEARCH_CHARS = 200;

/** A part of a snippet. */
export interface SnippetPart {
  text: string;
  isFound: boolean;
}

const WORD = /[\p{L}\p{N}\p{M}]+/gu;

function folded(word: string): string {
  return word.normalize("NFKC").toUpperCase().toLowerCase().normalize("NFC");
}

/** Cuts a snippet so that the words that were found can be marked. The server compares words in the same way. */
export function markFound(snippet: string, search: string): SnippetPart[] {
  const wanted = (search.match(WORD) ?? []).map(folded);
  const parts: SnippetPart[] = [];
  let end = 0;
  for (const { 0: word, index } of snippet.matchAll(WORD)) {
    if (!wanted.some((beginning) => folded(word).startsWith(beginning))) continue;
    if (index > end) parts.push({ text: snippet.slice(end, index), isFound: false });
    parts.push({ text: word, isFound: true });
    end = index + word.length;
  }
  if (end < snippet.length) parts.push({ text: snippet.slice(end), isFound: false });
  return parts;
}

/** Pinned ones first. Among themselves they keep the server's order, newest activity first. */
export function pinnedFirst(sessions: readonly Session[]): Session[] {
  return sessions.toSorted((a, b) => Number(b.pinned) - Number(a.pinned));
}
