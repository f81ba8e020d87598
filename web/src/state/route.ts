// The current view, parsed from the page's address.
export type Route =
  | { view: "chat" }
  | { view: "sessions"; sessionId: string | undefined; /** The card to show. */ callId?: string | undefined }
  | { view: "waiting" }
  | { view: "plans"; sessionId: string | undefined; planId: string | undefined }
  | { view: "agents"; agentId: string | undefined }
  | { view: "tools"; server: string | undefined }
  | { view: "operations"; /** The panel to show. */ panel?: string | undefined };

export type View = Route["view"];
export const VIEWS: readonly View[] = ["chat", "sessions", "waiting", "plans", "agents", "tools", "operations"];

export function parseRoute(hash: string): Route {
  const [view, first, second] = hash.replace(/^#\/?/, "").split("/").map(decodePart);
  switch (view) {
    case "plans":
      return { view, sessionId: first, planId: second };
    case "agents":
      return { view, agentId: first };
    case "tools":
      return { view, server: first };
    // The address of earlier versions.
    case "approvals":
      return { view: "waiting" };
    case "chat":
    case "waiting":
      return { view };
    case "operations":
      return { view, panel: first };
    case "sessions":
      return { view, sessionId: first, callId: second };
    default:
      return { view: "sessions", sessionId: undefined };
  }
}

export function linkTo(view: View, ...parts: string[]): string {
  return `#/${[view, ...parts.map(encodeURIComponent)].join("/")}`;
}

/** The ticket of a login link. */
export function ticketOf(hash: string): string | undefined {
  return /^#login=([0-9A-Za-z_-]+)$/.exec(hash)?.[1];
}

function decodePart(part: string): string | undefined {
  try {
    return part === "" ? undefined : decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
