// A session's stream that a journey writes, for what would take a real session hours.
import type { Page, Route } from "playwright-core";

const AT = "2026-01-01T00:00:00Z";

/** Takes over the stream of a session. The result sends events; everything else comes from the server. */
export async function takeStream(page: Page, session: string): Promise<(events: object[]) => void> {
  const log: string[] = [];
  let waiting: Route[] = [];
  /** As the server does it: what came after the last event that the page has seen. Each answer ends, and the page returns. */
  const answer = (route: Route) => {
    const isWhole = route.request().url().includes("follow=false");
    const seen = isWhole ? 0 : Number(route.request().headers()["last-event-id"] ?? 0);
    if (!isWhole && log.length <= seen) return waiting.push(route);
    return route.fulfill({ contentType: "text/event-stream", body: log.slice(seen).join("") });
  };
  await page.route(`**/my/chat/${session}/events/**`, answer);
  return (events) => {
    for (const event of events) {
      const seq = log.length + 1;
      const data = JSON.stringify({ ...event, seq, session_id: session, timestamp: AT });
      log.push(`id: ${seq}\nevent: x\ndata: ${data}\n\n`);
    }
    const routes = waiting;
    waiting = [];
    // The page may have left.
    for (const route of routes) void Promise.resolve(answer(route)).catch(() => undefined);
  };
}
