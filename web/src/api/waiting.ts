import { again } from "./again";
import { client, value } from "./client";
import type { Decision, OpenApproval, WaitingInSession } from "./types";
import { whole } from "./whole";

/** At most 1,000, oldest first. */
export async function listWaiting(): Promise<WaitingInSession[]> {
  return (await value(client.GET("/my/waiting"))).waiting;
}

/** What decisions need. `listWaiting` says what waits. */
export async function openApprovals(): Promise<OpenApproval[]> {
  return whole(async (query) => {
    const list = await value(client.GET("/my/approvals", { params: { query } }));
    return [list.approvals, list.total];
  });
}

export const decide = (session_id: string, call_id: string, body: Decision) =>
  value(
    client.POST("/my/chat/{session_id}/approvals/{call_id}/decision", {
      params: { path: { session_id, call_id } },
      body,
      // The first decision counts. The second one is refused.
      fetch: again,
    }),
  );
