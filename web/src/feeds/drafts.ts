// What the user has written and not sent, by the form it stands in. It survives a look at another view, not a reload.

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
