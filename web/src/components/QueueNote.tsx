// The messages that wait for the end of a turn, or steer it.
import { cancelTurn, changeDelivery, takeBackMessage } from "../api/sessions";
import { attempt } from "../feeds/app";
import { draftOf, writeDraft } from "../feeds/drafts";
import { t } from "../feeds/preferences";
import type { QueuedMessage, SessionState } from "../state/session";
import { Icon } from "./Icon";
import { Chip } from "./parts";

export function QueueNote({ state, sessionId }: { state: SessionState; sessionId: string }) {
  // What steers is told first.
  const queue = [...state.queue].sort((one, other) => Number(other.steers) - Number(one.steers));
  if (queue.length === 0) return null;
  return (
    <div class="queue">
      <p class="dock-note">
        <Icon name="clock" /> {t("queue.title", { n: queue.length })}
        <button type="button" class="quiet" onClick={() => void attempt(() => cancelTurn(sessionId, true))}>
          {t("composer.stopAll")}
        </button>
      </p>
      <ol>
        {queue.map((message) => (
          <Waiting key={message.id} message={message} sessionId={sessionId} />
        ))}
      </ol>
    </div>
  );
}

function Waiting({ message: { id, text, steers }, sessionId }: { message: QueuedMessage; sessionId: string }) {
  const change = () => void attempt(() => changeDelivery(sessionId, id, steers ? "queue" : "steer"));
  const takeBack = () =>
    void attempt(async () => {
      await takeBackMessage(sessionId, id);
      // What was being written stays, and comes after it.
      writeDraft(sessionId, [text, draftOf(sessionId)].filter((part) => part !== "").join("\n\n"));
    });
  return (
    <li data-steers={steers}>
      <div>
        <span class="queued-text clip">
          {steers && (
            <>
              <Chip tone="live">{t("queue.steers")}</Chip>{" "}
            </>
          )}
          {text === "" ? "…" : text}
        </span>
        <button
          type="button"
          class="quiet"
          title={t(steers ? "queue.letWaitHint" : "queue.steerItHint")}
          onClick={change}
        >
          <Icon name={steers ? "clock" : "steer"} /> {t(steers ? "queue.letWait" : "queue.steerIt")}
        </button>
        <button
          type="button"
          class="quiet"
          aria-label={t("queue.takeBack")}
          title={t("queue.takeBack")}
          onClick={takeBack}
        >
          <Icon name="cross" />
        </button>
      </div>
    </li>
  );
}
