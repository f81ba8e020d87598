import { client, value } from "./client";
import type { Decision, OpenApproval } from "./types";

const PAGE = 1000;

export async function openApprovals(): Promise<OpenApproval[]> {
  return (await value(client.GET("/my/approvals", { params: { query: { limit: PAGE } } }))).approvals;
}

export const decide = (session_id: string, call_id: string, body: Decision) =>
  value(
    client.POST("/my/chat/{session_id}/approvals/{call_id}/decision", {
      params: { path: { session_id, call_id } },
      body,
    }),
  );
