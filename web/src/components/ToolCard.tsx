// A tool call on the timeline: its arguments, its status and its result.
import type { CallOutcome } from "../api/types";
import { t } from "../feeds/preferences";
import type { Approval } from "../state/waiting";
import { diffOfWrite, visible } from "../state/diff";
import { plainText } from "../state/format";
import type { ToolItem } from "../state/session";
import type { Key } from "../i18n/en";
import { ApprovalCard, Fields } from "./ApprovalCard";
import { DiffView } from "./DiffView";
import { Icon, type IconName } from "./Icon";
import { Verbatim } from "./Code";
import { McpAbout, Progress } from "./McpAbout";
import { AgentName, Chip, decisionText } from "./parts";
import { WorkCommand } from "./WorkCommand";

const ICONS: Record<string, IconName> = {
  read_file: "file",
  write_file: "edit",
  list_files: "folder",
  create_directory: "folder",
  search_in_code: "search",
  execute_command: "terminal",
};

export function ToolCard({ item, sessionId }: { item: ToolItem; sessionId: string }) {
  if (item.state.step === "asking") {
    const approval: Approval = { ...item.state.approval, session_id: sessionId, agent: item.agent ?? null };
    return <ApprovalCard approval={approval} />;
  }
  const isUnclaimed = item.state.step === "waiting" && !item.state.clientAttached;
  return (
    <div class="tool-box" data-call={item.callId}>
      <details class="tool">
        <summary>
          <Icon name={ICONS[item.name] ?? "tool"} />
          <code class="tool-name">{visible(item.mcp?.tool ?? item.name)}</code>
          {item.mcp !== undefined && <span class="meta">{t("mcp.server", { server: item.mcp.server })}</span>}
          <span class="tool-about">{visible(about(item))}</span>
          {item.origin !== undefined && <span class="meta">{t("item.task", { id: item.origin.taskId })}</span>}
          <ToolChip item={item} />
        </summary>
        <ToolDetails item={item} />
      </details>
      {item.progress !== undefined && <Progress of={item.progress} />}
      {isUnclaimed && (
        <div class="hint-box" role="status">
          <Icon name="warning" />
          <div>
            <p>{t("tool.noClient")}</p>
            <WorkCommand />
          </div>
        </div>
      )}
      {item.state.step === "closed" && (item.state.outcome === "unknown" || item.state.outcome === "expired") && (
        <div class="hint-box" role="status">
          <Icon name="warning" />
          <p>{t(item.state.outcome === "unknown" ? "tool.unknownText" : "tool.expiredText")}</p>
        </div>
      )}
    </div>
  );
}

/** The most useful argument to show in one line. */
function about(item: ToolItem): string {
  for (const name of ["path", "command", "query", "expression", "text", "result", "agent"]) {
    const value = item.args[name];
    if (typeof value === "string") return value.split("\n", 1)[0] ?? "";
  }
  return "";
}

const TONES: Record<CallOutcome, string> = {
  completed: "good",
  rejected: "bad",
  // A person stopped it, or nobody decided: nothing went wrong.
  cancelled: "calm",
  expired: "warn",
  unknown: "bad",
};

function ToolChip({ item }: { item: ToolItem }) {
  const { state } = item;
  switch (state.step) {
    case "proposed":
      return <Chip tone="calm">{t("tool.proposed")}</Chip>;
    case "asking":
      return <Chip tone="warn">{t("tool.asking")}</Chip>;
    case "waiting":
      if (state.clientAttached) return <Chip tone="live">{t("tool.running")}</Chip>;
      return <Chip tone="warn">{t(state.approved ? "tool.approvedWaiting" : "tool.waiting")}</Chip>;
    case "finished":
      if (isFailure(state.result)) return <Chip tone="bad">{t("tool.failed")}</Chip>;
      return <Chip tone="good">{t(state.late ? "tool.late" : "tool.finished")}</Chip>;
    case "closed":
      return <Chip tone={TONES[state.outcome]}>{t(`tool.${state.outcome}`)}</Chip>;
    case "not_run":
      return <Chip tone="bad">{t("tool.notRun")}</Chip>;
  }
}

