// The view of the global Chat. Opening it starts no agent.
import { useEffect, useRef } from "preact/hooks";
import { cancelAnswer, postUserMessage } from "../api/chat";
import type { ChatMessage } from "../api/types";
import { attempt, ownUserId, projectId } from "../feeds/app";
import {
  chat,
  chatConnection,
  chatQuestion,
  isAnswering,
  isChatLoaded,
  isChatOff,
  markSeen,
  unreadCount,
} from "../feeds/chat";
import { locale, region, t } from "../feeds/preferences";
import { beginSession } from "../feeds/session";
import { ADAPTIVE_AGENT, hasTag } from "../state/chat";
import { clockTime, fullTime } from "../state/format";
import { Chunks } from "./Chunks";
import { Icon } from "./Icon";
import { Markdown } from "./Markdown";
import { AgentName, CopyButton, Empty, ViewHead, Writer } from "./parts";
import { Scroller } from "./Scroller";

export function ChatView() {
  const { messages } = chat.value;
  // The last message the user had read when the view was opened.
  const seenAtOpen = useRef(chat.value.seenId);
  const seen = () => {
    if (document.visibilityState === "visible") markSeen();
  };
  useEffect(seen, [messages.length]);
  useEffect(() => {
    document.addEventListener("visibilitychange", seen);
    return () => document.removeEventListener("visibilitychange", seen);
  }, []);

  const question = chatQuestion.value;
  const firstNew = messages.find((message) => message.id > seenAtOpen.current && message.role !== "user")?.id;
  const rows = messages.map((message) => rowOf(message));
  return (
    <section class="view chat-view">
      <ViewHead title={t("chat.title")} lead={t("chat.shared")}>
        {chatConnection.value === "cut" && <span class="chip tone-warn">{t("app.reconnecting")}</span>}
        <span class="visually-hidden" role="status">
          {unreadCount.value > 0 ? t("chat.newMessages", { n: unreadCount.value }) : ""}
        </span>
      </ViewHead>
      {messages.length === 0 ? (
        <EmptyChat />
      ) : (
        <Scroller label={t("chat.log")} onEnd={seen}>
          <Chunks
            rows={rows}
            stamp={`${firstNew}${locale.value}`}
            render={(row) => <Line row={row} firstNew={firstNew} />}
          />
          {isAnswering.value && <Answering />}
        </Scroller>
      )}
      {!isChatOff.value && (
        <div class="dock">
          {question !== undefined && (
            <p class="dock-note">
              <Icon name="question" /> {t("chat.waiting", { author: question.author })}
            </p>
          )}
          <Writer
            label={t("composer.label")}
            placeholder={
              question === undefined ? t("chat.placeholder") : t("chat.answerPlaceholder", { author: question.author })
            }
            button={question === undefined ? t("chat.send") : t("chat.answer")}
            onSend={(text) =>
              attempt(async () => {
                await postUserMessage(text);
                // Who writes has seen what stands there, and sees what comes.
                seenAtOpen.current = Number.MAX_SAFE_INTEGER;
              })
            }
            draft="chat"
            above={(text) => question === undefined && <NoFiles text={text} />}
          >
            <span class="hint">{t("composer.keys")}</span>
          </Writer>
        </div>
      )}
    </section>
  );
}

/** Shown from the user's message until the answer has ended. */
function Answering() {
  const text = chat.value.writing?.text.content ?? "";
  return (
    <article class="line role-agent is-live" aria-busy="true">
      <header>
        <AgentName name={ADAPTIVE_AGENT} />
        <span class="meta writing" role="status">
          {t("item.writing")}
        </span>
        <button type="button" class="quiet" onClick={() => void attempt(cancelAnswer)}>
          <Icon name="stop" /> {t("composer.stop")}
        </button>
      </header>
      {text !== "" && <Markdown text={text} />}
    </article>
  );
}

/** What the Chat cannot do, and the way to where it can be done, with what the user wrote. */
function NoFiles({ text }: { text: string }) {
  const project = projectId.value;
  const said = chat.value.messages.findLast(isOwn)?.text ?? "";
  const begin = () =>
    attempt(async () => {
      if (project !== undefined) await beginSession(project, text.trim() === "" ? said : text);
    });
  return (
    <p class="dock-hint">
      {t("chat.noFiles")}{" "}
      <button type="button" class="link" onClick={() => void begin()}>
        {t(
          text.trim() !== "" ? "chat.newSessionWithText" : said === "" ? "chat.newSession" : "chat.newSessionWithLast",
        )}
      </button>
    </p>
  );
}

function isOwn(message: ChatMessage): boolean {
  return message.role === "user" && (message.meta?.user_id == null || message.meta.user_id === ownUserId());
}

function EmptyChat() {
  if (isChatOff.value) return <Empty icon="chat" title={t("app.unavailable")} />;
  if (!isChatLoaded.value) return <Empty icon="chat" title={t("app.loading")} />;
  return <Empty icon="chat" title={t("chat.empty")} text={t("chat.emptyText")} />;
}

interface ChatRow {
  key: string;
  message: ChatMessage;
}

/** The same message always gives the same row object, so rendered chunks are not rendered again. */
const rows = new WeakMap<ChatMessage, ChatRow>();

function rowOf(message: ChatMessage): ChatRow {
  const known = rows.get(message) ?? { key: String(message.id), message };
  rows.set(message, known);
  return known;
}

function Line({ row: { message }, firstNew }: { row: ChatRow; firstNew: number | undefined }) {
  const isQuestion = hasTag(message, "question");
  const isUser = message.role === "user";
  return (
    <>
      {message.id === firstNew && (
        <div class="new-mark" role="separator">
          <span>{t("chat.newMark")}</span>
        </div>
      )}
      <article class={`line role-${message.role} ${isQuestion ? "is-question" : ""}`} data-id={message.id}>
        <header>
          {isUser ? <span class="you">{userName(message)}</span> : <AgentName name={message.author} />}
          {isUser && message.meta?.reply_to != null && <span class="meta">{t("chat.replyTo")}</span>}
          {hasTag(message, "partial") && <span class="meta">{t("chat.partial")}</span>}
          <time class="meta" title={fullTime(region.value, message.ts)}>
            {clockTime(region.value, message.ts)}
          </time>
          <CopyButton text={message.text} label={t("app.copyMessage")} />
        </header>
        <Markdown text={hasTag(message, "stopped") ? stoppedBy(message) : message.text} />
      </article>
    </>
  );
}

/** The server says it in English. */
function stoppedBy(message: ChatMessage): string {
  const id = message.meta?.user_id;
  if (id == null) return t("chat.stopped");
  return id === ownUserId() ? t("chat.stoppedByYou") : t("chat.stoppedBy", { id: String(id) });
}

function userName(message: ChatMessage): string {
  const id = message.meta?.user_id;
  return id == null || id === ownUserId() ? t("chat.you") : t("chat.user", { id: String(id) });
}
