// One harness for all journeys: the real server, a scripted model, the page in Chromium, and a tool runner.
import { randomUUID } from "node:crypto";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { ServerCluster, SERVERS } from "./cluster";
import { Front } from "./front";
import { Model, type Rule } from "./model";
import { CodeLab, type Installation } from "./server";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
export const CLIENT = "journey-client";

export interface WorldOptions {
  rules?: Rule[];
  /** Without a model the built-in demonstration answers. */
  isDemo?: boolean;
  env?: Record<string, string>;
}

export interface OpenPage {
  page: Page;
  /** Addresses that were asked for outside the server. */
  outside: string[];
  /** What the page complained about: uncaught errors, refused policies. */
  complaints: string[];
}

export class World {
  private browser: Browser | undefined;
  private context: BrowserContext | undefined;
  private front: Front | undefined;
  private token = "";
  /** Where the page is. */
  url = "";

  private constructor(
    readonly server: Installation,
    readonly model: Model,
  ) {}

  static async make(options: WorldOptions = {}): Promise<World> {
    const model = new Model();
    model.rules = options.rules ?? [];
    const address = await model.start();
    const env: Record<string, string> = options.isDemo ? {} : { LLM_PROXY_URL: address, LLM_MODEL: "gpt-4" };
    const given = { ...env, ...options.env };
    const world = new World(SERVERS > 0 ? new ServerCluster(given) : new CodeLab(given), model);
    await world.server.start();
    world.token = world.server.token();
    await world.openFront();
    // The first look makes the default project.
    await world.api("/my/projects/");
    return world;
  }

  /** The page that the server carries; the one in dist/ where it carries none, or where that is asked for. */
  private async openFront() {
    const own = await (await fetch(`${this.server.url}/`)).text();
    const isServed = own.includes('id="page"') && process.env["JOURNEYS_DIST"] === undefined;
    this.front = isServed ? undefined : new Front(this.server.url);
    this.url = this.front === undefined ? this.server.url : await this.front.start();
  }

  async close() {
    await this.browser?.close();
    this.front?.stop();
    this.model.stop();
    await this.server.remove();
  }

  /** A browser that has logged in by the printed link, at a view. */
  async open(hash = "#/chat", options: Parameters<Browser["newContext"]>[0] = {}): Promise<OpenPage> {
    this.browser ??= await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
    this.context = await this.browser.newContext({
      locale: "en-GB",
      viewport: { width: 1280, height: 860 },
      ...options,
    });
    const page = await this.context.newPage();
    const opened: OpenPage = { page, outside: [], complaints: [] };
    page.on("request", (request) => {
      const address = request.url();
      if (!address.startsWith(this.url) && !address.startsWith("data:")) opened.outside.push(address);
    });
    page.on("pageerror", (error) => opened.complaints.push(String(error)));
    page.on("console", (line) => {
      // A diagram may hold anything, and the policy of its frame refuses that. It is not the page that complains.
      if (line.location().url.startsWith(`${this.url}/assets/diagram-`)) return;
      if (/Content Security Policy|Refused to/.test(line.text())) opened.complaints.push(line.text());
    });
    await page.goto(`${this.url}/#login=${this.server.loginTicket()}`);
    await page.locator("nav").waitFor();
    await page.evaluate((to) => (location.hash = to), hash);
    return opened;
  }

  /**
   * In a run with several servers: kills the one that owns the project, and starts it again while the journey goes on.
   * With `isAway` it comes back only when another one has taken over. Returns whether it did.
   */
  async loseOwner(isAway = false): Promise<boolean> {
    if (this.server instanceof ServerCluster) await this.server.killOwner(isAway);
    return this.server instanceof ServerCluster;
  }

  /** The same with all servers that do not own the Chat. */
  async loseOthers() {
    if (this.server instanceof ServerCluster) await this.server.killOthers();
  }

