//! `/sessions`: list, create, delete, and what can be done to one.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use codelab_protocol::{
    AckStatus, CreateSession, CreatedStatus, SessionAck, SessionCreated, SessionId, SessionKind,
    SessionList,
};
use codelab_runtime::SessionSummary;
use serde::Deserialize;
use utoipa::IntoParams;

use super::paging::{Page, PageQuery};
use crate::app::App;
use crate::body::{JsonBody, Params};
use crate::error::ApiResult;
use crate::path::PathId;

/// The sessions, newest activity first
#[utoipa::path(
    get, path = "/sessions", params(PageQuery),
    responses((status = 200, description = "A page of sessions", body = SessionList)),
)]
pub(super) async fn list(State(app): State<App>, page: Page) -> ApiResult<Json<SessionList>> {
    let Page { limit, offset } = page;
    let (sessions, total) = app
        .runtime
        .store()
        .list_sessions(SessionKind::Runtime, limit, offset)
        .await?;
    Ok(Json(SessionList {
        sessions,
        total,
        limit,
        offset,
    }))
}

/// Make an empty session
#[utoipa::path(
    post, path = "/sessions", request_body = CreateSession,
    responses(
        (status = 201, description = "Created", body = SessionCreated),
        (status = 409, description = "Exists already"),
    ),
)]
pub(super) async fn create(
    State(app): State<App>,
    JsonBody(request): JsonBody<CreateSession>,
) -> ApiResult<(StatusCode, Json<SessionCreated>)> {
    app.runtime
        .create(&request.session_id, request.system_prompt)
        .await?;
    let row = app.runtime.session(&request.session_id).await?;
    let created = SessionCreated {
        session_id: request.session_id,
        created_at: row.created_at,
        status: CreatedStatus::Created,
    };
    Ok((StatusCode::CREATED, Json(created)))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Deletion {
    /// Purge instead of hiding; cannot be undone.
    #[serde(default)]
    hard: bool,
}

/// Delete a session
#[utoipa::path(
    delete, path = "/sessions/{session_id}", params(Deletion),
    responses((status = 204, description = "Deleted")),
)]
pub(super) async fn delete(
    State(app): State<App>,
    PathId(id): PathId<SessionId>,
    Params(deletion): Params<Deletion>,
) -> ApiResult<StatusCode> {
    app.runtime.delete(&id, deletion.hard).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Cancel everything and go back to the orchestrator; the history stays
#[utoipa::path(
    post, path = "/sessions/{session_id}/reset",
    responses((status = 200, description = "Reset", body = SessionAck)),
)]
pub(super) async fn reset(
    State(app): State<App>,
    PathId(id): PathId<SessionId>,
) -> ApiResult<Json<SessionAck>> {
    let view = app.runtime.reset(&id).await?;
    Ok(Json(acknowledged(id, AckStatus::Reset, view)))
}

/// What else a cancellation ends.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Cancellation {
    /// `drop` empties the queue as well; otherwise the next waiting message starts.
    #[serde(default)]
    #[param(inline)]
    queue: Queue,
}

#[derive(Deserialize, Default, PartialEq, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Queue {
    #[default]
    Keep,
    Drop,
}

impl Cancellation {
    pub fn drops_queue(&self) -> bool {
        self.queue == Queue::Drop
    }
}

/// End the current turn with its open calls and approvals
#[utoipa::path(
    post, path = "/sessions/{session_id}/cancel", params(Cancellation),
    responses((status = 200, description = "Cancelled, or idle when there was nothing to cancel", body = SessionAck)),
)]
pub(super) async fn cancel(
    State(app): State<App>,
    PathId(id): PathId<SessionId>,
    Params(cancellation): Params<Cancellation>,
) -> ApiResult<Json<SessionAck>> {
    let (view, cancelled) = app.runtime.cancel(&id, cancellation.drops_queue()).await?;
    Ok(Json(acknowledged(
        id,
        if cancelled {
            AckStatus::Cancelled
        } else {
            AckStatus::Idle
        },
        view,
    )))
}

/// Bring a deleted session back
#[utoipa::path(
    post, path = "/sessions/{session_id}/restore",
    responses(
        (status = 200, description = "Restored", body = SessionAck),
        (status = 404, description = "Unknown session, or not deleted"),
    ),
)]
pub(super) async fn restore(
    State(app): State<App>,
    PathId(id): PathId<SessionId>,
) -> ApiResult<Json<SessionAck>> {
    let view = app.runtime.restore(&id).await?;
    Ok(Json(acknowledged(id, AckStatus::Restored, view)))
}

fn acknowledged(session_id: SessionId, status: AckStatus, view: SessionSummary) -> SessionAck {
    SessionAck {
        session_id,
        status,
        current_agent: view.current_agent,
        turn: view.turn,
        queued: view.queued,
    }
}
