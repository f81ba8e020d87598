//! What a session consists of: history, approvals, switches, audit, events.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use codelab_protocol::{
    AgentHistory, AuditEntry, AuditList, MaybeKnown, PendingApprovals, SessionHistory, SessionId,
};
use codelab_store::audit_chain::ChainOwner;
use codelab_store::{AuditRow, SessionRow};
use futures_util::stream;

use super::events::{StreamPosition, after};
use super::frame::Frame;
use super::long_list;
use crate::app::App;
use crate::body::Params;
use crate::error::ApiResult;
use crate::path::PathId;
use crate::sse;

/// The messages of a session
#[utoipa::path(
    get, path = "/sessions/{session_id}/history",
    responses((status = 200, description = "All messages, oldest first", body = SessionHistory)),
)]
pub(super) async fn history(
    State(app): State<App>,
    PathId(id): PathId<SessionId>,
) -> ApiResult<Response> {
    let row = app.runtime.session(&id).await?;
    let store = app.runtime.store().clone();
    let parts = stream::try_unfold(0, move |after| {
        let store = store.clone();
        async move {
            let part = store.history(row.key, after).await?;
            let Some(last) = part.last().map(|stored| stored.ord) else {
                return Ok(None);
            };
            Ok(Some((
                part.into_iter()
                    .map(|stored| stored.message)
                    .collect::<Vec<_>>(),
                last,
            )))
        }
    });
    long_list::response(
        format!(r#"{{"session_id":"{id}","messages":["#),
        parts,
        "]}",
    )
    .await
}

/// What waits for a person
#[utoipa::path(
    get, path = "/sessions/{session_id}/pending-approvals",
    responses((status = 200, description = "Open approvals", body = PendingApprovals)),
)]
pub(super) async fn pending_approvals(
    State(app): State<App>,
    PathId(id): PathId<SessionId>,
) -> ApiResult<Json<PendingApprovals>> {
    let row = app.runtime.recovered_session(&id).await?;
    let pending_approvals = app.runtime.store().pending_approvals(row.key).await?;
    Ok(Json(PendingApprovals {
        session_id: id,
        pending_approvals,
    }))
}

/// The agent switches of a session
#[utoipa::path(
    get, path = "/sessions/{session_id}/agent-history",
    responses((status = 200, description = "All switches, oldest first", body = AgentHistory)),
)]
pub(super) async fn agent_history(
    State(app): State<App>,
    PathId(id): PathId<SessionId>,
) -> ApiResult<Json<AgentHistory>> {
    let row = app.runtime.session(&id).await?;
    let switches = app.runtime.store().switches(row.key).await?;
    Ok(Json(AgentHistory {
        session_id: id,
        switches,
    }))
}

/// The decisions of a session, and whether their chain is whole
#[utoipa::path(
    get, path = "/sessions/{session_id}/audit",
    responses((status = 200, description = "All decisions, oldest first", body = AuditList)),
)]
pub(super) async fn audit(
    State(app): State<App>,
    PathId(id): PathId<SessionId>,
) -> ApiResult<Response> {
    let row = app.runtime.session(&id).await?;
    audit_of(&app, &row).await
}

/// An `AuditList`.
pub(super) async fn audit_of(app: &App, session: &SessionRow) -> ApiResult<Response> {
    let (store, key, id) = (
        app.runtime.store().clone(),
        session.key,
        &session.session_id,
    );
    let verified = store
        .verify_audit(ChainOwner {
            key,
            kind: session.kind,
            session_id: id,
        })
        .await?
        .is_ok();
    let parts = stream::try_unfold(None, move |after| {
        let store = store.clone();
        async move {
            let part = store.audit(key, after).await?;
            let Some(last) = part.last().map(|row| row.ord) else {
                return Ok(None);
            };
            Ok(Some((
                part.into_iter().map(entry).collect::<Vec<_>>(),
                Some(last),
            )))
        }
    });
    long_list::response(
        format!(r#"{{"session_id":"{id}","verified":{verified},"audit":["#),
        parts,
        "]}",
    )
    .await
}

fn entry(row: AuditRow) -> AuditEntry {
    let record = row.record;
    AuditEntry {
        call_id: record.call_id,
        tool_name: record.tool_name,
        original_args: record.original_args,
        modified_args: record.modified_args,
        // Rows written before the audit log had a key hold the decision in lower case. Their hash
        // covers that spelling, so the row is not changed.
        decision: MaybeKnown::of(record.decision.to_ascii_uppercase()),
        decided_by: record.decided_by,
        reason: record.reason,
        timestamp: record.timestamp,
        hash: row.hash,
    }
}

/// The events of a session, from any number on
#[utoipa::path(
    get, path = "/sessions/{session_id}/events", params(StreamPosition),
    responses((status = 200, description = "Server-sent events, each one a chunk", body = Frame, content_type = "text/event-stream")),
)]
pub(super) async fn events(
    State(app): State<App>,
    PathId(id): PathId<SessionId>,
    Params(slot): Params<StreamPosition>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let reader = app
        .runtime
        .events(&id, after(&headers, &slot)?, slot.follows())
        .await?;
    Ok(sse::response(reader))
}
