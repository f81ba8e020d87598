import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { again, againIfUnseen, once } from "../src/api/again";

/** A status, with an error code where a server of CodeLab answered; 0 is a lost connection. */
type Answer = [status: number, code?: string];

let sent: string[] = [];
let answers: Answer[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    sent.push(await request.text());
    const [status, code] = answers.shift() ?? [200];
    if (status === 0) throw new TypeError("connection lost");
    const body = code === undefined ? "<html>" : JSON.stringify({ error_code: code });
    return new Response(body, { status });
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function run(way: (request: Request) => Promise<Response>, method: string, script: Answer[]) {
  answers = [...script];
  const body = method === "GET" ? null : "hello";
  const answered = way(new Request("http://server/x", { method, body })).then(
    (answer) => answer.status,
    () => 0,
  );
  await vi.advanceTimersByTimeAsync(60_000);
  return { status: await answered, times: sent.length };
}

const outage: Answer[] = [[0], [502], [503], [503, "OWNER_UNREACHABLE"], [503, "DB_CONNECTION_ERROR"]];

test("what can arrive twice is sent again through every kind of outage, with its body", async () => {
  expect(await run(again, "POST", outage)).toEqual({ status: 200, times: 6 });
  expect(new Set(sent)).toEqual(new Set(["hello"]));
  expect(await run(againIfUnseen, "GET", outage)).toEqual({ status: 200, times: 12 });
});

test("everything else is sent again only if it reached no server", async () => {
  expect(await run(againIfUnseen, "POST", [[503], [503]])).toEqual({ status: 200, times: 3 });
  sent = [];
  expect(await run(againIfUnseen, "POST", [[503, "OWNER_UNREACHABLE"]])).toEqual({ status: 503, times: 1 });
  sent = [];
  expect(await run(againIfUnseen, "POST", [[502]])).toEqual({ status: 502, times: 1 });
  sent = [];
  expect(await run(againIfUnseen, "POST", [[0]])).toEqual({ status: 0, times: 1 });
});

test.each<Answer>([
  [502, "LLM_PROXY_UNAVAILABLE"],
  [503, "AGENT_UNAVAILABLE"],
  [500],
  [409, "CONFLICT"],
  [429, "RATE_LIMITED"],
])("an answer about the request is the answer: %i %s", async (...answer) => {
  expect(await run(again, "POST", [answer])).toEqual({ status: answer[0], times: 1 });
});

test("it ends: the last answer is given, and what is sent once is sent once", async () => {
  const { status, times } = await run(again, "POST", new Array<Answer>(100).fill([502]));
  expect(status).toBe(502);
  expect(times).toBeGreaterThan(8);
  expect(times).toBeLessThan(20);
  sent = [];
  expect(await run(once, "GET", [[0]])).toEqual({ status: 0, times: 1 });
});
