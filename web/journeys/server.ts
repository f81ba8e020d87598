// The real server in a folder of its own, which can be killed and started again on the same port.
//
// With JOURNEYS_SERVERS set, a journey meets that many of them behind a load balancer (cluster.ts).
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const START_LIMIT_MS = 20_000;

/** What a journey talks to. */
export interface Installation {
  readonly url: string;
  start(): Promise<void>;
  /** All of it, as a power cut does it. */
  kill(): Promise<void>;
  remove(): Promise<void>;
  token(): string;
  loginTicket(): string;
  internalKey(): string;
}

export class CodeLab implements Installation {
  readonly dataDir = mkdtempSync(join(tmpdir(), "codelab-journey-"));
  private port = 0;
  private child: ChildProcess | undefined;
  private log = "";

  constructor(private readonly env: Record<string, string>) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** As one of several servers, which know each other by their addresses. */
  async join(env: Record<string, string>) {
    this.port ||= await freePort();
    Object.assign(this.env, env, { CODELAB_CLUSTER__ADDRESS: this.url });
  }

  async start() {
    this.port ||= await freePort();
    const args = ["serve", "--addr", `127.0.0.1:${this.port}`, "--data-dir", this.dataDir];
    const child = spawn(binary(), args, { env: { ...cleanEnv(), ...this.env }, stdio: ["ignore", "pipe", "pipe"] });
    this.child = child;
    child.stdout?.on("data", (text: Buffer) => (this.log += text.toString()));
    child.stderr?.on("data", (text: Buffer) => (this.log += text.toString()));
    const deadline = Date.now() + START_LIMIT_MS;
    while (!(await this.answers())) {
      if (Date.now() > deadline || child.exitCode !== null) throw new Error(`the server did not start:\n${this.log}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  private async answers(): Promise<boolean> {
    return fetch(`${this.url}/health`).then(
      (response) => response.ok,
      () => false,
    );
  }

  /** As a crash does it. */
  async kill() {
    const child = this.child;
    if (child === undefined || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
    this.child = undefined;
  }

  async remove() {
    await this.kill();
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  internalKey(): string {
    return this.env["INTERNAL_API_KEY"] ?? readFileSync(join(this.dataDir, "secrets/internal_api_key"), "utf8").trim();
  }

  token(): string {
    return this.run("token", "--user", "1");
  }

  loginTicket(): string {
    return /#login=(\S+)/.exec(this.run("login-link", "--user", "1"))?.[1] ?? "";
  }

  private run(...args: string[]): string {
    const done = spawnSync(binary(), [...args, "--data-dir", this.dataDir], { env: { ...cleanEnv(), ...this.env } });
    if (done.status !== 0) throw new Error(done.stderr.toString());
    return done.stdout.toString().trim();
  }
}

function binary(): string {
  const path = process.env["CODELAB_BIN"];
  if (path === undefined) throw new Error("set CODELAB_BIN to the codelab binary");
  return path;
}

export function cleanEnv(): Record<string, string> {
  return { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "/" };
}

export async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
