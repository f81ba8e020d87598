//! Calls language models. There is one client for all servers that speak the OpenAI chat format,
//! and an offline demonstration model for servers without a model.
//!
//! What lives here: the wire format, timeouts, retries, prices. What must never: decisions about a
//! turn, tools or agents, and anything that is stored. Every failure is a [`ModelFailure`] whose
//! text may be shown to users.

mod address;
mod config;
mod demo;
mod openai;
mod price;
mod secret;

use std::time::Duration;

use codelab_protocol::{ModelFailure, ModelOutput, ModelRequest};
use futures_util::future::BoxFuture;

pub use config::{ModelAuth, ModelConfigError, OpenAiConfig};
pub use demo::DemoModel;
pub use openai::{OpenAiModel, ServerClock, Trial};
pub use price::{Price, PriceTable};
pub use secret::Secret;

/// What a call reports before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamedPart<'a> {
    /// A piece of the answer.
    Text(&'a str),
    /// The server asked to wait this long before the next attempt.
    Waiting(Duration),
}

/// Receives what a call reports.
pub type StreamListener<'a> = dyn FnMut(StreamedPart<'_>) + Send + 'a;

/// Something that answers model requests.
pub trait Model: Send + Sync {
    /// Answers one request. `hear` gets each piece of the text as it arrives. Together the pieces
    /// are the answer's text. Dropping the future aborts the call.
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        hear: &'a mut StreamListener<'a>,
    ) -> BoxFuture<'a, Result<ModelOutput, ModelFailure>>;

    /// What the tokens of the model that an agent asks for cost. `None` when the price of the model
    /// that is really called is not known.
    fn price(&self, asked: &str) -> Option<Price>;

    fn describe(&self) -> ModelDescription;
}

/// What users may see of the configured model. Never its address or key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelDescription {
    pub label: String,
    /// Whether this is the built-in demonstration.
    pub demo: bool,
}
