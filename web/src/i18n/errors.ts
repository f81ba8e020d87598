// A sentence for each error code and HTTP status, in each language. The terminal reads the same JSON files. The
// server's English text is shown beneath the sentence as details.
import en from "./errors/en.json";
import ru from "./errors/ru.json";
import uk from "./errors/uk.json";
import type { Locale } from "./text";

export const ERRORS: Record<Locale, Readonly<Record<string, string>>> = { en, ru, uk };

export interface Problem {
  /** The API's `error_code`; empty where an answer has none. */
  code: string;
  /** The HTTP status, 0 for no answer at all; absent for what came in a stream. */
  status?: number;
  /** Why a model call failed, from the error's details. */
  kind?: string;
}

/** The kind is the most exact, then the code, then the status, then the group of the status. */
export function problemText(locale: Locale, { code, status, kind }: Problem): string {
  const texts = ERRORS[locale];
  const group = status !== undefined && status >= 400 && status < 500 ? "status_4xx" : "status_5xx";
  const byKind = kind === undefined ? undefined : texts[`kind_${kind}`];
  return byKind ?? texts[code] ?? texts[`status_${status}`] ?? texts[group] ?? code;
}
