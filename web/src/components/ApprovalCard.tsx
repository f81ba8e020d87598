// One approval request: what would happen, and the buttons to decide.
import { useEffect, useState } from "preact/hooks";
import { decide } from "../api/waiting";
import { ApiError } from "../api/client";
import type { Decision, FilePreview } from "../api/types";
import { report, say } from "../feeds/app";
import { forget, load } from "../feeds/waiting";
import { now } from "../feeds/clock";
import { knownContent } from "../feeds/files";
import { t, whyAsked, whyAskedDetails } from "../feeds/preferences";
import type { Approval } from "../state/waiting";
import { budgetOf } from "../state/budget";
import { diffOfPreview, diffOfWrite, visible } from "../state/diff";
import { plainText, timeLeft } from "../state/format";
import { linkTo } from "../state/route";
import { BudgetSummary, budgetText } from "./BudgetSummary";
import { Buttons, BudgetForm, EditForm, RejectForm, type Mode } from "./ApprovalForms";
import { DiffView } from "./DiffView";
import { Icon, type IconName } from "./Icon";
import { McpAbout, toolOfServer } from "./McpAbout";
import { AgentName, Chip, TextWithDetails } from "./parts";

export function ApprovalCard({ approval }: { approval: Approval }) {
  const [mode, setMode] = useState<Mode>("look");
  const [isSending, setSending] = useState(false);
  const answer = async (decision: Decision) => {
    setSending(true);
    try {
      // What stands on the screen, also that there is no file.
      const shown = approval.preview == null ? {} : { base: approval.preview.base };
      await decide(approval.session_id, approval.call_id, { ...decision, digest: approval.digest, ...shown });
      forget(approval);
    } catch (error) {
      if (error instanceof ApiError && error.status === 409 && "base" in error.details) {
        // It still waits, and what it would replace is shown anew.
        say(t("approvals.fileChanged"));
        load();
      } else if (error instanceof ApiError && (error.status === 409 || error.status === 404)) {
        say(t("approvals.decided"));
        forget(approval);
      } else {
        report(error);
      }
    } finally {
      setSending(false);
    }
  };
  const back = () => setMode("look");
  return (
    <article
      class="card approval"
      data-call={approval.call_id}
      aria-label={`${approval.tool_name}: ${whyAsked(approval.reason)}`}
    >
      <ApprovalHead approval={approval} />
      {mode === "edit" && approval.kind === "budget" && (
        <BudgetForm approval={approval} isSending={isSending} answer={answer} onBack={back} />
      )}
      {mode === "edit" && approval.kind !== "budget" && (
        <EditForm approval={approval} isSending={isSending} answer={answer} onBack={back} />
      )}
      {mode !== "edit" && <ApprovalBody approval={approval} />}
      {mode === "reject" && <RejectForm isSending={isSending} answer={answer} onBack={back} />}
      {mode === "look" && <Buttons approval={approval} isSending={isSending} answer={answer} setMode={setMode} />}
    </article>
  );
}

function iconOf(approval: Approval): IconName {
  if (approval.kind === "plan") return "plans";
  if (approval.kind === "budget") return "operations";
  if (approval.mcp != null) return "tool";
  return approval.tool_name === "execute_command" ? "terminal" : "file";
}

function ApprovalHead({ approval }: { approval: Approval }) {
  return (
    <header class="card-head">
      <Icon name={iconOf(approval)} />
      <strong class={approval.mcp != null ? "card-title mcp-title" : "card-title"}>
        {approval.mcp != null ? (
          toolOfServer(approval.mcp)
        ) : approval.kind === "tool" ? (
          <code>{approval.tool_name}</code>
        ) : (
          t(approval.kind === "plan" ? "approvals.kind.plan" : "approvals.kind.budget")
        )}
      </strong>
      {approval.agent && <AgentName name={approval.agent} />}
      <span class="grow" />
      <Countdown approval={approval} />
    </header>
  );
}

const SOON_MS = 60_000;

function Countdown({ approval }: { approval: Approval }) {
  if (approval.expires_at == null) return <Chip tone="calm">{t("approvals.noExpiry")}</Chip>;
  const left = timeLeft(approval.expires_at, now.value);
  if (left === undefined) return <Chip tone="bad">{t("approvals.expired")}</Chip>;
  const isSoon = Date.parse(approval.expires_at) - now.value < SOON_MS;
  return (
    <span class={`chip countdown ${isSoon ? "tone-warn" : "tone-calm"}`}>
      <Icon name="clock" /> {t("approvals.expiresIn", { time: left })}
    </span>
  );
}

