//! Requests to a model and its answers, independent of the provider.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::{CallId, ErrorCode, Usage};

/// One model call, provider-neutral.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The agent this call is made for; used in logs and by the offline demonstration model.
    pub agent: String,
    pub model: String,
    pub messages: Vec<ModelMessage>,
    pub tools: Vec<&'static ToolSpec>,
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
    },
    Assistant {
        content: String,
        tool_calls: Vec<ModelToolCall>,
    },
    Tool {
        call_id: CallId,
        content: String,
    },
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
    pub name: &'static str,
    pub description: &'static str,
    /// Its arguments as JSON Schema, written once.
    pub parameters: Box<RawValue>,
}

impl PartialEq for ToolSpec {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.description, self.parameters.get())
            == (other.name, other.description, other.parameters.get())
    }
}

/// A finished model answer. Nothing in it is trusted yet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelOutput {
    pub text: String,
    pub tool_calls: Vec<RawToolCall>,
    pub usage: Option<Usage>,
    /// What the person should know about this answer, e.g. that another model had to be used.
    pub warnings: Vec<String>,
}

/// A tool call as the model wrote it; `arguments` may be anything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RawToolCall {
    pub name: String,
    pub arguments: String,
}

/// Why a model call gave no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelFailure {
    /// `LLM_TIMEOUT`, `LLM_ERROR` or `LLM_PROXY_UNAVAILABLE`.
    pub code: ErrorCode,
    /// Safe to show: never an address, a key or an upstream body.
    pub message: String,
    pub details: Map<String, Value>,
}
