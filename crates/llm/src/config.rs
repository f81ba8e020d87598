//! The address, key, names and limits for calls to a model server.

use std::collections::BTreeMap;
use std::time::Duration;

use codelab_transport::{InvalidAddress, NetworkOptions, TransportConfigError};

use crate::price::PriceTable;
use crate::secret::Secret;

/// How to reach and use an OpenAI-compatible server. Start from [`OpenAiConfig::new`].
#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// `LLM_PROXY_URL`. It may end in `/` or `/v1`.
    pub base_url: String,
    pub auth: ModelAuth,
    /// `LLM_MODEL`: called when the server does not know the requested model.
    pub fallback_model: Option<String>,
    /// `LLM_MODEL_OVERRIDE`: every call goes to this model.
    pub model_override: Option<String>,
    /// Rewrites model names in requests. Case does not matter.
    pub model_map: BTreeMap<String, String>,
    /// Time limit of the whole call, retries included.
    pub timeout: Duration,
    /// Time limit for silence after the answer has begun.
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
    pub prices: PriceTable,
    /// Proxies, and certificates to trust.
    pub network: NetworkOptions,
}

/// The credentials of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelAuth {
    /// `Authorization: Bearer`.
    Bearer(Secret),
    /// `X-Internal-Auth`.
    InternalHeader(Secret),
    None,
}

impl OpenAiConfig {
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(360);
    pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
    pub const DEFAULT_RATE_LIMIT_WAIT: Duration = Duration::from_secs(60);
    pub const DEFAULT_MAX_RETRIES: u32 = 3;
    pub const DEFAULT_RETRY_DELAY: Duration = Duration::from_millis(500);
    pub const DEFAULT_MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;

    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            auth: ModelAuth::None,
            fallback_model: None,
            model_override: None,
            model_map: BTreeMap::new(),
            timeout: Self::DEFAULT_TIMEOUT,
            idle_timeout: Self::DEFAULT_IDLE_TIMEOUT,
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            max_retries: Self::DEFAULT_MAX_RETRIES,
            rate_limit_wait: Self::DEFAULT_RATE_LIMIT_WAIT,
            retry_delay: Self::DEFAULT_RETRY_DELAY,
            max_output_bytes: Self::DEFAULT_MAX_OUTPUT_BYTES,
            prices: PriceTable::default(),
            network: NetworkOptions::default(),
        }
    }

    /// The model name to send for the one that an agent asks for.
    pub(crate) fn wire_model<'a>(&'a self, asked: &'a str) -> &'a str {
        match &self.model_override {
            Some(model) => model,
            None => self.mapped(asked),
        }
    }

    /// The model to call when the server does not know `sent`.
    pub(crate) fn fallback_for(&self, sent: &str) -> Option<&str> {
        let fallback = self.mapped(self.fallback_model.as_deref()?);
        (fallback != sent).then_some(fallback)
    }

    fn mapped<'a>(&'a self, model: &'a str) -> &'a str {
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

impl ModelAuth {
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Bearer(secret) | Self::InternalHeader(secret) => Some(secret),
            Self::None => None,
        }
    }
}

/// A setting that makes every call impossible. The text names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelConfigError {
    #[error("LLM_PROXY_URL {0}")]
    Address(#[from] InvalidAddress),
    #[error("{setting} holds characters that an HTTP header cannot carry")]
    Key { setting: &'static str },
    #[error("{setting} must be more than 0")]
    Zero { setting: &'static str },
    #[error("LLM_PROXY_URL cannot be used: {0}")]
    Network(#[from] TransportConfigError),
}
