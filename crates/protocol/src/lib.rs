//! The words of CodeLab: ids, messages, tool calls, chunks, error codes, request and response
//! bodies.
//!
//! Pure data: no I/O, no clock, no decisions. Names and fields are the public contract; the OpenAPI
//! document is generated from these types.

mod api;
mod chat;
mod chat_event;
mod chunk;
mod digest;
mod error;
mod global_chat;
mod id;
mod message;
mod model;
mod patch;
mod plan;
mod project;
mod reminder;
mod space;
mod time;
mod tool;

pub use api::{
    AgentHistory, AgentInfo, AgentList, AgentStreamRequest, Alive, ApprovalInfo, AuditEntry,
    AuditList, CallerContext, CreateSession, CurrentAgent, Health, HealthCheck, HealthStatus,
    HitlDecision, MessageType, PendingApprovals, SessionAck, SessionCreated, SessionHistory,
    SessionInfo, SessionList, SwitchEntry,
};
pub use chat::{
    AcceptedStatus, AgentUsage, AnswerQuestion, ApprovalList, CallClaimed, CallResult, ChatAck,
    ChatCancelled, ChatDetail, ChatMode, ChatSession, ChatSessionList, ClaimCall, CreateChat,
    DirectAnswer, MessageAccepted, MessageList, OpenApproval, PlanDecision, PlanList, ProjectUsage,
    RenameChat, ResultAck, SendMessage, SessionUsage, UsageReport, UsageTotal,
};
pub use chat_event::{
    AgentStatus, AgentStatusChanged, ApprovalRequest, ApprovalResolved, CallOutcome, ChatError,
    ChatEvent, ChatEventBody, ChatQuestion, ChatToolCall, ChatToolResult, DirectAgentCall,
    HistoryCompacted, MessageCreated, MessageDelta, MessageQueued, Origin, PlanRequest,
    PlanResolved, TaskCompleted, TaskFailed, TaskProgress, TaskSkipped, TaskStarted,
    ToolCallClosed, WorkflowCompleted, WorkflowStatus,
};
pub use chunk::{
    AssistantDelta, AssistantMessage, Chunk, ChunkBody, Completion, CompletionStatus, Done,
    ErrorData, Gap, Question, SwitchAgent, ToolCallChunk, ToolResultChunk, TurnStatus,
};
pub use digest::{Digest, arguments_digest};
pub use error::{ErrorBody, ErrorCode};
pub use global_chat::{
    AgentMeta, AskUser, GlobalMessage, GlobalMeta, GlobalRole, MessagePosted, PostAgentMessage,
    PostUserMessage, UserAnswer,
};
pub use id::{
    AgentId, AgentName, CallId, ClientId, ClientMessageId, GlobalMessageId, InvalidId, MessageId,
    PlanId, ProjectId, SessionId, TaskId, TurnId, UserId, WorkflowId,
};
pub use message::{Message, Role, ToolCall, Usage};
pub use model::{
    ModelFailure, ModelMessage, ModelOutput, ModelRequest, ModelToolCall, OutputSchema,
    RawToolCall, ToolSpec,
};
pub use patch::Patch;
pub use plan::{Plan, PlanStatus, PlannedTask, Task, TaskStatus};
pub use project::{
    ChangeAgent, ChangeProject, CreateAgent, CreateProject, LoggedIn, Login, Project, ProjectAgent,
    ProjectAgentList, ProjectList, SavedAgent,
};
pub use reminder::Reminder;
pub use space::{
    AddContext, AgentMetrics, AgentStatusInfo, AttachClient, AttachedClient, AverageDuration,
    ContextAdded, ContextFilter, ContextHit, ContextResults, SearchContext, SpaceHealth,
    SpaceMetrics,
};
pub use time::Timestamp;
pub use tool::{
    CommandPart, ExecuteCommand, FileEdit, InvalidArguments, ListFiles, ReadFile, SearchInCode,
    SwitchMode, Tool, ToolArguments, ToolSide, WriteFile,
};
