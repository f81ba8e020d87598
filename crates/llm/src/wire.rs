//! The seam between a model call and the format of a provider. `client` sends and retries, a
//! [`Wire`] says what is sent and what comes back. A wire does no I/O.

use codelab_protocol::ModelRequest;
use http::{HeaderName, HeaderValue};

use crate::answer::AnswerFormat;
use crate::config::ProviderKind;
use crate::openai::OpenAiWire;
use crate::secret::Secret;
use crate::shape::Shape;

pub(crate) trait Wire: Send + Sync {
    /// Where calls go, beneath the provider's address, which does not end in `/v1`.
    fn calls_path(&self) -> &'static str;

    /// Where the provider lists its models.
    fn models_path(&self) -> &'static str;

    /// The header that carries the key.
    fn key_header(&self, key: &Secret) -> (HeaderName, String);

    /// Headers of every request beside content type and key.
    fn extra_headers(&self) -> Vec<(HeaderName, HeaderValue)>;

    /// The body of a request. Reasoning goes back only if `provider` made it.
    fn encode(
        &self,
        request: &ModelRequest,
        shape: &Shape,
        provider: &str,
    ) -> serde_json::Result<Vec<u8>>;

    /// A reader for one answer.
    fn format(&self) -> Box<dyn AnswerFormat>;
}

pub(crate) fn wire_of(kind: ProviderKind) -> Box<dyn Wire> {
    match kind {
        ProviderKind::Openai | ProviderKind::Anthropic => Box::new(OpenAiWire),
    }
}
