// Several servers on one PostgreSQL behind HAProxy. Any of them can be killed in the middle of a journey.
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cleanEnv, CodeLab, freePort, type Installation } from "./server";

/** How many servers each journey meets; 0 for one server without a load balancer. */
export const SERVERS = Number(process.env["JOURNEYS_SERVERS"] ?? 0);
const WAIT_LIMIT_MS = 30_000;

interface Cluster {
  server: string;
  owned: { projects: number; chat: boolean };
}

export class ServerCluster implements Installation {
  private readonly servers: CodeLab[];
  private readonly folder = mkdtempSync(join(tmpdir(), "codelab-balancer-"));
  private readonly database = `journey_${randomBytes(6).toString("hex")}`;
  private readonly secrets = {
    INTERNAL_API_KEY: randomBytes(16).toString("hex"),
    JWT_SECRET: randomBytes(32).toString("hex"),
    CODELAB_MASTER_KEY: randomBytes(32).toString("hex"),
  };
  private balancer: ChildProcess | undefined;
  private port = 0;
  private kills = 0;
  /** Servers that were killed and start again. */
  private starting: Promise<unknown> = Promise.resolve();

  constructor(env: Record<string, string>) {
    this.servers = Array.from({ length: SERVERS }, () => new CodeLab({ ...env }));
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async start() {
    if (this.port === 0) await this.prepare();
    await Promise.all(this.servers.map((server) => server.start()));
    await this.until(async () => (await fetch(`${this.url}/health/ready`)).ok, "the load balancer finds no server");
  }

  private async prepare() {
    this.port = await freePort();
    sql(`CREATE DATABASE ${this.database}`);
    const shared = {
      ...this.secrets,
      DATABASE_URL: `${postgres().replace(/\/[^/]*$/, "")}/${this.database}`,
      CODELAB_SERVER__PUBLIC_URL: this.url,
    };
    for (const server of this.servers) await server.join(shared);
    const file = join(this.folder, "haproxy.cfg");
    writeFileSync(file, this.configuration());
    this.balancer = spawn("haproxy", ["-db", "-f", file], {
      env: { ...cleanEnv(), PATH: `${process.env["PATH"]}:/usr/sbin` },
      stdio: "ignore",
    });
    this.balancer.on("error", () => undefined);
  }

  private configuration(): string {
    const servers = this.servers.map((server, index) => `  server s${index} ${server.url.replace("http://", "")}`);
    return `defaults
  mode http
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  retries 3
  retry-on conn-failure
  option redispatch 1
listen codelab
  bind 127.0.0.1:${this.port}
  balance roundrobin
  option httpchk
  http-check send meth GET uri /health/ready ver HTTP/1.1 hdr Host 127.0.0.1
  http-check expect status 200
  default-server check inter 500 fall 2 rise 1
${servers.join("\n")}
`;
  }

  async kill() {
    await this.starting;
    this.kills += SERVERS;
    await Promise.all(this.servers.map((server) => server.kill()));
  }

  async remove() {
    await this.starting.catch(() => undefined);
    this.balancer?.kill("SIGKILL");
    await Promise.all(this.servers.map((server) => server.remove()));
    rmSync(this.folder, { recursive: true, force: true });
    sql(`DROP DATABASE IF EXISTS ${this.database} WITH (FORCE)`);
    if (this.kills === 0) throw new Error("no server was killed in these journeys");
  }

  /**
   * Kills the server that owns the project, and starts it again while the journey goes on. With `isAway` it comes back
   * only when another server has taken over.
   */
  async killOwner(isAway: boolean) {
    await this.starting;
    const owner = await this.until(() => this.find((cluster) => cluster.owned.projects > 0), "nobody owns a project");
    this.kills += 1;
    await owner.kill();
    this.starting = (async () => {
      if (isAway) await this.until(() => this.find((cluster) => cluster.owned.projects > 0), "nobody took over");
      await owner.start();
    })();
    this.starting.catch(() => undefined);
  }

  /** Kills those servers that do not own the Chat, whose messages are only in memory. */
  async killOthers() {
    await this.starting;
    const owner = await this.until(() => this.find((cluster) => cluster.owned.chat), "nobody owns the Chat");
    const others = this.servers.filter((server) => server !== owner);
    this.kills += others.length;
    await Promise.all(others.map((server) => server.kill()));
    this.starting = Promise.all(others.map((server) => server.start()));
    this.starting.catch(() => undefined);
  }

  private async find(isWanted: (cluster: Cluster) => boolean): Promise<CodeLab | undefined> {
    for (const server of this.servers) {
      const health = await fetch(`${server.url}/health`).then(
        (answer) => answer.json() as Promise<{ cluster: Cluster }>,
        () => undefined,
      );
      if (health !== undefined && isWanted(health.cluster)) return server;
    }
    return undefined;
  }

  private async until<T>(look: () => Promise<T | undefined | false>, otherwise: string): Promise<T> {
    const deadline = Date.now() + WAIT_LIMIT_MS;
    for (;;) {
      const found = await look().catch(() => undefined);
      if (found !== undefined && found !== false) return found;
      if (Date.now() > deadline) throw new Error(otherwise);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  internalKey(): string {
    return this.secrets.INTERNAL_API_KEY;
  }

  token(): string {
    return this.servers[0]!.token();
  }

  loginTicket(): string {
    return this.servers[0]!.loginTicket();
  }
}

function postgres(): string {
  const url = process.env["CODELAB_TEST_POSTGRES_URL"];
  if (url === undefined) throw new Error("set CODELAB_TEST_POSTGRES_URL to a PostgreSQL server");
  return url;
}

function sql(statement: string) {
  const done = spawnSync("psql", ["--quiet", "--no-psqlrc", "--command", statement, postgres()]);
  if (done.status !== 0) throw new Error(`psql: ${done.error?.message ?? done.stderr.toString()}`);
}
