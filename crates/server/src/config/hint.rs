//! A person who sets a key for a model wants that model. Without its address CodeLab cannot use the
//! key, and must not guess where to send it: it says what it found, and what to type.

use std::collections::BTreeMap;

use super::file::LlmTable;

/// Why the demonstration answers although something of a model was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelHint {
    /// What was found and what is missing, as a sentence. Never a value.
    pub why: String,
    /// What to put before the command: `NAME=value …`.
    pub variables: String,
}

/// An address that is set under another name, as other programs read it.
const ADDRESSES: [&str; 2] = ["OPENAI_BASE_URL", "OPENAI_API_BASE"];

/// A key that is set, the address of those who give it out, and a model they have.
struct Provider {
    key: &'static str,
    name: &'static str,
    url: &'static str,
    model: &'static str,
    /// CodeLab reads the key by this name already.
    is_read: bool,
}

const PROVIDERS: [Provider; 3] = [
    Provider {
        key: "OPENAI_API_KEY",
        name: "OpenAI",
        url: "https://api.openai.com/v1",
        model: "gpt-4o-mini",
        is_read: true,
    },
    Provider {
        key: "ANTHROPIC_API_KEY",
        name: "Anthropic",
        url: "https://api.anthropic.com/v1",
        model: "claude-sonnet-4-5",
        is_read: false,
    },
    Provider {
        key: "OPENROUTER_API_KEY",
        name: "OpenRouter",
        url: "https://openrouter.ai/api/v1",
        model: "openai/gpt-4o-mini",
        is_read: false,
    },
];

const ANY_ADDRESS: &str = "LLM_PROXY_URL=http://HOST:PORT";

impl ModelHint {
    /// None where nothing of a model is set. Only called where `LLM_PROXY_URL` is not.
    pub(super) fn of(llm: &LlmTable, environment: &BTreeMap<String, String>) -> Option<Self> {
        let is_set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
        let has_model = llm.model.is_some() || llm.model_override.is_some();
        if let Some(name) = ADDRESSES.into_iter().find(|name| is_set(name)) {
            let why =
                format!("{name} is set, but CodeLab reads the model's address from LLM_PROXY_URL.");
            return Some(Self {
                why,
                variables: format!("LLM_PROXY_URL=\"${name}\""),
            });
        }
        if let Some(provider) = PROVIDERS.iter().find(|provider| is_set(provider.key)) {
            return Some(provider.hint(has_model));
        }
        let seen = match llm.api_key {
            Some(_) if is_set("LLM_API_KEY") => "LLM_API_KEY",
            Some(_) => "llm.api_key",
            None if is_set("LLM_MODEL") => "LLM_MODEL",
            None if has_model => "llm.model",
            None => return None,
        };
        let why =
            format!("{seen} is set, but LLM_PROXY_URL, the address of the model server, is not.");
        Some(Self {
            why,
            variables: ANY_ADDRESS.to_owned(),
        })
    }
}

impl Provider {
    fn hint(&self, has_model: bool) -> ModelHint {
        let Self {
            key,
            name,
            url,
            model,
            is_read,
        } = self;
        let why = match is_read {
            true => {
                format!(
                    "{key} is set, but LLM_PROXY_URL, the address to send it to ({name}'s or another), is not."
                )
            }
            false => format!(
                "{key} is set, but CodeLab uses {name} only when LLM_PROXY_URL and LLM_API_KEY say so."
            ),
        };
        let mut variables = format!("LLM_PROXY_URL={url}");
        if !is_read {
            variables.push_str(&format!(" LLM_API_KEY=\"${key}\""));
        }
        if !has_model {
            variables.push_str(&format!(" LLM_MODEL={model}"));
        }
        ModelHint { why, variables }
    }
}
