//! Forks: a new session with the history of another one.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use codelab_protocol::{ForkSession, ProjectSession, SessionId};
use codelab_runtime::state_of;

use super::{MySession, shown};
use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::path::NamedInPath as _;

/// Make a session with the history of this one
///
/// It holds everything up to and including the message, with its files, in the same project, for the
/// same agent and model. An agent's message that calls tools brings their results along. Approvals,
/// what was remembered, what waits, plans and what was spent stay in the original. The session's
/// budget is the one that a person set there. What happens to the original later does not change it.
#[utoipa::path(
    post, path = "/my/chat/{session_id}/fork", request_body = ForkSession,
    responses(
        (status = 201, description = "The new session, with `forked_from`", body = ProjectSession),
        (status = 404, description = "Unknown session or message"),
        (status = 413, description = "The history is too long to be copied"),
        (status = 422, description = "The message is a tool's"),
    ),
)]
pub(in crate::routes) async fn fork(
    State(app): State<App>,
    session: MySession,
    JsonBody(body): JsonBody<ForkSession>,
) -> ApiResult<(StatusCode, Json<ProjectSession>)> {
    let at = body
        .at_message_id
        .ok_or_else(|| ApiError::missing("at_message_id"))?;
    app.runtime.shares().session(session.user.id())?;
    let id = app.runtime.fork_session(&session.row, &at).await?;
    let row = session.mine.session(&id).await?;
    let row = row.ok_or_else(SessionId::not_found)?;
    Ok((StatusCode::CREATED, Json(shown(&row, &state_of(&row)?))))
}
