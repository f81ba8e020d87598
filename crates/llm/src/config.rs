//! Providers, names and limits for model calls.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use codelab_transport::{InvalidAddress, NetworkOptions, TransportConfigError};
use serde::{Deserialize, Serialize};

use crate::price::PriceTable;
use crate::secret::Secret;
use crate::window::ModelFacts;

/// The name of the provider at `LLM_PROXY_URL`.
pub const DEFAULT_PROVIDER: &str = "default";
/// Anthropic refuses a smaller budget.
const MIN_THINKING_TOKENS: u32 = 1024;
/// A key file that is larger is not a key file.
const MAX_KEY_FILE_BYTES: u64 = 64 * 1024;

/// Which models can be called, and how. Start from [`ModelsConfig::new`] or from
/// `ModelsConfig::default`, which has no provider.
#[derive(Debug, Clone, Default)]
pub struct ModelsConfig {
    /// By name. The one named [`DEFAULT_PROVIDER`] gets all models whose names have no other
    /// provider's name before their first `/`.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// `LLM_MODEL`: called when a provider does not know the requested model.
    pub default_model: Option<String>,
    /// `LLM_MODEL_OVERRIDE`: every call goes to this model.
    pub model_override: Option<String>,
    /// `llm.fallback_models`: tried in order for requests that name no models of their own.
    pub fallback_models: Vec<String>,
    /// Rewrites model names in requests. Case does not matter.
    pub model_map: BTreeMap<String, String>,
    pub limits: CallLimits,
    pub prices: PriceTable,
    /// `models.<name>`: what is known about a model. Overrides the built-in table.
    pub facts: BTreeMap<String, ModelFacts>,
    /// Proxies, and certificates to trust.
    pub network: NetworkOptions,
}

/// How to reach one provider.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    pub kind: ProviderKind,
    /// It may end in `/` or `/v1`.
    pub url: String,
    pub auth: ModelAuth,
    /// Whether models are asked to think. `None` leaves it to them.
    pub thinking: Option<Thinking>,
    /// The settings that hold the address and the key, for messages to people.
    pub url_setting: String,
    pub key_setting: String,
}

/// The format that a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    #[default]
    Openai,
    Anthropic,
}

/// How models of Anthropic are asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// The model decides how much. For Claude 4.6 and newer.
    Adaptive,
    /// At most this many tokens. For older models.
    #[serde(untagged)]
    Tokens(u32),
}

/// `[providers.NAME]` as a person writes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    pub kind: ProviderKind,
    pub url: String,
    /// The environment variable that holds the key.
    #[serde(default)]
    pub key_env: Option<String>,
    /// The file that holds the key.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// `"adaptive"` or a number of tokens. Only for the kind `anthropic`.
    #[serde(default)]
    pub thinking: Option<Thinking>,
}

/// Limits of one model call.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    /// Time limit of the whole call, retries and other models included.
    pub timeout: Duration,
    /// Time limit for silence after the answer has begun. A model that another one can replace must
    /// begin within it, too.
    pub idle_timeout: Duration,
    pub connect_timeout: Duration,
    /// Retries after 429, 5xx and connection failures.
    pub max_retries: u32,
    /// Time limit for all waits of one call that the server announced. A longer wait fails the
    /// call at once.
    pub rate_limit_wait: Duration,
    /// The wait before the first retry. It doubles with each further retry.
    pub retry_delay: Duration,
    /// Limit for the text and tool arguments of one answer together.
    pub max_output_bytes: usize,
}

/// The credentials of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelAuth {
    /// In the header that the provider's format uses: `Authorization: Bearer` or `x-api-key`.
    Key(Secret),
    /// `X-Internal-Auth`.
    InternalHeader(Secret),
    None,
}

impl CallLimits {
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(360);
    pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
    pub const DEFAULT_RATE_LIMIT_WAIT: Duration = Duration::from_secs(60);
    pub const DEFAULT_MAX_RETRIES: u32 = 3;
    pub const DEFAULT_RETRY_DELAY: Duration = Duration::from_millis(500);
    pub const DEFAULT_MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;

