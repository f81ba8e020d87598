//! What is known about models beside their prices: the context window, and whether they read
//! images.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::names::best;

/// `models.<name>` in the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFacts {
    /// The context window in tokens.
    #[serde(default)]
    pub window: Option<u64>,
    /// Whether the model reads images.
    #[serde(default)]
    pub images: Option<bool>,
}

/// What is known about `model`, which may begin with a provider. Configured facts come first, one
/// by one.
pub(crate) fn facts(configured: &BTreeMap<String, ModelFacts>, model: &str) -> ModelFacts {
    let model = model.to_lowercase();
    let name = model.rsplit('/').next().unwrap_or(&model);
    let known = |(name, facts): (&str, ModelFacts)| (name.to_lowercase(), facts);
    let configured: Vec<_> = configured
        .iter()
        .map(|(name, facts)| known((name, *facts)))
        .collect();
    let exact = configured.iter().find(|(known, _)| *known == model);
    let alike = || {
        let configured = configured.iter();
        best(
            configured.map(|(name, facts)| (name.as_str(), *facts)),
            name,
        )
    };
    let own = exact.map(|(_, facts)| *facts).or_else(alike);
    let own = own.unwrap_or_default();
    let listed = best(LISTED.iter().copied(), name).unwrap_or_default();
    ModelFacts {
        window: own.window.or(listed.window),
        images: own.images.or(listed.images),
    }
}

const fn facts_of(window: u64, images: bool) -> ModelFacts {
    ModelFacts {
        window: Some(window),
        images: Some(images),
    }
}

/// As their makers publish them. `models.<name>` overrides them, e.g. for a server that was started
/// with a smaller window.
const LISTED: &[(&str, ModelFacts)] = &[
    ("gpt-3.5-turbo", facts_of(16_385, false)),
    ("gpt-4", facts_of(8_192, false)),
    ("gpt-4-32k", facts_of(32_768, false)),
    ("gpt-4-turbo", facts_of(128_000, true)),
    ("gpt-4o", facts_of(128_000, true)),
    ("gpt-4o-mini", facts_of(128_000, true)),
    ("gpt-4.1", facts_of(1_047_576, true)),
    ("gpt-4.1-mini", facts_of(1_047_576, true)),
    ("gpt-4.1-nano", facts_of(1_047_576, true)),
    ("gpt-5", facts_of(400_000, true)),
    ("gpt-5-mini", facts_of(400_000, true)),
    ("gpt-5-nano", facts_of(400_000, true)),
    ("o1", facts_of(200_000, true)),
    ("o1-mini", facts_of(128_000, false)),
    ("o3", facts_of(200_000, true)),
    ("o3-mini", facts_of(200_000, false)),
    ("o4-mini", facts_of(200_000, true)),
    ("claude-3-haiku", facts_of(200_000, true)),
    ("claude-3-sonnet", facts_of(200_000, true)),
    ("claude-3-opus", facts_of(200_000, true)),
    ("claude-3-5-haiku", facts_of(200_000, true)),
    ("claude-3-5-sonnet", facts_of(200_000, true)),
    ("claude-3-7-sonnet", facts_of(200_000, true)),
    ("claude-haiku-4-5", facts_of(200_000, true)),
    ("claude-sonnet-4", facts_of(200_000, true)),
    ("claude-sonnet-4-5", facts_of(200_000, true)),
    ("claude-opus-4", facts_of(200_000, true)),
    ("claude-opus-4-1", facts_of(200_000, true)),
    ("claude-opus-4-5", facts_of(200_000, true)),
    ("gemini-1.5-flash", facts_of(1_048_576, true)),
    ("gemini-1.5-pro", facts_of(2_097_152, true)),
    ("gemini-2.0-flash", facts_of(1_048_576, true)),
    ("gemini-2.5-flash", facts_of(1_048_576, true)),
    ("gemini-2.5-pro", facts_of(1_048_576, true)),
    ("deepseek-chat", facts_of(128_000, false)),
    ("deepseek-reasoner", facts_of(128_000, false)),
    ("mistral-small", facts_of(128_000, true)),
    ("mistral-large", facts_of(128_000, false)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_facts_come_before_the_table_one_by_one() {
        let configured = BTreeMap::from([
            (
                "GPT-4o".to_owned(),
                ModelFacts {
                    window: Some(32_000),
                    images: None,
                },
            ),
            ("local/llama3".to_owned(), facts_of(8_000, false)),
        ]);
        for (model, window, images) in [
            ("gpt-4o", Some(32_000), Some(true)),
            ("openai/gpt-4o-2024-08-06", Some(32_000), Some(true)),
            ("gpt-3.5-turbo", Some(16_385), Some(false)),
            ("local/llama3", Some(8_000), Some(false)),
            ("other/llama3", None, None),
        ] {
            let known = facts(&configured, model);
            assert_eq!((known.window, known.images), (window, images), "{model}");
        }
    }
}
