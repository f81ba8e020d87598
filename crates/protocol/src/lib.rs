//! The words of CodeLab: ids, messages, tool calls, chunks, error codes, request and response bodies.
//!
//! Pure data: no I/O, no clock, no decisions. Names and fields are the public contract; the OpenAPI document is
//! generated from these types.

mod api;
mod chunk;
mod digest;
mod error;
mod id;
mod message;
mod model;
mod patch;
mod project;
mod time;
mod tool;

pub use api::{
    AgentHistory, AgentInfo, AgentList, AgentStreamRequest, ApprovalInfo, AuditEntry, AuditList, CallerContext,
    CreateSession, CurrentAgent, Health, HealthCheck, HealthStatus, HitlDecision, MessageType, PendingApprovals,
    SessionAck, SessionCreated, SessionHistory, SessionInfo, SessionList, SwitchEntry,
};
pub use chunk::{
    AssistantDelta, AssistantMessage, Chunk, ChunkBody, Completion, CompletionStatus, Done, ErrorData, Gap, Question,
    SwitchAgent, ToolCallChunk, ToolResultChunk, TurnStatus,
};
pub use digest::{Digest, arguments_digest};
pub use error::{ErrorBody, ErrorCode};
pub use id::{AgentId, AgentName, CallId, ClientMessageId, InvalidId, MessageId, ProjectId, SessionId, TurnId, UserId};
pub use message::{Message, Role, ToolCall, Usage};
pub use model::{
    ModelFailure, ModelMessage, ModelOutput, ModelRequest, ModelToolCall, OutputSchema, RawToolCall, ToolSpec,
};
pub use patch::Patch;
pub use project::{
    ChangeAgent, ChangeProject, CreateAgent, CreateProject, LoggedIn, Login, Project, ProjectAgent, ProjectAgentList,
    ProjectList, SavedAgent,
};
pub use time::Timestamp;
pub use tool::{
    CommandPart, ExecuteCommand, FileEdit, InvalidArguments, ListFiles, ReadFile, SearchInCode, SwitchMode, Tool,
    ToolArguments, ToolSide, WriteFile,
};
