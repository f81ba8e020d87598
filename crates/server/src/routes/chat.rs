//! The one global Chat: reading, following, speaking as a user, speaking and asking as an agent.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use codelab_engine::DEFAULT_ANSWER_SECONDS;
use codelab_protocol::{
    AskUser, ChatCancelled, ErrorCode, GlobalMessage, GlobalMeta, MessagePosted, PostAgentMessage,
    PostUserMessage, UserAnswer,
};
use codelab_runtime::NoAnswer;
use serde::Deserialize;
use utoipa::IntoParams;

use super::events::last_event_id;
use super::frame::GlobalFrame;
use crate::app::App;
use crate::body::{JsonBody, Params};
use crate::error::{ApiError, ApiResult};
use crate::sse;
use crate::users::Speaker;

/// Messages shown to whoever does not say where to begin.
const DEFAULT_LAST: usize = 100;
const MAX_LIMIT: usize = 10_000;
const MAX_ANSWER_SECONDS: u64 = 24 * 60 * 60;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ChatPageQuery {
    /// Messages after this one.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// At most so many. With `after` the oldest of them, without it the newest (100 unless set).
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

impl ChatPageQuery {
    fn limit(&self) -> ApiResult<Option<usize>> {
        match self.limit {
            Some(limit) if !(1..=MAX_LIMIT).contains(&limit) => Err(ApiError::invalid(format!(
                "limit must be from 1 to {MAX_LIMIT}"
            ))
            .with("field", "limit")),
            limit => Ok(limit),
        }
    }
}

/// What was said in the Chat, oldest first
///
/// The Chat is shared by all users of the server and lives as long as the server runs. Its oldest
/// messages leave past `chat.history_messages`.
#[utoipa::path(
    get, path = "/chat/history", params(ChatPageQuery),
    responses((status = 200, description = "Messages", body = Vec<GlobalMessage>)),
)]
pub(super) async fn history(
    State(app): State<App>,
    _: Speaker,
    Params(part): Params<ChatPageQuery>,
) -> ApiResult<Json<Vec<Arc<GlobalMessage>>>> {
    let (chat, limit) = (app.runtime.global_chat(), part.limit()?);
    Ok(Json(match part.after {
        Some(after) => chat.after(number(after), limit.unwrap_or(MAX_LIMIT))?,
        None => chat.last(limit.unwrap_or(DEFAULT_LAST))?,
    }))
}

/// The Chat as it goes on: its newest messages, then every new one
///
/// `Last-Event-ID`, or `after`, continues after a message instead. While AdaptiveAgent writes, its
/// answer comes in pieces, as events `delta` without an id. The whole answer follows as a message.
#[utoipa::path(
    get, path = "/chat/stream",
    params(ChatPageQuery, ("Last-Event-ID" = Option<String>, Header, description = "The last message that the reader has")),
    responses((status = 200, description = "Server-sent events", body = GlobalFrame, content_type = "text/event-stream")),
)]
pub(super) async fn stream(
    State(app): State<App>,
    speaker: Speaker,
    headers: HeaderMap,
    Params(part): Params<ChatPageQuery>,
) -> ApiResult<Response> {
    let slot = speaker
        .user()
        .map(|user| app.runtime.shares().stream(user))
        .transpose()?;
    let last = part.limit()?.unwrap_or(DEFAULT_LAST);
    let after = last_event_id(&headers)?.or(part.after).map(number);
    Ok(sse::global_chat_response(
        app.runtime.global_chat().read(after, last)?,
        slot,
    ))
}

/// Say something as the user
///
/// Where an agent waits for an answer, this is the answer; otherwise AdaptiveAgent takes it.
#[utoipa::path(
    post, path = "/chat/user_message", request_body = PostUserMessage,
    responses(
        (status = 201, description = "Said", body = MessagePosted),
        (status = 400, description = "The text is blank or missing; nothing was said"),
    ),
)]
pub(super) async fn user_message(
    State(app): State<App>,
    speaker: Speaker,
    JsonBody(body): JsonBody<PostUserMessage>,
) -> ApiResult<(StatusCode, Json<MessagePosted>)> {
    let text = body.text.filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| ApiError::missing("text").at(StatusCode::BAD_REQUEST))?;
    let id = app.runtime.global_chat().post_user(&text, speaker.user())?;
    Ok((StatusCode::CREATED, Json(MessagePosted { id })))
}

/// Stop the answer that AdaptiveAgent works on
///
/// It stops for everybody. What was written stays as a message with the tag `partial`. A message
/// with the tag `stopped` says who stopped it.
#[utoipa::path(
    post, path = "/chat/cancel",
    responses((status = 200, description = "Stopped, or nothing to stop", body = ChatCancelled)),
)]
pub(super) async fn cancel(
    State(app): State<App>,
    speaker: Speaker,
) -> ApiResult<Json<ChatCancelled>> {
    let cancelled = app.runtime.global_chat().cancel(speaker.user())?;
    Ok(Json(ChatCancelled { cancelled }))
}

/// Say something as an agent
///
/// It is accepted whether anybody reads it or not. With the tag `signal` it wakes AdaptiveAgent.
#[utoipa::path(
    post, path = "/chat/agent_message", request_body = PostAgentMessage,
    responses((status = 201, description = "Said", body = MessagePosted)),
)]
pub(super) async fn agent_message(
    State(app): State<App>,
    JsonBody(body): JsonBody<PostAgentMessage>,
) -> ApiResult<(StatusCode, Json<MessagePosted>)> {
    let meta = body.meta.unwrap_or_default();
    let meta = GlobalMeta {
        reply_to: meta.reply_to,
        tags: meta.tags.unwrap_or_default(),
        user_id: None,
    };
    let id = app
        .runtime
        .global_chat()
        .post_agent(&body.author, &body.text, meta)?;
    Ok((StatusCode::CREATED, Json(MessagePosted { id })))
}

/// Ask the user and wait for the answer
///
/// One question is shown at a time, in the order they were asked. Whoever hangs up takes the
/// question back.
#[utoipa::path(
    post, path = "/chat/ask_user", request_body = AskUser,
    responses(
        (status = 200, description = "The user's answer", body = UserAnswer),
        (status = 504, description = "Nobody answered in time"),
    ),
)]
pub(super) async fn ask_user(
    State(app): State<App>,
    JsonBody(body): JsonBody<AskUser>,
) -> ApiResult<Json<UserAnswer>> {
    let seconds = body.timeout_seconds.unwrap_or(DEFAULT_ANSWER_SECONDS);
    if !(1..=MAX_ANSWER_SECONDS).contains(&seconds) {
        let message = format!("timeout_seconds must be from 1 to {MAX_ANSWER_SECONDS}");
        return Err(ApiError::invalid(message).with("field", "timeout_seconds"));
    }
    let question =
        app.runtime
            .global_chat()
            .ask_user(&body.author, &body.question, GlobalMeta::default())?;
    // If the caller hangs up, this future is dropped and the question with it.
    match question.wait_user(Some(Duration::from_secs(seconds))).await {
        Ok(answer) => Ok(Json(answer)),
        Err(error @ NoAnswer::TimedOut) => {
            Err(ApiError::new(ErrorCode::HitlTimeout, error.to_string()))
        }
        Err(error @ (NoAnswer::Stopping | NoAnswer::Moved)) => Err(ApiError::new(
            ErrorCode::AgentUnavailable,
            error.to_string(),
        )),
    }
}

/// A number that no message has is simply past the end.
fn number(id: u64) -> i64 {
    i64::try_from(id).unwrap_or(i64::MAX)
}
