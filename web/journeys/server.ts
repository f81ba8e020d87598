// The real server in a folder of its own, which can be killed and started again on the same port.
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const START_LIMIT_MS = 20_000;

export class CodeLab {
  readonly dataDir = mkdtempSync(join(tmpdir(), "codelab-journey-"));
  private port = 0;
  private child: ChildProcess | undefined;
  private log = "";

  constructor(private readonly env: Record<string, string>) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
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

function cleanEnv(): Record<string, string> {
  return { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "/" };
}

async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