export function isFailure(result: unknown): boolean {
  if (typeof result !== "object" || result === null) return false;
  const told = result as Record<string, unknown>;
  return told["success"] === false || (told["success"] === undefined && typeof told["error"] === "string");
}

function ToolDetails({ item }: { item: ToolItem }) {
  const { decision, state } = item;
  return (
    <div class="tool-details">
      {item.agent !== undefined && <AgentName name={item.agent} />}
      {item.mcp !== undefined && <McpAbout mcp={item.mcp} />}
      {decision !== undefined && (
        <p class="meta">
          {t("tool.decidedBy", { decision: decisionText(decision.decision), by: decision.by })}
          {decision.reason !== undefined && ` — ${decision.reason}`}
        </p>
      )}
      {item.proposedArgs !== undefined && (
        <>
          <p class="label">{t("tool.proposedArguments")}</p>
          <Arguments name={item.name} args={item.proposedArgs} />
        </>
      )}
      <p class="label">{t("tool.arguments")}</p>
      <Arguments name={item.name} args={item.args} />
      {state.step === "finished" && (
        <>
          <p class="label">{t("tool.result")}</p>
          <Result result={state.result} language={languageOf(item.args["path"])} />
        </>
      )}
    </div>
  );
}

function Arguments({ name, args }: { name: string; args: Record<string, unknown> }) {
  const diff = name === "write_file" ? diffOfWrite(args, undefined) : undefined;
  if (diff === undefined) return <Fields args={args} />;
  return (
    <>
      <p class="path">
        <code>{visible(plainText(args["path"]))}</code>
      </p>
      <DiffView diff={diff} />
    </>
  );
}

interface Told {
  content?: unknown;
  stdout?: unknown;
  stderr?: unknown;
  exit_code?: unknown;
  error?: unknown;
  files?: unknown;
  matches?: unknown;
}

/** The end of a file's name, by which its language is known. */
function languageOf(path: unknown): string {
  return typeof path === "string" ? (/\.(\w+)$/.exec(path)?.[1] ?? "") : "";
}

function Result({ result, language }: { result: unknown; language: string }) {
  if (typeof result === "string") return <Verbatim text={visible(result)} label={t("tool.result")} />;
  const told = (typeof result === "object" && result !== null ? result : {}) as Told;
  if (typeof told.content === "string" && !(told.content === "" && typeof told.error === "string"))
    return <Verbatim text={visible(told.content)} label={t("tool.result")} language={language} />;
  if (typeof told.stdout === "string") {
    const text = [told.stdout, told.stderr].filter((part) => typeof part === "string" && part !== "").join("\n");
    return (
      <>
        <p class="meta">{t("tool.exit", { code: plainText(told.exit_code ?? "?") })}</p>
        {text !== "" && <Verbatim text={visible(text)} label={t("tool.result")} />}
      </>
    );
  }
  if (Array.isArray(told.files)) return <Lines list={told.files} title="tool.files" line={fileLine} />;
  if (Array.isArray(told.matches)) return <Lines list={told.matches} title="tool.matches" line={matchLine} />;
  if (typeof told.error === "string") return <p class="bad">{visible(told.error)}</p>;
  return <Verbatim text={JSON.stringify(result, null, 2)} label={t("tool.result")} />;
}

function Lines({
  list,
  title,
  line,
}: {
  list: unknown[];
  title: Key;
  line: (entry: Record<string, unknown>) => string;
}) {
  const text = list.map((entry) => line((entry ?? {}) as Record<string, unknown>)).join("\n");
  return (
    <>
      <p class="meta">{t(title, { n: list.length })}</p>
      {text !== "" && <Verbatim text={visible(text)} label={t("tool.result")} />}
    </>
  );
}

const fileLine = (entry: Record<string, unknown>) =>
  `${plainText(entry["path"])}${entry["type"] === "directory" || entry["type"] === "dir" ? "/" : ""}`;
const matchLine = (entry: Record<string, unknown>) =>
  `${plainText(entry["path"])}:${plainText(entry["line"])}: ${plainText(entry["text"])}`;
