// How the server and a project's worker space stand, what was used, and the audit log.
import { client, value } from "./client";
import type { Health } from "./types";

const inProject = (project_id: number) => ({ params: { path: { project_id } } });

export const health = (): Promise<Health> => value(client.GET("/health"));

export const usage = () => value(client.GET("/my/usage"));

export const spaceMetrics = (project: number) =>
  value(client.GET("/my/projects/{project_id}/worker-space", inProject(project)));

export const spaceHealth = (project: number) =>
  value(client.GET("/my/projects/{project_id}/worker-space/health", inProject(project)));

export const resetSpace = (project: number) =>
  value(client.POST("/my/projects/{project_id}/worker-space/reset", inProject(project)));

export const cleanSpace = (project: number) =>
  value(client.POST("/my/projects/{project_id}/worker-space/cleanup", inProject(project)));

export const clearCache = (project: number) =>
  value(client.DELETE("/my/projects/{project_id}/worker-space/cache", inProject(project)));

export const audit = (session_id: string) =>
  value(client.GET("/my/chat/{session_id}/audit", { params: { path: { session_id } } }));
