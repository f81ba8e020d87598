//! What a session's history is made of.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{
    AgentName, Attachment, CallId, MessageId, PlanId, Reasoning, RewindId, TaskId, Timestamp,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One tool call of an assistant message, with the arguments as the model gave them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolCall {
    pub call_id: CallId,
    pub name: String,
    #[schema(value_type = Object)]
    pub arguments: Map<String, Value>,
}

/// A message of the history. `name` is the agent (assistant) or the tool (tool).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Message {
    pub message_id: MessageId,
    pub role: Role,
    pub content: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent_id: Option<AgentName>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_call_id: Option<CallId>,
    pub timestamp: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
    /// Set when this message reports a failure instead of an answer.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub error: bool,
    /// The question that a user's message answers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answers: Option<CallId>,
    /// The plan of the task that asked; every plan may have a task of the same id.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan_id: Option<PlanId>,
    /// The task that asked, where the answer belongs to a plan.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task_id: Option<TaskId>,
    /// What the person should know about this answer: that it was cut, or that another model gave
    /// it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// What the model thought before it answered. What its provider wants back of it is stored, and
    /// not shown.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "for_readers",
        default
    )]
    pub reasoning: Option<Box<Reasoning>>,
    /// The answer ended at its token limit.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_cut: bool,
    /// The turn ended before the answer did; `content` is what was streamed of it until then.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub partial: bool,
    /// Why a partial answer ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<PartialReason>,
    /// Why the turn failed, where `content` is a partial answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_message: Option<String>,
    /// The earlier message of the user that this one sends once more, because its turn failed or was
    /// stopped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retries: Option<MessageId>,
    /// The user said it to the agents that were at work; it began no turn.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub steered: bool,
    /// The files that the user sent with it, or the image that a tool read.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub attachments: Vec<Attachment>,
    /// The rewind that took it back. Models, memory and search do not see it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rewound: Option<RewindId>,
}

/// Why an answer is only what was streamed of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartialReason {
    /// A person stopped the turn.
    Stopped,
    Failed,
}

/// Reasoning without what only says to whom it goes back, and what.
fn for_readers<S: Serializer>(
    reasoning: &Option<Box<Reasoning>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let shown = reasoning.as_ref().map(|reasoning| Reasoning {
        model: None,
        opaque: Value::Null,
        ..Reasoning::clone(reasoning)
    });
    shown.serialize(serializer)
}

impl Message {
    /// A message with nothing but its text.
    pub fn new(message_id: MessageId, role: Role, content: String, timestamp: Timestamp) -> Self {
        Self {
            message_id,
            role,
            content,
            agent_id: None,
            name: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            timestamp,
            usage: None,
            error: false,
            answers: None,
            plan_id: None,
            task_id: None,
            warnings: Vec::new(),
            reasoning: None,
            is_cut: false,
            partial: false,
            reason: None,
            error_message: None,
            retries: None,
            steered: false,
            attachments: Vec::new(),
            rewound: None,
        }
    }

    /// The part of this answer that was streamed until its turn ended.
    pub fn into_partial(self, reason: PartialReason) -> Self {
        Self {
            partial: true,
            reason: Some(reason),
            ..self
        }
    }
}

/// What a model call used, as the model reported it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Usage {
    /// All that the model read, `cached_tokens` and `cache_write_tokens` included.
    pub prompt_tokens: u64,
    /// All that the model wrote, `reasoning_tokens` included.
    pub completion_tokens: u64,
    pub total_tokens: u64,
    /// The part of `prompt_tokens` that came from the provider's cache.
    #[serde(default)]
    pub cached_tokens: u64,
    /// The part of `completion_tokens` that the model spent on thinking.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// The part of `prompt_tokens` that the provider wrote to its cache.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub cache_write_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost_usd: Option<f64>,
    /// The model that answered, as a setting names it: with its provider, unless that is the
    /// default one. `None` in a sum over several models.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<String>,
}

impl Usage {
    /// The sum of two reports; the cost is unknown as soon as one part of it is.
    pub fn plus(self, other: Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            completion_tokens: self
                .completion_tokens
                .saturating_add(other.completion_tokens),
            total_tokens: self.total_tokens.saturating_add(other.total_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            cache_write_tokens: self
                .cache_write_tokens
                .saturating_add(other.cache_write_tokens),
            cost_usd: self.cost_usd.zip(other.cost_usd).map(|(a, b)| a + b),
            model: self
                .model
                .filter(|model| other.model.as_ref() == Some(model)),
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_that_a_model_made_up_does_not_overflow() {
        let much = Usage {
            total_tokens: u64::MAX,
            completion_tokens: 1,
            ..Usage::default()
        };
        let sum = much.clone().plus(much);
        assert_eq!((sum.total_tokens, sum.completion_tokens), (u64::MAX, 2));
    }
}
