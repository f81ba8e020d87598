//! What a session consists of: history, approvals, switches, audit, events.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use codelab_protocol::{AgentHistory, AuditEntry, AuditList, ErrorBody, PendingApprovals, SessionHistory};
use codelab_store::{AuditRow, MessageRange, SessionRow, audit_chain};

use super::events::{Place, after};
use super::frame::Frame;
use super::{Invalid, Refused};
use crate::app::App;
use crate::body::{Params, SessionPath};
use crate::error::ApiResult;
use crate::sse;

/// The messages of a session
#[utoipa::path(
    get,
    path = "/sessions/{session_id}/history",
    tag = "sessions",
    security(("internal_key" = [])),
    params(("session_id" = String, Path, description = "The session")),
    responses(
        (status = 200, description = "All messages, oldest first", body = SessionHistory),
        (status = 404, description = "Unknown session", body = ErrorBody),
        Refused,
    ),
)]
pub(super) async fn history(State(app): State<App>, SessionPath(id): SessionPath) -> ApiResult<Json<SessionHistory>> {
    let row = app.runtime.session(&id).await?;
    let messages = app.runtime.store().messages(row.key, MessageRange::All).await?;
    let messages = messages.into_iter().map(|stored| stored.message).collect();
    Ok(Json(SessionHistory { session_id: id, messages }))
}

/// What waits for a person
#[utoipa::path(
    get,
    path = "/sessions/{session_id}/pending-approvals",
    tag = "sessions",
    security(("internal_key" = [])),
    params(("session_id" = String, Path, description = "The session")),
    responses(
        (status = 200, description = "Open approvals", body = PendingApprovals),
        (status = 404, description = "Unknown session", body = ErrorBody),
        Refused,
    ),
)]
pub(super) async fn pending_approvals(
    State(app): State<App>,
    SessionPath(id): SessionPath,
) -> ApiResult<Json<PendingApprovals>> {
    let row = app.runtime.recovered_session(&id).await?;
    let approvals = app.runtime.store().approvals(row.key, true).await?;
    let pending_approvals = approvals.into_iter().map(|approval| approval.info).collect();
    Ok(Json(PendingApprovals { session_id: id, pending_approvals }))
}

/// The agent switches of a session
#[utoipa::path(
    get,
    path = "/sessions/{session_id}/agent-history",
    tag = "sessions",
    security(("internal_key" = [])),
    params(("session_id" = String, Path, description = "The session")),
    responses(
        (status = 200, description = "All switches, oldest first", body = AgentHistory),
        (status = 404, description = "Unknown session", body = ErrorBody),
        Refused,
    ),
)]
pub(super) async fn agent_history(
    State(app): State<App>,
    SessionPath(id): SessionPath,
) -> ApiResult<Json<AgentHistory>> {
    let row = app.runtime.session(&id).await?;
    let switches = app.runtime.store().switches(row.key).await?;
    Ok(Json(AgentHistory { session_id: id, switches }))
}

/// The decisions of a session, and whether their chain is whole
#[utoipa::path(
    get,
    path = "/sessions/{session_id}/audit",
    tag = "sessions",
    security(("internal_key" = [])),
    params(("session_id" = String, Path, description = "The session")),
    responses(
        (status = 200, description = "All decisions, oldest first", body = AuditList),
        (status = 404, description = "Unknown session", body = ErrorBody),
        Refused,
    ),
)]
pub(super) async fn audit(State(app): State<App>, SessionPath(id): SessionPath) -> ApiResult<Json<AuditList>> {
    let row = app.runtime.session(&id).await?;
    audit_of(&app, &row).await.map(Json)
}

pub(super) async fn audit_of(app: &App, session: &SessionRow) -> ApiResult<AuditList> {
    let (mut rows, mut verified) = read_audit(app, session).await?;
    if !verified {
        // A decision may have come between reading the rows and their head.
        (rows, verified) = read_audit(app, session).await?;
    }
    let audit = rows.into_iter().map(entry).collect();
    Ok(AuditList { session_id: session.session_id.clone(), audit, verified })
}

async fn read_audit(app: &App, session: &SessionRow) -> ApiResult<(Vec<AuditRow>, bool)> {
    let rows = app.runtime.store().audit(session.key).await?;
    let head = app.runtime.store().audit_head(session.key).await?;
    let verified = audit_chain::verify(session.realm, &session.session_id, &rows, head.as_ref()).is_ok();
    Ok((rows, verified))
}

fn entry(row: AuditRow) -> AuditEntry {
    let record = row.record;
    AuditEntry {
        call_id: record.call_id,
        tool_name: record.tool_name,
        original_args: record.original_args,
        modified_args: record.modified_args,
        decision: record.decision,
        decided_by: record.decided_by,
        reason: record.reason,
        timestamp: record.timestamp,
        hash: row.hash,
    }
}

/// The events of a session, from any number on
#[utoipa::path(
    get,
    path = "/sessions/{session_id}/events",
    tag = "sessions",
    security(("internal_key" = [])),
    params(("session_id" = String, Path, description = "The session"), Place),
    responses(
        (status = 200, description = "Server-sent events, each one a chunk", body = Frame, content_type = "text/event-stream"),
        (status = 404, description = "Unknown session", body = ErrorBody),
        Refused,
        Invalid,
    ),
)]
pub(super) async fn events(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    Params(place): Params<Place>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let reader = app.runtime.events(&id, after(&headers, &place)?, place.follows()).await?;
    Ok(sse::response(reader))
}
