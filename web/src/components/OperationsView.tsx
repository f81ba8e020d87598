// Health of the server and the project, usage and cost, and the audit log.
import type { ComponentChildren, Ref } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { cleanSpace, clearCache, resetSpace, spaceHealth, spaceMetrics, usage as readUsage } from "../api/operations";
import { changeBudget } from "../api/projects";
import type { ClusterHealth, HealthStatus, SpaceHealth, SpaceMetrics, UsageReport } from "../api/types";
import { attempt, health, loadProjects, project, projectId, refreshHealth, report, say } from "../feeds/app";
import { region, t } from "../feeds/preferences";
import { count, duration, money, shortName } from "../state/format";
import { AuditPanel } from "./AuditPanel";
import { BarChart } from "./Charts";
import { ModelsPanel } from "./ModelsPanel";
import { Chip, TextWithDetails, ViewHead } from "./parts";

export default function OperationsView() {
  const [round, setRound] = useState(0);
  const id = projectId.value;
  const refresh = () => {
    setRound(round + 1);
    void refreshHealth();
  };
  return (
    <section class="view">
      <ViewHead title={t("operations.title")}>
        <button type="button" onClick={refresh}>
          {t("app.refresh")}
        </button>
      </ViewHead>
      <div class="view-scroll" data-scroll tabIndex={0} role="region" aria-label={t("operations.title")}>
        <div class="tiles">
          <div class="stack">
            <HealthPanel />
            {id !== undefined && <BudgetPanel key={id} project={id} />}
          </div>
          {id !== undefined && <SpacePanel key={id} project={id} round={round} />}
          <ModelsPanel round={round} />
          <UsagePanel round={round} />
          {id !== undefined && <AuditPanel key={id} project={id} round={round} />}
        </div>
      </div>
    </section>
  );
}

export function Panel({
  title,
  children,
  wide,
  side,
  box,
}: {
  title: string;
  children: ComponentChildren;
  wide?: boolean;
  side?: ComponentChildren;
  box?: Ref<HTMLElement>;
}) {
  return (
    <section class={`panel ${wide ? "is-wide" : ""}`} ref={box ?? null}>
      <header class="panel-head">
        <h2>{title}</h2>
        {side}
      </header>
      {children}
    </section>
  );
}

const TONES: Record<HealthStatus, string> = { healthy: "good", degraded: "warn", unhealthy: "bad" };

function HealthPanel() {
  const state = health.value;
  if (state === undefined) return <Panel title={t("operations.health")}>{t("app.loading")}</Panel>;
  return (
    <Panel title={t("operations.health")} side={<Chip tone={TONES[state.status]}>{t(`health.${state.status}`)}</Chip>}>
      <p class="meta">{t("operations.version", { version: state.version })}</p>
      <Checks checks={state.checks} />
      {state.cluster != null && <Servers cluster={state.cluster} />}
    </Panel>
  );
}

