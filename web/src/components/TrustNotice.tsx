// Asks whether a content of a folder is trusted. It shows the whole content, and what is trusted is what was shown.
import { useState } from "preact/hooks";
import { projectId } from "../feeds/app";
import { asked, leaveForLater, trust } from "../feeds/brought";
import { t } from "../feeds/preferences";
import { keyOf, revealed, type AskedContent } from "../state/brought";
import { Icon } from "./Icon";

export function TrustNotice() {
  const project = projectId.value;
  const [first, ...others] = asked.value;
  if (project === undefined || first === undefined) return null;
  return (
    <aside class="trust-notice" aria-label={t("brought.waitingCount", { n: others.length + 1 })}>
      <Question key={keyOf(first.clientId, first.content)} project={project} asked={first} others={others.length} />
    </aside>
  );
}

function Question({ project, asked: question, others }: { project: number; asked: AskedContent; others: number }) {
  const { workspace, content } = question;
  const [isSent, setSent] = useState(false);
  const isDecided = isSent || content.decided === true;
  const values = {
    folder: revealed(workspace),
    kind: t(`brought.kind.${content.kind}`),
    path: revealed(content.path),
  };
  const send = async () => {
    setSent(true);
    await trust(project, question);
    setSent(false);
  };
  return (
    <>
      <p class="trust-title">
        <Icon name="shield" /> {t("brought.ask", values)}
      </p>
      <p class="hint">
        {t("brought.askText")} {content.changed && t("brought.changed")}{" "}
        {content.kind === "mcp_servers" && t("brought.startsNow")}
      </p>
      {content.truncated ? (
        <p>{t("brought.truncated")}</p>
      ) : (
        <pre class="trust-content" tabIndex={0} data-scroll>
          {revealed(content.content)}
        </pre>
      )}
      {content.parts !== undefined && content.parts.length > 1 && (
        <details>
          <summary>{t("brought.parts")}</summary>
          <ul class="trust-parts">
            {content.parts.map((part) => (
              <li key={part.path}>
                <code>{revealed(part.path)}</code> <span class="meta">{t("brought.bytes", { n: part.bytes })}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
      <p class="meta trust-digest">
        SHA-256 <code>{content.digest}</code>
      </p>
      <div class="trust-actions">
        {isDecided ? (
          <span role="status">{t("brought.decided")}</span>
        ) : (
          <>
            {!content.truncated && (
              <button type="button" class="primary" onClick={() => void send()}>
                {t("brought.trust")}
              </button>
            )}
            <button type="button" onClick={() => leaveForLater(question)}>
              {t("brought.notNow")}
            </button>
          </>
        )}
        {others > 0 && <span class="meta">{t("brought.more", { n: others })}</span>}
      </div>
    </>
  );
}
