// The files that the user chose and has not sent, by session. They survive a look at another view, not a reload.
import { signal } from "@preact/signals";
import { withFiles, type ChosenFile, type GivenFile, type RefusedFile } from "../state/attachments";

const MAX_SESSIONS = 20;
const chosen = signal<ReadonlyMap<string, readonly ChosenFile[]>>(new Map());
const refusals = signal<{ sessionId: string; files: readonly RefusedFile[] } | undefined>(undefined);
const NONE: readonly ChosenFile[] = [];

export const chosenFiles = (sessionId: string) => chosen.value.get(sessionId) ?? NONE;

/** Of the last files that were chosen, those that cannot be sent. */
export const refusedFiles = (sessionId: string) =>
  refusals.value?.sessionId === sessionId ? refusals.value.files : [];

function keep(sessionId: string, files: readonly ChosenFile[]) {
  const next = new Map(chosen.peek());
  next.delete(sessionId);
  if (files.length > 0) next.set(sessionId, files);
  for (const oldest of next.keys()) {
    if (next.size <= MAX_SESSIONS) break;
    next.delete(oldest);
  }
  chosen.value = next;
}

/** One after the other, because each choice counts those before it. */
let adding = Promise.resolve();

export function addFiles(sessionId: string, given: readonly GivenFile[]): Promise<void> {
  adding = adding.then(async () => {
    const known = chosen.peek().get(sessionId) ?? NONE;
    const { chosen: files, refused } = await withFiles(known, given);
    keep(sessionId, files);
    refusals.value = refused.length === 0 ? undefined : { sessionId, files: refused };
  });
  return adding;
}

/** Files that are still being read go along with a message that is sent now. */
export const filesRead = (): Promise<void> => adding;

export function removeFile(sessionId: string, file: ChosenFile) {
  keep(
    sessionId,
    chosenFiles(sessionId).filter((other) => other !== file),
  );
  refusals.value = undefined;
}

/** They were sent. Files that were chosen meanwhile stay. */
export function forgetFiles(sessionId: string, sent: readonly ChosenFile[]) {
  keep(
    sessionId,
    chosenFiles(sessionId).filter((file) => !sent.includes(file)),
  );
  refusals.value = undefined;
}