/** The servers of the installation. Addresses are for operators and not in what the page reads. */
function Servers({ cluster }: { cluster: ClusterHealth }) {
  const { projects, sessions } = cluster.owned;
  return (
    <>
      <h3>{t("operations.servers")}</h3>
      <ul class="checklist">
        {cluster.servers.map(({ server }) => (
          <li key={server}>
            <span class="state-dot tone-good" aria-hidden="true" />
            <span>{server}</span>
            {server === cluster.server && (
              <span class="meta">
                {t("operations.thisServer", {
                  projects: count(region.value, projects),
                  sessions: count(region.value, sessions),
                })}
              </span>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

function Checks({ checks }: { checks: SpaceHealth["checks"] }) {
  return (
    <ul class="checklist">
      {Object.entries(checks).map(([name, check]) => (
        <li key={name}>
          <span class={`state-dot tone-${TONES[check.status]}`} aria-hidden="true" />
          <span>{checkName(name)}</span>
          <span class="meta">
            <CheckState name={name} check={check} />
          </span>
        </li>
      ))}
    </ul>
  );
}

const CHECKS = ["agents", "cache", "database", "lease", "memory", "model", "queues", "tasks"] as const;

/** A newer server may check more than this page knows. */
function checkName(name: string): string {
  const known = CHECKS.find((check) => check === name);
  return known === undefined ? name : t(`check.${known}`);
}

/** The server's words are English, so where all is well they are shown only if they are a name. */
function CheckState({ name, check }: { name: string; check: SpaceHealth["checks"][string] }) {
  const told = t(`health.${check.status}`);
  if (check.status !== "healthy") return <TextWithDetails text={told} details={check.detail ?? undefined} />;
  return <>{name === "model" ? (check.detail ?? told) : told}</>;
}

function SpacePanel({ project: id, round }: { project: number; round: number }) {
  const [metrics, setMetrics] = useState<SpaceMetrics | undefined>(undefined);
  const [checks, setChecks] = useState<SpaceHealth | undefined>(undefined);
  const load = useCallback(() => {
    spaceMetrics(id).then(setMetrics, report);
    spaceHealth(id).then(setChecks, report);
  }, [id]);
  useEffect(load, [load, round]);
  const act = (work: () => Promise<unknown>) => () =>
    void attempt(async () => {
      await work();
      load();
    });
  const reset = act(async () => {
    if (confirm(t("operations.resetSure"))) await resetSpace(id);
  });
  if (metrics === undefined) return <Panel title={t("operations.space")}>{t("app.loading")}</Panel>;
  return (
    <Panel
      title={t("operations.space")}
      side={checks && <Chip tone={TONES[checks.status]}>{t(`health.${checks.status}`)}</Chip>}
    >
      {metrics.active ? <SpaceNumbers metrics={metrics} /> : <p class="hint">{t("operations.spaceOff")}</p>}
      {checks !== undefined && <Checks checks={checks.checks} />}
      <p class="hint">{t("operations.cleanupHint")}</p>
      <div class="panel-foot">
        <button type="button" onClick={act(() => cleanSpace(id))}>
          {t("operations.cleanup")}
        </button>
        <button type="button" onClick={act(() => clearCache(id))}>
          {t("operations.clearCache")}
        </button>
        <button type="button" class="danger" onClick={reset}>
          {t("operations.reset")}
        </button>
      </div>
    </Panel>
  );
}

function SpaceNumbers({ metrics }: { metrics: SpaceMetrics }) {
  const oneDigit = new Intl.NumberFormat(region.value, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const average = (seconds: number) =>
    seconds > 0 ? t("operations.average", { seconds: oneDigit.format(seconds) }) : undefined;
  return (
    <dl class="numbers">
      <Figure label={t("operations.activeAgents")} value={metrics.active_agents} />
      <Figure label={t("operations.activeTasks")} value={metrics.active_tasks} />
      <Figure label={t("operations.queuedTasks")} value={metrics.queued_tasks} />
      <Figure label={t("operations.processed")} value={metrics.total_tasks_processed} />
      <Figure label={t("operations.clients")} value={metrics.attached_clients} />
      <Figure label={t("operations.uptime")} value={duration(region.value, metrics.uptime)} />
      <Figure
        label={t("operations.direct")}
        value={metrics.direct_calls_count}
        note={average(metrics.average_duration.direct)}
      />
      <Figure
        label={t("operations.orchestrated")}
        value={metrics.orchestrated_calls_count}
        note={average(metrics.average_duration.orchestrated)}
      />
    </dl>
  );
}

function Figure({ label, value, note }: { label: string; value: number | string; note?: string | undefined }) {
  return (
    <div class="figure">
      <dt>{label}</dt>
      <dd>
        {typeof value === "number" ? count(region.value, value) : value}
        {note !== undefined && <small>{note}</small>}
      </dd>
    </div>
  );
}

const SHOWN_BARS = 8;

function UsagePanel({ round }: { round: number }) {
  const [used, setReport] = useState<UsageReport | undefined>(undefined);
  useEffect(() => {
    readUsage().then(setReport, report);
  }, [round]);
  if (used === undefined) return <Panel title={t("operations.usage")}>{t("app.loading")}</Panel>;
  const { total, agents, sessions } = used;
  if (total.calls === 0) {
    return (
      <Panel title={t("operations.usage")} wide>
        <p class="hint">{t("operations.usageEmpty")}</p>
      </Panel>
    );
  }
  const byTokens = mergeAgents(agents).slice(0, SHOWN_BARS);
  const byCost = sessions.toSorted(
    (a, b) => b.usage.cost_usd - a.usage.cost_usd || b.usage.total_tokens - a.usage.total_tokens,
  );
  return (
    <Panel
      title={t("operations.usage")}
      wide
      side={!total.cost_known && <Chip tone="warn">{t("operations.costPartly")}</Chip>}
    >
      <dl class="numbers">
        <Figure label={t("operations.cost")} value={money(region.value, total.cost_usd)} />
        <Figure label={t("operations.calls")} value={total.calls} />
        <Figure label={`${t("operations.tokens")}, ${t("operations.promptTokens")}`} value={total.prompt_tokens} />
        <Figure
          label={`${t("operations.tokens")}, ${t("operations.completionTokens")}`}
          value={total.completion_tokens}
        />
      </dl>
      <div class="charts">
        <BarChart
          title={t("operations.byAgent")}
          bars={byTokens.map(([agent, tokens]) => ({
            key: agent,
            label: shortName(agent),
            value: tokens.total,
            part: tokens.written,
            text: `${count(region.value, tokens.total)} · ${t("operations.completionTokens")} ${count(region.value, tokens.written)}`,
          }))}
        />
        <BarChart
          title={t("operations.bySession")}
          bars={byCost.slice(0, SHOWN_BARS).map(({ session_id, title, usage }) => ({
            key: session_id,
            label: title ?? t("sessions.untitled"),
            value: usage.cost_usd,
            text: money(region.value, usage.cost_usd),
          }))}
        />
      </div>
    </Panel>
  );
}

function mergeAgents(agents: UsageReport["agents"]) {
  const sums = new Map<string, { total: number; written: number }>();
  for (const { agent, usage } of agents) {
    const { total, written } = sums.get(agent) ?? { total: 0, written: 0 };
    sums.set(agent, { total: total + usage.total_tokens, written: written + usage.completion_tokens });
  }
  return [...sums].sort(([, a], [, b]) => b.total - a.total);
}

function BudgetPanel({ project: id }: { project: number }) {
  const current = project.value;
  const [usd, setUsd] = useState(current?.budget_usd?.toString() ?? "");
  const [tokens, setTokens] = useState(current?.budget_tokens?.toString() ?? "");
  const limit = (text: string) => (text.trim() === "" ? null : Number(text));
  const save = () =>
    attempt(async () => {
      await changeBudget(id, limit(usd), limit(tokens));
      await loadProjects();
      say(t("app.saved"));
    });
  return (
    <Panel title={t("operations.budget")}>
      <form
        class="budget"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <label class="field">
          <span>{t("operations.budgetUsd")}</span>
          <input type="number" min="0" step="0.01" value={usd} onInput={(event) => setUsd(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>{t("operations.budgetTokens")}</span>
          <input
            type="number"
            min="0"
            step="1"
            value={tokens}
            onInput={(event) => setTokens(event.currentTarget.value)}
          />
        </label>
        <p class="hint">{t("operations.budgetHint")}</p>
        <button type="submit">{t("app.save")}</button>
      </form>
    </Panel>
  );
}
