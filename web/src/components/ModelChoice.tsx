// The choice of a model for one session. Without a choice each agent uses its own.
import { useEffect, useState } from "preact/hooks";
import { listModels } from "../api/projects";
import { chooseModel, sessionModel } from "../api/sessions";
import { attempt, report } from "../feeds/app";
import { t } from "../feeds/preferences";

const OWN = "";

export function ModelChoice({ sessionId }: { sessionId: string }) {
  const [models, setModels] = useState<string[]>([]);
  const [chosen, setChosen] = useState(OWN);
  useEffect(() => {
    listModels().then(setModels, () => setModels([]));
    sessionModel(sessionId).then((model) => setChosen(model ?? OWN), report);
  }, [sessionId]);
  const offered = [...new Set([...models, ...(chosen === OWN ? [] : [chosen])])];
  if (offered.length === 0) return null;
  const choose = async (model: string) => {
    setChosen(model);
    await attempt(() => chooseModel(sessionId, model === OWN ? null : model));
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