    pub(crate) fn check(&self) -> Result<(), ModelConfigError> {
        for (setting, limit) in [
            ("limits.model_timeout_seconds", self.timeout),
            ("limits.model_idle_timeout_seconds", self.idle_timeout),
            ("llm.connect_timeout_seconds", self.connect_timeout),
        ] {
            if limit.is_zero() {
                return Err(ModelConfigError::Zero { setting });
            }
        }
        Ok(())
    }
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            timeout: Self::DEFAULT_TIMEOUT,
            idle_timeout: Self::DEFAULT_IDLE_TIMEOUT,
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            max_retries: Self::DEFAULT_MAX_RETRIES,
            rate_limit_wait: Self::DEFAULT_RATE_LIMIT_WAIT,
            retry_delay: Self::DEFAULT_RETRY_DELAY,
            max_output_bytes: Self::DEFAULT_MAX_OUTPUT_BYTES,
        }
    }
}

impl ModelsConfig {
    /// One OpenAI-compatible server at `LLM_PROXY_URL`.
    pub fn new(url: impl Into<String>, auth: ModelAuth) -> Self {
        let provider = ProviderConfig::at_proxy_url(url, auth);
        Self {
            providers: BTreeMap::from([(DEFAULT_PROVIDER.to_owned(), provider)]),
            ..Self::default()
        }
    }

    /// The name that is sent for `model`.
    pub(crate) fn mapped<'a>(&'a self, model: &'a str) -> &'a str {
        let alike = || {
            self.model_map
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(model))
                .map(|(_, wire)| wire)
        };
        self.model_map
            .get(model)
            .or_else(alike)
            .map_or(model, String::as_str)
    }
}

impl ProviderConfig {
    /// The provider [`DEFAULT_PROVIDER`].
    pub fn at_proxy_url(url: impl Into<String>, auth: ModelAuth) -> Self {
        let key_setting = match &auth {
            ModelAuth::InternalHeader(_) => "INTERNAL_API_KEY",
            ModelAuth::Key(_) | ModelAuth::None => "LLM_API_KEY",
        };
        Self {
            kind: ProviderKind::Openai,
            url: url.into(),
            auth,
            thinking: None,
            url_setting: "LLM_PROXY_URL".to_owned(),
            key_setting: key_setting.to_owned(),
        }
    }
}

impl ProviderSettings {
    /// Reads the key. A key that is named but not there is an error.
    pub fn resolve(
        &self,
        name: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<ProviderConfig, ModelConfigError> {
        check_name(name)?;
        let wrong = |field: &str, why: String| ModelConfigError::Provider {
            setting: format!("providers.{name}.{field}"),
            why,
        };
        match (self.thinking, self.kind) {
            (Some(_), ProviderKind::Openai) => {
                return Err(wrong(
                    "thinking",
                    "is only for the kind \"anthropic\"".to_owned(),
                ));
            }
            (Some(Thinking::Tokens(tokens)), _) if tokens < MIN_THINKING_TOKENS => {
                let why = format!("must be \"adaptive\" or at least {MIN_THINKING_TOKENS} tokens");
                return Err(wrong("thinking", why));
            }
            _ => {}
        }
        let (key, key_setting) = match (&self.key_env, &self.key_file) {
            (Some(_), Some(_)) => {
                return Err(wrong(
                    "key_env",
                    "and key_file are both set; use one of them".to_owned(),
                ));
            }
            (None, None) => (None, format!("providers.{name}.key_env")),
            (Some(env), None) => {
                let key = variable(env).filter(|key| !key.trim().is_empty());
                let key =
                    key.ok_or_else(|| wrong("key_env", format!("names {env}, which is not set")))?;
                (Some(key), env.clone())
            }
            (None, Some(path)) => {
                let key = read_key(path)
                    .map_err(|why| wrong("key_file", format!("{}: {why}", path.display())))?;
                (Some(key), format!("providers.{name}.key_file"))
            }
        };
        Ok(ProviderConfig {
            kind: self.kind,
            url: self.url.clone(),
            auth: key.map_or(ModelAuth::None, |key| {
                ModelAuth::Key(Secret::new(key.trim()))
            }),
            thinking: self.thinking,
            url_setting: format!("providers.{name}.url"),
            key_setting,
        })
    }
}

/// A provider's name stands before the `/` of a model's name.
fn check_name(name: &str) -> Result<(), ModelConfigError> {
    let wrong = |why: &str| ModelConfigError::Provider {
        setting: format!("providers.{name}"),
        why: why.to_owned(),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(fits) {
        return Err(wrong(
            "is not a usable name; use letters, digits, \"-\", \"_\" and \".\"",
        ));
    }
    if name == DEFAULT_PROVIDER {
        return Err(wrong("is the server at LLM_PROXY_URL; use another name"));
    }
    Ok(())
}

fn read_key(path: &std::path::Path) -> Result<String, String> {
    let size = std::fs::metadata(path)
        .map_err(|error| error.to_string())?
        .len();
    if size > MAX_KEY_FILE_BYTES {
        return Err(format!("is larger than {MAX_KEY_FILE_BYTES} bytes"));
    }
    let key = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    if key.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    Ok(key)
}

impl ModelAuth {
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Key(secret) | Self::InternalHeader(secret) => Some(secret),
            Self::None => None,
        }
    }
}

