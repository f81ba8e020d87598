//! `POST /agent/message/stream`: messages, results, switches and decisions, answered by the events
//! they cause.

use axum::extract::State;
use axum::response::Response;
use codelab_engine::UserMessage;
use codelab_protocol::{
    AgentName, AgentStreamRequest, CallId, Delivery, Digest, ErrorCode, MaybeKnown, MessageType,
};
use codelab_runtime::Reader;

use super::decisions::{self, cut};
use super::frame::Frame;
use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::sse;

/// Send something to a session and stream what follows
///
/// The stream ends with `event: done` when the turn ends or suspends. A client that disconnects
/// does not stop the turn: it can read on with `GET /sessions/{session_id}/events`.
#[utoipa::path(
    post, path = "/agent/message/stream", request_body = AgentStreamRequest,
    responses(
        (status = 200, description = "Server-sent events, each one a chunk", body = Frame, content_type = "text/event-stream"),
        (status = 404, description = "Unknown session, agent, tool call or approval"),
        (status = 409, description = "Decided, answered or cancelled already, or not approved yet"),
    ),
)]
pub(super) async fn stream(
    State(app): State<App>,
    JsonBody(request): JsonBody<AgentStreamRequest>,
) -> ApiResult<Response> {
    let kind = match &request.message_type {
        None => MessageType::UserMessage,
        Some(MaybeKnown::Known(kind)) => *kind,
        Some(MaybeKnown::Unknown(text)) => {
            let message = format!(
                "message_type must be user_message, tool_result, switch_agent or hitl_decision, \
                 not {}",
                cut(text)
            );
            return Err(ApiError::new(ErrorCode::InvalidMessageType, message));
        }
    };
    let reader = match kind {
        MessageType::UserMessage => user_message(&app, request).await?,
        MessageType::ToolResult => tool_result(&app, request).await?,
        MessageType::SwitchAgent => switch_agent(&app, request).await?,
        MessageType::HitlDecision => hitl_decision(&app, request).await?,
    };
    Ok(sse::response(reader))
}

async fn user_message(app: &App, request: AgentStreamRequest) -> ApiResult<Reader> {
    let text = request
        .message
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| ApiError::missing("message"))?;
    let agent = request.agent_type.as_deref().map(agent_name).transpose()?;
    let caller = request.context.unwrap_or_default();
    let message = UserMessage {
        text,
        agent,
        client_message_id: request.client_message_id,
        caller,
        attachments: Vec::new(),
        delivery: Delivery::Queue,
    };
    Ok(app
        .runtime
        .user_message(&request.session_id, message)
        .await?)
}

async fn tool_result(app: &App, request: AgentStreamRequest) -> ApiResult<Reader> {
    let call_id = call_id(request.tool_call_id)?;
    let result = request
        .tool_result
        .ok_or_else(|| ApiError::missing("tool_result"))?;
    Ok(app
        .runtime
        .tool_result(&request.session_id, call_id, result)
        .await?)
}

async fn switch_agent(app: &App, request: AgentStreamRequest) -> ApiResult<Reader> {
    let agent = request
        .agent_type
        .as_deref()
        .ok_or_else(|| ApiError::missing("agent_type"))?;
    Ok(app
        .runtime
        .switch_agent(&request.session_id, agent_name(agent)?)
        .await?)
}

async fn hitl_decision(app: &App, request: AgentStreamRequest) -> ApiResult<Reader> {
    let call_id = call_id(request.tool_call_id)?;
    let given = request
        .hitl_decision
        .ok_or_else(|| ApiError::missing("hitl_decision"))?;
    let digest = given.digest.as_deref().map(Digest::from_wire);
    let decision = decisions::decision(given)?;
    let user = request.context.and_then(|context| context.user_id);
    let decided_by = user.map_or_else(|| "internal".to_owned(), |user| user.to_string());
    Ok(app
        .runtime
        .decide(&request.session_id, call_id, decision, digest, decided_by)
        .await?)
}

fn call_id(given: Option<CallId>) -> ApiResult<CallId> {
    given.ok_or_else(|| ApiError::missing("tool_call_id"))
}

/// A text that cannot be an agent's name names no agent.
fn agent_name(text: &str) -> ApiResult<AgentName> {
    AgentName::parse(text.trim()).map_err(|_| {
        ApiError::new(
            ErrorCode::AgentNotFound,
            format!("Agent not found: {}", cut(text)),
        )
        .with("agent", cut(text))
    })
}
