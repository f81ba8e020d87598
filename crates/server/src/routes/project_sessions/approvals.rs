//! What waits for a person in a session: approvals and questions, and the audit of what was
//! decided.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use codelab_protocol::{
    AnswerQuestion, ApprovalList, AuditList, CallId, Digest, DirectAnswer, ErrorCode, HitlDecision,
    MessageAccepted, OpenApproval, ProjectSessionAck,
};

use super::super::decisions;
use codelab_runtime::state_of;
use codelab_store::OpenApprovalRow;

use super::super::frame::SessionFrame;
use super::super::paging::{Page, PageQuery};
use super::super::session_parts::audit_of;
use super::messages::wants_events;
use super::{MySession, answer};
use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::path::PathId;
use crate::sse;

/// What waits for a decision in a session
#[utoipa::path(
    get, path = "/my/chat/{session_id}/approvals", params(PageQuery),
    responses((status = 200, description = "Open approvals in the order they were asked", body = ApprovalList)),
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    session: MySession,
    page: Page,
) -> ApiResult<Json<ApprovalList>> {
    app.runtime.touch_project_session(&session.row).await?;
    let (open, total) = session
        .mine
        .open_approvals(Some(session.row.key), page.limit, page.offset)
        .await?;
    Ok(Json(approval_list(open, total, page)))
}

/// Decide about a tool call, a plan or a budget
#[utoipa::path(
    post, path = "/my/chat/{session_id}/approvals/{call_id}/decision",
    params(("call_id" = String, Path, description = "The approval")), request_body = HitlDecision,
    responses(
        (status = 200, description = "Decided; the turn goes on", body = ProjectSessionAck),
        (status = 404, description = "Unknown session or approval"),
        (status = 409, description = "Decided, expired or cancelled already, another digest, or the file changed since it was shown"),
    ),
)]
pub(in crate::routes) async fn decide(
    State(app): State<App>,
    session: MySession,
    PathId(call_id): PathId<CallId>,
    JsonBody(body): JsonBody<HitlDecision>,
) -> ApiResult<Json<ProjectSessionAck>> {
    let digest = body.digest.as_deref().map(Digest::from_wire);
    let base = body.base.clone();
    let decision = decisions::decision(body)?;
    let decided_by = session.user.id().to_string();
    app.runtime
        .decide_in_project(&session.row, call_id, decision, (digest, base), decided_by)
        .await?;
    ack(&session).await
}

/// Give an approval its full time again
///
/// A plan that nobody decided about in time waits again, under its own id, until the session's next
/// message.
#[utoipa::path(
    post, path = "/my/chat/{session_id}/approvals/{call_id}/renew",
    params(("call_id" = String, Path, description = "The approval")),
    responses(
        (status = 200, description = "The approval with its new time", body = OpenApproval),
        (status = 404, description = "Unknown session or approval"),
        (status = 409, description = "Decided or cancelled already, or the turn went on"),
    ),
)]
pub(in crate::routes) async fn renew(
    State(app): State<App>,
    session: MySession,
    PathId(call_id): PathId<CallId>,
) -> ApiResult<Json<OpenApproval>> {
    app.runtime
        .renew_approval(&session.row, call_id.clone())
        .await?;
    let row = session.read_again().await?;
    let state = state_of(&row)?;
    let mut pending = state.pending_approvals();
    let renewed = pending.find(|approval| approval.call_id == call_id);
    let decided = || ApiError::new(ErrorCode::Conflict, "The approval was decided meanwhile");
    Ok(Json(OpenApproval {
        session_id: session.id().clone(),
        project_id: row.project(),
        approval: renewed.ok_or_else(decided)?.info(),
    }))
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
    session: MySession,
    PathId(call_id): PathId<CallId>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<AnswerQuestion>,
) -> ApiResult<Response> {
    let text = body
        .answer
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| ApiError::missing("answer"))?;
    // Before the answer is accepted: if its stream is refused, nothing was answered.
    let slot = wants_events(&headers)
        .then(|| app.runtime.shares().stream(session.user.id()))
        .transpose()?;
    // While a direct call waits for its answer, its agent is the session's.
    let agent = state_of(&session.row)?.current_agent().clone();
    let reader = app
        .runtime
        .answer_question(&session.row, call_id, text)
        .await?;
    match slot {
        Some(slot) => Ok(sse::session_response(reader, session.id().clone(), slot)),
        None => {
            let outcome = answer::direct(&app, &session.row, reader, agent, |_| {}).await?;
            Ok(outcome.into_response())
        }
    }
}

/// The decisions of a session, each row chained to the one before
#[utoipa::path(
    get, path = "/my/chat/{session_id}/audit",
    responses((status = 200, description = "All rows, oldest first, and whether their chain is whole", body = AuditList)),
)]
pub(in crate::routes) async fn audit(
    State(app): State<App>,
    session: MySession,
) -> ApiResult<Response> {
    audit_of(&app, &session.row).await
}

pub(super) fn approval_list(open: Vec<OpenApprovalRow>, total: u64, page: Page) -> ApprovalList {
    let approvals = open.into_iter().map(|row| OpenApproval {
        session_id: row.session_id,
        project_id: row.project_id,
        approval: row.info,
    });
    ApprovalList {
        approvals: approvals.collect(),
        total,
        limit: page.limit,
        offset: page.offset,
    }
}

pub(super) async fn ack(session: &MySession) -> ApiResult<Json<ProjectSessionAck>> {
    let row = session.read_again().await?;
    Ok(Json(ProjectSessionAck {
        session_id: session.id().clone(),
        status: state_of(&row)?.suspended(),
    }))
}