/// A setting that makes every call impossible. The text names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelConfigError {
    #[error("{setting} {source}")]
    Address {
        setting: String,
        source: InvalidAddress,
    },
    #[error("{setting} holds characters that an HTTP header cannot carry")]
    Key { setting: String },
    #[error("{setting} must be more than 0")]
    Zero { setting: &'static str },
    #[error("{setting} cannot be used: {source}")]
    Network {
        setting: String,
        source: TransportConfigError,
    },
    #[error("{setting} {why}")]
    Provider { setting: String, why: String },
    /// Only with providers that have names: without `LLM_PROXY_URL` somebody must be named.
    #[error(
        "{setting} is \"{model}\", which names no provider; without LLM_PROXY_URL it must be \
         NAME/model, with the name of a [providers.NAME]"
    )]
    NoProvider { setting: String, model: String },
    #[error(
        "LLM_MODEL must be set to NAME/model, with the name of a [providers.NAME], because \
         LLM_PROXY_URL is not set"
    )]
    NoDefault,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(key_env: Option<&str>, key_file: Option<PathBuf>) -> ProviderSettings {
        ProviderSettings {
            kind: ProviderKind::Anthropic,
            url: "https://a.test".to_owned(),
            key_env: key_env.map(str::to_owned),
            key_file,
            thinking: None,
        }
    }

    #[test]
    fn thinking_is_a_word_or_a_budget_for_models_that_know_it() {
        for (kind, thinking, wanted) in [
            ("anthropic", "\"adaptive\"", Ok(Thinking::Adaptive)),
            ("anthropic", "8000", Ok(Thinking::Tokens(8000))),
            (
                "anthropic",
                "100",
                Err("providers.a.thinking must be \"adaptive\" or at least 1024 tokens"),
            ),
            (
                "openai",
                "8000",
                Err("providers.a.thinking is only for the kind \"anthropic\""),
            ),
        ] {
            let text =
                format!(r#"{{"kind": "{kind}", "url": "http://a", "thinking": {thinking}}}"#);
            let settings: ProviderSettings = serde_json::from_str(&text).unwrap();
            let got = settings.resolve("a", |_| None);
            let got = got.map(|config| config.thinking.unwrap());
            assert_eq!(
                got.map_err(|error| error.to_string()),
                wanted.map_err(str::to_owned)
            );
        }
    }

    #[test]
    fn a_key_that_is_named_must_be_there() {
        let variable = |name: &str| (name == "GOOD").then(|| "canary\n".to_owned());
        let resolved = settings(Some("GOOD"), None).resolve("a", variable).unwrap();
        assert_eq!(resolved.auth, ModelAuth::Key(Secret::new("canary")));
        assert_eq!(
            settings(None, None).resolve("a", variable).unwrap().auth,
            ModelAuth::None
        );
        let missing = PathBuf::from("/no/such/file");
        for (name, settings, setting) in [
            (
                "a",
                settings(Some("BAD"), None),
                "providers.a.key_env names BAD",
            ),
            (
                "a",
                settings(None, Some(missing.clone())),
                "providers.a.key_file /no/such/file",
            ),
            (
                "a",
                settings(Some("GOOD"), Some(missing)),
                "providers.a.key_env and key_file",
            ),
            (
                "a/b",
                settings(None, None),
                "providers.a/b is not a usable name",
            ),
            (
                "default",
                settings(None, None),
                "providers.default is the server",
            ),
        ] {
            let error = settings.resolve(name, variable).unwrap_err().to_string();
            assert!(error.starts_with(setting), "{error}");
        }
    }
}
