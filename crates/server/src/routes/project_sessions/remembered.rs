//! What a person allowed for the rest of a session: shown, and taken back.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use codelab_protocol::{RememberedId, RememberedList};
use codelab_runtime::state_of;

use super::MySession;
use crate::app::App;
use crate::error::ApiResult;
use crate::path::PathId;

/// What was approved with `remember` in this session, oldest first
///
/// Such calls pass without a question until the session ends or somebody takes it back.
#[utoipa::path(
    get, path = "/my/chat/{session_id}/remembered",
    responses((status = 200, description = "At most 100", body = RememberedList)),
)]
pub(in crate::routes) async fn list(session: MySession) -> ApiResult<Json<RememberedList>> {
    let remembered = state_of(&session.row)?.remembered_calls();
    Ok(Json(RememberedList { remembered }))
}

/// Take back what was remembered
///
/// The next such call asks again. One that was let through already goes on. The event
/// `remembered_revoked` says who did it.
#[utoipa::path(
    delete, path = "/my/chat/{session_id}/remembered/{remembered_id}",
    responses((status = 204, description = "Such calls ask again")),
)]
pub(in crate::routes) async fn revoke(
    State(app): State<App>,
    session: MySession,
    PathId(id): PathId<RememberedId>,
) -> ApiResult<StatusCode> {
    let revoked_by = session.user.id().to_string();
    app.runtime
        .revoke_remembered(&session.row, id, revoked_by)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
