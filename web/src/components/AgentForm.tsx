// The form that creates or edits an agent.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { listModels } from "../api/projects";
import { listMcpServers } from "../api/mcp";
import type { ChangeAgent, ProjectAgent } from "../api/types";
import { projectId } from "../feeds/app";
import { t } from "../feeds/preferences";
import { ALL_MCP, offeredTools, serverOfEntry } from "../state/tools";

const TOOLS: readonly string[] = [
  "read_file",
  "write_file",
  "list_files",
  "search_in_code",
  "create_directory",
  "execute_command",
  "attempt_completion",
  "ask_followup_question",
];
const FIRST_TOOLS: readonly string[] = [
  "read_file",
  "list_files",
  "search_in_code",
  "attempt_completion",
  "ask_followup_question",
];

/** The values of the form. They are enough to create an agent and to change one. */
export type AgentValues = ChangeAgent & { name: string };

interface AgentFormProps {
  agent: ProjectAgent | undefined;
  onSave: (values: AgentValues) => Promise<boolean>;
}

interface Values {
  name: string;
  role: string;
  description: string;
  model: string;
  fallbacks: string;
  temperature: string;
  maxTokens: string;
  prompt: string;
  tools: readonly string[];
  restrictions: string;
  concurrency: string;
}

function valuesOf(agent: ProjectAgent | undefined): Values {
  return {
    name: agent?.name ?? "",
    role: agent?.role ?? "",
    description: agent?.description ?? "",
    model: agent === undefined || agent.model_inherited ? "" : agent.model,
    fallbacks: agent?.fallback_models.join("\n") ?? "",
    temperature: agent?.temperature?.toString() ?? "",
    maxTokens: agent?.max_tokens?.toString() ?? "",
    prompt: agent?.system_prompt ?? "",
    tools: agent?.allowed_tools ?? FIRST_TOOLS,
    restrictions: agent?.file_restrictions?.join("\n") ?? "",
    concurrency: agent?.concurrency_limit.toString() ?? "4",
  };
}

function bodyOf(values: Values, isChange: boolean): AgentValues {
  const number = (text: string) => (text.trim() === "" ? null : Number(text));
  const lines = (text: string) => text.split("\n").filter((line) => line.trim() !== "");
  const restrictions = lines(values.restrictions);
  const body: AgentValues = {
    name: values.name,
    role: values.role,
    description: values.description,
    fallback_models: lines(values.fallbacks),
    temperature: number(values.temperature),
    max_tokens: number(values.maxTokens),
    system_prompt: values.prompt,
    allowed_tools: [...values.tools],
    file_restrictions: restrictions.length > 0 ? restrictions : null,
    concurrency_limit: Number(values.concurrency),
  };
  if (values.model.trim() !== "") body.model = values.model;
  // Without a model of its own the agent follows the server's default.
  else if (isChange) body.model = null;
  return body;
}

/** The server's default, where this agent follows it. */
function defaultModel(agent: ProjectAgent | undefined): string {
  return agent?.model_inherited === true ? `: ${agent.model}` : "";
}

