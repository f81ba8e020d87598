// The global Chat: its stream while it is looked at, a question now and then while it is not.
import { computed, effect, signal } from "@preact/signals";
import { chatHistory, followChat } from "../api/chat";
import { ApiError } from "../api/client";
import { answerDue, emptyChat, lastIdOf, openQuestion, reduceChat, unread, type ChatInput } from "../state/chat";
import { access, chooseView, route, type Connection } from "./app";
import { now } from "./clock";
import { keep, recall } from "./preferences";
import { whileVisible } from "./visible";

const FIRST_MESSAGES = 200;
const PAGE = 1000;
const GLANCE_MS = 5_000;

export const chat = signal(emptyChat(Number(recall("chat.seen") ?? 0)));
export const chatConnection = signal<Connection>("connecting");
export const isChatLoaded = signal(false);
/** The server has no Chat for this user. */
export const isChatOff = signal(false);
export const unreadCount = computed(() => unread(chat.value));
export const chatQuestion = computed(() => openQuestion(chat.value));

/** An answer of the AdaptiveAgent is on its way. */
export const isAnswering = computed(() => {
  if (chat.value.writing !== undefined) return true;
  const due = answerDue(chat.value);
  return due !== undefined && now.value < due;
});

const apply = (input: ChatInput) => (chat.value = reduceChat(chat.value, input));

export function markSeen() {
  apply({ kind: "seen", id: lastIdOf(chat.value) });
  keep("chat.seen", String(chat.value.seenId));
}

export function watchChat() {
  const isLooking = computed(() => access.value.state === "in" && route.value.view === "chat");
  effect(() => {
    if (access.value.state !== "in" || isChatOff.value) return undefined;
    return isLooking.value ? whileVisible(stream) : whileVisible(glance);
  });
}

function stream(): () => void {
  return followChat(() => lastIdOf(chat.peek()), {
    onOpen: () => {
      chatConnection.value = "live";
      apply({ kind: "connected" });
      void catchUp();
    },
    onNews: (news) => (chat.value = news.reduce(reduceChat, chat.value)),
    onCut: () => (chatConnection.value = "cut"),
    onRefused: refused,
  });
}

function glance(): () => void {
  void catchUp();
  const timer = setInterval(() => void catchUp(), GLANCE_MS);
  return () => clearInterval(timer);
}

/** Reads what was said since the last message that is here; the stream alone may begin behind a hole. */
async function catchUp() {
  try {
    if (!isChatLoaded.peek()) {
      const newest = await chatHistory(undefined, FIRST_MESSAGES);
      apply({ kind: "messages", messages: newest });
      isChatLoaded.value = true;
      // The newest messages tell whether any is unread. All the others may take a while.
      chooseFirstView();
      if (newest.length === FIRST_MESSAGES) await readBehind(0);
    } else {
      await readBehind(lastIdOf(chat.peek()));
    }
  } catch (error) {
    if (error instanceof ApiError) refused(error);
  } finally {
    chooseFirstView();
  }
}

const chooseFirstView = () => chooseView(unreadCount.peek() > 0 ? "chat" : "sessions");

async function readBehind(id: number) {
  for (let after = id; ;) {
    const page = await chatHistory(after, PAGE);
    apply({ kind: "messages", messages: page });
    // The server may end a page before it is full.
    const last = page.at(-1);
    if (last === undefined) return;
    after = last.id;
  }
}

function refused(error: ApiError) {
  if (error.status === 401) access.value = { state: "out", failure: undefined };
  else if (error.status === 403 || error.status === 404) isChatOff.value = true;
}
