//! The one global Chat: its messages, and the bodies of its routes.

use serde::{Deserialize, Serialize};

use crate::{GlobalMessageId, MessageId, Timestamp, UserId};

/// One message of the Chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GlobalMessage {
    pub id: GlobalMessageId,
    pub ts: Timestamp,
    pub role: GlobalRole,
    /// Who speaks: an agent's name, `user`, or `ChatAgent` for the server itself.
    pub author: String,
    /// Never blank.
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub meta: Option<GlobalMeta>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GlobalRole {
    Agent,
    User,
    System,
}

impl GlobalRole {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::User => "user",
            Self::System => "system",
        }
    }
}

/// What else is known of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GlobalMeta {
    /// The question or message that this one answers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reply_to: Option<GlobalMessageId>,
    /// `question` waits for an answer until a message replies to it; `signal` wakes AdaptiveAgent.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(max_items = 16)]
    pub tags: Vec<String>,
    /// The user who wrote it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user_id: Option<UserId>,
}

impl GlobalMeta {
    /// `None` if nothing is known.
    pub fn known(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// A piece of the answer that AdaptiveAgent is writing. The whole answer follows as a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GlobalDelta {
    /// The same for all pieces of one answer.
    pub answer_id: MessageId,
    pub content: String,
    /// Where `content` starts, in bytes of the answer's UTF-8 text.
    pub offset: u64,
}

/// Answer of `POST /chat/cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChatCancelled {
    /// Whether there was an answer to stop.
    pub cancelled: bool,
}

/// Body of `POST /chat/user_message`.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PostUserMessage {
    /// Blank or missing is refused with 400.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required, value_type = String, min_length = 1)]
    pub text: Option<String>,
}

/// Body of `POST /chat/agent_message`.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PostAgentMessage {
    #[schema(min_length = 1, max_length = 64)]
    pub author: String,
    #[schema(min_length = 1)]
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub meta: Option<AgentMeta>,
}

/// What an agent may say about its message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentMeta {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reply_to: Option<GlobalMessageId>,
    /// `signal` wakes AdaptiveAgent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_items = 16)]
    pub tags: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessagePosted {
    pub id: GlobalMessageId,
}

/// Body of `POST /chat/ask_user`.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AskUser {
    #[schema(min_length = 1, max_length = 64)]
    pub author: String,
    #[schema(min_length = 1)]
    pub question: String,
    /// 300 if absent. The time starts with the request, even if other questions are asked first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 1, maximum = 86400)]
    pub timeout_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UserAnswer {
    pub question_id: GlobalMessageId,
    pub answer: String,
}
