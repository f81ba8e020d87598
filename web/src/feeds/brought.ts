// The folders that agents of the project can work in, and what those folders bring.
import { computed, signal } from "@preact/signals";
import { readBrought, trustContent } from "../api/brought";
import { listClients } from "../api/projects";
import type { AttachedClient, ClientInstructions } from "../api/types";
import { keyOf, toAsk, type AskedContent } from "../state/brought";
import { attempt } from "./app";
import { whileVisible } from "./visible";

/**
 * No event tells that a tool runner comes or goes. A request keeps the project at its server, and a project moves to a
 * server that joined when nobody used it for half a minute, so the pause is longer than that.
 */
const READ_AGAIN_MS = 60_000;
/** A tool runner that is there keeps the project at its server anyway. */
const WITH_CLIENTS_MS = 10_000;
/** A decision is taken up within a second or two. */
const DECIDED_MS = 1_000;

export const clients = signal<readonly AttachedClient[] | undefined>(undefined);
const brought = signal<readonly ClientInstructions[]>([]);
/** Contents that the person left for later. They are asked about again when the page is opened anew. */
const passed = signal<ReadonlySet<string>>(new Set());

export const asked = computed(() => toAsk(brought.value, passed.value));

export function leaveForLater({ clientId, content }: AskedContent) {
  passed.value = new Set([...passed.value, keyOf(clientId, content)]);
}

let readSoon: () => void = () => undefined;

export async function trust(project: number, { clientId, content }: AskedContent) {
  await attempt(() => trustContent(project, clientId, content));
  readSoon();
}

/** Reads the folders of a project until it is told to stop. */
export function watchFolders(project: number): () => void {
  clients.value = undefined;
  brought.value = [];
  let isCurrent = true;
  const stop = whileVisible(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async () => {
      clearTimeout(timer);
      try {
        const present = (await listClients(project)).filter((client) => client.present);
        const asking = present.filter((client) => (client.waiting_contents ?? 0) > 0);
        const found = await Promise.all(asking.map((client) => readBrought(project, client.client_id)));
        if (!isCurrent) return;
        clients.value = present;
        brought.value = found;
      } catch {
        // The next reading shows whether the server is back.
      }
      clearTimeout(timer);
      if (isCurrent) timer = setTimeout(() => void read(), pause());
    };
    void read();
    readSoon = () => void read();
    // Somebody who has just started a tool runner comes back from the terminal.
    addEventListener("focus", readSoon);
    const listener = readSoon;
    return () => {
      clearTimeout(timer);
      timer = undefined;
      removeEventListener("focus", listener);
    };
  });
  return () => {
    isCurrent = false;
    readSoon = () => undefined;
    stop();
  };
}

function pause(): number {
  if (brought.value.some(({ waiting }) => waiting.some((content) => content.decided))) return DECIDED_MS;
  return (clients.value?.length ?? 0) > 0 ? WITH_CLIENTS_MS : READ_AGAIN_MS;
}
