// Views that are fetched when they are first looked at.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { report } from "../feeds/app";
import { t } from "../feeds/preferences";

/** Set while a reload is tried, so that it is tried once. */
const RELOADED = "view.reloaded";

/** A server that was replaced has its views under other names. */
function reloadOnce(error: unknown) {
  if (sessionStorage.getItem(RELOADED) !== null) return report(error);
  sessionStorage.setItem(RELOADED, "1");
  location.reload();
}

type Load = () => Promise<{ default: ComponentType }>;

export function lazy(load: Load): ComponentType {
  let known: ComponentType | undefined;
  return function Lazy() {
    const [View, setView] = useState<ComponentType | undefined>(() => known);
    useEffect(() => {
      if (View !== undefined) return;
      load().then((module) => {
        sessionStorage.removeItem(RELOADED);
        known = module.default;
        setView(() => module.default);
      }, reloadOnce);
    }, [View]);
    return View === undefined ? <p class="hint side-note">{t("app.loading")}</p> : <View />;
  };
}
