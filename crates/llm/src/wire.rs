//! The seam between a model call and the format of a provider. `client` sends and retries, a
//! [`ProviderWire`] says what is sent and what comes back. A wire does no I/O.

use codelab_protocol::ModelRequest;
use http::{HeaderName, HeaderValue};

use crate::answer::AnswerFormat;
use crate::anthropic::AnthropicWire;
use crate::config::{ProviderConfig, ProviderKind};
use crate::openai::OpenAiWire;
use crate::secret::Secret;
use crate::shape::Shape;

pub(crate) trait ProviderWire: Send + Sync {
    /// Where calls go, beneath the provider's address, which does not end in `/v1`.
    fn calls_path(&self) -> &'static str;

    /// Where the provider lists its models.
    fn models_path(&self) -> &'static str;

    /// The header that carries the key.
    fn key_header(&self, key: &Secret) -> (HeaderName, String);

    /// Headers of every request beside content type and key.
    fn extra_headers(&self) -> Vec<(HeaderName, HeaderValue)>;

    /// The body of a request. Reasoning goes back only if this model of `provider` made it.
    fn encode(
        &self,
        request: &ModelRequest,
        shape: &Shape,
        provider: &str,
    ) -> serde_json::Result<Vec<u8>>;

    /// A reader for one answer of this model.
    fn format(&self, model: &str) -> Box<dyn AnswerFormat>;
}

pub(crate) fn wire_of(config: &ProviderConfig) -> Box<dyn ProviderWire> {
    match config.kind {
        ProviderKind::Openai => Box::new(OpenAiWire),
        ProviderKind::Anthropic => Box::new(AnthropicWire::new(config.thinking)),
    }
}
