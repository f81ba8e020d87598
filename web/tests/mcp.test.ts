// MCP servers in the page: what they ask, how their definitions differ, what forms send.
import { describe, expect, test } from "vitest";
import type { SessionInput } from "../src/api/events";
import type { McpServer, SessionEvent, ToolDefinition } from "../src/api/types";
import { visible } from "../src/state/diff";
import { answerOf, fieldsOf } from "../src/state/elicit";
import { reduceSession } from "../src/state/reduce";
import { linkTo, parseRoute } from "../src/state/route";
import { emptySession, type ToolItem } from "../src/state/session";
import {
  definitionText,
  diffOfDefinitions,
  headersOf,
  needsLook,
  offeredTools,
  serverOfEntry,
  webAddress,
} from "../src/state/tools";

const AT = "2026-01-01T00:00:00.000Z";
const DIGEST = "a".repeat(64);

describe("the reducer", () => {
  const input = (type: string, data: unknown, seq?: number): SessionInput => ({
    kind: "event",
    event: { type, data, session_id: "s", timestamp: AT, seq } as unknown as SessionEvent,
  });
  const mcp = { server: "notes", tool: "save", definition: DIGEST, runs_at: "client", description: "Saves" };
  const call = input(
    "tool_call",
    {
      tool_call: { call_id: "c", name: "mcp__notes__save", arguments: {} },
      requires_approval: false,
      digest: DIGEST,
      mcp,
      agent: "a",
      client_attached: true,
    },
    1,
  );
  const toolAfter = (...inputs: SessionInput[]) =>
    reduceSession(emptySession, inputs).items.find((item) => item.kind === "tool") as ToolItem;

  test("a call knows its server, and keeps it with its result", () => {
    const result = input("tool_result", { call_id: "c", tool_name: "mcp__notes__save", result: "ok" }, 2);
    expect(toolAfter(call, result).mcp).toEqual(mcp);
  });
  test("progress goes when the call is closed, and does not start a turn", () => {
    const progress = input("tool_progress", { call_id: "c", progress: 1 });
    const closed = input("tool_call_closed", { call_id: "c", outcome: "cancelled" }, 2);
    expect(toolAfter(call, progress).progress).toEqual({ progress: 1, total: undefined, message: undefined });
    expect(toolAfter(call, progress, closed, progress).progress).toBeUndefined();
    const ended = reduceSession(emptySession, [call, { kind: "done", status: "completed" }, progress]);
    expect(ended.status).toBe("completed");
  });
  test("progress of an unknown call is nothing", () => {
    expect(reduceSession(emptySession, [input("tool_progress", { call_id: "x", progress: 1 })]).items).toEqual([]);
  });
});

describe("questions of servers", () => {
  const schema = {
    type: "object",
    properties: {
      name: { type: "string", title: "Your name", description: "As in the passport" },
      age: { type: "integer" },
      weight: { type: "number" },
      isAdult: { type: "boolean", default: true },
      colour: { type: "string", enum: ["r", "g"], enumNames: ["Red", "Green"] },
      size: { oneOf: [{ const: "s", title: "Small" }, { const: "l" }] },
      tags: { type: "array" },
    },
    required: ["name"],
  };
  const fields = fieldsOf(schema);
  test("have fields", () => {
    expect(fields.map(({ kind }) => kind)).toEqual([
      "text",
      "integer",
      "number",
      "boolean",
      "choice",
      "choice",
      "json",
    ]);
    expect(fields[0]).toMatchObject({ label: "Your name", hint: "As in the passport", isRequired: true });
    expect(fields[3]?.initial).toBe("true");
    expect(fields[4]?.choices.map(({ label }) => label)).toEqual(["Red", "Green"]);
    expect(fields[5]?.choices.map(({ label }) => label)).toEqual(["Small", "l"]);
  });
  test("are answered with an object of the right types", () => {
    const values = { name: "Ann", age: "7", weight: "1.5", isAdult: "", colour: "g", size: "l", tags: '["x"]' };
    expect(JSON.parse(answerOf(fields, values) ?? "")).toEqual({
      name: "Ann",
      age: 7,
      weight: 1.5,
      isAdult: false,
      colour: "g",
      size: "l",
      tags: ["x"],
    });
  });
  test.each([
    ["a required field is missing", { name: "" }],
    ["not a whole number", { name: "Ann", age: "7.5" }],
    ["not a number", { name: "Ann", weight: "much" }],
    ["not a choice", { name: "Ann", colour: "Red" }],
    ["not JSON", { name: "Ann", tags: "[" }],
  ])("have no answer: %s", (_, values) => {
    expect(answerOf(fields, values)).toBeUndefined();
  });
  test("what is left empty is not sent", () => {
    expect(answerOf(fields, { name: "Ann" })).toBe('{"name":"Ann","isAdult":false}');
  });
  test.each([{}, { properties: null }, { properties: [] }, { properties: "x" }])("a strange schema: %j", (strange) => {
    expect(fieldsOf(strange)).toEqual([]);
  });
});

