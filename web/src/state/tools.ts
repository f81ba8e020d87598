// Tools of MCP servers: their definitions as text, the headers of a form, and what an agent can be allowed.
import type { McpServer, ToolDefinition } from "../api/types";
import { compare, fold, type WriteDiff } from "./diff";

/** A definition as a text in which every difference is a line. Keys are sorted: their order means nothing. */
export function definitionText({ name, title, description, input_schema, annotations }: ToolDefinition): string {
  const lines = (description ?? "").split("\n");
  return sortedJson({ name, title, description: lines.length > 1 ? lines : lines[0], input_schema, annotations });
}

export function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => (isObject(part) ? sorted(part) : part), 2);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function sorted(part: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)));
}

export function diffOfDefinitions(accepted: ToolDefinition, present: ToolDefinition): WriteDiff {
  return { kind: "change", lines: fold(compare(definitionText(accepted), definitionText(present))) };
}

/** An address that can be opened in a tab; nothing for `javascript:` and the like. */
export function webAddress(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && (url.protocol === "https:" || url.protocol === "http:") ? url : undefined;
}

export interface HeaderRow {
  name: string;
  value: string;
}

/** Rows without a name are not headers. */
export function headersOf(rows: readonly HeaderRow[]): Record<string, string> {
  return Object.fromEntries(
    rows.map(({ name, value }) => [name.trim(), value]).filter(([name]) => name !== ""),
  ) as Record<string, string>;
}

export const needsLook = (server: McpServer) =>
  server.status === "failed" ||
  server.status === "unauthorized" ||
  server.tools.some((tool) => tool.state === "changed" || tool.state === "collides");

export const ALL_MCP = "mcp__*";
const OF_SERVER = /^mcp__(.+)__\*$/;

/** What stands in the list of an agent's tools: built-in ones, those of all known servers, and what it has already. */
export function offeredTools(
  builtIn: readonly string[],
  servers: readonly string[],
  present: readonly string[],
): readonly string[] {
  return [...new Set([...builtIn, ALL_MCP, ...servers.map((name) => `mcp__${name}__*`), ...present])];
}

/** The server of an entry such as `mcp__git__*`. */
export const serverOfEntry = (entry: string) => OF_SERVER.exec(entry)?.[1];
