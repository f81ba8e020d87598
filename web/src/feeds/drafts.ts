// What the user has written and not sent, by the form it stands in. It survives a look at another view, not a reload.

import { signal } from "@preact/signals";

/** A text that was put into a form which may be on the screen already. */
export const writtenDraft = signal<{ form: string; text: string } | undefined>(undefined);

const MAX_DRAFTS = 50;
const drafts = new Map<string, string>();

export function draftOf(form: string): string {
  return drafts.get(form) ?? "";
}

export function keepDraft(form: string, text: string) {
  drafts.delete(form);
  if (text !== "") drafts.set(form, text);
  for (const oldest of drafts.keys()) {
    if (drafts.size <= MAX_DRAFTS) break;
    drafts.delete(oldest);
  }
}

/** Puts a text into a form, for the user to change and send. */
export function writeDraft(form: string, text: string) {
  keepDraft(form, text);
  writtenDraft.value = { form, text };
}
