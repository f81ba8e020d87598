// The form that adds or changes an MCP server that CodeLab's server calls over HTTP.
import { useState } from "preact/hooks";
import type { McpServer } from "../api/types";
import { t } from "../feeds/preferences";
import { headersOf, type HeaderRow } from "../state/tools";
import { Icon } from "./Icon";

export interface McpServerValues {
  name: string;
  url: string;
  /** Absent: the present ones stay. */
  headers: Record<string, string> | undefined;
}

interface McpServerFormProps {
  server: McpServer | undefined;
  onSave: (values: McpServerValues) => Promise<boolean>;
}

const EMPTY: HeaderRow = { name: "", value: "" };

export function McpServerForm({ server, onSave }: McpServerFormProps) {
  const [name, setName] = useState("");
  const [url, setUrl] = useState(server?.url ?? "");
  const [rows, setRows] = useState<readonly HeaderRow[]>([]);
  const [isReplacing, setReplacing] = useState(server === undefined);
  const [isSaving, setSaving] = useState(false);
  const save = async () => {
    setSaving(true);
    const headers = isReplacing ? headersOf(rows) : undefined;
    const isSaved = await onSave({ name: server?.name ?? name, url, headers });
    setSaving(false);
    if (!isSaved || server === undefined) return;
    // Values are not kept in the page.
    setRows([]);
    setReplacing(false);
  };
  return (
    <form
      class="agent-form"
      autocomplete="off"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      {server === undefined && (
        <label class="field">
          <span>{t("tools.name")}</span>
          <input
            type="text"
            required
            pattern="[A-Za-z0-9_\-]{1,64}"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
          <small class="hint">{t("tools.nameHint")}</small>
        </label>
      )}
      <label class="field">
        <span>{t("tools.url")}</span>
        <input
          type="url"
          required
          class="mono"
          placeholder="https://example.com/mcp"
          value={url}
          onInput={(event) => setUrl(event.currentTarget.value)}
        />
      </label>
      <fieldset class="mcp-headers">
        <legend>{t("tools.headers")}</legend>
        {server !== undefined && <PresentHeaders names={server.headers ?? []} />}
        {server !== undefined && (
          <label class="check">
            <input
              type="checkbox"
              checked={isReplacing}
              onChange={(event) => setReplacing(event.currentTarget.checked)}
            />
            {t("tools.headersReplace")}
          </label>
        )}
        {isReplacing && <HeaderRows rows={rows} onRows={setRows} />}
        <small class="hint">{t("tools.headersHint")}</small>
      </fieldset>
      <div class="form-foot">
        <button type="submit" class="primary" disabled={isSaving}>
          {server === undefined ? t("tools.add") : t("app.save")}
        </button>
      </div>
    </form>
  );
}

function PresentHeaders({ names }: { names: readonly string[] }) {
  return (
    <p class="meta">
      {names.length === 0 ? t("tools.headersNone") : t("tools.headersKept", { names: names.join(", ") })}
    </p>
  );
}

interface HeaderRowsProps {
  rows: readonly HeaderRow[];
  onRows: (rows: readonly HeaderRow[]) => void;
}

function HeaderRows({ rows, onRows }: HeaderRowsProps) {
  const set = (at: number, change: Partial<HeaderRow>) =>
    onRows(rows.map((row, place) => (place === at ? { ...row, ...change } : row)));
  return (
    <>
      {rows.map((row, at) => (
        <div key={at} class="mcp-header">
          <input
            type="text"
            class="mono"
            aria-label={t("tools.headerName")}
            placeholder="Authorization"
            value={row.name}
            onInput={(event) => set(at, { name: event.currentTarget.value })}
          />
          <input
            type="password"
            autocomplete="new-password"
            aria-label={t("tools.headerValue")}
            placeholder={t("tools.headerValue")}
            value={row.value}
            onInput={(event) => set(at, { value: event.currentTarget.value })}
          />
          <button
            type="button"
            class="quiet icon-only"
            aria-label={t("tools.headerRemove")}
            title={t("tools.headerRemove")}
            onClick={() => onRows(rows.filter((_, place) => place !== at))}
          >
            <Icon name="cross" />
          </button>
        </div>
      ))}
      <button type="button" class="quiet" onClick={() => onRows([...rows, EMPTY])}>
        <Icon name="plus" /> {t("tools.headerAdd")}
      </button>
    </>
  );
}
