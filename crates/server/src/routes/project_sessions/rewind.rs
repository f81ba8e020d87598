//! Taking back what was done since a message: files, the conversation, or both.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use codelab_protocol::{
    ErrorCode, RewindAccepted, RewindId, RewindSession, Rewound, SessionEventBody, ToolCallEvent,
};
use codelab_runtime::Reader;
use serde_json::Value;

use super::MySession;
use super::answer::{TurnItem, next_of};
use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};

/// How long a request waits for the client that takes files back.
const REWIND_DEADLINE: Duration = Duration::from_secs(60);

/// Take back what was done since a message, or give it back
///
/// With `to_message_id` and `scope`, everything from that message on is taken back: files by the
/// session's client, for which this request is the approval, and messages out of what models, memory
/// and search see. With `undo`, a rewind is taken back itself. The event `rewound` says the same as
/// the answer.
#[utoipa::path(
    post, path = "/my/chat/{session_id}/rewind", request_body = RewindSession,
    responses(
        (status = 200, description = "How it ended. `error` says why files were not taken back", body = Rewound),
        (status = 202, description = "The client is not done after 60 seconds; the event `rewound` tells of the end", body = RewindAccepted),
        (status = 404, description = "Unknown session, message or rewind"),
        (status = 409, description = "A turn or a rewind is under way, no client is there for files, it was taken back already, or a later rewind is in force; `details.reason` says `busy`, `rewinding`, `compacting`, `no_client`, `rewound`, `undone`, `not_last` or `too_many`"),
        (status = 422, description = "Not a message of the user that began a turn"),
    ),
)]
pub(in crate::routes) async fn rewind(
    State(app): State<App>,
    session: MySession,
    JsonBody(body): JsonBody<RewindSession>,
) -> ApiResult<Response> {
    let decided_by = session.user.id().to_string();
    let reader = match (body.undo, body.to_message_id, body.scope) {
        (Some(id), None, None) => {
            app.runtime
                .undo_rewind(&session.row, id, decided_by)
                .await?
        }
        (Some(_), _, _) => {
            let why = "Send undo alone, or to_message_id with scope";
            return Err(ApiError::invalid(why).with("field", "undo"));
        }
        (None, Some(message), Some(scope)) => {
            let runtime = &app.runtime;
            runtime
                .rewind(&session.row, message, scope, decided_by)
                .await?
        }
        (None, None, _) => return Err(ApiError::missing("to_message_id")),
        (None, Some(_), None) => return Err(ApiError::missing("scope")),
    };
    outcome(reader).await
}

async fn outcome(mut reader: Reader) -> ApiResult<Response> {
    let mut begun = None;
    let deadline = tokio::time::sleep(REWIND_DEADLINE);
    tokio::pin!(deadline);
    loop {
        let item = tokio::select! {
            item = next_of(&mut reader) => item?,
            () = &mut deadline => break,
        };
        match item {
            Some(TurnItem::Event(_, event)) => match event.body {
                SessionEventBody::Rewound(rewound) => {
                    let rewound: Rewound = *rewound;
                    return Ok(Json(rewound).into_response());
                }
                SessionEventBody::ToolCall(call) => begun = rewind_of(&call),
                _ => {}
            },
            Some(TurnItem::NotStored(error)) => {
                return Err(ApiError::outcome_not_stored(error, None));
            }
            Some(TurnItem::Settled(_)) | None => break,
        }
    }
    match begun {
        Some(rewind_id) => {
            let accepted = Json(RewindAccepted { rewind_id });
            Ok((StatusCode::ACCEPTED, accepted).into_response())
        }
        None => Err(ApiError::new(
            ErrorCode::DbReadError,
            "The rewind's events could not be read",
        )),
    }
}

fn rewind_of(call: &ToolCallEvent) -> Option<RewindId> {
    let arguments = &call.call.tool_call.arguments;
    let id = arguments.get("rewind_id").or_else(|| arguments.get("undo"));
    id.and_then(Value::as_str)?.parse().ok()
}
