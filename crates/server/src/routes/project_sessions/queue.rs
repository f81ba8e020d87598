//! Messages that wait for the end of a turn or steer it: changed, and taken back.

use axum::extract::State;
use axum::http::StatusCode;
use codelab_engine::WaitingWish;
use codelab_protocol::{ChangeDelivery, MessageId};

use super::MySession;
use crate::app::App;
use crate::body::JsonBody;
use crate::error::ApiResult;
use crate::path::PathId;

/// Let a message that waits steer the turn that runs, or wait for its end
///
/// `message_queued` says how the message waits now. One that steers instead of waiting is first taken
/// out of the queue: `message_dequeued` with the reason `steers`.
#[utoipa::path(
    patch, path = "/my/chat/{session_id}/queue/{message_id}", request_body = ChangeDelivery,
    responses(
        (status = 204, description = "It waits so"),
        (status = 404, description = "No such message waits; it may have been told already"),
        (status = 409, description = "No turn runs that it could steer"),
        (status = 429, description = "Too many messages wait or steer"),
    ),
)]
pub(in crate::routes) async fn change(
    State(app): State<App>,
    session: MySession,
    PathId(id): PathId<MessageId>,
    JsonBody(body): JsonBody<ChangeDelivery>,
) -> ApiResult<StatusCode> {
    let wish = WaitingWish::Deliver(body.delivery);
    app.runtime.change_waiting(&session.row, id, wish).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Take back a message that waits
///
/// `message_dequeued` with the reason `taken_back` tells of it.
#[utoipa::path(
    delete, path = "/my/chat/{session_id}/queue/{message_id}",
    responses(
        (status = 204, description = "It is not told to anybody"),
        (status = 404, description = "No such message waits; it may have been told already"),
    ),
)]
pub(in crate::routes) async fn take_back(
    State(app): State<App>,
    session: MySession,
    PathId(id): PathId<MessageId>,
) -> ApiResult<StatusCode> {
    let wish = WaitingWish::TakeBack;
    app.runtime.change_waiting(&session.row, id, wish).await?;
    Ok(StatusCode::NO_CONTENT)
}
