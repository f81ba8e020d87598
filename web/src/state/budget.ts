// A budget approval, parsed from its arguments.

interface Amount {
  usd: number | undefined;
  tokens: number | undefined;
}

export interface BudgetQuestion {
  scope: "session" | "project";
  limit: Amount;
  spent: Amount;
  /** Reserved for model calls that are running. */
  reserved: Amount;
  /** Set if the approval is about a model whose price is unknown. */
  model: string | undefined;
}

export function budgetOf(args: Readonly<Record<string, unknown>>): BudgetQuestion {
  return {
    scope: args["scope"] === "project" ? "project" : "session",
    limit: amountOf(args["limit"]),
    spent: amountOf(args["spent"]),
    reserved: amountOf(args["reserved"]),
    model: typeof args["model"] === "string" ? args["model"] : undefined,
  };
}

function amountOf(value: unknown): Amount {
  const told = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  const number = (name: string) => (typeof told[name] === "number" ? told[name] : undefined);
  return { usd: number("usd"), tokens: number("tokens") };
}
