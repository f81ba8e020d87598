// A budget approval: how much was spent, the limit, and what each decision does.
import { region, t } from "../feeds/preferences";
import type { BudgetQuestion } from "../state/budget";
import { count, money } from "../state/format";

export function budgetText(budget: BudgetQuestion): string {
  if (budget.model !== undefined) return t("budget.unpriced", { model: budget.model });
  return t(budget.scope === "project" ? "budget.usedProject" : "budget.usedSession");
}

export function BudgetSummary({ budget }: { budget: BudgetQuestion }) {
  const { limit, spent, reserved } = budget;
  const dollars = (usd: number | undefined) => money(region.value, usd ?? 0);
  const tokens = (n: number | undefined) => count(region.value, n ?? 0);
  return (
    <>
      <dl class="fields">
        {limit.usd !== undefined && (
          <Row name={t("operations.budgetUsd")} spent={dollars(spent.usd)} limit={dollars(limit.usd)} />
        )}
        {limit.tokens !== undefined && (
          <Row name={t("operations.budgetTokens")} spent={tokens(spent.tokens)} limit={tokens(limit.tokens)} />
        )}
        {(reserved.tokens ?? 0) > 0 && (
          <div>
            <dt>{t("budget.reserved")}</dt>
            <dd>
              {t("item.tokens", { n: reserved.tokens ?? 0 })} · {dollars(reserved.usd)}
            </dd>
          </div>
        )}
      </dl>
      <p class="hint">{t(budget.model === undefined ? "budget.answers" : "budget.answersUnpriced")}</p>
    </>
  );
}

function Row({ name, spent, limit }: { name: string; spent: string; limit: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{t("budget.spent", { spent, limit })}</dd>
    </div>
  );
}
