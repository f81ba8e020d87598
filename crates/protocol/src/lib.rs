//! The types that CodeLab's parts share: ids, messages, tool calls, events, error codes, request and
//! response bodies.
//!
//! Pure data: no I/O, no clock, no decisions. Names and fields are the public contract; the OpenAPI
//! document is generated from these types.

mod api;
mod attachment;
mod chat;
mod chunk;
mod decision;
mod digest;
mod error;
mod id;
mod instructions;
mod maybe_known;
mod mcp;
mod message;
mod model;
mod patch;
mod plan;
mod preview;
mod project;
mod project_session;
mod remembered;
mod reminder;
mod rewind;
mod session_event;
mod session_kind;
mod space;
mod time;
mod tool;
mod waiting;

pub use api::{
    AckStatus, AgentHistory, AgentInfo, AgentList, AgentStreamRequest, Alive, AliveStatus,
    ApprovalInfo, AuditEntry, AuditList, CallerContext, ClusterHealth, ClusterOwned, ClusterServer,
    CreateSession, CreatedStatus, CurrentAgent, Health, HealthCheck, HealthStatus, HitlDecision,
    MessageType, PendingApprovals, SessionAck, SessionCreated, SessionHistory, SessionInfo,
    SessionList, SwitchEntry,
};
pub use attachment::{
    AttachedFile, Attachment, AttachmentError, MAX_ATTACHMENT_NAME_CHARS, MAX_ATTACHMENTS,
    MAX_IMAGE_BYTES, MIN_FENCE, NewAttachment, fence, image_type,
};
pub use chat::{
    AgentMeta, AskUser, ChatCancelled, GlobalDelta, GlobalMessage, GlobalMeta, GlobalRole,
    MessagePosted, PostAgentMessage, PostUserMessage, UserAnswer,
};
pub use chunk::{
    AssistantDelta, AssistantMessage, Chunk, ChunkBody, Completion, CompletionStatus, Done,
    ErrorData, Gap, Question, SwitchAgent, ToolCallChunk, ToolResultChunk, TurnStatus,
};
pub use decision::{ApprovalKind, ApprovalOutcome, AuditDecision, DecisionChoice};
pub use digest::{Digest, arguments_digest};
pub use error::{ErrorBody, ErrorCode};
pub use id::{
    AgentId, AgentName, CallId, ClientId, ClientMessageId, GlobalMessageId, InvalidId, MessageId,
    PlanId, ProjectId, RememberedId, RewindId, SessionId, TaskId, TurnId, UserId, WorkflowId,
};
pub use instructions::{
    BroughtKind, BroughtPart, BroughtSkill, BroughtText, ClientInstructions, InstructionsReport,
    MAX_BROUGHT_PATH_BYTES, MAX_INSTRUCTION_BYTES, MAX_INSTRUCTION_FILES, MAX_INSTRUCTION_NOTICES,
    MAX_INSTRUCTION_TEXTS_BYTES, MAX_INSTRUCTIONS_REPORT_BYTES, MAX_NAMED_PARTS, MAX_SKILL_BYTES,
    MAX_SKILL_DESCRIPTION_CHARS, MAX_SKILL_NAME_CHARS, MAX_SKILLS, MAX_WAITING_CONTENTS,
    MissingTexts, SendTexts, TrustContent, TrustDecisions, WaitingContent,
};
pub use maybe_known::MaybeKnown;
pub use mcp::{
    AcceptMcpTools, ChangeMcpServer, CreateMcpServer, DECLINE, ElicitAnswer, ElicitationAsked,
    InvalidMcpName, MAX_MCP_REPORT_BYTES, MCP_PREFIX, McpAuthorization, McpPermission, McpPlace,
    McpReport, McpServer, McpServerList, McpServerName, McpStatus, McpTool, McpToolId,
    McpToolState, PermitMcpTool, ReportProgress, ReportedMcpServer, ToolDefinition,
    elicited_content, is_declined, offered_name,
};
pub use message::{Message, PartialReason, Role, ToolCall, Usage};
pub use model::{
    AnswerCut, FileContent, ModelFailure, ModelFailureKind, ModelFile, ModelList, ModelMessage,
    ModelOutput, ModelPrice, ModelRequest, ModelToolCall, ModelTried, OfferedModel, OutputSchema,
    RawToolCall, Reasoning, ToolSpec, TryModel, UnlistedProvider,
};
pub use patch::Patch;
pub use plan::{
    MAX_PATH_BYTES, MAX_TASK_PATHS, Plan, PlanStatus, PlannedTask, Task, TaskPath, TaskStatus,
    paths_overlap,
};
pub use preview::{
    ApprovalPreview, ApproveMode, AskAgain, FileBase, FilePreview, MAX_PREVIEW_BYTES,
    MAX_PREVIEW_TEXT_BYTES, SendPreview, given,
};
pub use project::{
    ChangeAgent, ChangeProject, CreateAgent, CreateProject, LoggedIn, Login, Project, ProjectAgent,
    ProjectAgentList, ProjectList, SavedAgent,
};
pub use project_session::{
    AcceptedStatus, AgentUsage, AnswerQuestion, ApprovalList, CallClaimed, CallResult,
    ChangeDelivery, ChangeProjectSession, ClaimCall, CreateProjectSession, Delivery, DirectAnswer,
    DirectErrorType, ExportedSession, ForkSession, ForkedFrom, MessageAccepted, MessageList,
    MessageMode, OpenApproval, PendingData, PendingToolCall, PlanDecision, PlanList, ProjectPlan,
    ProjectPlanList, ProjectSession, ProjectSessionAck, ProjectSessionCancelled,
    ProjectSessionDetail, ProjectSessionList, ProjectUsage, ResultAck, RetryTurn, SendMessage,
    SessionUsage, UsageReport, UsageTotal,
};
pub use remembered::{Remembered, RememberedCalls, RememberedList, RememberedRevoked};
pub use reminder::Reminder;
pub use rewind::{
    LeftFile, NotCovered, RewindAccepted, RewindFiles, RewindScope, RewindSession, Rewound,
    RewoundFiles, WrittenByCall,
};
pub use session_event::{
    AgentQuestion, AgentStatus, AgentStatusChanged, ApprovalRequest, ApprovalResolved,
    ApproveChanged, CallOutcome, DequeueReason, DirectAgentCall, HistoryCompacted,
    HistoryCompacting, MessageCreated, MessageDelta, MessageDequeued, MessageQueued, ModelFallback,
    ModelWaiting, PlanRequest, PlanResolved, SessionEvent, SessionEventBody, TaskCompleted,
    TaskFailed, TaskOrigin, TaskProgress, TaskSkipped, TaskStarted, ToolCallClosed, ToolCallEvent,
    ToolProgress, ToolResultEvent, TurnError, WorkflowCompleted, WorkflowStatus,
};
pub use session_kind::SessionKind;
pub use space::{
    AddContext, AgentMetrics, AgentStatusInfo, AttachClient, AttachedClient, AverageDuration,
    ClientList, ContextAdded, ContextFilter, ContextHit, ContextInteraction, ContextList,
    ContextResults, SandboxKind, SearchContext, SpaceHealth, SpaceMetrics,
};
pub use time::Timestamp;
pub use tool::{
    AllowedTool, CalledTool, CommandPart, ExecuteCommand, FileEdit, InvalidArguments, ListFiles,
    McpCall, ReadFile, SearchInCode, SwitchMode, Tool, ToolArguments, ToolSide, WriteFile,
    check_named,
};
pub use waiting::{Waiting, WaitingInSession, WaitingKind, WaitingList, WaitingRemoved};
