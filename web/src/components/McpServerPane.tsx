// One MCP server: how it is doing, its tools, and what a person decides about them.
import { useState } from "preact/hooks";
import {
  acceptMcpTool,
  authorizeMcpServer,
  changeMcpServer,
  forgetMcpAuthorization,
  permitMcpTool,
  removeMcpServer,
  testMcpServer,
} from "../api/mcp";
import { ApiError } from "../api/client";
import type { McpPermission, McpServer, McpTool } from "../api/types";
import { attempt, go, say, show } from "../feeds/app";
import { t } from "../feeds/preferences";
import { visible } from "../state/diff";
import { linkTo } from "../state/route";
import { diffOfDefinitions, sortedJson, webAddress } from "../state/tools";
import { Verbatim } from "./Code";
import { DiffView } from "./DiffView";
import { Icon } from "./Icon";
import { Hints } from "./McpAbout";
import { McpServerForm } from "./McpServerForm";
import { Chip } from "./parts";

interface ServerProps {
  project: number;
  server: McpServer;
  onChanged: () => void;
}

const TONES: Record<McpServer["status"], string> = {
  starting: "live",
  ready: "good",
  failed: "bad",
  idle: "calm",
  unauthorized: "warn",
};

export function ServerStatus({ status }: { status: McpServer["status"] }) {
  return <Chip tone={TONES[status]}>{t(`tools.status.${status}`)}</Chip>;
}

export function McpServerPane({ project, server, onChanged }: ServerProps) {
  const isOurs = server.runs_at === "server";
  return (
    <section class="mcp-server">
      <header class="pane-head">
        <a class="back" href={linkTo("tools")} aria-label={t("app.back")}>
          <Icon name="back" />
        </a>
        <h2 class="pane-title">{server.name}</h2>
        <ServerStatus status={server.status} />
        {server.authorized === true && <Chip tone="good">{t("tools.authorized")}</Chip>}
      </header>
      <div class="mcp-server-body">
        <p class="meta">
          {t(`mcp.runsAt.${server.runs_at}`)}
          {server.url != null && (
            <>
              {" · "}
              <code>{visible(server.url)}</code>
            </>
          )}
        </p>
        {server.error != null && (
          <p class="error-line" role="status">
            <Icon name="warning" /> <span>{visible(server.error)}</span>
          </p>
        )}
        {isOurs && <Actions project={project} server={server} onChanged={onChanged} />}
        {server.tools.length === 0 && server.status === "ready" && <p class="hint">{t("tools.noTools")}</p>}
        {server.tools.length > 0 && <p class="hint">{t("tools.permissionText")}</p>}
        <ul class="mcp-tools">
          {server.tools.map((tool) => (
            <Tool key={tool.name} project={project} server={server} tool={tool} onChanged={onChanged} />
          ))}
        </ul>
        {isOurs && (
          <details class="how-to">
            <summary>{t("tools.settings")}</summary>
            <McpServerForm
              key={`${server.url} ${server.headers?.join()}`}
              server={server}
              onSave={({ url, headers }) =>
                attempt(async () => {
                  await changeMcpServer(project, server.name, url, headers);
                  say(t("app.saved"));
                  onChanged();
                })
              }
            />
          </details>
        )}
      </div>
    </section>
  );
}

