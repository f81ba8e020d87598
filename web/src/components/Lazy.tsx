// Views whose code is loaded when they are first opened.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { report } from "../feeds/app";
import { t } from "../feeds/preferences";

/** Set during a reload, so that the page reloads only once. */
const RELOADED = "view.reloaded";

/** After a server upgrade the files of the views have other names, so the page must be loaded again. */
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
