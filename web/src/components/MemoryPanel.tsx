// Search in an agent's memory. Notes can be added, and the memory can be cleared.
import { useState } from "preact/hooks";
import { forget, forgetAll, remember, searchMemory } from "../api/projects";
import type { ContextHit, ProjectAgent } from "../api/types";
import { attempt, say } from "../feeds/app";
import { t } from "../feeds/preferences";
import { Icon } from "./Icon";
import { Verbatim } from "./Code";
import { Ago, Chip } from "./parts";

export function MemoryPanel({ project, agent }: { project: number; agent: ProjectAgent }) {
  const [query, setQuery] = useState("");
  const [note, setNote] = useState("");
  const [hits, setHits] = useState<ContextHit[] | undefined>(undefined);
  const search = () => attempt(async () => setHits(await searchMemory(project, agent.agent_id, query)));
  const add = () =>
    attempt(async () => {
      await remember(project, agent.agent_id, note);
      setNote("");
      say(t("agents.memoryAdded"));
    });
  const remove = (hit: ContextHit) =>
    attempt(async () => {
      await forget(project, agent.agent_id, hit.id);
      setHits((present) => present?.filter((other) => other.id !== hit.id));
    });
  const clear = () =>
    attempt(async () => {
      if (!confirm(t("agents.memoryForgetSure"))) return;
      await forgetAll(project, agent.agent_id);
      setHits([]);
    });
  return (
    <div class="memory">
      <form
        class="search-line"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          if (query.trim() !== "") void search();
        }}
      >
        <input
          type="search"
          value={query}
          placeholder={t("agents.memoryPlaceholder")}
          aria-label={t("agents.memoryPlaceholder")}
          onInput={(event) => setQuery(event.currentTarget.value)}
        />
        <button type="submit" class="primary">
          <Icon name="search" /> {t("agents.memorySearch")}
        </button>
      </form>
      <div aria-live="polite">
        {hits === undefined ? (
          <p class="hint">{t("agents.memoryStart")}</p>
        ) : hits.length === 0 ? (
          <p class="hint">{t("agents.memoryEmpty")}</p>
        ) : (
          <ol class="hits">
            {hits.map((hit) => (
              <Hit key={hit.id} hit={hit} onForget={() => void remove(hit)} />
            ))}
          </ol>
        )}
      </div>
      <form
        class="search-line"
        onSubmit={(event) => {
          event.preventDefault();
          if (note.trim() !== "") void add();
        }}
      >
        <input
          type="text"
          value={note}
          placeholder={t("agents.memoryAddPlaceholder")}
          aria-label={t("agents.memoryAddPlaceholder")}
          onInput={(event) => setNote(event.currentTarget.value)}
        />
        <button type="submit">{t("agents.memoryAdd")}</button>
      </form>
      <button type="button" class="danger quiet" onClick={() => void clear()}>
        <Icon name="trash" /> {t("agents.memoryForget")}
      </button>
    </div>
  );
}

function Hit({ hit, onForget }: { hit: ContextHit; onForget: () => void }) {
  return (
    <li class="hit">
      <p class="hit-head">
        <Chip tone={hit.success ? "calm" : "bad"}>
          {hit.success ? hit.type : `${hit.type} · ${t("agents.memoryFailed")}`}
        </Chip>
        <span class="meta">{hit.score.toFixed(2)}</span>
        <span class="meta">
          <Ago at={hit.timestamp} />
        </span>
        <span class="grow" />
        <button
          type="button"
          class="quiet icon-only"
          aria-label={t("agents.memoryForgetOne")}
          title={t("agents.memoryForgetOne")}
          onClick={onForget}
        >
          <Icon name="trash" />
        </button>
      </p>
      <Verbatim text={hit.text} label={hit.type} />
    </li>
  );
}
