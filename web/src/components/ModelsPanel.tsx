// The providers of models that the server knows, what they offer, and how to connect one more.
import { useEffect, useRef, useState } from "preact/hooks";
import { offeredModels, tryModel } from "../api/projects";
import type { ModelList, ModelTried, OfferedModel } from "../api/types";
import { attempt, isDemo, report, route } from "../feeds/app";
import { region, t, tell } from "../feeds/preferences";
import { count, money } from "../state/format";
import { Panel } from "./OperationsView";
import { Chip, CopyLine, TextWithDetails } from "./parts";

const SHOWN_MODELS = 12;

export function ModelsPanel({ round }: { round: number }) {
  const [list, setList] = useState<ModelList | undefined>(undefined);
  useEffect(() => {
    offeredModels().then(setList, report);
  }, [round]);
  const box = useRef<HTMLElement>(null);
  const isLoaded = list !== undefined;
  const isWanted = route.value.view === "operations" && route.value.panel === "models";
  useEffect(() => {
    if (isLoaded && isWanted) box.current?.scrollIntoView();
  }, [isLoaded, isWanted]);
  if (list === undefined) return <Panel title={t("models.title")}>{t("app.loading")}</Panel>;
  const providers = [...new Set(list.models.map((offered) => offered.provider))];
  return (
    <Panel title={t("models.title")} wide side={isDemo.value && <Chip tone="warn">{t("app.demo")}</Chip>} box={box}>
      {providers.map((provider) => (
        <Provider
          key={provider}
          name={provider}
          models={list.models.filter((offered) => offered.provider === provider)}
        />
      ))}
      {list.unavailable.map(({ provider, kind, message }) => (
        <div class="provider" key={provider}>
          <h3>
            {provider} <Chip tone="warn">{t("models.unlisted")}</Chip>
          </h3>
          <p>
            <TextWithDetails text={tell({ code: "", kind })} details={message} />
          </p>
        </div>
      ))}
      {providers.length === 0 && list.unavailable.length === 0 && <p class="hint">{t("models.none")}</p>}
      <HowToConnect isOpen={isDemo.value} />
    </Panel>
  );
}

function Provider({ name, models }: { name: string; models: OfferedModel[] }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? models : models.slice(0, SHOWN_MODELS);
  return (
    <div class="provider">
      <h3>
        {name} <Chip tone="good">{t("models.count", { n: models.length })}</Chip>
      </h3>
      <div class="table-scroll" tabIndex={0} role="group" aria-label={name}>
        <table class="models">
          <thead>
            <tr>
              <th scope="col">{t("models.model")}</th>
              <th scope="col">{t("models.test")}</th>
              <th scope="col" class="align-end">
                {t("models.window")}
              </th>
              <th scope="col">{t("models.images")}</th>
              <th scope="col" class="align-end">
                {t("models.price")}
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((offered) => (
              <Model key={offered.model} offered={offered} />
            ))}
          </tbody>
        </table>
      </div>
      {models.length > SHOWN_MODELS && (
        <button type="button" class="quiet" onClick={() => setWhole(!isWhole)}>
          {isWhole ? t("app.showLess") : t("app.showMore")}
        </button>
      )}
    </div>
  );
}

const UNKNOWN = "–";

function Model({ offered: { model, window, images, price } }: { offered: OfferedModel }) {
  return (
    <tr>
      <td>
        <code>{model}</code>
      </td>
      <td>
        <TryModel model={model} />
      </td>
      <td class="align-end">{window == null ? UNKNOWN : count(region.value, window)}</td>
      <td>{images == null ? UNKNOWN : t(images ? "models.yes" : "models.no")}</td>
      <td class="align-end">
        {price == null
          ? UNKNOWN
          : `${money(region.value, price.input_per_million_usd)} / ${money(region.value, price.output_per_million_usd)}`}
      </td>
    </tr>
  );
}

/** One short call says whether the address, the key and the name are right. */
function TryModel({ model }: { model: string }) {
  const [tried, setTried] = useState<ModelTried | "asking" | undefined>(undefined);
  const ask = async () => {
    setTried("asking");
    if (!(await attempt(async () => setTried(await tryModel(model))))) setTried(undefined);
  };
  return (
    <span class="model-test">
      <button type="button" disabled={tried === "asking"} onClick={() => void ask()}>
        {t(tried === "asking" ? "models.testing" : "models.test")}
      </button>
      <span role="status">{typeof tried === "object" && <TestResult tried={tried} />}</span>
    </span>
  );
}

function TestResult({ tried: { ok, detail, details } }: { tried: ModelTried }) {
  if (ok) return <Chip tone="good">{t("models.answers")}</Chip>;
  const kind = details?.["kind"];
  const problem = typeof kind === "string" ? { code: "LLM_ERROR", kind } : { code: "LLM_ERROR" };
  return (
    <span class="bad">
      <TextWithDetails text={tell(problem)} details={detail ?? undefined} />
    </span>
  );
}

/** Models are connected on the server: its keys never come to a browser. */
function HowToConnect({ isOpen }: { isOpen: boolean }) {
  return (
    <details class="how-to" open={isOpen}>
      <summary>{t("models.connect")}</summary>
      <p>{t("models.connectText")}</p>
      <CopyLine text="LLM_PROXY_URL=https://api.openai.com/v1 LLM_API_KEY=… LLM_MODEL=gpt-4o codelab serve" />
      <p>{t("models.connectMore")}</p>
      <CopyLine text="CODELAB_PROVIDERS__claude__KIND=anthropic CODELAB_PROVIDERS__claude__URL=https://api.anthropic.com CODELAB_PROVIDERS__claude__KEY_ENV=ANTHROPIC_API_KEY" />
    </details>
  );
}
