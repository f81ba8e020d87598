//! What waits for a person in a session: approvals and questions, and the audit of what was
//! decided.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use codelab_protocol::{
    AnswerQuestion, ApprovalList, AuditList, CallId, Digest, DirectAnswer, ErrorCode, HitlDecision,
    MessageAccepted, OpenApproval, ProjectSessionAck,
};

use super::super::decisions;
use super::super::frame::SessionFrame;
use super::super::paging::{Page, PageQuery};
use super::super::session_parts::audit_of;
use super::messages::wants_events;
use super::{MySession, answer, state_of};
use crate::app::App;
use crate::body::{JsonBody, path_id};
use crate::error::{ApiError, ApiResult};
use crate::sse;

/// The call a path names.
pub(in super::super) struct CallPath(pub CallId);

impl FromRequestParts<App> for CallPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let unknown = || ApiError::new(ErrorCode::ToolCallNotFound, "Tool call not found");
        path_id(parts, app, "call_id")
            .await
            .map(Self)
            .ok_or_else(unknown)
    }
}

/// What waits for a decision in a session
#[utoipa::path(
    get, path = "/my/chat/{session_id}/approvals", params(PageQuery),
    responses((status = 200, description = "Open approvals in the order they were asked", body = ApprovalList)),
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    chat: MySession,
    page: Page,
) -> ApiResult<Json<ApprovalList>> {
    app.runtime.touch_project_session(&chat.row).await?;
    let (open, total) = chat
        .mine
        .open_approvals(Some(chat.row.key), page.limit, page.offset)
        .await?;
    let approvals = open.into_iter().map(shown).collect();
    Ok(Json(ApprovalList {
        approvals,
        total,
        limit: page.limit,
        offset: page.offset,
    }))
}

/// Decide about a tool call, a plan or a budget
#[utoipa::path(
    post, path = "/my/chat/{session_id}/approvals/{call_id}/decision",
    params(("call_id" = String, Path, description = "The approval")), request_body = HitlDecision,
    responses(
        (status = 200, description = "Decided; the turn goes on", body = ProjectSessionAck),
        (status = 404, description = "Unknown session or approval"),
        (status = 409, description = "Decided, expired or cancelled already, or another digest"),
    ),
)]
pub(in crate::routes) async fn decide(
    State(app): State<App>,
    chat: MySession,
    CallPath(call_id): CallPath,
    JsonBody(body): JsonBody<HitlDecision>,
) -> ApiResult<Json<ProjectSessionAck>> {
    let digest = body.digest.as_deref().map(Digest::from_wire);
    let decision = decisions::decision(body)?;
    let decided_by = chat.user.id().to_string();
    app.runtime
        .decide_in_project(&chat.row, call_id, decision, digest, decided_by)
        .await?;
    ack(&chat).await
}

/// Answer a question
///
/// The answer is a user's message of the session, so the reply is that of a message: its events
/// with `Accept: text/event-stream`. Otherwise a direct call waits for its end as before, and a
/// plan is answered at once.
#[utoipa::path(
    post, path = "/my/chat/{session_id}/questions/{call_id}/answer",
    params(("call_id" = String, Path, description = "The question")), request_body = AnswerQuestion,
    responses(
        (status = 200, description = "The end of the direct call that asked, or the events of the answer", content((DirectAnswer = "application/json"), (SessionFrame = "text/event-stream"))),
        (status = 202, description = "Answered and durable; the plan goes on", body = MessageAccepted),
        (status = 404, description = "Unknown session or question"),
        (status = 409, description = "Answered or cancelled already; the direct call was cancelled"),
        (status = 502, description = "The direct call failed", body = DirectAnswer),
        (status = 504, description = "The direct call took too long", body = DirectAnswer),
    ),
)]
pub(in crate::routes) async fn answer(
    State(app): State<App>,
    chat: MySession,
    CallPath(call_id): CallPath,
    headers: HeaderMap,
    JsonBody(body): JsonBody<AnswerQuestion>,
) -> ApiResult<Response> {
    let text = body
        .answer
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| ApiError::missing("answer"))?;
    // Before the answer is taken: one whose stream is refused is not given.
    let slot = wants_events(&headers)
        .then(|| app.runtime.shares().stream(chat.user.id()))
        .transpose()?;
    // While a direct call waits for its answer, its agent is the session's.
    let agent = state_of(&chat.row)?.current_agent().clone();
    let reader = app
        .runtime
        .answer_question(&chat.row, call_id, text)
        .await?;
    match slot {
        Some(slot) => Ok(sse::session_response(reader, chat.id().clone(), slot)),
        None => answer::direct(&app, &chat.row, reader, agent).await,
    }
}

/// The decisions of a session, each row chained to the one before
#[utoipa::path(
    get, path = "/my/chat/{session_id}/audit",
    responses((status = 200, description = "All rows, oldest first, and whether their chain is whole", body = AuditList)),
)]
pub(in crate::routes) async fn audit(
    State(app): State<App>,
    chat: MySession,
) -> ApiResult<Response> {
    audit_of(&app, &chat.row).await
}

pub(super) fn shown(row: codelab_store::OpenApprovalRow) -> OpenApproval {
    OpenApproval {
        session_id: row.session_id,
        project_id: row.project_id,
        approval: row.info,
    }
}

async fn ack(chat: &MySession) -> ApiResult<Json<ProjectSessionAck>> {
    let row = chat
        .mine
        .session(chat.id())
        .await?
        .ok_or_else(ApiError::no_session)?;
    let status = serde_json::from_str::<codelab_engine::Session>(&row.state)
        .ok()
        .and_then(|session| session.suspended());
    Ok(Json(ProjectSessionAck {
        session_id: chat.id().clone(),
        status,
    }))
}
