// What the page and the frame that draws diagrams say to each other. The frame is not trusted: it draws a model's text.

export const DIAGRAM_LANGUAGE = "mermaid";
/** The page of the frame. The server sends it with a policy of its own. */
export const DIAGRAM_FRAME = "/frame/diagram.html";

/** A longer text is not meant to be looked at, and drawing it would take long. */
export const MAX_DIAGRAM_CHARACTERS = 20_000;
/** Loading, reading and drawing together. Later answers do not count. */
export const DIAGRAM_TIMEOUT_MS = 15_000;
const MIN_HEIGHT_PX = 24;
/** A higher diagram is scrolled in its frame. */
export const MAX_HEIGHT_PX = 900;

/** From the page to the frame. */
export interface DrawRequest {
  text: string;
  isDark: boolean;
}

/** From the frame to the page: how high the diagram is, or that it could not be drawn. */
export type DrawAnswer = { height: number } | { failed: true };

/** Nothing if it is not an answer. The height is within its limits. */
export function drawAnswer(data: unknown): DrawAnswer | undefined {
  if (typeof data !== "object" || data === null) return undefined;
  if ("failed" in data && data.failed === true) return { failed: true };
  if (!("height" in data) || typeof data.height !== "number" || !Number.isFinite(data.height)) return undefined;
  return { height: Math.min(MAX_HEIGHT_PX, Math.max(MIN_HEIGHT_PX, Math.ceil(data.height))) };
}

/** Nothing if it is not a request of the page, or if its text is too long. */
export function drawRequest(data: unknown): DrawRequest | undefined {
  if (typeof data !== "object" || data === null) return undefined;
  if (!("text" in data) || typeof data.text !== "string" || data.text.length > MAX_DIAGRAM_CHARACTERS) return undefined;
  return { text: data.text, isDark: "isDark" in data && data.isDark === true };
}
