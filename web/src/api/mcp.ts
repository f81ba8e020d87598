// MCP servers of a project and what a person decided about their tools.
import { again } from "./again";
import { client, value } from "./client";
import type { McpPermission, McpServer } from "./types";

const PAGE = 1000;
const ofServer = (project_id: number, name: string) => ({ path: { project_id, name } });

export async function listMcpServers(project: number): Promise<McpServer[]> {
  const params = { path: { project_id: project }, query: { limit: PAGE } };
  return (await value(client.GET("/my/projects/{project_id}/mcp", { params }))).servers;
}

export const addMcpServer = (project: number, name: string, url: string, headers: Record<string, string>) =>
  value(
    client.POST("/my/projects/{project_id}/mcp", {
      params: { path: { project_id: project } },
      body: { name, url, headers },
    }),
  );

/** Without headers the present ones stay. */
export const changeMcpServer = (
  project: number,
  name: string,
  url: string,
  headers: Record<string, string> | undefined,
) =>
  value(
    client.PATCH("/my/projects/{project_id}/mcp/{name}", {
      params: ofServer(project, name),
      body: headers === undefined ? { url } : { url, headers },
      fetch: again,
    }),
  );

export const removeMcpServer = (project: number, name: string) =>
  value(client.DELETE("/my/projects/{project_id}/mcp/{name}", { params: ofServer(project, name) }));

export const testMcpServer = (project: number, name: string) =>
  value(client.POST("/my/projects/{project_id}/mcp/{name}/test", { params: ofServer(project, name) }));

export const permitMcpTool = (project: number, name: string, tool: string, permission: McpPermission) =>
  value(
    client.POST("/my/projects/{project_id}/mcp/{name}/permission", {
      params: ofServer(project, name),
      body: { tool, permission },
    }),
  );

/** The digest is the one of the definition that was shown. */
export const acceptMcpTool = (project: number, name: string, tool: string, digest: string) =>
  value(
    client.POST("/my/projects/{project_id}/mcp/{name}/accept", {
      params: ofServer(project, name),
      body: { tool, digest },
    }),
  );

/** The address of the page where a person agrees. */
export const authorizeMcpServer = async (project: number, name: string): Promise<string> =>
  (await value(client.POST("/my/projects/{project_id}/mcp/{name}/authorize", { params: ofServer(project, name) }))).url;

export const forgetMcpAuthorization = (project: number, name: string) =>
  value(client.DELETE("/my/projects/{project_id}/mcp/{name}/authorize", { params: ofServer(project, name) }));
