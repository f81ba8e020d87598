// What folders bring and what waits for trust. Pure.
import type { ClientInstructions, WaitingContent } from "../api/types";

/** A content that a person is asked about. */
export interface AskedContent {
  clientId: string;
  workspace: string;
  content: WaitingContent;
}

/** The same for as long as it is the same content at the same client. */
export const keyOf = (clientId: string, { kind, path, digest }: WaitingContent): string =>
  JSON.stringify([clientId, kind, path, digest]);

/** What to ask about, without what was left for later. Two tool runners in one folder ask once. */
export function toAsk(brought: readonly ClientInstructions[], passed: ReadonlySet<string>): AskedContent[] {
  const seen = new Set<string>();
  const asked: AskedContent[] = [];
  for (const { client_id: clientId, workspace, waiting } of brought) {
    for (const content of waiting) {
      const same = JSON.stringify([workspace, content.kind, content.path, content.digest]);
      if (passed.has(keyOf(clientId, content)) || seen.has(same)) continue;
      seen.add(same);
      asked.push({ clientId, workspace, content });
    }
  }
  return asked;
}

/** The folder of a file of instructions; nothing for the one of the workspace itself. */
export function folderOf(path: string): string | undefined {
  const end = path.lastIndexOf("/");
  return end < 0 ? undefined : path.slice(0, end);
}

/**
 * Everything that hides, moves or looks like something else is written out. Stricter than for other texts: a person
 * trusts these very characters, and some that no eye sees can carry words for a model.
 */
export function revealed(text: string): string {
  return text.replace(
    /(?![\t\n ])(?:\p{C}|\p{Z}|\p{Default_Ignorable_Code_Point}|\u2800)/gu,
    (character) => `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}
