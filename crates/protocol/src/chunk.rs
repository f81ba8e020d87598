//! The events of a runtime session, as they are stored and streamed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AgentName, CallId, CalledTool, CommandPart, Digest, ErrorCode, McpCall, MessageId,
    ModelFallback, ModelWaiting, Timestamp, ToolCall, Usage, UserId,
};

/// One event of a session's log: `{"type", "data", "timestamp"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Chunk {
    #[serde(flatten)]
    pub body: ChunkBody,
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum ChunkBody {
    AssistantMessage(AssistantMessage),
    /// Tokens as they arrive; ephemeral, never stored, without an id.
    AssistantDelta(AssistantDelta),
    /// What the model thinks, as it arrives; ephemeral as well. It is no part of the answer's text.
    ReasoningDelta(AssistantDelta),
    ToolCall(ToolCallChunk),
    ToolResult(ToolResultChunk),
    SwitchAgent(SwitchAgent),
    Question(Question),
    Error(ErrorData),
    Completion(Completion),
    ModelFallback(ModelFallback),
    ModelWaiting(ModelWaiting),
    /// These event numbers were pruned and can no longer be read; never stored itself.
    Gap(Gap),
}

/// Event numbers that cannot be read. The stream continues after them. If the reader asked for
/// events after `to` and the log is shorter than that, the log follows from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Gap {
    pub from: u64,
    pub to: u64,
}

impl Gap {
    /// Whether what a reader knows up to `last_seen` belongs to another log, and this one follows
    /// from its start.
    pub fn starts_over(&self, last_seen: u64) -> bool {
        self.from <= last_seen
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AssistantMessage {
    pub content: String,
    pub agent: AgentName,
    pub message_id: MessageId,
    pub timestamp: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AssistantDelta {
    pub content: String,
    pub agent: AgentName,
    pub message_id: MessageId,
    /// A higher attempt replaces what was shown for this message.
    pub attempt: u32,
    /// Where `content` starts, in bytes of the message's UTF-8 text.
    pub offset: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolCallChunk {
    pub tool_call: ToolCall,
    pub requires_approval: bool,
    /// Present once a person or a remembered rule has approved the call.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub approved: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    pub digest: Digest,
    /// Present for a tool of an MCP server. The digest covers its server, name and definition then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mcp: Option<Box<McpCall>>,
    /// The simple commands of a shell line, each with the reason why it needs approval.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub parts: Vec<CommandPart>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Timestamp>,
    pub agent: AgentName,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user_id: Option<UserId>,
    /// What the approved write may replace. Absent where the approval names nothing.
    #[serde(
        skip_serializing_if = "Option::is_none",
        default,
        deserialize_with = "crate::given"
    )]
    #[schema(value_type = Option<crate::FileBase>, required = false)]
    pub base: Option<crate::FileBase>,
}

impl ToolCallChunk {
    /// Absent for a name that is no tool.
    pub fn tool(&self) -> Option<CalledTool> {
        CalledTool::of_call(&self.tool_call.name, self.mcp.as_deref())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolResultChunk {
    pub call_id: CallId,
    pub tool_name: String,
    pub result: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SwitchAgent {
    pub from_agent: AgentName,
    pub to_agent: AgentName,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confidence: Option<String>,
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Question {
    pub call_id: CallId,
    pub question: String,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub options: Vec<String>,
    pub agent: AgentName,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorData {
    pub message: String,
    pub error_code: ErrorCode,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Completion {
    pub status: CompletionStatus,
    pub message: String,
    pub agent: AgentName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletionStatus {
    Success,
}

/// The closing frame of a stream, `event: done`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Done {
    pub status: TurnStatus,
}

/// The state of a turn when its stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    Completed,
    AwaitingToolResult,
    AwaitingApproval,
    AwaitingAnswer,
    Failed,
    Cancelled,
}

impl TurnStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::AwaitingToolResult => "awaiting_tool_result",
            Self::AwaitingApproval => "awaiting_approval",
            Self::AwaitingAnswer => "awaiting_answer",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the turn is over.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Completed,
            Self::AwaitingToolResult,
            Self::AwaitingApproval,
            Self::AwaitingAnswer,
            Self::Failed,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|status| status.as_str() == text)
    }
}

impl ChunkBody {
    /// The `type` of the chunk on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::AssistantMessage(_) => "assistant_message",
            Self::AssistantDelta(_) => "assistant_delta",
            Self::ReasoningDelta(_) => "reasoning_delta",
            Self::ToolCall(_) => "tool_call",
            Self::ToolResult(_) => "tool_result",
            Self::SwitchAgent(_) => "switch_agent",
            Self::Question(_) => "question",
            Self::Error(_) => "error",
            Self::Completion(_) => "completion",
            Self::ModelFallback(_) => "model_fallback",
            Self::ModelWaiting(_) => "model_waiting",
            Self::Gap(_) => "gap",
        }
    }
}
