//! Requests to a model and its answers, independent of the provider.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::{Attachment, CallId, ErrorCode, ErrorData, Usage};

/// One model call, provider-neutral.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The agent this call is made for; used in logs and by the offline demonstration model.
    pub agent: String,
    pub model: String,
    /// Models to try in this order when `model` cannot answer now. Empty: those that the server's
    /// settings name. To try no other model, name `model` here again.
    pub fallback_models: Vec<String>,
    pub messages: Vec<ModelMessage>,
    pub tools: Vec<Arc<ToolSpec>>,
    pub temperature: Option<f32>,
    pub max_tokens: Option<u32>,
    /// Ask for JSON of this shape where the upstream can.
    pub schema: Option<OutputSchema>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OutputSchema {
    pub name: &'static str,
    pub schema: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ModelMessage {
    System {
        content: String,
    },
    User {
        content: String,
        files: Vec<ModelFile>,
    },
    Assistant {
        content: String,
        tool_calls: Vec<ModelToolCall>,
        /// Sent back to the model that made it. Other models do not get it.
        reasoning: Option<Box<Reasoning>>,
    },
    Tool {
        call_id: CallId,
        content: String,
        files: Vec<ModelFile>,
    },
}

impl ModelMessage {
    /// A user's message without files.
    pub fn user(content: impl Into<String>) -> Self {
        Self::User {
            content: content.into(),
            files: Vec::new(),
        }
    }

    pub fn files(&self) -> &[ModelFile] {
        match self {
            Self::User { files, .. } | Self::Tool { files, .. } => files,
            Self::System { .. } | Self::Assistant { .. } => &[],
        }
    }

    pub fn files_mut(&mut self) -> &mut [ModelFile] {
        match self {
            Self::User { files, .. } | Self::Tool { files, .. } => files,
            Self::System { .. } | Self::Assistant { .. } => &mut [],
        }
    }
}

/// A file of a message. The engine names it; its content is loaded just before the call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFile {
    pub about: Attachment,
    pub content: FileContent,
}

#[derive(Clone, PartialEq)]
pub enum FileContent {
    /// The model is only told that the file is there.
    NotLoaded,
    Text(Arc<str>),
    /// In base64. A model that takes no images is told the name only.
    Image(Arc<str>),
}

/// Shows nothing of what people wrote.
impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoaded => f.write_str("NotLoaded"),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Image(base64) => write!(f, "Image({} bytes in base64)", base64.len()),
        }
    }
}

impl From<Attachment> for ModelFile {
    fn from(about: Attachment) -> Self {
        Self {
            about,
            content: FileContent::NotLoaded,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelToolCall {
    pub call_id: CallId,
    pub name: String,
    pub arguments: Map<String, Value>,
}

/// A tool offered to the model.
#[derive(Debug)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// Its arguments as JSON Schema, written once.
    pub parameters: Box<RawValue>,
}

impl PartialEq for ToolSpec {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.description, self.parameters.get())
            == (&other.name, &other.description, other.parameters.get())
    }
}

/// What a model thought before it answered. It is never a part of the answer's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Reasoning {
    /// For people to read. Empty when the provider encrypts it.
    pub text: String,
    /// The provider that made it. Only this provider gets it back.
    pub provider: String,
    /// The model that thought it, by the name that the provider knows. Only this model gets it
    /// back. Messages that an earlier version stored do not say: their reasoning goes to every
    /// model of the provider.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(ignore)]
    pub model: Option<String>,
    /// What the provider wants back, unchanged, in its own format. Nobody else reads it.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    #[schema(value_type = Object)]
    pub opaque: Value,
}

impl Reasoning {
    /// Whether this model gets it back.
    pub fn is_by(&self, provider: &str, model: &str) -> bool {
        let is_same_model = self.model.as_deref().is_none_or(|known| known == model);
        self.provider == provider && is_same_model
    }
}

/// A finished model answer. Nothing in it is trusted yet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelOutput {
    /// Where the model refused to answer, this says why.
    pub text: String,
    pub tool_calls: Vec<RawToolCall>,
    pub usage: Option<Usage>,
    pub reasoning: Option<Box<Reasoning>>,
    /// Set when the answer ended at its token limit. The last tool call may be incomplete.
    pub cut: Option<AnswerCut>,
    /// What the person should know about this answer, e.g. that another model had to be used.
    pub warnings: Vec<String>,
}

/// A tool call as the model wrote it; `arguments` may be anything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RawToolCall {
    pub name: String,
    pub arguments: String,
}

/// The token limit that ended an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerCut {
    /// `None` when the request set no limit, so the provider's own limit applied.
    pub max_tokens: Option<u32>,
}

/// Why a model call gave no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelFailure {
    /// `LLM_TIMEOUT`, `LLM_ERROR` or `LLM_PROXY_UNAVAILABLE`.
    pub code: ErrorCode,
    /// Safe to show: never an address or a key.
    pub message: String,
    /// `None` when the call was never made, e.g. because the history could not be read.
    pub kind: Option<ModelFailureKind>,
    /// The provider's own words: bounded, without keys and control characters. A boxed text keeps
    /// the error of every call small.
    pub provider_message: Option<Box<str>>,
    /// Further facts, e.g. `model` and `status`. Use [`ModelFailure::into_error`] to get them
    /// together with `kind` and `provider_message`.
    pub details: Map<String, Value>,
}

