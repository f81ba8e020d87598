// The folders that agents of the project can work in: those of the tool runners that are connected.
import { useEffect, useState } from "preact/hooks";
import { listClients } from "../api/projects";
import type { AttachedClient } from "../api/types";
import { t } from "../feeds/preferences";
import { whileVisible } from "../feeds/visible";
import { visible } from "../state/diff";
import { Icon } from "./Icon";

/**
 * No event tells that a tool runner comes or goes. A request keeps the project at its server, and a project moves to a
 * server that joined when nobody used it for half a minute, so the pause is longer than that.
 */
const READ_AGAIN_MS = 60_000;

function useClients(project: number | undefined): AttachedClient[] | undefined {
  const [clients, setClients] = useState<AttachedClient[] | undefined>(undefined);
  useEffect(() => {
    setClients(undefined);
    if (project === undefined) return;
    let isCurrent = true;
    const read = () => {
      // The next reading shows whether the server is back.
      listClients(project).then(
        (list) => isCurrent && setClients(list.filter((client) => client.present)),
        () => undefined,
      );
    };
    const stop = whileVisible(() => {
      read();
      const timer = setInterval(read, READ_AGAIN_MS);
      // Somebody who has just started a tool runner comes back from the terminal.
      addEventListener("focus", read);
      return () => {
        clearInterval(timer);
        removeEventListener("focus", read);
      };
    });
    return () => {
      isCurrent = false;
      stop();
    };
  }, [project]);
  return clients;
}

export function ClientsLine({ project }: { project: number | undefined }) {
  const clients = useClients(project);
  if (clients === undefined) return null;
  if (clients.length === 0) return <p class="hint side-clients">{t("sessions.noFolder")}</p>;
  return (
    <ul class="hint side-clients" aria-label={t("sessions.folders")}>
      {clients.map(({ client_id: id, workspace, sandbox }) => (
        <li key={id} title={t("sessions.folderOf", { client: id, sandbox })}>
          <Icon name="folder" /> <span>{visible(workspace)}</span>
        </li>
      ))}
    </ul>
  );
}
