// A message of the user's that was changed is said again: in its place, or in another session.
import { newMessageId } from "../api/again";
import {
  chooseAgent,
  chooseModel,
  createSession,
  forkSession,
  readAttachment,
  readDetail,
  rewindSession,
  sendMessage,
} from "../api/sessions";
import type { NewAttachment, RewindScope, Session } from "../api/types";
import { withFiles } from "../state/attachments";
import { linkTo } from "../state/route";
import { messageBefore, type MessageItem } from "../state/session";
import { go, show } from "./app";
import { keepDraft, writeDraft } from "./drafts";
import { t } from "./preferences";
import { shownState } from "./session";

/** Takes back everything from the message on, and sends the new text instead. Returns whether the text left its form. */
export async function resendHere(
  sessionId: string,
  item: MessageItem,
  text: string,
  scope: RewindScope,
): Promise<boolean> {
  const files = await filesOf(sessionId, item);
  const rewound = await rewindSession(sessionId, { to_message_id: item.key, scope });
  if (!("restored" in rewound)) {
    writeDraft(sessionId, text);
    show({ text: t("edit.slow"), isError: false });
    return true;
  }
  if (rewound.error != null) {
    show({ text: t("edit.notBack"), isError: true });
    return false;
  }
  try {
    await sendMessage(sessionId, text, undefined, newMessageId(), files);
  } catch (error) {
    // The message that it stood in is taken back by now.
    writeDraft(sessionId, text);
    throw error;
  }
  return true;
}

/** Sends the new text in a new session that has everything before the message. */
export async function resendInFork(sessionId: string, item: MessageItem, text: string): Promise<boolean> {
  const files = await filesOf(sessionId, item);
  const state = shownState(sessionId);
  const before = state === undefined ? undefined : messageBefore(state, item.key);
  const { session_id } = before === undefined ? await anotherLike(sessionId) : await forkSession(sessionId, before);
  try {
    await sendMessage(session_id, text, undefined, newMessageId(), files);
  } catch (error) {
    keepDraft(session_id, text);
    throw error;
  } finally {
    go(linkTo("sessions", session_id));
  }
  return true;
}

/** An empty session with the same choices: nothing was said before the message. */
async function anotherLike(sessionId: string): Promise<Session> {
  const { project_id, agent, model } = await readDetail(sessionId);
  const made = await createSession(project_id);
  if (agent != null) await chooseAgent(made.session_id, agent);
  if (model != null) await chooseModel(made.session_id, model);
  return made;
}

async function filesOf(sessionId: string, item: MessageItem): Promise<NewAttachment[]> {
  const files = await Promise.all(item.attachments.map((file) => readAttachment(sessionId, file)));
  const { chosen } = await withFiles([], files);
  return chosen.map(({ name, media_type, data }) => ({ name, media_type, data }));
}
