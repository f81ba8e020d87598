// A small MCP server over HTTP: its tools can be changed while it runs.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface OfferedTool {
  name: string;
  description: string;
  inputSchema: Record<string, unknown>;
  annotations?: Record<string, unknown>;
}

interface Message {
  id?: number | string;
  /** Absent in an answer to the server. */
  method?: string;
  result?: unknown;
  params?: { name?: string; arguments?: Record<string, unknown>; _meta?: { progressToken?: unknown } };
}

/** The tool that asks the person. */
export const ASKING = "ask_person";

export class McpServer {
  /** What the calls were made with. */
  readonly calls: { name: string; args: Record<string, unknown> }[] = [];
  /** Values of this header, in the order of the requests. */
  readonly keys: (string | undefined)[] = [];
  /** What people answered. */
  readonly answers: unknown[] = [];
  private answered: (() => void) | undefined;
  private readonly server = createServer((request, response) => void this.answer(request, response));

  constructor(public tools: OfferedTool[]) {}

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/mcp`;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }

  private async answer(incoming: IncomingMessage, response: ServerResponse) {
    // It opens no stream and keeps no session.
    if (incoming.method !== "POST") return void response.writeHead(405).end();
    const key = incoming.headers["x-key"];
    this.keys.push(Array.isArray(key) ? key[0] : key);
    let body = "";
    for await (const part of incoming) body += String(part);
    const message = JSON.parse(body) as Message;
    if (message.method === undefined) {
      this.answers.push(message.result);
      this.answered?.();
    }
    if (message.id === undefined || message.method === undefined) return void response.writeHead(202).end();
    if (message.params?.name === ASKING && message.method === "tools/call")
      return this.ask(message.id, message.params, response);
    const result = this.result(message);
    const error = { code: -32601, message: "Method not found" };
    const told = result === undefined ? { error } : { result };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...told }));
  }

  /** A call that says how far it is and asks the person something before it ends. */
  private async ask(id: number | string, params: Message["params"], response: ServerResponse) {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (message: Record<string, unknown>) =>
      response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`);
    const answer = new Promise<void>((resolve) => (this.answered = resolve));
    const requestedSchema = {
      type: "object",
      properties: {
        title: { type: "string", title: "Title of the note" },
        copies: { type: "integer" },
        colour: { type: "string", enum: ["red", "blue"] },
        isShared: { type: "boolean", title: "Share it" },
      },
      required: ["title"],
    };
    const progressToken = params?._meta?.progressToken;
    const progress = { progressToken, progress: 1, total: 4, message: "Looking for paper" };
    if (progressToken !== undefined) send({ method: "notifications/progress", params: progress });
    send({ id: "ask-1", method: "elicitation/create", params: { message: "How shall I save it?", requestedSchema } });
    await answer;
    send({ id, result: { content: [{ type: "text", text: "asked" }] } });
    response.end();
  }

  private result({ method, params }: Message): unknown {
    switch (method) {
      case "initialize":
        return {
          protocolVersion: "2025-11-25",
          capabilities: { tools: {} },
          serverInfo: { name: "journey", version: "1" },
        };
      case "ping":
        return {};
      case "tools/list":
        return { tools: this.tools };
      case "tools/call": {
        const args = params?.arguments ?? {};
        this.calls.push({ name: params?.name ?? "", args });
        return { content: [{ type: "text", text: `saved: ${JSON.stringify(args)}` }] };
      }
      default:
        return undefined;
    }
  }
}
