// Sends a request again while the server is away: it was restarted, or another one takes over its work.

/** Another server takes over within 15 s. */
const REPEAT_FOR_MS = 20_000;
const FIRST_DELAY_MS = 300;
const LONGEST_DELAY_MS = 2_000;
/** A server that could not do its work for now. Other codes are about the request. */
const OUTAGES = new Set(["OWNER_UNREACHABLE", "DB_CONNECTION_ERROR"]);

/** For requests that have the same effect when they arrive twice. Reading is always one of them. */
export const again = (request: Request): Promise<Response> => repeated(request, () => true);

/** For all others: sent again only if no server has it. */
export const againIfUnseen = (request: Request): Promise<Response> =>
  repeated(request, (outage) => outage === "unseen" || request.method === "GET");

/** Sent once. For those who ask again by themselves. */
export const once = (request: Request): Promise<Response> => fetch(request);

/**
 * The name of a message, by which a server knows it again. `crypto.randomUUID` is missing on pages that came over plain
 * HTTP from another machine.
 */
export function newMessageId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Whether a server may have the request although there is no answer. */
type Outage = "unseen" | "unknown";

async function repeated(request: Request, mayRepeat: (outage: Outage) => boolean): Promise<Response> {
  const deadline = Date.now() + REPEAT_FOR_MS;
  for (let delayMs = FIRST_DELAY_MS; ; delayMs = Math.min(delayMs * 2, LONGEST_DELAY_MS)) {
    // A body can be sent once, so a copy of the request is sent.
    const answer = await fetch(request.clone()).catch((cause: unknown) => {
      if (request.signal.aborted || !mayRepeat("unknown") || Date.now() + delayMs > deadline) throw cause;
      return undefined;
    });
    if (answer !== undefined) {
      const outage = await outageOf(answer);
      if (outage === undefined || !mayRepeat(outage) || Date.now() + delayMs > deadline) return answer;
    }
    await new Promise((resolve) => setTimeout(resolve, delayMs));
  }
}

async function outageOf(answer: Response): Promise<Outage | undefined> {
  if (answer.status < 502 || answer.status > 504) return undefined;
  const body: unknown = await answer
    .clone()
    .json()
    .catch(() => undefined);
  const code = typeof body === "object" && body !== null ? (body as { error_code?: unknown }).error_code : undefined;
  // An answer without a code is the load balancer's. It says 503 where it reached no server at all.
  if (code === undefined) return answer.status === 503 ? "unseen" : "unknown";
  return typeof code === "string" && OUTAGES.has(code) ? "unknown" : undefined;
}