function Actions({ project, server, onChanged }: ServerProps) {
  const [isBusy, setBusy] = useState(false);
  const [page, setPage] = useState<URL | undefined>(undefined);
  const act = (work: () => Promise<unknown>) => async () => {
    setBusy(true);
    await attempt(work);
    setBusy(false);
    onChanged();
  };
  const test = act(async () => {
    const { status } = await testMcpServer(project, server.name);
    // What is wrong stands above.
    if (status === "ready") say(t("tools.tested"));
  });
  const authorize = act(async () => {
    const address = webAddress(await authorizeMcpServer(project, server.name));
    setPage(address);
    if (address === undefined) return show({ text: t("tools.authorizeBad"), isError: true });
    open(address, "_blank", "noopener,noreferrer");
  });
  const forget = act(async () => {
    if (confirm(t("tools.forgetSure", { name: server.name }))) await forgetMcpAuthorization(project, server.name);
  });
  const remove = act(async () => {
    if (!confirm(t("tools.removeSure", { name: server.name }))) return;
    await removeMcpServer(project, server.name);
    go(linkTo("tools"));
  });
  return (
    <>
      <p class="mcp-actions">
        <button type="button" disabled={isBusy} onClick={() => void test()}>
          {t(isBusy ? "tools.testing" : "tools.test")}
        </button>
        {server.authorized === true ? (
          <button type="button" disabled={isBusy} onClick={() => void forget()}>
            {t("tools.forget")}
          </button>
        ) : (
          server.status === "unauthorized" && (
            <button type="button" class="primary" disabled={isBusy} onClick={() => void authorize()}>
              {t("tools.authorize")}
            </button>
          )
        )}
        <button type="button" class="danger" disabled={isBusy} onClick={() => void remove()}>
          <Icon name="trash" /> {t("app.delete")}
        </button>
      </p>
      {page !== undefined && server.authorized !== true && (
        <p class="hint">
          {t("tools.authorizeOpen", { host: page.host })}{" "}
          <a href={page.href} target="_blank" rel="noopener noreferrer">
            {t("tools.authorizeLink")}
          </a>
        </p>
      )}
    </>
  );
}

const PERMISSIONS: readonly McpPermission[] = ["ask", "allow", "forbid"];

function Tool({ project, server, tool, onChanged }: ServerProps & { tool: McpTool }) {
  const permit = (permission: McpPermission) =>
    void attempt(() => permitMcpTool(project, server.name, tool.name, permission)).then(onChanged);
  return (
    <li class="card mcp-tool" data-tool={tool.name}>
      <header class="card-head">
        <Icon name="tool" />
        <strong class="card-title">
          <code>{visible(tool.name)}</code>
        </strong>
        {tool.title != null && <span class="meta">{visible(tool.title)}</span>}
        {tool.state !== "on" && (
          <Chip tone={tool.state === "forbidden" ? "calm" : "warn"}>{t(`tools.state.${tool.state}`)}</Chip>
        )}
        <span class="grow" />
        <select
          aria-label={t("tools.permission", { tool: visible(tool.name) })}
          value={tool.permission}
          onChange={(event) => permit(event.currentTarget.value as McpPermission)}
        >
          {PERMISSIONS.map((permission) => (
            <option key={permission} value={permission}>
              {t(`tools.permission.${permission}`)}
            </option>
          ))}
        </select>
      </header>
      <div class="card-body">
        {tool.state === "collides" && <p class="warning-line">{t("tools.collidesText")}</p>}
        {tool.state === "changed" && <Changed project={project} server={server} tool={tool} onChanged={onChanged} />}
        {(tool.description ?? "") !== "" && <p class="mcp-said">{visible(tool.description ?? "")}</p>}
        <Hints hints={tool.annotations ?? {}} />
        <details>
          <summary class="hint">{t("tools.schema")}</summary>
          <p class="meta">
            {t("tools.offeredAs")} <code>{tool.offered_as}</code>
          </p>
          <Verbatim text={visible(sortedJson(tool.input_schema))} label={t("tools.schema")} language="json" />
        </details>
      </div>
    </li>
  );
}

function Changed({ project, server, tool, onChanged }: ServerProps & { tool: McpTool }) {
  const [isSending, setSending] = useState(false);
  const accept = async () => {
    setSending(true);
    await attempt(async () => {
      try {
        await acceptMcpTool(project, server.name, tool.name, tool.digest);
        say(t("tools.accepted"));
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 409)) throw error;
        show({ text: t("tools.acceptStale"), isError: true });
      }
    });
    setSending(false);
    onChanged();
  };
  return (
    <div class="mcp-changed">
      <p class="warning-line">{t("tools.changedText")}</p>
      {tool.accepted != null && <DiffView diff={diffOfDefinitions(tool.accepted, tool)} />}
      <button type="button" class="primary" disabled={isSending} onClick={() => void accept()}>
        <Icon name="check" /> {t("tools.accept")}
      </button>
    </div>
  );
}
