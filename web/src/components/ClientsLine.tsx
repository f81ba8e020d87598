// The folders that agents of the project can work in: those of the tool runners that are connected.
import { useEffect, useState } from "preact/hooks";
import type { AttachedClient } from "../api/types";
import { clients, watchFolders } from "../feeds/brought";
import { t } from "../feeds/preferences";
import { visible } from "../state/diff";
import { FolderDialog } from "./FolderDialog";
import { Icon } from "./Icon";
import { Chip } from "./parts";

export function ClientsLine({ project }: { project: number | undefined }) {
  useEffect(() => (project === undefined ? undefined : watchFolders(project)), [project]);
  const [shown, setShown] = useState<AttachedClient | undefined>(undefined);
  const attached = clients.value;
  if (project === undefined || attached === undefined) return null;
  if (attached.length === 0) return <p class="hint side-clients">{t("sessions.noFolder")}</p>;
  return (
    <>
      <ul class="hint side-clients" aria-label={t("sessions.folders")}>
        {attached.map((client) => (
          <li
            key={client.client_id}
            title={t("sessions.folderOf", { client: client.client_id, sandbox: client.sandbox })}
          >
            <button
              type="button"
              class="quiet folder"
              aria-label={t("brought.open", { folder: visible(client.workspace) })}
              onClick={() => setShown(client)}
            >
              <Icon name="folder" /> <span>{visible(client.workspace)}</span>
              {(client.waiting_contents ?? 0) > 0 && <Chip tone="warn">{client.waiting_contents}</Chip>}
            </button>
          </li>
        ))}
      </ul>
      {shown !== undefined && <FolderDialog project={project} client={shown} onClose={() => setShown(undefined)} />}
    </>
  );
}