export function AgentForm({ agent, onSave }: AgentFormProps) {
  const [values, setValues] = useState(() => valuesOf(agent));
  const [isSaving, setSaving] = useState(false);
  const [models, setModels] = useState<string[]>([]);
  // A list only helps: any name can be typed.
  useEffect(() => {
    listModels().then(setModels, () => setModels([]));
  }, []);
  const [servers, setServers] = useState<string[]>([]);
  const project = projectId.value;
  useEffect(() => {
    if (project === undefined) return;
    listMcpServers(project).then(
      (found) => setServers(found.map(({ name }) => name)),
      () => setServers([]),
    );
  }, [project]);
  const set = (change: Partial<Values>) => setValues({ ...values, ...change });
  const text = (name: keyof Values & ("role" | "description")) => (
    <input type="text" value={values[name]} onInput={(event) => set({ [name]: event.currentTarget.value })} />
  );
  const save = async () => {
    setSaving(true);
    await onSave(bodyOf(values, agent !== undefined));
    setSaving(false);
  };
  const offered = offeredTools(TOOLS, servers, values.tools);
  return (
    <form
      class="agent-form"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      {agent === undefined && (
        <Field label={t("agents.name")} hint={t("agents.nameHint")}>
          <input
            type="text"
            required
            pattern="[a-z0-9_]{1,64}"
            value={values.name}
            onInput={(event) => set({ name: event.currentTarget.value })}
          />
        </Field>
      )}
      <div class="field-row">
        <Field label={t("agents.role")}>{text("role")}</Field>
        <Field label={t("agents.model")} hint={t("agents.modelHint", { model: defaultModel(agent) })}>
          <input
            type="text"
            list="models"
            value={values.model}
            onInput={(event) => set({ model: event.currentTarget.value })}
          />
          <datalist id="models">
            {models.map((model) => (
              <option key={model} value={model} />
            ))}
          </datalist>
        </Field>
      </div>
      <Field label={t("agents.fallbacks")} hint={t("agents.fallbacksHint")}>
        <textarea
          class="mono"
          rows={2}
          value={values.fallbacks}
          onInput={(event) => set({ fallbacks: event.currentTarget.value })}
        />
      </Field>
      <Field label={t("agents.description")}>{text("description")}</Field>
      <Field label={t("agents.prompt")} hint={t("agents.promptHint")}>
        <textarea
          class="mono"
          rows={10}
          value={values.prompt}
          onInput={(event) => set({ prompt: event.currentTarget.value })}
        />
      </Field>
      <div class="field-row">
        <Field label={t("agents.temperature")}>
          <input
            type="number"
            min="0"
            max="2"
            step="0.1"
            value={values.temperature}
            onInput={(event) => set({ temperature: event.currentTarget.value })}
          />
        </Field>
        <Field label={t("agents.maxTokens")}>
          <input
            type="number"
            min="1"
            max="200000"
            value={values.maxTokens}
            onInput={(event) => set({ maxTokens: event.currentTarget.value })}
          />
        </Field>
        <Field label={t("agents.concurrency")}>
          <input
            type="number"
            min="1"
            max="64"
            required
            value={values.concurrency}
            onInput={(event) => set({ concurrency: event.currentTarget.value })}
          />
        </Field>
      </div>
      <fieldset class="checks">
        <legend>{t("agents.tools")}</legend>
        {offered.map((tool) => (
          <label key={tool} class="check">
            <input
              type="checkbox"
              checked={values.tools.includes(tool)}
              onChange={(event) =>
                set({
                  tools: event.currentTarget.checked
                    ? [...values.tools, tool]
                    : values.tools.filter((other) => other !== tool),
                })
              }
            />
            <code>{tool}</code>
            <ToolEntryText entry={tool} />
          </label>
        ))}
      </fieldset>
      <Field label={t("agents.restrictions")} hint={t("agents.restrictionsHint")}>
        <textarea
          class="mono"
          rows={2}
          value={values.restrictions}
          onInput={(event) => set({ restrictions: event.currentTarget.value })}
        />
      </Field>
      <div class="form-foot">
        <button type="submit" class="primary" disabled={isSaving}>
          {agent === undefined ? t("app.create") : t("app.save")}
        </button>
      </div>
    </form>
  );
}

/** What an entry for several tools means. */
function ToolEntryText({ entry }: { entry: string }) {
  if (entry === ALL_MCP) return <span class="meta">{t("agents.allMcp")}</span>;
  const server = serverOfEntry(entry);
  return server === undefined ? null : <span class="meta">{t("agents.allOfServer", { server })}</span>;
}

function Field({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {hint !== undefined && <small class="hint">{hint}</small>}
    </label>
  );
}
