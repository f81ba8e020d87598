// Why a call needs approval. The server says it in English, in sentences of a closed set; they are the keys here.
//
// `{a}` and `{b}` stand for a path, a name or a number. `{why}` is a reason itself, or a text that stays as it is.
// `{known}` is a reason of this set, or the whole does not match. The first key that matches counts.
import ru from "./reasons/ru.json";
import uk from "./reasons/uk.json";
import type { Locale } from "./text";

export const REASONS: Record<Exclude<Locale, "en">, Readonly<Record<string, string>>> = { ru, uk };

/** It says no more than the sentence above it. */
const PLAIN_WRITE = "File modification requires approval";
/** Paths and names are a model's words, so a text could hold reasons without end. */
const MAX_DEPTH = 5;
const SPACES = /\{(a|b|why|known)\}/g;

interface Pattern {
  english: RegExp;
  names: readonly string[];
  translated: string;
}

const patterns = new Map<Locale, readonly Pattern[]>();

function patternsOf(locale: Exclude<Locale, "en">): readonly Pattern[] {
  const known = patterns.get(locale) ?? Object.entries(REASONS[locale]).map(patternOf);
  patterns.set(locale, known);
  return known;
}

function patternOf([english, translated]: [string, string]): Pattern {
  const names = [...english.matchAll(SPACES)].map((found) => found[1] ?? "");
  const fixed = english.split(SPACES).filter((_, at) => at % 2 === 0);
  const escaped = fixed.map((text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"));
  return { english: new RegExp(`^${escaped.join("(.+?)")}$`, "s"), names, translated };
}

/** The reason in the user's language. A newer server may know more reasons than this page: they stay in English. */
export function reasonText(locale: Locale, reason: string): string {
  return locale === "en" ? reason : (translated(locale, reason, 0) ?? reason);
}

/** The reason, unless what is shown above it says the same. */
export function reasonDetails(locale: Locale, reason: string): string | undefined {
  return reason === PLAIN_WRITE ? undefined : reasonText(locale, reason);
}

function translated(locale: Exclude<Locale, "en">, reason: string, depth: number): string | undefined {
  if (depth > MAX_DEPTH) return undefined;
  for (const pattern of patternsOf(locale)) {
    const values = pattern.english.exec(reason)?.slice(1);
    if (values === undefined) continue;
    const shown = new Map<string, string | undefined>();
    pattern.names.forEach((name, at) => {
      const value = values[at] ?? "";
      const inner = name === "why" || name === "known" ? translated(locale, value, depth + 1) : value;
      shown.set(name, name === "why" ? (inner ?? value) : inner);
    });
    if ([...shown.values()].includes(undefined)) continue;
    return pattern.translated.replace(SPACES, (_, name: string) => shown.get(name) ?? "");
  }
  return undefined;
}