function ApprovalBody({ approval }: { approval: Approval }) {
  return (
    <div class="card-body">
      <p class="reason">
        <TextWithDetails
          text={aboutText(approval)}
          details={approval.kind === "budget" || approval.mcp != null ? undefined : whyAskedDetails(approval.reason)}
        />
      </p>
      <What approval={approval} />
      <p class="digest" title={approval.digest}>
        {t("approvals.digest")} <code>{approval.digest.slice(0, 16)}</code>
      </p>
    </div>
  );
}

/** What is asked, in the user's language. The server's own reason is in English. */
function aboutText(approval: Approval): string {
  if (approval.kind === "budget") return budgetText(budgetOf(approval.arguments));
  if (approval.kind === "plan") return t("approvals.about.plan");
  if (approval.mcp != null) return t("mcp.about");
  switch (approval.tool_name) {
    case "write_file":
    case "execute_command":
    case "create_directory":
      return t(`approvals.about.${approval.tool_name}`);
    default:
      return t("approvals.about.tool");
  }
}

function What({ approval }: { approval: Approval }) {
  if (approval.kind === "plan") return <PlanSummary approval={approval} />;
  if (approval.kind === "budget") return <BudgetSummary budget={budgetOf(approval.arguments)} />;
  if (approval.mcp != null) {
    return (
      <>
        <McpAbout mcp={approval.mcp} />
        <p class="label">{t("tool.arguments")}</p>
        <Fields args={approval.arguments} />
      </>
    );
  }
  switch (approval.tool_name) {
    case "write_file":
      return <WritePreview approval={approval} />;
    case "execute_command":
      return <CommandPreview approval={approval} />;
    default:
      return <Fields args={approval.arguments} />;
  }
}

function WritePreview({ approval }: { approval: Approval }) {
  const path = plainText(approval.arguments["path"]);
  const [before, setBefore] = useState<string | undefined>(undefined);
  useEffect(() => {
    let isCurrent = true;
    void knownContent(approval.session_id, path).then((content) => {
      if (isCurrent) setBefore(content);
    });
    return () => {
      isCurrent = false;
    };
  }, [approval.session_id, approval.call_id, path]);
  const preview = approval.preview ?? undefined;
  const diff = preview === undefined ? diffOfWrite(approval.arguments, before) : diffOfPreview(preview);
  return (
    <>
      <p class="path">
        <Icon name="file" /> <code>{visible(path)}</code>
      </p>
      {preview !== undefined && <PreviewNotes preview={preview} />}
      {diff === undefined ? <Fields args={approval.arguments} /> : <DiffView diff={diff} />}
    </>
  );
}

function PreviewNotes({ preview }: { preview: FilePreview }) {
  return (
    <>
      {preview.is_outdated === true && <p class="notice">{t("approvals.outdated")}</p>}
      {preview.is_unread === true && <p class="notice">{t("approvals.unread")}</p>}
      {preview.note != null && <p class="hint">{visible(preview.note)}</p>}
      {preview.truncated === true && <p class="hint">{t("approvals.truncated")}</p>}
    </>
  );
}

function CommandPreview({ approval }: { approval: Approval }) {
  const { command, ...others } = approval.arguments as { command?: unknown };
  const parts = approval.parts ?? [];
  return (
    <>
      <pre class="verbatim command" tabIndex={0} aria-label={t("approvals.command")}>
        {visible(plainText(command))}
      </pre>
      {Object.keys(others).length > 0 && <Fields args={others} />}
      {parts.length > 0 && (
        <>
          <p class="hint">{t("approvals.parts")}</p>
          <ol class="command-parts">
            {parts.map((part, at) => (
              <li key={at} class={part.reason ? "asks" : "passes"}>
                <code>{visible(part.text)}</code>
                <span>{part.reason ? whyAsked(part.reason) : t("approvals.partPasses")}</span>
              </li>
            ))}
          </ol>
        </>
      )}
    </>
  );
}

function PlanSummary({ approval }: { approval: Approval }) {
  const tasks = approval.arguments["tasks"];
  const list = Array.isArray(tasks) ? (tasks as { id?: unknown; agent?: unknown; description?: unknown }[]) : [];
  return (
    <>
      <ol class="plan-summary">
        {list.map((task) => (
          <li key={plainText(task.id)}>
            <AgentName name={plainText(task.agent)} /> <span>{visible(plainText(task.description))}</span>
          </li>
        ))}
      </ol>
      <a class="quiet-link" href={linkTo("plans", approval.session_id, approval.call_id)}>
        {t("approvals.openPlan")}
      </a>
    </>
  );
}

export function Fields({ args }: { args: Record<string, unknown> }) {
  return (
    <dl class="fields">
      {Object.entries(args).map(([name, value]) => (
        <div key={name}>
          <dt>{visible(name)}</dt>
          <dd>
            <code>{visible(plainText(value))}</code>
          </dd>
        </div>
      ))}
    </dl>
  );
}
