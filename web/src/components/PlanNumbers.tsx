// How far a plan is and what it costs, in one line.
import type { Plan } from "../api/types";
import { region, t } from "../feeds/preferences";
import { money } from "../state/format";
import { costOf, progressOf } from "../state/session";

/** Failed and skipped tasks are named, because they are not done. */
export function progressText(plan: Plan): string {
  const { done, failed, skipped, total } = progressOf(plan);
  return [
    t("plans.progress", { done, total }),
    failed > 0 ? t("plans.failedTasks", { n: failed }) : "",
    skipped > 0 ? t("plans.skippedTasks", { n: skipped }) : "",
  ]
    .filter((part) => part !== "")
    .join(", ");
}

/** The same for a narrow list. */
export function shortProgress(plan: Plan): string {
  const { done, total } = progressOf(plan);
  return `${done}/${total}`;
}

/** The estimate before a plan runs; what it really cost beside it afterwards. */
export function costText(plan: Plan): string {
  const estimate = `${plan.cost_known ? "" : `${t("plans.costPart")} `}${money(region.value, plan.estimated_cost_usd)}`;
  const cost = costOf(plan);
  if (cost === undefined) return `${t("plans.cost")} ${estimate}`;
  const real = `${cost.isKnown ? "" : `${t("plans.costPart")} `}${money(region.value, cost.usd)}`;
  const isOver = plan.status !== "running" && plan.status !== "awaiting_approval";
  return t(isOver ? "plans.costReal" : "plans.costSoFar", { real, estimate });
}
