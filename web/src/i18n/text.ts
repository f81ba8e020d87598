// Looks up texts by key and language. Pure: the language is an argument.
import { en, type Key, type Text } from "./en";
import { ru } from "./ru";
import { uk } from "./uk";

export const LOCALES = ["en", "ru", "uk"] as const;
export type Locale = (typeof LOCALES)[number];
export const LOCALE_NAMES: Record<Locale, string> = { en: "English", ru: "Русский", uk: "Українська" };
export const TEXTS: Record<Locale, Record<Key, Text>> = { en, ru, uk };

export type Values = Record<string, string | number>;

export function translate(locale: Locale, key: Key, values: Values = {}): string {
  const text: Text = TEXTS[locale][key];
  const template = typeof text === "string" ? text : plural(locale, text, Number(values["n"] ?? 0));
  return template.replace(/(?<!\{)\{(\w+)\}(?!\})/g, (whole, name: string) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? value.toLocaleString(locale) : value;
  });
}

function plural(locale: Locale, forms: Exclude<Text, string>, n: number): string {
  const form = new Intl.PluralRules(locale).select(n);
  return form === "one" || form === "few" || form === "many" ? (forms[form] ?? forms.other) : forms.other;
}

/** What the person chose in this browser, else the server's setting, else what the browser prefers. */
export function startingLocale(
  chosen: string | undefined,
  configured: string | undefined,
  wanted: readonly string[],
): Locale {
  const known = (tag: string | undefined) => LOCALES.find((locale) => locale === tag);
  return known(chosen) ?? known(configured) ?? preferredLocale(wanted);
}

function preferredLocale(wanted: readonly string[]): Locale {
  for (const language of wanted) {
    const found = LOCALES.find((locale) => language.toLowerCase().startsWith(locale));
    if (found !== undefined) return found;
  }
  return "en";
}
