//! Ids in paths. A text that cannot be such an id names nothing, so the answer is 404 and not 422.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use codelab_protocol::{
    AgentId, CallId, ClientId, Digest, ErrorCode, McpServerName, MessageId, PlanId, ProjectId,
    RememberedId, SessionId, TaskId,
};
use codelab_store::InteractionId;

use crate::app::App;
use crate::error::ApiError;

/// An id that a path names.
pub(crate) struct PathId<T>(pub T);

/// What can stand in a path.
pub(crate) trait NamedInPath: Sized {
    /// The name of the parameter.
    const PARAMETER: &'static str;

    fn from_path(text: &str) -> Option<Self>;

    /// The answer where there is no such thing.
    fn not_found() -> ApiError;
}

impl<T: NamedInPath> FromRequestParts<App> for PathId<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let path = RawPathParams::from_request_parts(parts, app).await;
        let id = path.ok().and_then(|path| {
            let (_, text) = path.iter().find(|(name, _)| *name == T::PARAMETER)?;
            T::from_path(text)
        });
        id.map(Self).ok_or_else(T::not_found)
    }
}

macro_rules! named_in_path {
    ($($id:ty: $parameter:literal => $code:ident, $not_found:literal;)*) => {
        $(impl NamedInPath for $id {
            const PARAMETER: &'static str = $parameter;

            fn from_path(text: &str) -> Option<Self> {
                Self::from_str(text).ok()
            }

            fn not_found() -> ApiError {
                ApiError::new(ErrorCode::$code, $not_found)
            }
        })*
    };
}

named_in_path! {
    SessionId: "session_id" => SessionNotFound, "Session not found";
    ProjectId: "project_id" => ProjectNotFound, "Project not found";
    AgentId: "agent_id" => AgentNotFound, "Agent not found";
    PlanId: "plan_id" => PlanNotFound, "Plan not found";
    TaskId: "task_id" => NotFound, "Task not found";
    CallId: "call_id" => ToolCallNotFound, "Tool call not found";
    ClientId: "client_id" => NotFound, "Client not found";
    McpServerName: "name" => NotFound, "MCP server not found";
    MessageId: "message_id" => NotFound, "Message not found";
    RememberedId: "remembered_id" => NotFound, "Nothing is remembered under this id";
}

/// A file of a session's messages.
impl NamedInPath for Digest {
    const PARAMETER: &'static str = "digest";

    fn from_path(text: &str) -> Option<Self> {
        Some(Self::from_wire(text))
    }

    fn not_found() -> ApiError {
        let why = "The session has no such attachment";
        ApiError::new(ErrorCode::NotFound, why)
    }
}

/// Something that an agent remembers.
impl NamedInPath for InteractionId {
    const PARAMETER: &'static str = "context_id";

    fn from_path(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    fn not_found() -> ApiError {
        ApiError::new(
            ErrorCode::NotFound,
            "The agent's memory has no entry with this id",
        )
    }
}
