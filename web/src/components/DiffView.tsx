import { t } from "../feeds/preferences";
import { visible, type DiffLine, type WriteDiff } from "../state/diff";

const SIGNS = { same: " ", added: "+", removed: "−" } as const;

export function DiffView({ diff }: { diff: WriteDiff }) {
  const parts = diff.kind === "edits" ? diff.edits : [diff.lines];
  return (
    <div class="diff-box">
      <p class="hint">{t(`approvals.diff.${diff.kind}`)}</p>
      {parts.map((lines, at) => (
        <div class="diff" key={at} tabIndex={0} role="group" aria-label={t(`approvals.diff.${diff.kind}`)}>
          {lines.map(showLine)}
        </div>
      ))}
    </div>
  );
}

function showLine(line: DiffLine) {
  if (line.type === "folded") return <div class="diff-line folded">⋯ {t("approvals.folded", { n: line.lines })}</div>;
  return (
    <div class={`diff-line ${line.type}`}>
      <span class="sign">{SIGNS[line.type]}</span>
      <span class="diff-text">{visible(line.text) || " "}</span>
    </div>
  );
}
