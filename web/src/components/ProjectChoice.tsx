// The project that the page works in: choose, make, rename and delete one.
import { useState } from "preact/hooks";
import { listAgents } from "../api/projects";
import { listSessions } from "../api/sessions";
import type { Project } from "../api/types";
import {
  addProject,
  attempt,
  changeProjectName,
  chooseProject,
  project,
  projectId,
  projects,
  removeProject,
  say,
} from "../feeds/app";
import { t } from "../feeds/preferences";
import { useFocus } from "./focus";
import { Icon } from "./Icon";

const NEW = "new";
const MAX_NAME_CHARACTERS = 200;

export function ProjectChoice() {
  const [form, setForm] = useState<"none" | "make" | "rename">("none");
  const current = project.value;
  const end = () => setForm("none");
  if (form === "make") return <NameForm name="" onEnd={end} onName={addProject} button={t("app.create")} />;
  if (form === "rename" && current !== undefined) {
    const rename = (name: string) => changeProjectName(current.project_id, name);
    return <NameForm name={current.name} onEnd={end} onName={rename} button={t("app.save")} />;
  }
  const choose = (value: string) => {
    if (value === NEW) setForm("make");
    else chooseProject(Number(value));
  };
  return (
    <div class="project-choice">
      <label class="field">
        <span>{t("app.project")}</span>
        <select value={projectId.value} onChange={(event) => choose(event.currentTarget.value)}>
          {projects.value.map((known) => (
            <option key={known.project_id} value={known.project_id}>
              {known.name}
            </option>
          ))}
          <option value={NEW}>{t("app.newProject")}</option>
        </select>
      </label>
      {current !== undefined && (
        <span class="project-actions">
          <IconButton icon="edit" label={t("app.renameProject")} onClick={() => setForm("rename")} />
          {/* Sessions without a project belong to the default one, so it stays. */}
          {!current.is_default && (
            <IconButton
              icon="trash"
              label={t("app.deleteProject")}
              onClick={() => void attempt(() => removeAfterAsking(current))}
            />
          )}
        </span>
      )}
    </div>
  );
}

/** Says what is deleted with the project before it is. */
async function removeAfterAsking({ project_id: id, name }: Project) {
  const [sessions, archived, agents] = await Promise.all([listSessions(id), listSessions(id, true), listAgents(id)]);
  const values = {
    name,
    sessions: t("app.countSessions", { n: sessions.length + archived.length }),
    agents: t("app.countAgents", { n: agents.length }),
  };
  if (!confirm(t("app.deleteProjectSure", values))) return;
  await removeProject(id);
  say(t("app.projectDeleted", { name }));
}

interface IconButtonProps {
  icon: "edit" | "trash";
  label: string;
  onClick: () => void;
}

function IconButton({ icon, label, onClick }: IconButtonProps) {
  return (
    <button type="button" class="quiet icon-only" aria-label={label} title={label} onClick={onClick}>
      <Icon name={icon} />
    </button>
  );
}

interface NameFormProps {
  name: string;
  button: string;
  onName: (name: string) => Promise<unknown>;
  onEnd: () => void;
}

function NameForm({ name, button, onName, onEnd }: NameFormProps) {
  const [text, setText] = useState(name);
  const field = useFocus<HTMLInputElement>();
  const finish = () => {
    const wanted = text.trim();
    onEnd();
    if (wanted !== "" && wanted !== name) void attempt(() => onName(wanted));
  };
  return (
    <form
      class="field"
      onSubmit={(event) => {
        event.preventDefault();
        finish();
      }}
    >
      <label class="field">
        <span>{t("app.newProjectName")}</span>
        <input
          type="text"
          ref={field}
          maxLength={MAX_NAME_CHARACTERS}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") onEnd();
          }}
        />
      </label>
      <span class="form-actions">
        <button type="submit">{button}</button>
        <button type="button" class="quiet" onClick={onEnd}>
          {t("app.cancel")}
        </button>
      </span>
    </form>
  );
}
