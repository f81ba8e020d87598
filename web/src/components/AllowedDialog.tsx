// What the person allowed for the rest of a session, and taking it back.
import { useEffect, useRef, useState } from "preact/hooks";
import { listRemembered, revokeRemembered } from "../api/sessions";
import type { Remembered } from "../api/types";
import { attempt, report } from "../feeds/app";
import { t } from "../feeds/preferences";
import { visible } from "../state/diff";
import { toolOfServer } from "./McpAbout";

export function AllowedDialog({ sessionId, onClose }: { sessionId: string; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [allowed, setAllowed] = useState<readonly Remembered[] | undefined>(undefined);
  useEffect(() => {
    dialog.current?.showModal();
    listRemembered(sessionId).then(setAllowed, report);
  }, [sessionId]);
  const revoke = (id: string) =>
    void attempt(async () => {
      await revokeRemembered(sessionId, id);
      setAllowed(await listRemembered(sessionId));
    });
  return (
    <dialog class="allowed" ref={dialog} aria-labelledby="allowed-title" onClose={onClose}>
      <h2 id="allowed-title">{t("allowed.title")}</h2>
      {allowed === undefined && <p class="hint">{t("app.loading")}</p>}
      {allowed?.length === 0 && <p>{t("allowed.none")}</p>}
      {allowed !== undefined && allowed.length > 0 && (
        <>
          <p class="hint">{t("allowed.text")}</p>
          <ul>
            {allowed.map((rule) => (
              <li key={rule.id}>
                <AllowedCalls rule={rule} />
                <button type="button" onClick={() => revoke(rule.id)}>
                  {t("allowed.revoke")}
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
      <form method="dialog">
        <button>{t("app.close")}</button>
      </form>
    </dialog>
  );
}

function AllowedCalls({ rule }: { rule: Remembered }) {
  if (rule.kind === "file_writes") return <span class="grow">{t("allowed.writes")}</span>;
  if (rule.kind === "mcp_tool") return <span class="grow">{t("allowed.mcpTool", { tool: toolOfServer(rule) })}</span>;
  return (
    <span class="grow">
      <code>{visible(rule.command)}</code>
      {rule.cwd != null && <span class="meta"> {t("allowed.folder", { folder: rule.cwd })}</span>}
    </span>
  );
}
