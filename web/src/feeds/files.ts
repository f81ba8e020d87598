// What a session has seen of a file: from the open session if it is there, else from its stored events.
import { readSession } from "../api/events";
import { reduceSession } from "../state/reduce";
import { emptySession } from "../state/session";
import { keptState } from "./session";

export async function knownContent(sessionId: string, path: string): Promise<string | undefined> {
  const open = keptState(sessionId);
  if (open !== undefined) return open.files.get(path);
  try {
    return reduceSession(emptySession, await readSession(sessionId)).files.get(path);
  } catch {
    // The change is then shown as new text, which says that what was there before is not known.
    return undefined;
  }
}
