// All requests to the server go through here. They return a value or throw an ApiError.
import createClient from "openapi-fetch";
import { againIfUnseen } from "./again";
import type { paths } from "./schema.mjs";

/** A refusal by the server (`status` > 0), or no answer at all (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
  }
}

export const client = createClient<paths>({ baseUrl: "/", credentials: "same-origin", fetch: againIfUnseen });

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The value of an answer; everything else is thrown as ApiError. */
export async function value<T>(pending: Promise<Answer<T>>): Promise<T> {
  const answer = await pending.catch((cause: unknown) => {
    throw new ApiError(0, "OFFLINE", String(cause));
  });
  if (!answer.response.ok) throw refusal(answer.response, answer.error);
  return answer.data as T;
}

export function refusal(response: Response, body: unknown): ApiError {
  const told = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  const text = (name: string) => (typeof told[name] === "string" ? told[name] : undefined);
  const message = text("detail") ?? text("error") ?? `${response.status} ${response.statusText}`;
  const { details } = told;
  const known = typeof details === "object" && details !== null ? (details as Record<string, unknown>) : {};
  return new ApiError(response.status, text("error_code") ?? "", message, known);
}

/** For the routes that the schema does not have. */
export async function requestJson<T>(path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { credentials: "same-origin" };
  if (body !== undefined) {
    init.method = "POST";
    init.headers = { "content-type": "application/json" };
    init.body = JSON.stringify(body);
  }
  const response = await fetch(path, init).catch((cause: unknown) => {
    throw new ApiError(0, "OFFLINE", String(cause));
  });
  const answered: unknown = response.status === 204 ? undefined : await response.json().catch(() => undefined);
  if (!response.ok) throw refusal(response, answered);
  return answered as T;
}