impl ModelFailure {
    /// A failure of CodeLab itself: no provider was asked.
    pub fn not_called(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            kind: None,
            provider_message: None,
            details: Map::new(),
        }
    }

    /// The failure as API users see it. `kind` and `provider_message` are in `details`.
    pub fn into_error(self) -> ErrorData {
        let mut details = Map::new();
        if let Some(kind) = self.kind {
            details.insert("kind".to_owned(), kind.as_str().into());
        }
        if let Some(said) = self.provider_message {
            details.insert("provider_message".to_owned(), String::from(said).into());
        }
        details.extend(self.details);
        ErrorData {
            message: self.message,
            error_code: self.code,
            details,
        }
    }
}

/// The reason for a failed model call, in words that a program can act upon.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailureKind {
    WrongKey,
    UnknownModel,
    ContextTooLong,
    ContentFilter,
    RateLimit,
    Quota,
    Overloaded,
    ServerError,
    Timeout,
    Unreachable,
    /// The provider sent something that is not an answer, or refused the request as malformed.
    Nonsense,
}

impl ModelFailureKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WrongKey => "wrong_key",
            Self::UnknownModel => "unknown_model",
            Self::ContextTooLong => "context_too_long",
            Self::ContentFilter => "content_filter",
            Self::RateLimit => "rate_limit",
            Self::Quota => "quota",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Nonsense => "nonsense",
        }
    }

    /// Whether another model may answer now although this one cannot.
    pub fn falls_back(self) -> bool {
        match self {
            Self::RateLimit
            | Self::Quota
            | Self::Overloaded
            | Self::ServerError
            | Self::Timeout
            | Self::Unreachable => true,
            Self::WrongKey
            | Self::UnknownModel
            | Self::ContextTooLong
            | Self::ContentFilter
            | Self::Nonsense => false,
        }
    }
}

/// Body of `POST /my/models/test`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TryModel {
    /// The name as an agent has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = true, nullable = false, min_length = 1, max_length = 200)]
    pub model: Option<String>,
}

/// What came of one short call to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelTried {
    pub ok: bool,
    /// Why it failed, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    /// Why it failed: `kind`, and where they are known `provider_message`, `model` and `status`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Object>)]
    pub details: Option<Map<String, Value>>,
}

/// The models that the connected providers offer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelList {
    pub models: Vec<OfferedModel>,
    /// Providers that did not list their models.
    pub unavailable: Vec<UnlistedProvider>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OfferedModel {
    /// The name to set for an agent. It begins with the provider, except for the default one.
    pub model: String,
    pub provider: String,
    /// The context window in tokens.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub window: Option<u64>,
    /// Whether the model reads images.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub images: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub price: Option<ModelPrice>,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelPrice {
    pub input_per_million_usd: f64,
    pub output_per_million_usd: f64,
    pub cached_input_per_million_usd: f64,
    pub cache_write_per_million_usd: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UnlistedProvider {
    pub provider: String,
    pub kind: ModelFailureKind,
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_spelled_alike_in_code_and_on_the_wire() {
        for kind in [
            ModelFailureKind::WrongKey,
            ModelFailureKind::UnknownModel,
            ModelFailureKind::ContextTooLong,
            ModelFailureKind::ContentFilter,
            ModelFailureKind::RateLimit,
            ModelFailureKind::Quota,
            ModelFailureKind::Overloaded,
            ModelFailureKind::ServerError,
            ModelFailureKind::Timeout,
            ModelFailureKind::Unreachable,
            ModelFailureKind::Nonsense,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }

    #[test]
    fn reasoning_goes_back_to_its_model_and_stored_reasoning_without_one_to_its_provider() {
        let stored: Reasoning =
            serde_json::from_str(r#"{"text": "hm", "provider": "a", "opaque": {"x": 1}}"#).unwrap();
        let new = Reasoning {
            model: Some("m".to_owned()),
            ..stored.clone()
        };
        let text = serde_json::to_string(&new).unwrap();
        assert_eq!(serde_json::from_str::<Reasoning>(&text).unwrap(), new);
        for (provider, model, by_new, by_stored) in [
            ("a", "m", true, true),
            ("a", "n", false, true),
            ("b", "m", false, false),
        ] {
            assert_eq!(new.is_by(provider, model), by_new, "{provider}/{model}");
            assert_eq!(
                stored.is_by(provider, model),
                by_stored,
                "{provider}/{model}"
            );
        }
    }

    #[test]
    fn the_details_of_a_failure_carry_its_kind() {
        let failure = ModelFailure {
            code: ErrorCode::LlmError,
            message: "No.".to_owned(),
            kind: Some(ModelFailureKind::Quota),
            provider_message: Some("no credit".into()),
            details: Map::from_iter([("status".to_owned(), 429.into())]),
        };
        assert_eq!(
            Value::Object(failure.into_error().details),
            serde_json::json!({"kind": "quota", "provider_message": "no credit", "status": 429})
        );
    }
}
