// The layout around all views: navigation, banners, notices.
import type { ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { access, connection, isChoosingView, isDemo, leave, notice, route } from "../feeds/app";
import { waiting } from "../feeds/waiting";
import { unreadCount } from "../feeds/chat";
import { chooseLocale, locale, t, theme, THEMES } from "../feeds/preferences";
import { LOCALE_NAMES, LOCALES } from "../i18n/text";
import { linkTo, VIEWS, type View } from "../state/route";
import { ChatView } from "./ChatView";
import { Icon, Mark } from "./Icon";
import { lazy } from "./Lazy";
import { LoginView } from "./LoginView";
import { TextWithDetails } from "./parts";
import { ProjectChoice } from "./ProjectChoice";
import { SessionsView } from "./SessionsView";
import { WaitingView } from "./WaitingView";

const SHOWN: Record<View, ComponentType> = {
  chat: ChatView,
  sessions: SessionsView,
  waiting: WaitingView,
  plans: lazy(() => import("./PlansView")),
  agents: lazy(() => import("./AgentsView")),
  tools: lazy(() => import("./ToolsView")),
  operations: lazy(() => import("./OperationsView")),
};

export function App() {
  const main = useRef<HTMLElement>(null);
  const { view } = route.value;
  useTitle(view);
  if (access.value.state === "unknown" || (access.value.state === "in" && isChoosingView.value))
    return <p class="hint starting">{t("app.loading")}</p>;
  if (access.value.state === "offline") {
    return (
      <p class="hint starting" role="status">
        {t("app.offline")}
      </p>
    );
  }
  if (access.value.state === "out") return <LoginView failure={access.value.failure} />;
  const Shown = SHOWN[view];
  return (
    <div class="app">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        {t("nav.skip")}
      </button>
      <Sidebar view={view} />
      <main ref={main} tabIndex={-1}>
        {isDemo.value && (
          <p class="banner" role="note">
            <strong>{t("app.demo")}</strong> <span>{t("app.demoText")}</span>
          </p>
        )}
        {connection.value === "cut" && (
          <p class="banner is-warning" role="status">
            {t("app.reconnecting")}
          </p>
        )}
        <Shown />
      </main>
      <Notice />
    </div>
  );
}

function useTitle(view: View) {
  const count = waiting.value.length + unreadCount.value;
  const title = `${count > 0 ? `(${count}) ` : ""}${t(`nav.${view}`)} · CodeLab`;
  useEffect(() => {
    document.title = title;
  }, [title]);
}

function Sidebar({ view }: { view: View }) {
  const marks: Partial<Record<View, number>> = { chat: unreadCount.value, waiting: waiting.value.length };
  return (
    <div class="sidebar">
      <p class="brand">
        <Mark /> CodeLab
      </p>
      <nav aria-label={t("nav.label")}>
        <ul>
          {VIEWS.map((name) => (
            <li key={name}>
              <a
                href={linkTo(name)}
                aria-current={name === view ? "page" : undefined}
                data-view={name}
                title={t(`nav.${name}`)}
              >
                <Icon name={name} />
                <span class="nav-text">{t(`nav.${name}`)}</span>
                {(marks[name] ?? 0) > 0 && (
                  <span class={`mark mark-${name}`}>
                    {marks[name]}
                    <span class="visually-hidden">
                      {" "}
                      {name === "chat"
                        ? t("chat.unread", { n: marks[name]! })
                        : t("waiting.count", { n: marks[name]! })}
                    </span>
                  </span>
                )}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <Settings />
    </div>
  );
}

/** In a window that is wide enough the settings stand in the side bar. In others they lie over the view. */
const hasRoom = () => globalThis.matchMedia?.("(min-width: 1021px)").matches;

function Settings() {
  const box = useRef<HTMLDetailsElement>(null);
  const close = () => {
    if (!hasRoom()) box.current?.removeAttribute("open");
  };
  useEffect(() => {
    const closeOutside = ({ target }: Event) => {
      if (!(target instanceof Node && box.current?.contains(target))) close();
    };
    document.addEventListener("pointerdown", closeOutside);
    return () => document.removeEventListener("pointerdown", closeOutside);
  }, []);
  return (
    <details
      class="settings"
      ref={box}
      open={hasRoom()}
      onKeyDown={(event) => {
        if (event.key === "Escape") close();
      }}
    >
      <summary>
        <Icon name="settings" /> <span class="nav-text">{t("nav.more")}</span>
      </summary>
      <div class="settings-body">
        <ProjectChoice />
        <label class="field">
          <span>{t("app.language")}</span>
          <select
            value={locale.value}
            onChange={(event) => chooseLocale(event.currentTarget.value as typeof locale.value)}
          >
            {LOCALES.map((name) => (
              <option key={name} value={name}>
                {LOCALE_NAMES[name]}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>{t("app.theme")}</span>
          <select
            value={theme.value}
            onChange={(event) => (theme.value = event.currentTarget.value as typeof theme.value)}
          >
            {THEMES.map((name) => (
              <option key={name} value={name}>
                {t(`app.theme.${name}`)}
              </option>
            ))}
          </select>
        </label>
        <a class="quiet-link" href={linkTo("operations", "models")} onClick={close}>
          {t("models.title")}
        </a>
        <a class="quiet-link" href="/docs" target="_blank" rel="noopener">
          {t("app.apiDocs")}
        </a>
        <button type="button" class="quiet" onClick={() => void leave()}>
          <Icon name="logout" /> {t("app.logout")}
        </button>
      </div>
    </details>
  );
}

function Notice() {
  const shown = notice.value;
  return (
    <div class="notices" role="status" aria-live="polite">
      {shown !== undefined && (
        <p class={`notice ${shown.isError ? "is-error" : ""}`}>
          <TextWithDetails text={shown.text} details={shown.details} />
          <button
            type="button"
            class="quiet icon-only"
            aria-label={t("app.close")}
            onClick={() => (notice.value = undefined)}
          >
            <Icon name="cross" />
          </button>
        </p>
      )}
    </div>
  );
}
