// Views that are fetched when they are first looked at.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { report } from "../feeds/app";
import { t } from "../feeds/preferences";

type Load = () => Promise<{ default: ComponentType }>;

export function lazy(load: Load): ComponentType {
  let known: ComponentType | undefined;
  return function Lazy() {
    const [View, setView] = useState<ComponentType | undefined>(() => known);
    useEffect(() => {
      if (View !== undefined) return;
      load().then((module) => {
        known = module.default;
        setView(() => module.default);
      }, report);
    }, []);
    return View === undefined ? <p class="hint side-note">{t("app.loading")}</p> : <View />;
  };
}
