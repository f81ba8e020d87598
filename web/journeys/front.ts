// Stands before the server with the page from dist/ and the policies in the server's source; everything else is passed on.
// So a change of the page can be tried without building the server.
import { createServer, request as passOn, type IncomingMessage, type ServerResponse } from "node:http";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";

const DIST = join(import.meta.dirname, "../dist");
const SERVER_PAGE = join(import.meta.dirname, "../../crates/server/src/page.rs");
const FRAMES = "/frame/";
const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

export class Front {
  private readonly server = createServer((request, response) => this.handle(request, response));
  private readonly policy = policyOf("CONTENT_SECURITY_POLICY");
  private readonly framePolicy = policyOf("FRAME_POLICY");

  constructor(private readonly target: string) {}

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }

  private handle(request: IncomingMessage, response: ServerResponse) {
    const path = (request.url ?? "/").split("?")[0] ?? "/";
    if (path === "/" || path.startsWith("/assets/") || path.startsWith(FRAMES)) return this.file(path, response);
    this.pass(request, response);
  }

  private pass(request: IncomingMessage, response: ServerResponse) {
    const onward = passOn(this.target + request.url, { method: request.method, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    // A server that is down looks like a server that is down.
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    request.pipe(onward);
  }

  private file(path: string, response: ServerResponse) {
    const name = path === "/" ? "index.html" : normalize(path);
    try {
      const content = readFileSync(join(DIST, name));
      const type = TYPES[extname(name)] ?? "application/octet-stream";
      response.writeHead(200, {
        "content-type": type,
        "content-security-policy": path.startsWith(FRAMES) ? this.framePolicy : this.policy,
        "x-content-type-options": "nosniff",
      });
      response.end(content);
    } catch {
      response.writeHead(404).end();
    }
  }
}

/** A policy as the server's source has it: a text over several lines. */
function policyOf(name: string): string {
  const found = new RegExp(`const ${name}: &str = "([^"]+)";`).exec(readFileSync(SERVER_PAGE, "utf8"))?.[1];
  if (found === undefined) throw new Error(`${SERVER_PAGE} has no ${name}`);
  return found.replace(/\\\n\s*/g, "");
}
