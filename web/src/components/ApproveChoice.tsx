// What passes without a question in one session.
import { useState } from "preact/hooks";
import { chooseApprove } from "../api/sessions";
import type { ApproveMode } from "../api/types";
import { attempt } from "../feeds/app";
import { t } from "../feeds/preferences";

const MODES: readonly ApproveMode[] = ["ask", "edits"];

interface ApproveChoiceProps {
  sessionId: string;
  /** What the server knew when the session was opened; what was saved on this page is newer. */
  stored: ApproveMode | undefined;
  /** What an event said last: newer than both. Before the first turn there is none. */
  heard: ApproveMode | undefined;
}

export function ApproveChoice({ sessionId, stored, heard }: ApproveChoiceProps) {
  const [saved, setSaved] = useState<ApproveMode | undefined>(undefined);
  /** Until the server has answered. */
  const [choice, setChoice] = useState<ApproveMode | undefined>(undefined);
  const chosen = choice ?? heard ?? saved ?? stored ?? "ask";
  const choose = async (mode: ApproveMode) => {
    setChoice(mode);
    const isSaved = await attempt(() => chooseApprove(sessionId, mode));
    if (isSaved) setSaved(mode);
    setChoice((known) => (known === mode ? undefined : known));
  };
  return (
    <label class="inline-field approve-choice">
      <span>{t("composer.approve")}</span>
      <select
        value={chosen}
        title={t(`composer.approveHint.${chosen}`)}
        onChange={(event) => void choose(event.currentTarget.value as ApproveMode)}
      >
        {MODES.map((mode) => (
          <option key={mode} value={mode}>
            {t(`composer.approve.${mode}`)}
          </option>
        ))}
      </select>
      {chosen === "edits" && <span class="hint">{t("composer.approveHint.edits")}</span>}
    </label>
  );
}
