// The list of sessions as it is shown.
import type { Session } from "../api/types";

/** Pinned ones first. Among themselves they keep the server's order, newest activity first. */
export function pinnedFirst(sessions: readonly Session[]): Session[] {
  return sessions.toSorted((a, b) => Number(b.pinned) - Number(a.pinned));
}
