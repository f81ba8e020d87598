// What the folder of a tool runner brings: what models are told, with digests, and what waits for trust.
import { useEffect, useRef, useState } from "preact/hooks";
import { readBrought } from "../api/brought";
import type { AttachedClient, BroughtText, ClientInstructions } from "../api/types";
import { report } from "../feeds/app";
import { t } from "../feeds/preferences";
import { folderOf, revealed } from "../state/brought";
import { visible } from "../state/diff";

const SHORT_DIGEST = 12;

interface FolderDialogProps {
  project: number;
  client: AttachedClient;
  onClose: () => void;
}

export function FolderDialog({ project, client, onClose }: FolderDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [brought, setBrought] = useState<ClientInstructions | undefined>(undefined);
  useEffect(() => {
    dialog.current?.showModal();
    readBrought(project, client.client_id).then(setBrought, report);
  }, [project, client.client_id]);
  return (
    <dialog class="allowed brought" ref={dialog} aria-labelledby="brought-title" onClose={onClose}>
      <h2 id="brought-title">{t("brought.title")}</h2>
      <p class="hint">{visible(client.workspace)}</p>
      {brought === undefined ? <p class="hint">{t("app.loading")}</p> : <Everything brought={brought} />}
      <form method="dialog">
        <button>{t("app.close")}</button>
      </form>
    </dialog>
  );
}

function Everything({ brought }: { brought: ClientInstructions }) {
  const { files, skills, commands, waiting, notices } = brought;
  const isEmpty = [files, skills, commands, waiting, notices].every((list) => list.length === 0);
  if (isEmpty) return <p>{t("brought.nothing")}</p>;
  return (
    <>
      <Part title={t("brought.told")} rows={files} told={(file) => toldWhen(file.path)} />
      <Part
        title={t("brought.skills")}
        rows={skills.map((skill) => ({ path: skill.name, digest: skill.digest, bytes: skill.bytes }))}
        told={({ path }) => revealed(skills.find((skill) => skill.name === path)?.description ?? "")}
      />
      <Part title={t("brought.commands")} rows={commands} told={() => ""} />
      <Part title={t("brought.waiting")} rows={waiting} told={({ path }) => kindOf(brought, path)} />
      {notices.length > 0 && (
        <section>
          <h3>{t("brought.notices")}</h3>
          <ul>
            {notices.map((notice) => (
              <li key={notice}>{revealed(notice)}</li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function kindOf({ waiting }: ClientInstructions, path: string): string {
  const content = waiting.find((waits) => waits.path === path);
  return content === undefined ? "" : t(`brought.kind.${content.kind}`);
}

function toldWhen(path: string): string {
  const folder = folderOf(path);
  return folder === undefined ? t("brought.toldAlways") : t("brought.toldBeneath", { folder: revealed(folder) });
}

interface PartProps {
  title: string;
  rows: readonly BroughtText[];
  told: (row: BroughtText) => string;
}

function Part({ title, rows, told }: PartProps) {
  if (rows.length === 0) return null;
  return (
    <section>
      <h3>{title}</h3>
      <ul>
        {rows.map((row) => (
          <li key={row.path}>
            <span class="grow">
              <code>{revealed(row.path)}</code> <span class="meta">{told(row)}</span>
            </span>
            <span class="meta" title={`SHA-256 ${row.digest}`}>
              {t("brought.bytes", { n: row.bytes })} · <code>{row.digest.slice(0, SHORT_DIGEST)}</code>
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
