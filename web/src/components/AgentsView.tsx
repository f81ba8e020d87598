// The agents of a project: change one, try it, look into its memory.
import { useEffect, useState } from "preact/hooks";
import {
  agentMetrics,
  agentStatus,
  changeAgent,
  createAgent,
  deleteAgent,
  listAgents,
  setInService,
} from "../api/projects";
import type { AgentMetrics, AgentStatusInfo, ProjectAgent } from "../api/types";
import { attempt, go, projectId, report, route, say } from "../feeds/app";
import { region, t } from "../feeds/preferences";
import { percent, shortName } from "../state/format";
import { linkTo } from "../state/route";
import { AgentForm, type AgentValues } from "./AgentForm";
import { Icon } from "./Icon";
import { AgentName, Chip, Empty } from "./parts";
import { MemoryPanel } from "./MemoryPanel";
import { TryPanel } from "./TryPanel";

const NEW = "new";
const TABS = ["edit", "try", "memory"] as const;
type Tab = (typeof TABS)[number];

export default function AgentsView() {
  const current = route.value.view === "agents" ? route.value.agentId : undefined;
  const [agents, setAgents] = useState<ProjectAgent[] | undefined>(undefined);
  const project = projectId.value;
  const load = () => {
    if (project !== undefined) listAgents(project).then(setAgents, report);
  };
  useEffect(load, [project]);
  if (project === undefined) return null;
  const agent = agents?.find((known) => known.agent_id === current);
  return (
    <section class={`view split ${current === undefined ? "at-list" : "at-detail"}`}>
      <div class="side">
        <header class="side-head">
          <h1>{t("agents.title")}</h1>
          <a class="button primary" href={linkTo("agents", NEW)}>
            <Icon name="plus" /> {t("agents.new")}
          </a>
        </header>
        <AgentList agents={agents} current={current} />
      </div>
      <div class="detail">
        {current === NEW ? (
          <NewAgent project={project} onMade={load} />
        ) : agent === undefined ? (
          <Empty
            icon="agents"
            title={agents?.length === 0 ? t("agents.empty") : t("agents.choose")}
            text={agents?.length === 0 ? t("agents.emptyText") : undefined}
          />
        ) : (
          <AgentPane key={agent.agent_id} project={project} agent={agent} onChanged={load} />
        )}
      </div>
    </section>
  );
}

function AgentList({ agents, current }: { agents: ProjectAgent[] | undefined; current: string | undefined }) {
  if (agents === undefined) return <p class="hint side-note">{t("app.loading")}</p>;
  if (agents.length === 0) return <p class="hint side-note">{t("agents.empty")}</p>;
  return (
    <ul class="side-list" data-scroll>
      {agents.map((agent) => (
        <li key={agent.agent_id}>
          <a
            class="side-item"
            href={linkTo("agents", agent.agent_id)}
            aria-current={agent.agent_id === current ? "page" : undefined}
          >
            <span class="side-title">
              <AgentName name={agent.name} />
            </span>
            <span class="side-meta">
              <span>{agent.model_inherited ? t("agents.modelInherited", { model: agent.model }) : agent.model}</span>
              <span class="clip">{agent.description}</span>
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

function PaneBack() {
  return (
    <a class="back" href={linkTo("agents")} aria-label={t("app.back")}>
      <Icon name="back" />
    </a>
  );
}

function NewAgent({ project, onMade }: { project: number; onMade: () => void }) {
  return (
    <>
      <header class="pane-head">
        <PaneBack />
        <h2 class="pane-title">{t("agents.new")}</h2>
      </header>
      <div class="pane-scroll" data-scroll tabIndex={0} role="region" aria-label={t("agents.new")}>
        <AgentForm
          agent={undefined}
          onSave={(values) =>
            attempt(async () => {
              const made = await createAgent(project, values);
              warn(made.warnings);
              onMade();
              go(linkTo("agents", made.agent_id));
            })
          }
        />
      </div>
    </>
  );
}

function warn(warnings: readonly string[]) {
  if (warnings.length > 0) say(t("agents.savedWithWarnings"), warnings.join(" "));
  else say(t("app.saved"));
}

interface AgentPaneProps {
  project: number;
  agent: ProjectAgent;
  onChanged: () => void;
}

function AgentPane({ project, agent, onChanged }: AgentPaneProps) {
  const [tab, setTab] = useState<Tab>("edit");
  const save = ({ name: _, ...values }: AgentValues) =>
    attempt(async () => {
      warn((await changeAgent(project, agent.agent_id, values)).warnings);
      onChanged();
    });
  const remove = () =>
    attempt(async () => {
      if (!confirm(t("agents.deleteSure"))) return;
      await deleteAgent(project, agent.agent_id);
      onChanged();
      go(linkTo("agents"));
    });
  return (
    <>
      <header class="pane-head">
        <PaneBack />
        <h2 class="pane-title">{shortName(agent.name)}</h2>
        <Service project={project} agent={agent} />
        <span class="grow" />
        <button
          type="button"
          class="quiet icon-only"
          aria-label={t("app.delete")}
          title={t("app.delete")}
          onClick={() => void remove()}
        >
          <Icon name="trash" />
        </button>
      </header>
      <div class="tabs" role="tablist">
        {TABS.map((name) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`tab-${name}`}
            aria-selected={tab === name}
            aria-controls="agent-tab"
            onClick={() => setTab(name)}
          >
            {t(`agents.tab.${name}`)}
          </button>
        ))}
      </div>
      <div class="pane-scroll" id="agent-tab" role="tabpanel" aria-labelledby={`tab-${tab}`} data-scroll tabIndex={0}>
        {tab === "edit" && <AgentForm key={agent.updated_at} agent={agent} onSave={save} />}
        {tab === "try" && <TryPanel project={project} agent={agent} />}
        {tab === "memory" && <MemoryPanel project={project} agent={agent} />}
      </div>
    </>
  );
}

function Service({ project, agent }: { project: number; agent: ProjectAgent }) {
  const [status, setStatus] = useState<AgentStatusInfo | undefined>(undefined);
  const [metrics, setMetrics] = useState<AgentMetrics | undefined>(undefined);
  useEffect(() => {
    agentStatus(project, agent.agent_id).then(setStatus, report);
    agentMetrics(project, agent.agent_id).then(setMetrics, report);
  }, [project, agent.agent_id]);
  if (status === undefined) return null;
  const toggle = () => attempt(async () => setStatus(await setInService(project, agent.agent_id, !status.registered)));
  const tone = !status.registered || status.status === "error" ? "bad" : status.status === "idle" ? "good" : "live";
  return (
    <>
      <Chip tone={tone}>{status.registered ? t(`agents.status.${status.status}`) : t("agents.outOfService")}</Chip>
      {metrics !== undefined && metrics.tasks_processed > 0 && (
        <span class="meta">
          {t("agents.processed", { n: metrics.tasks_processed })}
          {metrics.error_rate > 0 &&
            ` · ${t("agents.errorRate", { percent: percent(region.value, metrics.error_rate) })}`}
        </span>
      )}
      <button type="button" class="quiet" onClick={() => void toggle()}>
        {status.registered ? t("agents.takeOut") : t("agents.putIn")}
      </button>
    </>
  );
}
