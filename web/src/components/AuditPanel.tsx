// The audit log of a session, and whether its hash chain is valid.
import { useEffect, useState } from "preact/hooks";
import { audit as readAudit } from "../api/operations";
import { listSessions } from "../api/sessions";
import type { AuditEntry, AuditList, Session } from "../api/types";
import { report } from "../feeds/app";
import { region, t } from "../feeds/preferences";
import { visible } from "../state/diff";
import { fullTime } from "../state/format";
import { Icon } from "./Icon";
import { Chip, decisionText } from "./parts";
import { Panel } from "./OperationsView";

export function AuditPanel({ project, round }: { project: number; round: number }) {
  const [sessions, setSessions] = useState<Session[]>([]);
  const [chosen, setChosen] = useState<string | undefined>(undefined);
  const [list, setList] = useState<AuditList | undefined>(undefined);
  useEffect(() => {
    listSessions(project).then((found) => {
      setSessions(found);
      setChosen((present) => present ?? found[0]?.session_id);
    }, report);
  }, [project, round]);
  useEffect(() => {
    if (chosen !== undefined) readAudit(chosen).then(setList, report);
  }, [chosen, round]);
  if (chosen === undefined) {
    return (
      <Panel title={t("operations.audit")} wide>
        <p class="hint">{t("operations.auditNone")}</p>
      </Panel>
    );
  }
  return (
    <Panel title={t("operations.audit")} wide side={list !== undefined && <Verdict isWhole={list.verified} />}>
      <label class="inline-field">
        <span>{t("operations.auditSession")}</span>
        <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
          {sessions.map((session) => (
            <option key={session.session_id} value={session.session_id}>
              {session.title ?? session.session_id}
            </option>
          ))}
        </select>
      </label>
      {list !== undefined && list.audit.length === 0 && <p class="hint">{t("operations.auditEmpty")}</p>}
      {list !== undefined && list.audit.length > 0 && <Rows rows={list.audit} />}
    </Panel>
  );
}

function Verdict({ isWhole }: { isWhole: boolean }) {
  return (
    <Chip tone={isWhole ? "good" : "bad"}>
      <Icon name={isWhole ? "check" : "warning"} /> {isWhole ? t("operations.verified") : t("operations.broken")}
    </Chip>
  );
}

function Rows({ rows }: { rows: readonly AuditEntry[] }) {
  return (
    <div class="table-scroll" data-scroll tabIndex={0} role="region" aria-label={t("operations.audit")}>
      <table class="audit">
        <thead>
          <tr>
            <th scope="col">{t("operations.when")}</th>
            <th scope="col">{t("operations.what")}</th>
            <th scope="col">{t("operations.decision")}</th>
            <th scope="col">{t("operations.who")}</th>
            <th scope="col">{t("operations.hash")}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.hash}>
              <td>{fullTime(region.value, row.timestamp)}</td>
              <td>
                <code>{row.tool_name}</code> <span class="clip">{subject(row)}</span>
              </td>
              <td>{decisionText(row.decision)}</td>
              <td>{row.decided_by}</td>
              <td>
                <code title={row.hash}>{row.hash.slice(0, 12)}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function subject(row: AuditEntry): string {
  const args = row.modified_args ?? row.original_args ?? {};
  const told = args["path"] ?? args["command"];
  return typeof told === "string" ? visible(told) : "";
}
