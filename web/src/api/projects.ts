// Projects, their agents and what the agents remember.
import { again, once } from "./again";
import { client, value } from "./client";
import type {
  AttachedClient,
  ChangeAgent,
  ContextHit,
  ContextInteraction,
  CreateAgent,
  Project,
  ProjectAgent,
  ProjectPlan,
} from "./types";

const PAGE = 1000;
const inProject = (project_id: number) => ({ path: { project_id } });
const ofAgent = (project_id: number, agent_id: string) => ({ path: { project_id, agent_id } });

export async function listProjects(): Promise<Project[]> {
  return (await value(client.GET("/my/projects", { params: { query: { limit: PAGE } }, fetch: once }))).projects;
}

export const createProject = (name: string) => value(client.POST("/my/projects", { body: { name } }));

export const renameProject = (id: number, name: string) =>
  value(client.PATCH("/my/projects/{project_id}", { params: inProject(id), body: { name }, fetch: again }));

export const deleteProject = (id: number) =>
  value(client.DELETE("/my/projects/{project_id}", { params: inProject(id) }));

export const changeBudget = (id: number, budget_usd: number | null, budget_tokens: number | null) =>
  value(
    client.PATCH("/my/projects/{project_id}", {
      params: inProject(id),
      body: { budget_usd, budget_tokens },
      fetch: again,
    }),
  );

export async function listAgents(project: number): Promise<ProjectAgent[]> {
  const params = { path: { project_id: project }, query: { limit: PAGE } };
  return (await value(client.GET("/my/projects/{project_id}/agents", { params }))).agents;
}

/** The models that the server's providers offer, and the providers that did not tell theirs. */
export const offeredModels = () => value(client.GET("/my/models"));

/** One short call to a model. */
export const tryModel = (model: string) => value(client.POST("/my/models/test", { body: { model } }));

/** The names of the models that the server's providers offer. */
export async function listModels(): Promise<string[]> {
  return (await offeredModels()).models.map((offered) => offered.model);
}

export const createAgent = (project: number, body: CreateAgent) =>
  value(client.POST("/my/projects/{project_id}/agents", { params: inProject(project), body }));

export const changeAgent = (project: number, agent: string, body: ChangeAgent) =>
  value(
    client.PATCH("/my/projects/{project_id}/agents/{agent_id}", {
      params: ofAgent(project, agent),
      body,
      fetch: again,
    }),
  );

export const deleteAgent = (project: number, agent: string) =>
  value(client.DELETE("/my/projects/{project_id}/agents/{agent_id}", { params: ofAgent(project, agent) }));

export const agentStatus = (project: number, agent: string) =>
  value(client.GET("/my/projects/{project_id}/agents/{agent_id}/status", { params: ofAgent(project, agent) }));

export const agentMetrics = (project: number, agent: string) =>
  value(client.GET("/my/projects/{project_id}/agents/{agent_id}/metrics", { params: ofAgent(project, agent) }));

export const setInService = (project: number, agent: string, inService: boolean) =>
  inService
    ? value(client.POST("/my/projects/{project_id}/agents/{agent_id}/register", { params: ofAgent(project, agent) }))
    : value(client.POST("/my/projects/{project_id}/agents/{agent_id}/deregister", { params: ofAgent(project, agent) }));

export async function searchMemory(project: number, agent: string, query: string): Promise<ContextHit[]> {
  const body = { query, top_k: 20 };
  const path = "/my/projects/{project_id}/agents/{agent_id}/context/search";
  return (await value(client.POST(path, { params: ofAgent(project, agent), body }))).results;
}

/** What an agent remembers, newest first, and how many interactions there are. */
export async function listInteractions(
  project: number,
  agent: string,
  limit: number,
): Promise<[ContextInteraction[], number]> {
  const path = "/my/projects/{project_id}/agents/{agent_id}/context";
  const { interactions, total } = await value(
    client.GET(path, { params: { ...ofAgent(project, agent), query: { limit } }, fetch: once }),
  );
  return [interactions, total];
}

export async function listClients(project: number): Promise<AttachedClient[]> {
  const path = "/my/projects/{project_id}/clients";
  return (await value(client.GET(path, { params: inProject(project), fetch: once }))).clients;
}

/** The newest plans of all sessions of a project. */
export async function listProjectPlans(project: number, limit: number): Promise<ProjectPlan[]> {
  const path = "/my/projects/{project_id}/plans";
  return (await value(client.GET(path, { params: { ...inProject(project), query: { limit } } }))).plans;
}

export const remember = (project: number, agent: string, text: string) =>
  value(
    client.POST("/my/projects/{project_id}/agents/{agent_id}/context", {
      params: ofAgent(project, agent),
      body: { text },
    }),
  );

export const forget = (project: number, agent: string, context: string) =>
  value(
    client.DELETE("/my/projects/{project_id}/agents/{agent_id}/context/{context_id}", {
      params: { path: { project_id: project, agent_id: agent, context_id: context } },
    }),
  );

export const forgetAll = (project: number, agent: string) =>
  value(client.DELETE("/my/projects/{project_id}/agents/{agent_id}/context", { params: ofAgent(project, agent) }));
