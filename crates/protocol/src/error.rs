//! Every error code a caller can meet, with the HTTP status it has before a stream starts.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! error_codes {
    ($($name:ident = $text:tt => $status:tt,)*) => {
        /// Stable codes of the API. The text is the contract; the status applies before a stream
        /// has started.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        pub enum ErrorCode {
            $(#[serde(rename = $text)] $name,)*
        }

        impl ErrorCode {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            pub fn http_status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }
        }
    };
}

error_codes! {
    ToolValidationError = "TOOL_VALIDATION_ERROR" => 422,
    FileRestrictionError = "FILE_RESTRICTION_ERROR" => 422,
    InvalidMessageType = "INVALID_MESSAGE_TYPE" => 422,
    MissingRequiredField = "MISSING_REQUIRED_FIELD" => 422,
    SessionNotFound = "SESSION_NOT_FOUND" => 404,
    SessionCreationFailed = "SESSION_CREATION_FAILED" => 409,
    AgentNotFound = "AGENT_NOT_FOUND" => 404,
    AgentSwitchFailed = "AGENT_SWITCH_FAILED" => 409,
    ClassificationFailed = "CLASSIFICATION_FAILED" => 502,
    LlmTimeout = "LLM_TIMEOUT" => 504,
    LlmError = "LLM_ERROR" => 502,
    LlmProxyUnavailable = "LLM_PROXY_UNAVAILABLE" => 502,
    PendingApprovalNotFound = "PENDING_APPROVAL_NOT_FOUND" => 404,
    HitlTimeout = "HITL_TIMEOUT" => 504,
    InvalidDecision = "INVALID_DECISION" => 422,
    DbConnectionError = "DB_CONNECTION_ERROR" => 503,
    DbWriteError = "DB_WRITE_ERROR" => 503,
    DbReadError = "DB_READ_ERROR" => 503,
    ToolCallNotFound = "TOOL_CALL_NOT_FOUND" => 404,
    ToolCallClaimed = "TOOL_CALL_CLAIMED" => 409,
    MultipleToolCalls = "MULTIPLE_TOOL_CALLS" => 422,
    InvalidToolArguments = "INVALID_TOOL_ARGUMENTS" => 422,
    AgentUnavailable = "AGENT_UNAVAILABLE" => 503,
    QueueFull = "QUEUE_FULL" => 429,
    TaskTimeout = "TASK_TIMEOUT" => 504,
    InvalidPlan = "INVALID_PLAN" => 422,
    PlanNotFound = "PLAN_NOT_FOUND" => 404,
    ProjectNotFound = "PROJECT_NOT_FOUND" => 404,
    StepLimit = "STEP_LIMIT" => 422,
    Cancelled = "CANCELLED" => 409,
    OwnerUnreachable = "OWNER_UNREACHABLE" => 503,
    RewindConflict = "REWIND_CONFLICT" => 409,
    ValidationError = "VALIDATION_ERROR" => 422,
    Unauthorized = "UNAUTHORIZED" => 401,
    Forbidden = "FORBIDDEN" => 403,
    NotFound = "NOT_FOUND" => 404,
    Conflict = "CONFLICT" => 409,
    PayloadTooLarge = "PAYLOAD_TOO_LARGE" => 413,
    RateLimited = "RATE_LIMITED" => 429,
}

/// The body of every error answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorBody {
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_code: Option<ErrorCode>,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
}
