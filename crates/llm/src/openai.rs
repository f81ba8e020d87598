//! The format of servers that speak OpenAI's chat completions.
//!
//! `wire` builds requests. `chunk`, `tool_calls` and `answer` turn events into an answer.

mod answer;
mod chunk;
mod inline_thoughts;
mod tool_calls;
mod wire;

use codelab_protocol::ModelRequest;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};

use crate::answer::AnswerFormat;
use crate::secret::Secret;
use crate::shape::Shape;
use crate::wire::Wire;
use answer::OpenAiFormat;
use wire::WireRequest;

/// OpenAI, and everything that is compatible with it.
pub(crate) struct OpenAiWire;

impl Wire for OpenAiWire {
    fn calls_path(&self) -> &'static str {
        "/v1/chat/completions"
    }

    fn models_path(&self) -> &'static str {
        "/v1/models"
    }

    fn key_header(&self, key: &Secret) -> (HeaderName, String) {
        (AUTHORIZATION, format!("Bearer {}", key.expose()))
    }

    fn extra_headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        Vec::new()
    }

    fn encode(
        &self,
        request: &ModelRequest,
        shape: &Shape,
        provider: &str,
    ) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&WireRequest::new(request, shape, provider))
    }

    fn format(&self) -> Box<dyn AnswerFormat> {
        Box::<OpenAiFormat>::default()
    }
}
