// The choice of a model for one session. Without a choice each agent uses its own.
import { useEffect, useState } from "preact/hooks";
import { listModels } from "../api/projects";
import { chooseModel } from "../api/sessions";
import { attempt } from "../feeds/app";
import { t } from "../feeds/preferences";

const OWN = "";

/** `stored`: what the server knew when the session was opened; what was saved on this page is newer. */
export function ModelChoice({ sessionId, stored }: { sessionId: string; stored: string | undefined }) {
  const [models, setModels] = useState<string[]>([]);
  const [saved, setSaved] = useState<string | undefined>(undefined);
  /** Until the server has answered. */
  const [choice, setChoice] = useState<string | undefined>(undefined);
  const chosen = choice ?? saved ?? stored ?? OWN;
  useEffect(() => {
    listModels().then(setModels, () => setModels([]));
  }, []);
  const offered = [...new Set([...models, ...(chosen === OWN ? [] : [chosen])])];
  if (offered.length === 0) return null;
  const choose = async (model: string) => {
    setChoice(model);
    const isSaved = await attempt(() => chooseModel(sessionId, model === OWN ? null : model));
    if (isSaved) setSaved(model);
    setChoice((known) => (known === model ? undefined : known));
  };
  return (
    <label class="inline-field">
      <span>{t("composer.model")}</span>
      <select value={chosen} onChange={(event) => void choose(event.currentTarget.value)}>
        <option value={OWN}>{t("composer.modelOwn")}</option>
        {offered.map((model) => (
          <option key={model} value={model}>
            {model}
          </option>
        ))}
      </select>
    </label>
  );
}
