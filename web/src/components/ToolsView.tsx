// The MCP servers of a project and their tools: what they offer, and what agents may use.
import { useCallback, useEffect, useState } from "preact/hooks";
import { addMcpServer, listMcpServers } from "../api/mcp";
import type { McpServer } from "../api/types";
import { attempt, go, projectId, report, route } from "../feeds/app";
import { t } from "../feeds/preferences";
import { linkTo } from "../state/route";
import { needsLook } from "../state/tools";
import { Icon } from "./Icon";
import { McpServerForm } from "./McpServerForm";
import { McpServerPane, ServerStatus } from "./McpServerPane";
import { Chip, Empty } from "./parts";

/** No server can have this name. */
const NEW = "+";
/** A server that connects has changed soon. */
const STARTING_POLL_MS = 1_000;
/** Tool runners come and go, and servers fail by themselves. */
const POLL_MS = 10_000;

export default function ToolsView() {
  const current = route.value.view === "tools" ? route.value.server : undefined;
  const [servers, setServers] = useState<readonly McpServer[] | undefined>(undefined);
  const project = projectId.value;
  const load = useCallback(() => {
    if (project !== undefined) listMcpServers(project).then(setServers, report);
  }, [project]);
  useEffect(load, [load]);
  useEffect(() => {
    // The user comes back from the page of an authorization.
    addEventListener("focus", load);
    return () => removeEventListener("focus", load);
  }, [load]);
  useEffect(() => {
    if (servers === undefined) return;
    const isStarting = servers.some(({ status }) => status === "starting");
    const timer = setTimeout(load, isStarting ? STARTING_POLL_MS : POLL_MS);
    return () => clearTimeout(timer);
  }, [servers, load]);
  if (project === undefined) return null;
  // A tool runner may run a server that has the name of one of the project's.
  const open = servers?.filter(({ name }) => name === current) ?? [];
  return (
    <section class={`view split ${current === undefined ? "at-list" : "at-detail"}`}>
      <div class="side">
        <header class="side-head">
          <h1>{t("tools.title")}</h1>
          <a class="button primary" href={linkTo("tools", NEW)}>
            <Icon name="plus" /> {t("tools.new")}
          </a>
        </header>
        <ServerList servers={servers} current={current} />
      </div>
      <div class="detail">
        {current === NEW ? (
          <NewServer project={project} onMade={load} />
        ) : open.length > 0 ? (
          <div class="pane-scroll mcp-pane" data-scroll tabIndex={0} role="region" aria-label={current}>
            {open.map((server) => (
              <McpServerPane key={keyOf(server)} project={project} server={server} onChanged={load} />
            ))}
          </div>
        ) : (
          <Nothing servers={servers} isGone={current !== undefined} />
        )}
      </div>
    </section>
  );
}

const keyOf = (server: McpServer) => `${server.name}/${server.runs_at}/${server.client_id ?? ""}`;

function Nothing({ servers, isGone }: { servers: readonly McpServer[] | undefined; isGone: boolean }) {
  if (servers === undefined) return <p class="hint side-note">{t("app.loading")}</p>;
  if (servers.length === 0 && !isGone)
    return <Empty icon="tools" title={t("tools.empty")} text={t("tools.emptyText")} />;
  return <Empty icon="tools" title={t(isGone ? "tools.gone" : "tools.choose")} />;
}

function ServerList({ servers, current }: { servers: readonly McpServer[] | undefined; current: string | undefined }) {
  if (servers === undefined) return <p class="hint side-note">{t("app.loading")}</p>;
  if (servers.length === 0) {
    return (
      <p class="hint side-note">
        {t("tools.empty")}. {t("tools.emptyText")}
      </p>
    );
  }
  return (
    <ul class="side-list" data-scroll>
      {servers.map((server) => (
        <li key={keyOf(server)}>
          <a
            class="side-item"
            href={linkTo("tools", server.name)}
            aria-current={server.name === current ? "page" : undefined}
          >
            <span class="side-title">
              {server.name} <ServerStatus status={server.status} />
              {needsLook(server) && server.status === "ready" && <Chip tone="warn">{t("tools.attention")}</Chip>}
            </span>
            <span class="side-meta">
              <span>{t("tools.count", { n: server.tools.length })}</span>
              <span class="clip">{t(`mcp.runsAt.${server.runs_at}`)}</span>
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

function NewServer({ project, onMade }: { project: number; onMade: () => void }) {
  return (
    <>
      <header class="pane-head">
        <a class="back" href={linkTo("tools")} aria-label={t("app.back")}>
          <Icon name="back" />
        </a>
        <h2 class="pane-title">{t("tools.add")}</h2>
      </header>
      <div class="pane-scroll" data-scroll tabIndex={0} role="region" aria-label={t("tools.add")}>
        <McpServerForm
          server={undefined}
          onSave={({ name, url, headers }) =>
            attempt(async () => {
              await addMcpServer(project, name, url, headers ?? {});
              onMade();
              go(linkTo("tools", name));
            })
          }
        />
      </div>
    </>
  );
}
