//! The format of servers that speak Anthropic's Messages.
//!
//! `request` builds requests. `event` and `answer` turn events into an answer. `thoughts` keeps
//! reasoning in the order in which the server wants it back.

mod answer;
mod event;
mod request;
mod thoughts;

use codelab_protocol::ModelRequest;
use http::{HeaderName, HeaderValue};

use crate::answer::AnswerFormat;
use crate::config::Thinking;
use crate::secret::Secret;
use crate::shape::Shape;
use crate::wire::ProviderWire;
use answer::AnthropicFormat;
use request::MessagesRequest;

const KEY: HeaderName = HeaderName::from_static("x-api-key");
const VERSION_NAME: HeaderName = HeaderName::from_static("anthropic-version");
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Anthropic, and everything that is compatible with it.
pub(crate) struct AnthropicWire {
    thinking: Option<Thinking>,
}

impl AnthropicWire {
    pub fn new(thinking: Option<Thinking>) -> Self {
        Self { thinking }
    }
}

impl ProviderWire for AnthropicWire {
    fn calls_path(&self) -> &'static str {
        "/v1/messages"
    }

    /// The longest list that the server allows. It would send 20 names otherwise.
    fn models_path(&self) -> &'static str {
        "/v1/models?limit=1000"
    }

    fn key_header(&self, key: &Secret) -> (HeaderName, String) {
        (KEY, key.expose().to_owned())
    }

    fn extra_headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        vec![(VERSION_NAME, VERSION)]
    }

    fn encode(
        &self,
        request: &ModelRequest,
        shape: &Shape,
        provider: &str,
    ) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&MessagesRequest::new(
            request,
            shape,
            provider,
            self.thinking,
        ))
    }

    fn format(&self, model: &str) -> Box<dyn AnswerFormat> {
        Box::new(AnthropicFormat::new(model))
    }
}
