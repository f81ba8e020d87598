//! Prices of tokens.

use std::collections::BTreeMap;

use codelab_protocol::Usage;

const TOKENS_PER_UNIT: f64 = 1_000_000.0;
/// A number after a name with fewer digits is a version, not a date or build of the same model.
const MIN_BUILD_DIGITS: usize = 3;

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    input_usd: f64,
    output_usd: f64,
}

impl Price {
    /// `None` unless both are finite and not negative.
    pub fn per_million(input_usd: f64, output_usd: f64) -> Option<Self> {
        let valid = |usd: f64| usd.is_finite() && usd >= 0.0;
        (valid(input_usd) && valid(output_usd)).then_some(Self {
            input_usd,
            output_usd,
        })
    }
}

/// List prices of common models. Configured prices (`prices.<model>`) override them. Case does not
/// matter in model names.
#[derive(Debug, Clone, Default)]
pub struct PriceTable {
    /// Keys are in lower case.
    configured: BTreeMap<String, Price>,
}

impl PriceTable {
    pub fn with_configured(configured: impl IntoIterator<Item = (String, Price)>) -> Self {
        Self {
            configured: configured
                .into_iter()
                .map(|(model, price)| (model.to_lowercase(), price))
                .collect(),
        }
    }

    /// The cost of a call. `None` if the model's price is unknown.
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        let price = self.price(model)?;
        let input = usage.prompt_tokens as f64 * price.input_usd;
        let output = usage.completion_tokens as f64 * price.output_usd;
        Some((input + output) / TOKENS_PER_UNIT)
    }

    /// The cost of this many tokens, if half of them are output.
    pub fn estimate(&self, model: &str, tokens: u64) -> Option<f64> {
        let price = self.price(model)?;
        Some(tokens as f64 * (price.input_usd + price.output_usd) / 2.0 / TOKENS_PER_UNIT)
    }

    fn price(&self, model: &str) -> Option<Price> {
        let model = model.to_lowercase();
        if let Some(price) = self.configured.get(&model) {
            return Some(*price);
        }
        // Gateways put the provider before the name: `openai/gpt-4o`.
        let name = model.rsplit('/').next().unwrap_or(&model);
        let configured = self
            .configured
            .iter()
            .map(|(known, price)| (known.as_str(), *price));
        best(configured, name).or_else(|| {
            best(
                LIST_PRICES.iter().map(|&(known, i, o)| (known, usd(i, o))),
                name,
            )
        })
    }
}

/// The price of the longest known name that is the model's name or its beginning.
fn best<'a>(known: impl Iterator<Item = (&'a str, Price)>, model: &str) -> Option<Price> {
    known
        .filter(|(name, _)| {
            model
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || is_build(rest))
        })
        .max_by_key(|(name, _)| name.len())
        .map(|(_, price)| price)
}

/// `-2024-08-06`, `-20250514`, `-001`, `-latest` and `-preview…` mark the same model; `-mini` and
/// `-5` mark another one.
fn is_build(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('-') else {
        return false;
    };
    let first = rest.split('-').next().unwrap_or(rest);
    let numbered = first.len() >= MIN_BUILD_DIGITS && first.bytes().all(|b| b.is_ascii_digit());
    numbered || matches!(first, "latest" | "preview" | "exp")
}

const fn usd(input_usd: f64, output_usd: f64) -> Price {
    Price {
        input_usd,
        output_usd,
    }
}

/// Public list prices for input and output. Prices change; `prices.<model>` overrides them.
const LIST_PRICES: &[(&str, f64, f64)] = &[
    ("gpt-3.5-turbo", 0.50, 1.50),
    ("gpt-4", 30.0, 60.0),
    ("gpt-4-32k", 60.0, 120.0),
    ("gpt-4-turbo", 10.0, 30.0),
    ("gpt-4o", 2.50, 10.0),
    ("gpt-4o-mini", 0.15, 0.60),
    ("gpt-4.1", 2.0, 8.0),
    ("gpt-4.1-mini", 0.40, 1.60),
    ("gpt-4.1-nano", 0.10, 0.40),
    ("gpt-5", 1.25, 10.0),
    ("gpt-5-mini", 0.25, 2.0),
    ("gpt-5-nano", 0.05, 0.40),
    ("o1", 15.0, 60.0),
    ("o1-mini", 1.10, 4.40),
    ("o3", 2.0, 8.0),
    ("o3-mini", 1.10, 4.40),
    ("o4-mini", 1.10, 4.40),
    ("claude-3-haiku", 0.25, 1.25),
    ("claude-3-sonnet", 3.0, 15.0),
    ("claude-3-opus", 15.0, 75.0),
    ("claude-3-5-haiku", 0.80, 4.0),
    ("claude-3-5-sonnet", 3.0, 15.0),
    ("claude-3-7-sonnet", 3.0, 15.0),
    ("claude-haiku-4-5", 1.0, 5.0),
    ("claude-sonnet-4", 3.0, 15.0),
    ("claude-sonnet-4-5", 3.0, 15.0),
    ("claude-opus-4", 15.0, 75.0),
    ("claude-opus-4-1", 15.0, 75.0),
    ("claude-opus-4-5", 5.0, 25.0),
    ("gemini-1.5-flash", 0.075, 0.30),
    ("gemini-1.5-pro", 1.25, 5.0),
    ("gemini-2.0-flash", 0.10, 0.40),
    ("gemini-2.5-flash", 0.30, 2.50),
    ("gemini-2.5-pro", 1.25, 10.0),
    ("deepseek-chat", 0.27, 1.10),
    ("deepseek-reasoner", 0.55, 2.19),
    ("mistral-small", 0.10, 0.30),
    ("mistral-large", 2.0, 6.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn million(model: &str, table: &PriceTable) -> Option<f64> {
        table.cost(
            model,
            &Usage {
                prompt_tokens: 1_000_000,
                completion_tokens: 1_000_000,
                ..Usage::default()
            },
        )
    }

    #[test]
    fn builds_of_a_model_cost_what_it_costs_and_other_models_do_not() {
        let table = PriceTable::default();
        for (model, wanted) in [
            ("gpt-4", Some(90.0)),
            ("gpt-4-0613", Some(90.0)),
            ("gpt-4-turbo-preview", Some(40.0)),
            ("gpt-4o-2024-08-06", Some(12.5)),
            ("openai/gpt-4o-mini", Some(0.75)),
            ("claude-sonnet-4-20250514", Some(18.0)),
            ("claude-sonnet-4-5-20250929", Some(18.0)),
            ("claude-opus-4-9", None),
            ("gpt-4-something", None),
            ("gpt-40", None),
            ("llama3:8b", None),
            ("", None),
        ] {
            assert_eq!(million(model, &table), wanted, "{model}");
        }
    }

    #[test]
    fn configured_prices_come_first() {
        let price = |input, output| Price::per_million(input, output).unwrap();
        let table = PriceTable::with_configured([
            ("gpt-4".to_owned(), price(1.0, 2.0)),
            ("Llama3:8B".to_owned(), price(0.0, 0.0)),
        ]);
        assert_eq!(million("gpt-4-0613", &table), Some(3.0));
        assert_eq!(million("GPT-4-0613", &table), Some(3.0));
        assert_eq!(million("llama3:8b", &table), Some(0.0));
        assert_eq!(table.estimate("gpt-4", 1_000_000), Some(1.5));
        assert_eq!(table.estimate("unknown", 1), None);
        assert_eq!(Price::per_million(-1.0, 0.0), None);
        assert_eq!(Price::per_million(f64::NAN, 0.0), None);
    }
}
