// State shared by the whole page: login, route, project, server health, notices.
import { batch, computed, effect, signal } from "@preact/signals";
import { ApiError } from "../api/client";
import { login, logout } from "../api/login";
import { health as readHealth } from "../api/operations";
import { createProject, deleteProject, listProjects, renameProject } from "../api/projects";
import type { Health, Project } from "../api/types";
import { linkTo, parseRoute, ticketOf, type Route, type View } from "../state/route";
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
export const route = signal<Route>({ view: "sessions", sessionId: undefined });
/** The address names no view. The first one is open once the Chat was looked into. */
export const isChoosingView = signal(false);
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

export function show(next: Notice) {
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
  // A browser's own message does not help a user. It is in the console for those who mend the page.
  if (!(error instanceof ApiError)) {
    console.error(error);
    show({ text: isConnectionLost(error) ? tell(OFFLINE) : t("app.pageError"), isError: true });
    return;
  }
  show({ text: tell(error), details: error.status === 0 ? undefined : error.message, isError: true });
}

const OFFLINE = { code: "OFFLINE", status: 0 };

/** How browsers tell that a file could not be loaded: `TypeError: Failed to fetch dynamically imported module`. */
function isConnectionLost(error: unknown): boolean {
  return error instanceof TypeError && /fetch|network|load failed|import/i.test(error.message);
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
    return logIn(ticket);
  }
  await enter(undefined);
}

async function logIn(ticket: string) {
  try {
    keep("user", String((await login(ticket)).user_id));
  } catch (error) {
    // The link was not used yet.
    if (!(error instanceof ApiError) || error.status === 0) {
      access.value = { state: "offline" };
      setTimeout(() => void logIn(ticket), OFFLINE_PAUSE_MS);
      return;
    }
    // A browser that is already logged in goes on, whatever became of the link.
    return enter(error.message);
  }
  await enter(undefined);
}

function followAddress() {
  const read = () => {
    if (ticketOf(location.hash) !== undefined) return;
    route.value = parseRoute(location.hash);
  };
  read();
  isChoosingView.value = location.hash === "" || ticketOf(location.hash) !== undefined;
  addEventListener("hashchange", () => {
    if (ticketOf(location.hash) !== undefined) location.reload();
    else read();
  });
}

/** Opens the first view, unless the user went to one already. */
export function chooseView(view: View) {
  if (!isChoosingView.peek()) return;
  batch(() => {
    if (location.hash === "") {
      history.replaceState(null, "", linkTo(view));
      route.value = parseRoute(linkTo(view));
    }
    isChoosingView.value = false;
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
  chooseProject(made.project_id);
}

/** Another project has other sessions, plans and agents, so what is open is left. */
export function chooseProject(id: number) {
  if (id === projectId.value) return;
  batch(() => {
    projectId.value = id;
    const list = linkTo(route.value.view);
    route.value = parseRoute(list);
    go(list);
  });
}

export async function changeProjectName(id: number, name: string) {
  const changed = await renameProject(id, name);
  projects.value = projects.value.map((known) => (known.project_id === id ? changed : known));
}

export async function removeProject(id: number) {
  await deleteProject(id);
  const left = projects.value.filter((known) => known.project_id !== id);
  projects.value = left;
  const next = left.find((known) => known.is_default) ?? left[0];
  if (next !== undefined) chooseProject(next.project_id);
}

export async function leave() {
  await logout().catch(() => undefined);
  access.value = { state: "out", failure: undefined };
  go(linkTo("sessions"));
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
