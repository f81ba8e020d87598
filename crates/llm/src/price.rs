//! Prices of tokens.

use std::collections::BTreeMap;

use codelab_protocol::{ModelPrice, Usage};

use crate::names::best;

const TOKENS_PER_UNIT: f64 = 1_000_000.0;

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    input_usd: f64,
    output_usd: f64,
    cached_input_usd: f64,
    cache_write_usd: f64,
}

impl Price {
    /// `None` unless both are finite and not negative. Cached tokens cost what other input costs,
    /// unless [`Price::with_cached_input`] says otherwise.
    pub fn per_million(input_usd: f64, output_usd: f64) -> Option<Self> {
        let price = Self {
            input_usd,
            output_usd,
            cached_input_usd: input_usd,
            cache_write_usd: input_usd,
        };
        (is_valid(input_usd) && is_valid(output_usd)).then_some(price)
    }

    /// With another price of a million tokens that the provider has cached.
    pub fn with_cached_input(self, usd: f64) -> Option<Self> {
        is_valid(usd).then_some(Self {
            cached_input_usd: usd,
            ..self
        })
    }

    /// With another price of a million tokens that the provider writes to its cache.
    pub fn with_cache_write(self, usd: f64) -> Option<Self> {
        is_valid(usd).then_some(Self {
            cache_write_usd: usd,
            ..self
        })
    }

    /// Of a million tokens that the model reads.
    pub fn input_usd(self) -> f64 {
        self.input_usd
    }

    /// Of a million tokens that the model writes.
    pub fn output_usd(self) -> f64 {
        self.output_usd
    }

    /// The cost of a call.
    pub fn cost(self, usage: &Usage) -> f64 {
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let written = usage.cache_write_tokens.min(usage.prompt_tokens - cached);
        let fresh = usage.prompt_tokens - cached - written;
        let parts = [
            (fresh, self.input_usd),
            (cached, self.cached_input_usd),
            (written, self.cache_write_usd),
            (usage.completion_tokens, self.output_usd),
        ];
        let cost: f64 = parts.iter().map(|(tokens, usd)| *tokens as f64 * usd).sum();
        cost / TOKENS_PER_UNIT
    }
}

impl From<Price> for ModelPrice {
    fn from(price: Price) -> Self {
        Self {
            input_per_million_usd: price.input_usd,
            output_per_million_usd: price.output_usd,
            cached_input_per_million_usd: price.cached_input_usd,
            cache_write_per_million_usd: price.cache_write_usd,
        }
    }
}

fn is_valid(usd: f64) -> bool {
    usd.is_finite() && usd >= 0.0
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
        self.price(model).map(|price| price.cost(usage))
    }

    /// What the model's tokens cost, where that is known.
    pub fn price(&self, model: &str) -> Option<Price> {
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
                LIST_PRICES
                    .iter()
                    .map(|&(known, input, output)| (known, listed(known, input, output))),
                name,
            )
        })
    }
}

/// A list price. Cached input costs a share of the input price that depends on the maker.
fn listed(model: &str, input_usd: f64, output_usd: f64) -> Price {
    let (cached_share, write_share) = CACHE_SHARES
        .iter()
        .find(|(start, _, _)| model.starts_with(start))
        .map_or((1.0, 1.0), |&(_, cached, written)| (cached, written));
    Price {
        input_usd,
        output_usd,
        cached_input_usd: input_usd * cached_share,
        cache_write_usd: input_usd * write_share,
    }
}

/// The beginning of a name, and the shares of the input price that reading from the cache and
/// writing to it cost. The first that fits counts. Models before prompt caching cost full price.
const CACHE_SHARES: &[(&str, f64, f64)] = &[
    ("gpt-4o", 0.5, 1.0),
    ("gpt-4.1", 0.25, 1.0),
    ("gpt-5", 0.1, 1.0),
    ("o1", 0.5, 1.0),
    ("o3-mini", 0.5, 1.0),
    ("o3", 0.25, 1.0),
    ("o4", 0.25, 1.0),
    ("claude-", 0.1, 1.25),
    ("gemini-", 0.25, 1.0),
    ("deepseek-", 0.25, 1.0),
];

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
    fn cached_tokens_cost_less_and_written_ones_may_cost_more() {
        let usage = Usage {
            prompt_tokens: 1_000_000,
            cached_tokens: 600_000,
            cache_write_tokens: 100_000,
            ..Usage::default()
        };
        let cost = |price: Price| (price.cost(&usage) * 1000.0).round() / 1000.0;
        let plain = Price::per_million(10.0, 1.0).unwrap();
        assert_eq!(cost(plain), 10.0, "without a price of its own it is input");
        let cached = plain.with_cached_input(1.0).unwrap();
        assert_eq!(cost(cached), 4.6);
        assert_eq!(cost(cached.with_cache_write(12.5).unwrap()), 4.85);
        assert_eq!(plain.with_cached_input(-1.0), None);
        let listed = PriceTable::default();
        assert_eq!(cost(listed.price("gpt-4o").unwrap()), 1.75);
        assert_eq!(cost(listed.price("claude-sonnet-4-5").unwrap()), 1.455);
        assert_eq!(cost(listed.price("gpt-4").unwrap()), 30.0);
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
        assert_eq!(table.price("gpt-4"), Some(price(1.0, 2.0)));
        assert_eq!(table.price("unknown"), None);
        assert_eq!(Price::per_million(-1.0, 0.0), None);
        assert_eq!(Price::per_million(f64::NAN, 0.0), None);
    }
}
