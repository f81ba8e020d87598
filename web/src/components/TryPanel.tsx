// Sends one question to one agent. Each question gets its own session.
import { useState } from "preact/hooks";
import { newMessageId } from "../api/again";
import { askAgent, createSession } from "../api/sessions";
import type { ProjectAgent } from "../api/types";
import { attempt } from "../feeds/app";
import { t } from "../feeds/preferences";
import { linkTo } from "../state/route";
import { Icon } from "./Icon";
import { Markdown } from "./Markdown";
import { AgentName, Writer } from "./parts";

interface Try {
  question: string;
  sessionId: string;
  answer: { kind: "working" } | { kind: "said"; text: string } | { kind: "pending" } | { kind: "failed" };
}

export function TryPanel({ project, agent }: { project: number; agent: ProjectAgent }) {
  const [tries, setTries] = useState<Try[]>([]);
  const ask = async (question: string) => {
    let made: Try | undefined;
    const isAccepted = await attempt(async () => {
      const { session_id: sessionId } = await createSession(project);
      made = { question, sessionId, answer: { kind: "working" } };
      setTries((present) => [...present, made!]);
    });
    if (made !== undefined) void finish(made);
    return isAccepted;
  };
  const finish = async (asked: Try) => {
    let answer: Try["answer"] = { kind: "failed" };
    await attempt(async () => {
      const said = await askAgent(asked.sessionId, asked.question, agent.agent_id, newMessageId());
      answer =
        "response" in said && said.response != null ? { kind: "said", text: said.response } : { kind: "pending" };
    });
    setTries((present) => present.map((other) => (other.sessionId === asked.sessionId ? { ...other, answer } : other)));
  };
  return (
    <div class="try">
      <p class="hint">{t("agents.tryText")}</p>
      {tries.map((tried) => (
        <div key={tried.sessionId} class="tried">
          <article class="line role-user">
            <header>
              <span class="you">{t("item.you")}</span>
            </header>
            <Markdown text={tried.question} />
          </article>
          <article class="line role-assistant">
            <header>
              <AgentName name={agent.name} />
              <a class="quiet-link" href={linkTo("sessions", tried.sessionId)}>
                {t("agents.tryOpen")}
              </a>
            </header>
            <Answer answer={tried.answer} agent={agent.name} />
          </article>
        </div>
      ))}
      <Writer
        label={t("composer.label")}
        placeholder={t("agents.tryPlaceholder")}
        button={t("agents.trySend")}
        onSend={ask}
        rows={2}
        draft={`try-${agent.agent_id}`}
      />
    </div>
  );
}

function Answer({ answer, agent }: { answer: Try["answer"]; agent: string }) {
  switch (answer.kind) {
    case "working":
      return (
        <p class="meta" role="status">
          {t("agents.tryWorking", { agent })}
        </p>
      );
    case "said":
      return <Markdown text={answer.text} />;
    case "pending":
      return (
        <p class="warning-line">
          <Icon name="clock" /> {t("agents.tryPending")}
        </p>
      );
    case "failed":
      return <p class="bad">{t("item.failed")}</p>;
  }
}
