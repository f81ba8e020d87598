// State shared by the whole page: login, route, project, server health, notices.
import { computed, effect, signal } from "@preact/signals";
import { ApiError } from "../api/client";
import { login, logout } from "../api/login";
import { health as readHealth } from "../api/operations";
import { createProject, listProjects } from "../api/projects";
import type { Health, Project } from "../api/types";
import { linkTo, parseRoute, ticketOf, type Route } from "../state/route";
import { keep, recall, t, tell } from "./preferences";

export type Access =
  | { state: "unknown" }
  /** The server does not answer yet. */
  | { state: "offline" }
  | { state: "out"; failure: string | undefined }
  | { state: "in" };
export type Connection = "connecting" | "live" | "cut";

export interface Notice {
  text: string;
  /** What the server itself said, in English. */
  details?: string;
  isError: boolean;
}

const HEALTH_PERIOD_MS = 30_000;
const NOTICE_MS = 8_000;
/** Errors stay longer: they have two sentences and often details. */
const ERROR_MS = 20_000;
const OFFLINE_PAUSE_MS = 2_000;

export const access = signal<Access>({ state: "unknown" });
export const route = signal<Route>({ view: "chat" });
export const projects = signal<Project[]>([]);
export const projectId = signal<number | undefined>(undefined);
export const health = signal<Health | undefined>(undefined);
export const connection = signal<Connection>("connecting");
export const notice = signal<Notice | undefined>(undefined);

export const project = computed(() => projects.value.find((known) => known.project_id === projectId.value));
export const isDemo = computed(() => health.value?.checks["model"]?.detail?.includes("demonstration") ?? false);

/** The id of the logged-in user; unknown if the browser's storage was cleared after the login. */
export const ownUserId = () => Number(recall("user")) || undefined;

let noticeTimer: ReturnType<typeof setTimeout> | undefined;

export function say(text: string, details?: string) {
  show({ text, details, isError: false });
}

function show(next: Notice) {
  clearTimeout(noticeTimer);
  notice.value = next;
  noticeTimer = setTimeout(() => (notice.value = undefined), next.isError ? ERROR_MS : NOTICE_MS);
}

/** Tells the person what went wrong; a login that ended leads to the login page. */
export function report(error: unknown) {
  if (error instanceof ApiError && error.status === 401) {
    access.value = { state: "out", failure: undefined };
    return;
  }
  if (!(error instanceof ApiError)) {
    show({ text: t("app.pageError"), details: String(error), isError: true });
    return;
  }
  // The browser's own message about a failed connection does not help a user.
  show({ text: tell(error), details: error.status === 0 ? undefined : error.message, isError: true });
}

/** Runs an action of the user and reports its failure. Returns whether it worked. */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    report(error);
    return false;
  }
}

export function go(hash: string) {
  location.hash = hash;
}

export async function start() {
  followAddress();
  const ticket = ticketOf(location.hash);
  if (ticket !== undefined) {
    // The ticket works once: it must not stay in the address or the history.
    history.replaceState(null, "", location.pathname);
    try {
      keep("user", String((await login(ticket)).user_id));
    } catch (error) {
      const failure = error instanceof Error ? error.message : String(error);
      // A browser that is already logged in goes on, whatever became of the link.
      return enter(failure);
    }
  }
  await enter(undefined);
}

function followAddress() {
  const read = () => {
    if (ticketOf(location.hash) !== undefined) return;
    route.value = parseRoute(location.hash);
  };
  read();
  addEventListener("hashchange", () => {
    if (ticketOf(location.hash) !== undefined) location.reload();
    else read();
  });
}

async function enter(failure: string | undefined) {
  try {
    await loadProjects();
    access.value = { state: "in" };
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      access.value = { state: "out", failure };
      return;
    }
    access.value = { state: "offline" };
    setTimeout(() => void enter(failure), OFFLINE_PAUSE_MS);
  }
}

export async function loadProjects() {
  const found = await listProjects();
  projects.value = found;
  const wanted = Number(recall("project"));
  const chosen = found.find((known) => known.project_id === (projectId.value ?? wanted));
  projectId.value = (chosen ?? found.find((known) => known.is_default) ?? found[0])?.project_id;
}

export async function addProject(name: string) {
  const made = await createProject(name);
  projects.value = [...projects.value, made];
  projectId.value = made.project_id;
}

export async function leave() {
  await logout().catch(() => undefined);
  access.value = { state: "out", failure: undefined };
  go(linkTo("chat"));
}

effect(() => {
  if (projectId.value !== undefined) keep("project", String(projectId.value));
});

export async function refreshHealth() {
  health.value = await readHealth().catch(() => health.value);
}

export function watchHealth() {
  void refreshHealth();
  setInterval(() => void refreshHealth(), HEALTH_PERIOD_MS);
}
