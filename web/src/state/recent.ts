// A small table of the newest choices, as text that the browser stores.

/** Adds a choice as the newest one; `undefined` removes it. The oldest choices leave first. */
export function withChoice(stored: string | undefined, key: string, choice: string | undefined, limit: number): string {
  const others = entriesOf(stored).filter(([known]) => known !== key);
  const next = choice === undefined ? others : [...others, [key, choice] as const];
  return JSON.stringify(next.slice(-limit));
}

export function choiceOf(stored: string | undefined, key: string): string | undefined {
  return entriesOf(stored).find(([known]) => known === key)?.[1];
}

/** What a browser stores can be changed by anybody who sits at it. */
function entriesOf(stored: string | undefined): (readonly [string, string])[] {
  try {
    const list: unknown = JSON.parse(stored ?? "[]");
    const isEntry = (entry: unknown): entry is [string, string] =>
      Array.isArray(entry) && entry.length === 2 && entry.every((part) => typeof part === "string");
    return Array.isArray(list) ? list.filter(isEntry) : [];
  } catch {
    return [];
  }
}
