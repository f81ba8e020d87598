//! Calls language models: servers that speak the formats of OpenAI or Anthropic, and an offline
//! demonstration model for servers without a model.
//!
//! What lives here: wire formats, providers, timeouts, retries, fallbacks, prices. What must never:
//! decisions about a turn, tools or agents, and anything that is stored. Every failure is a
//! [`ModelFailure`] whose text may be shown to users.

mod address;
mod answer;
mod anthropic;
mod client;
mod config;
mod demo;
mod files;
mod models;
mod names;
mod openai;
mod price;
mod provider_error;
mod secret;
mod shape;
mod window;
mod wire;

use std::time::Duration;

use codelab_protocol::{ModelFailure, ModelFailureKind, ModelList, ModelOutput, ModelRequest};
use futures_util::future::BoxFuture;

pub use client::ServerClock;
pub use config::{
    CallLimits, DEFAULT_PROVIDER, ModelAuth, ModelConfigError, ModelsConfig, ProviderConfig,
    ProviderKind, ProviderSettings, Thinking,
};
pub use demo::DemoModel;
pub use models::{Models, Trial};
pub use price::{Price, PriceTable};
pub use secret::Secret;
pub use window::ModelFacts;

/// What a call reports before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamedPart<'a> {
    /// A piece of the answer.
    Text(&'a str),
    /// A piece of what the model thinks. It is not a part of the answer.
    Reasoning(&'a str),
    /// A piece of a tool call has arrived. The call is a part of the output.
    ToolCall,
    /// The server asked to wait this long before the next attempt.
    Waiting {
        kind: ModelFailureKind,
        wait: Duration,
    },
    /// The model `from` cannot answer now, so `to` is asked. Both are names as in settings.
    Fallback {
        from: &'a str,
        to: &'a str,
        kind: ModelFailureKind,
    },
}

/// Receives what a call reports.
pub type StreamListener<'a> = dyn FnMut(StreamedPart<'_>) + Send + 'a;

/// Something that answers model requests.
pub trait Model: Send + Sync {
    /// Answers one request. `hear` gets each piece of the text as it arrives. Together the pieces
    /// are the answer's text, except where the model wrote a tool call into it: that part is a tool
    /// call of the output. Dropping the future aborts the call.
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        hear: &'a mut StreamListener<'a>,
    ) -> BoxFuture<'a, Result<ModelOutput, ModelFailure>>;

    /// Makes one attempt at the requested model, and at no other one, whatever is known of it.
    fn try_once<'a>(&'a self, request: &'a ModelRequest)
    -> BoxFuture<'a, Result<(), ModelFailure>>;

    /// What the tokens of the model that an agent asks for cost. `None` when the price of the model
    /// that is really called is not known.
    fn price(&self, asked: &str) -> Option<Price>;

    /// How many tokens fit into the context window of the model that an agent asks for, where that
    /// is known.
    fn window(&self, asked: &str) -> Option<u64>;

    /// Whether the model that an agent asks for takes images. One of which nothing is known is
    /// believed to.
    fn takes_images(&self, asked: &str) -> bool;

    /// What the providers offer. Takes a few seconds at most.
    fn models(&self) -> BoxFuture<'_, ModelList>;

    fn describe(&self) -> ModelDescription;
}

/// What users may see of the configured model. Never its address or key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelDescription {
    pub label: String,
    /// Whether this is the built-in demonstration.
    pub demo: bool,
}
