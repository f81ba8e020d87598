// Sessions, their messages, questions and plans.
import { again } from "./again";
import { client, value } from "./client";
import type {
  ApproveMode,
  Attachment,
  Delivery,
  Message,
  NewAttachment,
  PlanDecision,
  RewindSession,
  SendMessage,
  Session,
} from "./types";
import { whole } from "./whole";

const PAGE = 1000;
const at = (session_id: string) => ({ path: { session_id } });

/** Archived sessions, or the others. */
export async function listSessions(project_id: number, archived = false): Promise<Session[]> {
  const query = { project_id, limit: PAGE, archived };
  const list = await value(client.GET("/my/chat/sessions", { params: { query } }));
  return list.sessions;
}

/** The project's first sessions that have all of the words, each with a snippet, and how many there are. */
export async function searchSessions(project_id: number, q: string, archived: boolean): Promise<[Session[], number]> {
  const list = await value(client.GET("/my/chat/sessions", { params: { query: { project_id, q, archived } } }));
  return [list.sessions, list.total];
}

export const createSession = (project_id: number) => value(client.POST("/my/chat/sessions", { body: { project_id } }));

export const changeSession = (id: string, body: { title?: string; pinned?: boolean; archived?: boolean }) =>
  value(client.PATCH("/my/chat/sessions/{session_id}", { params: at(id), body, fetch: again }));

/** A link, so that the browser stores the file while it arrives. */
export const exportLink = (id: string, format: "markdown" | "json") =>
  `/my/chat/sessions/${encodeURIComponent(id)}/export/?format=${format}`;

/** A file of one of the session's messages. */
export const attachmentLink = (id: string, digest: string) =>
  `/my/chat/${encodeURIComponent(id)}/attachments/${encodeURIComponent(digest)}`;

/** With the agent and the model that were chosen for it, which lists leave out. */
export const readDetail = (id: string) =>
  value(client.GET("/my/chat/sessions/{session_id}", { params: at(id), fetch: again }));

/** `null`: each agent uses its own model. */
export const chooseModel = (id: string, model: string | null) =>
  value(client.PATCH("/my/chat/sessions/{session_id}", { params: at(id), body: { model } }));

/** What passes without a question. */
export const chooseApprove = (id: string, approve: ApproveMode) =>
  value(client.PATCH("/my/chat/sessions/{session_id}", { params: at(id), body: { approve }, fetch: again }));

/** `null`: messages are planned. */
export const chooseAgent = (id: string, agent: string | null) =>
  value(client.PATCH("/my/chat/sessions/{session_id}", { params: at(id), body: { agent }, fetch: again }));

export const deleteSession = (id: string) => value(client.DELETE("/my/chat/sessions/{session_id}", { params: at(id) }));

/** All messages of a session, oldest first. */
export async function allMessages(session_id: string): Promise<Message[]> {
  return whole(async (query) => {
    const list = await value(client.GET("/my/chat/{session_id}/messages", { params: { path: { session_id }, query } }));
    return [list.messages, list.total];
  });
}

/** Sends a message without waiting for the answer, which comes on the session's stream. */
export async function sendMessage(
  id: string,
  content: string,
  target_agent: string | undefined,
  client_message_id: string,
  attachments: NewAttachment[] = [],
  delivery: Delivery = "queue",
) {
  const abort = new AbortController();
  const body: SendMessage = { content, client_message_id };
  if (target_agent !== undefined) body.target_agent = target_agent;
  if (attachments.length > 0) body.attachments = attachments;
  if (delivery !== "queue") body.delivery = delivery;
  // A streamed answer begins as soon as the message is durable; a direct call's JSON would come only at its end.
  await value(
    client.POST("/my/chat/{session_id}/message", {
      params: at(id),
      body,
      ...streamed(abort),
    }),
  );
  abort.abort();
}

/**
 * Runs the last turn again, if it failed or was stopped. With the id of its message, a request that arrives twice runs it
 * once.
 */
export async function retryTurn(id: string, message_id: string | undefined) {
  const abort = new AbortController();
  const body = message_id === undefined ? {} : { message_id };
  await value(client.POST("/my/chat/{session_id}/retry", { params: at(id), body, ...streamed(abort) }));
  abort.abort();
}

