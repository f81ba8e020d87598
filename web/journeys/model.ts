// A scripted model behind real HTTP, in the form of an OpenAI-compatible server.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface ModelRequest {
  model: string;
  messages: { role: string; content?: string | null; tool_call_id?: string }[];
  tools?: { function: { name: string } }[];
  response_format?: { json_schema?: { name?: string } };
}

export interface Reply {
  text?: string;
  call?: { name: string; args: unknown };
  /** Waits for this before the last word, so that an answer can be seen while it is written. */
  gate?: Promise<void>;
  status?: number;
}

/** The first rule that gives a reply answers. */
export type Rule = (request: ModelRequest) => Reply | undefined;

export class Model {
  readonly requests: ModelRequest[] = [];
  rules: Rule[] = [];
  private readonly server = createServer((request, response) => void this.answer(request, response));

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }

  private async answer(incoming: IncomingMessage, response: ServerResponse) {
    if (incoming.method === "GET") {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ object: "list", data: [{ id: "scripted", object: "model" }] }));
      return;
    }
    const request = JSON.parse(await bodyOf(incoming)) as ModelRequest;
    this.requests.push(request);
    const reply = this.rules.map((rule) => rule(request)).find((found) => found !== undefined) ?? {
      text: "Understood.",
    };
    if (reply.status !== undefined) {
      response.writeHead(reply.status, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "scripted failure" } }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (delta: unknown, finish: string | null = null) =>
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
    const words = (reply.text ?? "").split(/(?<= )/);
    const last = words.pop() ?? "";
    for (const word of words) send({ content: word });
    await reply.gate;
    if (last !== "") send({ content: last });
    if (reply.call !== undefined) {
      const call = { name: reply.call.name, arguments: JSON.stringify(reply.call.args) };
      send({ tool_calls: [{ index: 0, id: `up-${this.requests.length}`, type: "function", function: call }] });
    }
    send({}, reply.call === undefined ? "stop" : "tool_calls");
    const usage = { prompt_tokens: 420, completion_tokens: 60, total_tokens: 480 };
    response.write(`data: ${JSON.stringify({ choices: [], usage })}\n\n`);
    response.end("data: [DONE]\n\n");
  }
}

async function bodyOf(incoming: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of incoming) parts.push(part as Buffer);
  return Buffer.concat(parts).toString("utf8");
}

export const lastOf = (request: ModelRequest, role: string) =>
  request.messages.findLast((message) => message.role === role)?.content ?? "";

export const isPlanning = (request: ModelRequest) => request.response_format !== undefined;
export const offers = (request: ModelRequest, tool: string) =>
  request.tools?.some((offered) => offered.function.name === tool) ?? false;
/** Whether the newest message is a tool's result. */
export const hasResult = (request: ModelRequest) => request.messages.at(-1)?.role === "tool";
