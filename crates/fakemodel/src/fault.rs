//! What a model server answers when it cannot do what it is asked: the same cause, in the words of
//! each wire.

use serde_json::{Value, json};

use crate::wire::Wire;

/// Why a model server refuses a request, or stops in the middle of an answer. The texts are those
/// of the providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    WrongKey,
    UnknownModel(String),
    ContextTooLong,
    ContentFilter,
    RateLimit,
    Quota,
    Overloaded,
    ServerError,
    Timeout,
}

/// A fault as it stands on one wire.
pub(crate) struct FaultOnWire {
    pub status: u16,
    kind: &'static str,
    code: Option<&'static str>,
    message: String,
}

impl Fault {
    pub(crate) fn on(&self, wire: Wire) -> FaultOnWire {
        let (status, kind, code, message) = match wire {
            Wire::OpenAi => self.as_openai(),
            Wire::Anthropic => self.as_anthropic(),
        };
        let message = match self {
            Self::UnknownModel(model) => message.replace("{}", model),
            _ => message.to_owned(),
        };
        FaultOnWire {
            status,
            kind,
            code,
            message,
        }
    }

    fn as_openai(&self) -> (u16, &'static str, Option<&'static str>, &'static str) {
        const REQUEST: &str = "invalid_request_error";
        match self {
            Self::WrongKey => (
                401,
                REQUEST,
                Some("invalid_api_key"),
                "Incorrect API key provided.",
            ),
            Self::UnknownModel(_) => (
                404,
                REQUEST,
                Some("model_not_found"),
                "The model `{}` does not exist or you do not have access to it.",
            ),
            Self::ContextTooLong => (
                400,
                REQUEST,
                Some("context_length_exceeded"),
                "This model's maximum context length is 8192 tokens. However, your messages \
                 resulted in 9001 tokens. Please reduce the length of the messages.",
            ),
            Self::ContentFilter => (
                400,
                REQUEST,
                Some("content_filter"),
                "The response was filtered due to the prompt triggering Azure OpenAI's content \
                 management policy. Please modify your prompt and retry.",
            ),
            Self::RateLimit => (
                429,
                "tokens",
                Some("rate_limit_exceeded"),
                "Rate limit reached for requests per minute. Please try again later.",
            ),
            Self::Quota => (
                429,
                "insufficient_quota",
                Some("insufficient_quota"),
                "You exceeded your current quota, please check your plan and billing details.",
            ),
            Self::Overloaded => (
                503,
                "server_error",
                None,
                "The engine is currently overloaded, please try again later.",
            ),
            Self::ServerError => (
                500,
                "server_error",
                None,
                "The server had an error while processing your request. Sorry about that!",
            ),
            Self::Timeout => (408, "timeout", None, "Request timed out."),
        }
    }

    fn as_anthropic(&self) -> (u16, &'static str, Option<&'static str>, &'static str) {
        const REQUEST: &str = "invalid_request_error";
        match self {
            Self::WrongKey => (401, "authentication_error", None, "invalid x-api-key"),
            Self::UnknownModel(_) => (404, "not_found_error", None, "model: {}"),
            Self::ContextTooLong => (
                400,
                REQUEST,
                None,
                "prompt is too long: 210000 tokens > 200000 maximum",
            ),
            Self::ContentFilter => (
                400,
                REQUEST,
                None,
                "Output blocked by content filtering policy",
            ),
            Self::RateLimit => (
                429,
                "rate_limit_error",
                None,
                "This request would exceed your organization's rate limit of 50,000 input tokens \
                 per minute.",
            ),
            Self::Quota => (
                400,
                REQUEST,
                None,
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & \
                 Billing to upgrade or purchase credits.",
            ),
            Self::Overloaded => (529, "overloaded_error", None, "Overloaded"),
            Self::ServerError => (500, "api_error", None, "Internal server error"),
            Self::Timeout => (504, "timeout_error", None, "Request timed out"),
        }
    }
}

impl FaultOnWire {
    /// The body of an error answer, and the data of an error event.
    pub fn body(&self, wire: Wire) -> Value {
        match wire {
            Wire::OpenAi => json!({"error": {"message": self.message, "type": self.kind,
                "param": null, "code": self.code}}),
            Wire::Anthropic => json!({"type": "error",
                "error": {"type": self.kind, "message": self.message}}),
        }
    }
}