/** A new session with the history up to and including a message. Not repeated by itself: each request makes one. */
export const forkSession = (id: string, at_message_id: string) =>
  value(client.POST("/my/chat/{session_id}/fork", { params: at(id), body: { at_message_id } }));

/** A message that waits steers the turn that runs, or waits for its end. */
export const changeDelivery = (session_id: string, message_id: string, delivery: Delivery) =>
  value(
    client.PATCH("/my/chat/{session_id}/queue/{message_id}", {
      params: { path: { session_id, message_id } },
      body: { delivery },
      fetch: again,
    }),
  );

/** A message that waits is said to nobody. */
export const takeBackMessage = (session_id: string, message_id: string) =>
  value(client.DELETE("/my/chat/{session_id}/queue/{message_id}", { params: { path: { session_id, message_id } } }));

/** The content of a file of one of the session's messages. */
export async function readAttachment(id: string, file: Attachment): Promise<File> {
  const path = { session_id: id, digest: file.digest };
  const content: unknown = await value(
    client.GET("/my/chat/{session_id}/attachments/{digest}", { params: { path }, parseAs: "blob" }),
  );
  return new File([content as Blob], file.name, { type: file.media_type });
}

/** Sums the history up now. Events tell of the beginning and the end. A second request joins the first. */
export const compactSession = (id: string) =>
  value(client.POST("/my/chat/{session_id}/compact", { params: at(id), fetch: again }));

/** Takes back what was done since a message, or gives it back. The event `rewound` tells how it ended. */
export const rewindSession = (id: string, body: RewindSession) =>
  value(client.POST("/my/chat/{session_id}/rewind", { params: at(id), body }));

/** What was approved for the rest of the session. */
export const listRemembered = async (id: string) =>
  (await value(client.GET("/my/chat/{session_id}/remembered", { params: at(id) }))).remembered;

/** Such calls ask again. */
export const revokeRemembered = (session_id: string, remembered_id: string) =>
  value(
    client.DELETE("/my/chat/{session_id}/remembered/{remembered_id}", {
      params: { path: { session_id, remembered_id } },
    }),
  );

/** Gives an approval its full time again. A plan that expired waits again. */
export const renewApproval = (session_id: string, call_id: string) =>
  value(
    client.POST("/my/chat/{session_id}/approvals/{call_id}/renew", {
      params: { path: { session_id, call_id } },
      fetch: again,
    }),
  );

const streamed = (abort: AbortController) => ({
  headers: { accept: "text/event-stream" },
  parseAs: "stream" as const,
  signal: abort.signal,
  fetch: again,
});

/** A direct call that waits for its answer. */
export const askAgent = (id: string, content: string, target_agent: string, client_message_id: string) =>
  value(
    client.POST("/my/chat/{session_id}/message", {
      params: at(id),
      body: { content, target_agent, client_message_id },
      fetch: again,
    }),
  );

export const cancelTurn = (id: string, dropQueue: boolean) =>
  value(
    client.POST("/my/chat/{session_id}/cancel", {
      params: { path: { session_id: id }, query: dropQueue ? { queue: "drop" } : {} },
    }),
  );

export const answerQuestion = (session_id: string, call_id: string, answer: string) =>
  value(
    client.POST("/my/chat/{session_id}/questions/{call_id}/answer", {
      params: { path: { session_id, call_id } },
      body: { answer },
      fetch: again,
    }),
  );

export const listPlans = (session_id: string) =>
  whole(async (query) => {
    const list = await value(client.GET("/my/chat/{session_id}/plans", { params: { path: { session_id }, query } }));
    return [list.plans, list.total];
  });

export const decidePlan = (session_id: string, plan_id: string, body: PlanDecision) =>
  value(
    client.POST("/my/chat/{session_id}/plans/{plan_id}/decision", { params: { path: { session_id, plan_id } }, body }),
  );

export const retryPlan = (session_id: string, plan_id: string) =>
  value(client.POST("/my/chat/{session_id}/plans/{plan_id}/retry", { params: { path: { session_id, plan_id } } }));
