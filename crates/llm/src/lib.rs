//! Talks to language models: one client for everything that speaks the OpenAI chat format, and an
//! offline demonstration model for a server without one.
//!
//! What lives here: the wire format, timeouts, retries, prices. What must never: decisions about a
//! turn, tools or agents, and anything that is stored. A failure leaves this crate as a
//! [`ModelFailure`] whose text is safe to show.

mod address;
mod config;
mod demo;
mod openai;
mod price;
mod secret;

use std::time::Duration;

use codelab_protocol::{ModelFailure, ModelOutput, ModelRequest};
use futures_util::future::BoxFuture;

pub use address::{InvalidAddress, is_private_address};
pub use config::{ModelAuth, ModelConfigError, OpenAiConfig};
pub use demo::DemoModel;
pub use openai::{OpenAiModel, ServerClock, Trial};
pub use price::{Price, PriceTable};
pub use secret::Secret;

/// What is heard of a call before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamedPart<'a> {
    /// A piece of the answer.
    Text(&'a str),
    /// The server said when it can be asked again, and the call waits this long.
    Waiting(Duration),
}

/// Is told what is heard.
pub type StreamListener<'a> = dyn FnMut(StreamedPart<'_>) + Send + 'a;

/// Something that answers model requests.
pub trait Model: Send + Sync {
    /// Answers one request. `hear` gets the text piece by piece as it arrives; the pieces joined
    /// are the answer's text. Dropping the future aborts the call.
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        hear: &'a mut StreamListener<'a>,
    ) -> BoxFuture<'a, Result<ModelOutput, ModelFailure>>;

    /// What so many tokens of the model that an agent asks for would cost, half of them written by
    /// it. `None` when the price of the model that is really called is not known.
    fn price_usd(&self, asked: &str, tokens: u64) -> Option<f64>;

    /// What a call of the model that an agent asks for would cost, of so many tokens each way.
    /// `None` as with `price_usd`.
    fn call_cost_usd(&self, asked: &str, prompt_tokens: u64, answer_tokens: u64) -> Option<f64>;

    fn describe(&self) -> ModelDescription;
}

/// What a person may know about the configured model: never its address or key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelDescription {
    pub label: String,
    /// Whether this is the built-in demonstration, which understands nothing.
    pub demo: bool,
}
