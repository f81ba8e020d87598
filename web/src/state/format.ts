// Numbers, money and times as people read them.
const DOLLAR_DIGITS_SMALL = 4;

export function money(locale: string, usd: number): string {
  const digits = usd !== 0 && Math.abs(usd) < 1 ? DOLLAR_DIGITS_SMALL : 2;
  return new Intl.NumberFormat(locale, {
    style: "currency",
    currency: "USD",
    currencyDisplay: "narrowSymbol",
    minimumFractionDigits: 2,
    maximumFractionDigits: digits,
  }).format(usd);
}

export function count(locale: string, n: number): string {
  return new Intl.NumberFormat(locale, {
    notation: n >= 10_000 ? "compact" : "standard",
    maximumFractionDigits: 1,
  }).format(n);
}

/** A model's window as people say it: `128k`, `1M`. */
export function rounded(tokens: number): string {
  if (tokens >= 1_000_000 && tokens % 1_000_000 < 50_000) return `${Math.floor(tokens / 1_000_000)}M`;
  return tokens >= 1_000 ? `${Math.floor(tokens / 1_000)}k` : String(tokens);
}

export function percent(locale: string, share: number): string {
  return new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 1 }).format(share);
}

export function clockTime(locale: string, at: string | number): string {
  return new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" }).format(dateOf(at));
}

export function fullTime(locale: string, at: string | number): string {
  return new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" }).format(dateOf(at));
}

/** Seconds and milliseconds both occur as numbers; anything before 2001 in milliseconds is seconds. */
export function dateOf(at: string | number): Date {
  return new Date(typeof at === "number" && at < 1e12 ? at * 1000 : at);
}

export type Ago = { unit: "now" } | { unit: "minutes" | "hours" | "days"; n: number };

export function ago(at: string, nowMs: number): Ago {
  const minutes = Math.floor((nowMs - Date.parse(at)) / 60_000);
  if (minutes < 1) return { unit: "now" };
  if (minutes < 60) return { unit: "minutes", n: minutes };
  if (minutes < 60 * 24) return { unit: "hours", n: Math.floor(minutes / 60) };
  return { unit: "days", n: Math.floor(minutes / (60 * 24)) };
}

/** `4:05`, or nothing once the time is over. */
export function timeLeft(expiresAt: string, nowMs: number): string | undefined {
  const seconds = Math.ceil((Date.parse(expiresAt) - nowMs) / 1000);
  if (seconds <= 0) return undefined;
  const rest = String(seconds % 60).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes}:${rest}`
    : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

export function duration(locale: string, seconds: number): string {
  const [unit, size] =
    seconds < 60 ? (["second", 1] as const) : seconds < 3600 ? (["minute", 60] as const) : (["hour", 3600] as const);
  const format = new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 0 });
  return format.format(Math.floor(seconds / size));
}

const HUES = 8;

/** One of a few hues, always the same for the same name. The factor keeps the agents that every project has apart. */
export function hueOf(name: string): number {
  let sum = 0;
  for (const character of name) sum = (sum * 353 + character.charCodeAt(0)) % 9973;
  return sum % HUES;
}

/** `agent_coder` is `coder` to people. */
export function shortName(agent: string): string {
  return agent.startsWith("agent_") ? agent.slice("agent_".length) : agent;
}

/** A value of a tool's arguments or result as text: strings as they are, nothing as nothing, all else as JSON. */
export function plainText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined ? "" : JSON.stringify(value);
}

const SIZES = ["byte", "kilobyte", "megabyte"] as const;
const PER_SIZE = 1024;

/** The size of a file, in the largest unit of which it has one. */
export function fileSize(region: string, bytes: number): string {
  const power = bytes < PER_SIZE ? 0 : bytes < PER_SIZE ** 2 ? 1 : 2;
  const unit = SIZES[power] ?? "byte";
  const maximumFractionDigits = power === 2 ? 1 : 0;
  const format = new Intl.NumberFormat(region, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits });
  return format.format(bytes / PER_SIZE ** power);
}
