// What the folder of a tool runner brings, and what a person trusts of it.
import { once } from "./again";
import { client, value } from "./client";
import type { ClientInstructions, WaitingContent } from "./types";

const ofClient = (project_id: number, client_id: string) => ({ path: { project_id, client_id } });

export const readBrought = (project: number, id: string): Promise<ClientInstructions> =>
  value(
    client.GET("/my/projects/{project_id}/clients/{client_id}/instructions", {
      params: ofClient(project, id),
      fetch: once,
    }),
  );

/** The digest is the one of the content that was shown. */
export const trustContent = (project: number, id: string, { kind, path, digest }: WaitingContent) =>
  value(
    client.POST("/my/projects/{project_id}/clients/{client_id}/trust", {
      params: ofClient(project, id),
      body: { kind, path, digest },
    }),
  );
