// The user's preferences in this browser. Without storage they last until the page is closed.
import { computed, effect, signal } from "@preact/signals";
import { startingLocale, translate, type Locale, type Values } from "../i18n/text";
import { ERRORS, problemText, type Problem } from "../i18n/errors";
import { reasonDetails, reasonText } from "../i18n/reasons";
import type { Key } from "../i18n/en";

export type Theme = "auto" | "light" | "dark";
export const THEMES: readonly Theme[] = ["auto", "light", "dark"];

export function recall(name: string): string | undefined {
  try {
    return localStorage.getItem(`codelab.${name}`) ?? undefined;
  } catch {
    return undefined;
  }
}

export function keep(name: string, value: string) {
  try {
    localStorage.setItem(`codelab.${name}`, value);
  } catch {
    // Private windows may refuse; the choice still holds on this page.
  }
}

export const theme = signal<Theme>(THEMES.find((known) => known === recall("theme")) ?? "auto");

const darkSystem = globalThis.matchMedia?.("(prefers-color-scheme: dark)");
const isSystemDark = signal(darkSystem?.matches ?? false);
darkSystem?.addEventListener("change", ({ matches }) => (isSystemDark.value = matches));
/** Whether the page is dark now. */
export const isDark = computed(() => (theme.value === "auto" ? isSystemDark.value : theme.value === "dark"));

export const locale = signal<Locale>(
  startingLocale(
    recall("locale"),
    globalThis.document?.documentElement.dataset["locale"],
    globalThis.navigator?.languages ?? [],
  ),
);

/** Only an explicit choice is stored. Until then the server's setting and the browser's languages decide. */
export function chooseLocale(chosen: Locale) {
  locale.value = chosen;
  keep("locale", chosen);
}

/** Numbers and times follow the person's region where it speaks the chosen language. */
export const region = computed(
  () => globalThis.navigator?.languages.find((language) => language.startsWith(locale.value)) ?? locale.value,
);

export function t(key: Key, values?: Values): string {
  return translate(locale.value, key, values);
}

/** A sentence about what went wrong. */
export function tell(problem: Problem): string {
  return problemText(locale.value, problem);
}

/** Why a call needs approval. */
export function whyAsked(reason: string): string {
  return reasonText(locale.value, reason);
}

/** The same, below a sentence that says that it does. */
export function whyAskedDetails(reason: string): string | undefined {
  return reasonDetails(locale.value, reason);
}

/** Why a model cannot answer, in a few words. */
export function failureWord(kind: string): string {
  return ERRORS[locale.value][`why_${kind}`] ?? kind;
}

/** Shows the choices on the document and remembers them. */
export function applyPreferences(root: HTMLElement) {
  effect(() => {
    if (theme.value === "auto") delete root.dataset["theme"];
    else root.dataset["theme"] = theme.value;
    keep("theme", theme.value);
  });
  effect(() => {
    root.lang = locale.value;
  });
}
