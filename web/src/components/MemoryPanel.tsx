// What an agent remembers: the newest, or what a search finds. Notes can be added, and all of it can be deleted.
import { useCallback, useEffect, useState } from "preact/hooks";
import { forget, forgetAll, listInteractions, remember, searchMemory } from "../api/projects";
import type { ContextHit, ContextInteraction, ProjectAgent } from "../api/types";
import { attempt, report, say } from "../feeds/app";
import { t } from "../feeds/preferences";
import { Icon } from "./Icon";
import { Verbatim } from "./Code";
import { Ago, Chip } from "./parts";

/** Interactions that are listed without a search. The page calls them memories. */
const NEWEST = 50;

type Memory = ContextInteraction | ContextHit;

/** The newest memories, and how many there are; nothing until they were read. */
function useNewest(project: number, agent: string) {
  const [newest, setNewest] = useState<[ContextInteraction[], number] | undefined>(undefined);
  const read = useCallback(() => {
    listInteractions(project, agent, NEWEST).then(setNewest, report);
  }, [project, agent]);
  useEffect(read, [read]);
  return [newest, read] as const;
}

export function MemoryPanel({ project, agent }: { project: number; agent: ProjectAgent }) {
  const [query, setQuery] = useState("");
  const [note, setNote] = useState("");
  // What a search found; nothing without a search.
  const [hits, setHits] = useState<ContextHit[] | undefined>(undefined);
  const [newest, readNewest] = useNewest(project, agent.agent_id);
  const search = () => attempt(async () => setHits(await searchMemory(project, agent.agent_id, query)));
  const add = () =>
    attempt(async () => {
      await remember(project, agent.agent_id, note);
      setNote("");
      readNewest();
      say(t("agents.memoryAdded"));
    });
  const remove = (hit: Memory) =>
    attempt(async () => {
      await forget(project, agent.agent_id, hit.id);
      setHits((present) => present?.filter((other) => other.id !== hit.id));
      readNewest();
    });
  const clear = () =>
    attempt(async () => {
      if (!confirm(t("agents.memoryForgetSure"))) return;
      await forgetAll(project, agent.agent_id);
      setHits(undefined);
      readNewest();
    });
  return (
    <div class="memory">
      <form
        class="search-line"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          if (query.trim() === "") setHits(undefined);
          else void search();
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
          <Newest newest={newest} onForget={(memory) => void remove(memory)} />
        ) : hits.length === 0 ? (
          <p class="hint">{t("agents.memoryEmpty")}</p>
        ) : (
          <Memories memories={hits} onForget={(memory) => void remove(memory)} />
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

interface NewestProps {
  newest: [ContextInteraction[], number] | undefined;
  onForget: (memory: Memory) => void;
}

function Newest({ newest, onForget }: NewestProps) {
  if (newest === undefined) return <p class="hint">{t("app.loading")}</p>;
  const [memories, total] = newest;
  if (total === 0) return <p class="hint">{t("agents.memoryStart")}</p>;
  return (
    <>
      <p class="hint">{t("agents.memoryNewest", { shown: memories.length, n: total })}</p>
      <Memories memories={memories} onForget={onForget} />
    </>
  );
}

function Memories({ memories, onForget }: { memories: Memory[]; onForget: (memory: Memory) => void }) {
  return (
    <ol class="hits">
      {memories.map((memory) => (
        <Hit key={memory.id} hit={memory} onForget={() => onForget(memory)} />
      ))}
    </ol>
  );
}

function Hit({ hit, onForget }: { hit: Memory; onForget: () => void }) {
  const hasFailed = hit.success === false;
  return (
    <li class="hit">
      <p class="hit-head">
        <Chip tone={hasFailed ? "bad" : "calm"}>
          {hasFailed ? `${hit.type} · ${t("agents.memoryFailed")}` : hit.type}
        </Chip>
        {"score" in hit && <span class="meta">{hit.score.toFixed(2)}</span>}
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
