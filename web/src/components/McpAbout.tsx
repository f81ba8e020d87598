// What is known about the MCP tool of a call. The server wrote the description and the hints: they are shown, not believed.
import type { McpCall } from "../api/types";
import { t } from "../feeds/preferences";
import { visible } from "../state/diff";
import type { CallProgress } from "../state/session";
import { Chip } from "./parts";

export const toolOfServer = (mcp: { server: string; tool: string }) =>
  t("mcp.toolOf", { tool: visible(mcp.tool), server: visible(mcp.server) });

export function McpAbout({ mcp }: { mcp: McpCall }) {
  return (
    <div class="mcp-about">
      <p class="meta">{t(`mcp.runsAt.${mcp.runs_at}`)}</p>
      {mcp.description !== undefined && mcp.description !== "" && (
        <>
          <p class="label">{t("mcp.serverSays")}</p>
          <p class="mcp-said">{visible(mcp.description)}</p>
        </>
      )}
      <Hints hints={mcp.hints ?? {}} />
    </div>
  );
}

const HINTS = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] as const;

export function Hints({ hints }: { hints: Readonly<Record<string, unknown>> }) {
  const told = Object.entries(hints).filter(([, value]) => typeof value === "boolean");
  if (told.length === 0) return null;
  return (
    <p class="mcp-hints" title={t("mcp.hintsText")}>
      <span class="meta">{t("mcp.hints")}</span>
      {told.map(([name, value]) => (
        <Chip key={name} tone={name === "destructiveHint" && value === true ? "warn" : "calm"}>
          {hintText(name, value === true)}
        </Chip>
      ))}
    </p>
  );
}

function hintText(name: string, value: boolean): string {
  const known = HINTS.find((hint) => hint === name);
  return known === undefined
    ? `${visible(name)}: ${value}`
    : value
      ? t(`mcp.hintYes.${known}`)
      : t(`mcp.hintNo.${known}`);
}

export function Progress({ of: { progress, total, message } }: { of: CallProgress }) {
  const numbers = total === undefined ? `${progress}` : `${progress} / ${total}`;
  return (
    <p class="mcp-progress" role="status">
      {total !== undefined && total > 0 && (
        <progress max={total} value={Math.min(progress, total)} aria-label={t("mcp.progress")} />
      )}
      <span class="meta">{message === undefined ? numbers : `${numbers} · ${visible(message)}`}</span>
    </p>
  );
}
