//! For tool runners: what a write would do to the file as it is now, and a write that a person must
//! see again.

use axum::Json;
use axum::extract::State;
use codelab_protocol::{AskAgain, CallId, ProjectSessionAck, SendPreview};
use serde_json::Value;

use super::MySession;
use super::approvals::ack;
use crate::app::App;
use crate::body::JsonBody;
use crate::error::ApiResult;
use crate::path::PathId;

/// Tell what a write would do to the file as it is now
///
/// For a pending approval of `write_file`, by the client that the session is bound to, or by any
/// client while it is bound to none. It replaces the preview before. A decision that names another
/// `base` is refused from then on. `certain_result`, with the first preview, ends the call: the
/// write would be refused, or the file has this content already, so nobody has to decide.
#[utoipa::path(
    put, path = "/my/chat/{session_id}/approvals/{call_id}/preview", request_body = SendPreview,
    params(("call_id" = String, Path, description = "The approval")),
    responses(
        (status = 200, description = "Shown", body = ProjectSessionAck),
        (status = 404, description = "Unknown session or approval"),
        (status = 409, description = "Decided already, another client's, or changed too often"),
    ),
)]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    session: MySession,
    PathId(call_id): PathId<CallId>,
    JsonBody(body): JsonBody<SendPreview>,
) -> ApiResult<Json<ProjectSessionAck>> {
    let told = (body.preview, body.certain_result.map(Value::Object));
    app.runtime
        .preview_write(&session.row, call_id, body.client_id, told)
        .await?;
    ack(&session).await
}

/// Give a claimed write back, so that a person sees it again
///
/// The client wrote nothing: the file is not the one that was approved, or nobody was shown it. The
/// call waits for a decision again, under its own id.
#[utoipa::path(
    post, path = "/my/chat/{session_id}/tool_calls/{call_id}/ask_again", request_body = AskAgain,
    responses(
        (status = 200, description = "It waits for a decision", body = ProjectSessionAck),
        (status = 409, description = "Not this client's, not a write, or ended"),
    ),
)]
pub(in crate::routes) async fn ask_again(
    State(app): State<App>,
    session: MySession,
    PathId(call_id): PathId<CallId>,
    JsonBody(body): JsonBody<AskAgain>,
) -> ApiResult<Json<ProjectSessionAck>> {
    let again = (body.reason, body.preview);
    app.runtime
        .ask_again(&session.row, call_id, body.client_id, again)
        .await?;
    ack(&session).await
}