describe("definitions", () => {
  const definition: ToolDefinition = {
    name: "save",
    description: "Saves a note.\nQuickly.",
    input_schema: { type: "object", properties: { text: { type: "string" } } },
  };
  test("the order of keys is no difference", () => {
    const other = { ...definition, input_schema: { properties: { text: { type: "string" } }, type: "object" } };
    expect(definitionText(other)).toBe(definitionText(definition));
  });
  test("a line of a description cannot pass as another part", () => {
    const one = definitionText({ ...definition, description: 'a\n"title": "b"' });
    expect(one).toContain('"\\"title\\": \\"b\\""');
  });
  test("a difference shows the changed lines", () => {
    const diff = diffOfDefinitions(definition, { ...definition, description: "Saves a note.\nAnd sends it." });
    const lines = diff.kind === "edits" ? [] : diff.lines;
    const changed = lines.flatMap((line) => (line.type === "added" || line.type === "removed" ? [line] : []));
    expect(changed.map(({ type, text }) => `${type} ${text.trim()}`)).toEqual([
      'removed "Quickly."',
      'added "And sends it."',
    ]);
  });
  test("hidden characters of a description are seen", () => {
    expect(visible("a\u202eb\u{e0041}\u200b")).toBe("a⟨U+202E⟩b⟨U+E0041⟩⟨U+200B⟩");
  });
});

describe("forms", () => {
  test("only web addresses are opened", () => {
    expect(webAddress("https://id.example/authorize?x=1")?.host).toBe("id.example");
    expect(webAddress("http://127.0.0.1:1/")?.protocol).toBe("http:");
    for (const bad of ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "/relative", ""])
      expect(webAddress(bad)).toBeUndefined();
  });
  test("rows without a name are no headers", () => {
    const rows = [
      { name: " Authorization ", value: "Bearer x " },
      { name: " ", value: "y" },
    ];
    expect(headersOf(rows)).toEqual({ Authorization: "Bearer x " });
  });
  test("an agent is offered all servers and keeps what it has", () => {
    const offered = offeredTools(["read_file"], ["git", "notes"], ["mcp__gone__*", "mcp__git__log", "read_file"]);
    expect(offered).toEqual(["read_file", "mcp__*", "mcp__git__*", "mcp__notes__*", "mcp__gone__*", "mcp__git__log"]);
    expect(offered.map(serverOfEntry)).toEqual([undefined, undefined, "git", "notes", "gone", undefined]);
  });
  test("a server needs a look when it failed or a tool is off by itself", () => {
    const tool = { state: "on" };
    const server = { status: "ready", tools: [tool] } as unknown as McpServer;
    expect(needsLook(server)).toBe(false);
    expect(needsLook({ ...server, status: "unauthorized" })).toBe(true);
    expect(needsLook({ ...server, tools: [{ ...server.tools[0]!, state: "changed" }] })).toBe(true);
    expect(needsLook({ ...server, tools: [{ ...server.tools[0]!, state: "forbidden" }] })).toBe(false);
  });
  test("the view has an address, and no server takes that of the form", () => {
    expect(parseRoute(linkTo("tools", "git"))).toEqual({ view: "tools", server: "git" });
    expect(parseRoute(linkTo("tools", "+"))).toEqual({ view: "tools", server: "+" });
    expect(parseRoute("#/tools")).toEqual({ view: "tools", server: undefined });
  });
});
