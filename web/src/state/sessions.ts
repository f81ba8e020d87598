// The list of sessions as it is shown.
import type { Session } from "../api/types";

/** Pinned ones first. Among themselves they keep the server's order, newest activity first. */
export function pinnedFirst(sessions: readonly Session[]): Session[] {
  return sessions.toSorted((a, b) => Number(b.pinned) - Number(a.pinned));
}

/** The list after one session changed: an archived one leaves the list of the others, and the other way round. */
export function withChanged(sessions: readonly Session[], changed: Session, isArchive: boolean): Session[] {
  return sessions.flatMap((session) => {
    if (session.session_id !== changed.session_id) return [session];
    return changed.archived === isArchive ? [changed] : [];
  });
}