  /** As programs should do it: a request is sent again while a server is away. */
  private async reach(path: string, init: RequestInit): Promise<Response> {
    const deadline = Date.now() + WAIT_LIMIT_MS;
    for (;;) {
      const response = await fetch(this.url + path, init).catch((cause: unknown) => {
        if (SERVERS === 0 || init.signal?.aborted || Date.now() > deadline) throw cause;
        return undefined;
      });
      const isAway = response === undefined || (response.status >= 502 && response.status <= 504);
      if (response !== undefined && (SERVERS === 0 || !isAway || Date.now() > deadline)) return response;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** The API as a user's own program calls it. */
  async api<T>(path: string, body?: unknown, method = body === undefined ? "GET" : "POST"): Promise<T> {
    const response = await this.reach(path, {
      method,
      headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (response.status === 204 ? undefined : await response.json()) as T;
  }

  /** The API as another program that is an agent calls it. */
  async agentSays<T>(path: string, body: unknown): Promise<T> {
    const response = await this.reach(path, {
      method: "POST",
      headers: { "x-internal-auth": this.server.internalKey(), "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  async session(title?: string): Promise<string> {
    return (await this.api<{ session_id: string }>("/my/chat/sessions/", title === undefined ? {} : { title }))
      .session_id;
  }

  /** Sends without waiting for the answer. */
  async send(session: string, content: string, target_agent?: string) {
    const stop = new AbortController();
    const response = await this.reach(`/my/chat/${session}/message/`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${this.token}`,
        "content-type": "application/json",
        accept: "text/event-stream",
      },
      body: JSON.stringify({ content, target_agent, client_message_id: randomUUID() }),
      signal: stop.signal,
    });
    if (!response.ok) throw new Error(`send: ${response.status} ${await response.text()}`);
    stop.abort();
  }

  attach(project = 1) {
    return this.api(`/my/projects/${project}/clients/`, { client_id: CLIENT, workspace: "demo", sandbox: "none" });
  }

  /** Takes a tool call and answers it, as a client does. */
  async finishCall(session: string, callId: string, result: unknown) {
    await this.api(`/my/chat/${session}/tool_calls/${callId}/claim/`, { client_id: CLIENT });
    await this.api(`/my/chat/${session}/tool_calls/${callId}/result/`, { client_id: CLIENT, result });
  }

  /** The frames of a session's stream as they come, until one of them is the last. */
  async record(session: string, isLast: (frame: { event: string; data: unknown }) => boolean) {
    const stop = new AbortController();
    const response = await fetch(`${this.url}/my/chat/${session}/events/`, {
      headers: { authorization: `Bearer ${this.token}` },
      signal: stop.signal,
    });
    const frames: { event: string; data: unknown }[] = [];
    let rest = "";
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value: part } = await reader.read();
      if (done) return frames;
      const blocks = (rest + part).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = /^event: (.*)$/m.exec(block)?.[1];
        const data = /^data: (.*)$/m.exec(block)?.[1];
        if (event === undefined || data === undefined) continue;
        frames.push({ event, data: JSON.parse(data) });
        if (isLast(frames.at(-1)!)) {
          stop.abort();
          return frames;
        }
      }
    }
  }

  /** Stored events of a session. */
  async events(session: string): Promise<{ type: string; seq: number; data: Record<string, unknown> }[]> {
    const response = await this.reach(`/my/chat/${session}/events/?follow=false`, {
      headers: { authorization: `Bearer ${this.token}` },
    });
    const text = await response.text();
    return [...text.matchAll(/^data: (\{"type".*)$/gm)].map((found) => JSON.parse(found[1]!) as never);
  }

  /** The next call of a tool that waits for a client. */
  async awaitCall(session: string, isWanted: (name: string) => boolean = () => true): Promise<string> {
    return until(async () => {
      const events = await this.events(session);
      const closed = new Set(
        events
          .filter((event) => event.type === "tool_result" || event.type === "tool_call_closed")
          .map((event) => event.data["call_id"]),
      );
      const calls = events.filter((event) => event.type === "tool_call" && event.data["requires_approval"] === false);
      const open = calls
        .map((event) => event.data["tool_call"] as { call_id: string; name: string })
        .find((call) => !closed.has(call.call_id) && isWanted(call.name));
      return open?.call_id;
    });
  }
}

const WAIT_LIMIT_MS = 20_000;

/** Asks again until there is something. */
export async function until<T>(ask: () => Promise<T | undefined> | T | undefined): Promise<T> {
  const deadline = Date.now() + WAIT_LIMIT_MS;
  for (;;) {
    const found = await ask();
    if (found !== undefined) return found;
    if (Date.now() > deadline) throw new Error(`nothing came within ${WAIT_LIMIT_MS} ms: ${ask.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}
