//! What is said in a session: sending, reading, following, compacting, cancelling.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use codelab_engine::orchestrator;
use codelab_protocol::{
    CallerContext, DirectAnswer, MessageAccepted, MessageList, ProjectSession,
    ProjectSessionCancelled, RetryTurn, Role, SendMessage,
};
use codelab_runtime::{ProjectMessage, state_of};
use codelab_store::StoredMessage;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::events::{StreamPosition, after};
use super::super::frame::SessionFrame;
use super::super::paging::{Page, PageQuery};
use super::super::sessions::Cancellation;
use super::answer::MessageOutcome;
use super::{MySession, answer, attachments, shown};
use crate::app::App;
use crate::body::{JsonBody, OptionalJsonBody, Params};
use crate::error::{ApiError, ApiResult};
use crate::sse;

/// Send a message: to the agent it names, else it is planned
///
/// With `Accept: text/event-stream` the answer is the message's events until its turn ends or
/// suspends. Otherwise a direct call waits for its answer, and a planned one is answered at once
/// with its `workflow_id`.
///
/// With `delivery: "steer"`, while a turn runs, the agents at work are told the message after their
/// next tool results, in a plan every task that works or starts later. It is answered at once with
/// the status `steering`; its events are those of the running turn. If that turn ends first, the
/// message waits in the queue. Without a turn, and where it answers a question, nothing is
/// different.
#[utoipa::path(
    post, path = "/my/chat/{session_id}/message", request_body = SendMessage,
    responses(
        (status = 200, description = "A direct call's answer, or the events of the message", content((DirectAnswer = "application/json"), (SessionFrame = "text/event-stream"))),
        (status = 202, description = "Durable; it is planned, steers, or waits for an earlier message", body = MessageAccepted),
        (status = 404, description = "Unknown session or agent"),
        (status = 409, description = "The direct call was cancelled", body = DirectAnswer),
        (status = 422, description = "Something is missing or not valid, or the agent's model does not take the images"),
        (status = 502, description = "The direct call failed", body = DirectAnswer),
        (status = 504, description = "The direct call took too long", body = DirectAnswer),
    ),
)]
pub(in crate::routes) async fn send(
    State(app): State<App>,
    session: MySession,
    headers: HeaderMap,
    JsonBody(body): JsonBody<SendMessage>,
) -> ApiResult<Response> {
    let message = checked(&session, body)?;
    // Before the message is accepted: if its stream is refused, nothing was said.
    let slot = wants_events(&headers)
        .then(|| app.runtime.shares().stream(session.user.id()))
        .transpose()?;
    let sent = app.runtime.project_message(&session.row, message).await?;
    if let Some(slot) = slot {
        return Ok(sse::session_response(
            sent.reader,
            session.id().clone(),
            slot,
        ));
    }
    let outcome = match sent.agent {
        Some(agent) => answer::direct(&app, &session.row, sent.reader, agent, |_| {}).await?,
        None => MessageOutcome::Accepted(answer::accepted(sent.reader).await?),
    };
    Ok(outcome.into_response())
}

/// The message that a caller may send.
pub(in crate::routes) fn checked(
    session: &MySession,
    body: SendMessage,
) -> ApiResult<ProjectMessage> {
    let text = body
        .content
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| ApiError::missing("content"))?;
    let target = body.target_agent;
    if target
        .as_ref()
        .is_some_and(|target| target.trim().is_empty())
    {
        let why = "target_agent must name an agent; leave it out to have the request planned";
        return Err(ApiError::invalid(why).with("field", "target_agent"));
    }
    Ok(ProjectMessage {
        text,
        target,
        client_message_id: body.client_message_id,
        caller: caller_of(session),
        attachments: attachments::checked(body.attachments)?,
        delivery: body.delivery,
    })
}

/// Run the last turn again, if it failed or was stopped
///
/// The same message is sent once more, to the same agent, with `retries` in it. A plan runs its
/// tasks that did not end well. The answer is that of a message. A repeated request gets the events
/// of the turn that runs already.
#[utoipa::path(
    post, path = "/my/chat/{session_id}/retry", request_body = RetryTurn,
    responses(
        (status = 200, description = "A direct call's answer, or the events of the turn", content((DirectAnswer = "application/json"), (SessionFrame = "text/event-stream"))),
        (status = 202, description = "Durable; it is planned, or its tasks run again", body = MessageAccepted),
        (status = 404, description = "Unknown session, or the agent was removed"),
        (status = 409, description = "The last turn ended well, another one runs, or the direct call was cancelled"),
        (status = 502, description = "The direct call failed", body = DirectAnswer),
        (status = 504, description = "The direct call took too long", body = DirectAnswer),
    ),
)]
pub(in crate::routes) async fn retry(
    State(app): State<App>,
    session: MySession,
    headers: HeaderMap,
    OptionalJsonBody(body): OptionalJsonBody<RetryTurn>,
) -> ApiResult<Response> {
    // Before the turn begins: if its stream is refused, nothing was run.
    let slot = wants_events(&headers)
        .then(|| app.runtime.shares().stream(session.user.id()))
        .transpose()?;
    let caller = caller_of(&session);
    let reader = app
        .runtime
        .retry_turn(&session.row, body.message_id, caller)
        .await?;
    match slot {
        Some(slot) => Ok(sse::session_response(reader, session.id().clone(), slot)),
        // The events name the agent.
        None => {
            let outcome =
                answer::direct(&app, &session.row, reader, orchestrator(), |_| {}).await?;
            Ok(outcome.into_response())
        }
    }
}

/// Sum the history up now
///
/// Between two turns, whatever `context.compact_tokens` says. Prompts then show the summary instead
/// of what was said before it; the messages stay. The answer comes as soon as the wish is durable,
/// with `compacting: true`. The event `history_compacted` has the summary, or `compaction_failed`
/// says why there is none. Cancelling the session stops it.
#[utoipa::path(
    post, path = "/my/chat/{session_id}/compact",
    responses(
        (status = 200, description = "The summary is on its way, or was there already", body = ProjectSession),
        (status = 409, description = "A turn runs, there is nothing to compact, or the budget has no room; `details.reason` says `busy`, `nothing_to_compact` or `budget`"),
    ),
)]
pub(in crate::routes) async fn compact(
    State(app): State<App>,
    session: MySession,
) -> ApiResult<Json<ProjectSession>> {
    app.runtime.compact_session(&session.row).await?;
    let row = session.read_again().await?;
    Ok(Json(shown(&row, &state_of(&row)?)))
}

fn caller_of(session: &MySession) -> CallerContext {
    let identity = session.user.identity();
    CallerContext {
        user_id: Some(identity.user_id),
        timezone: identity.timezone.clone(),
        household_id: identity.household_id.clone(),
        locale: identity.locale.clone(),
    }
}

pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|part| {
        part.split(';')
            .next()
            .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("text/event-stream"))
    })
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in super::super) struct RoleQuery {
    /// Messages of this role only.
    role: Option<Role>,
}

/// What was said, oldest first
#[utoipa::path(
    get, path = "/my/chat/{session_id}/messages", params(PageQuery, RoleQuery),
    responses((status = 200, description = "A page of messages", body = MessageList)),
)]
pub(in crate::routes) async fn list(
    session: MySession,
    page: Page,
    Params(query): Params<RoleQuery>,
) -> ApiResult<Json<MessageList>> {
    let (stored, total) = session
        .mine
        .messages(session.row.key, page.limit, page.offset, query.role)
        .await?;
    Ok(Json(message_list(stored, total, page)))
}

pub(super) fn message_list(stored: Vec<StoredMessage>, total: u64, page: Page) -> MessageList {
    MessageList {
        messages: stored.into_iter().map(|stored| stored.message).collect(),
        total,
        limit: page.limit,
        offset: page.offset,
    }
}

/// The events of a session, from any number on
#[utoipa::path(
    get, path = "/my/chat/{session_id}/events", params(StreamPosition),
    responses((status = 200, description = "Server-sent events", body = SessionFrame, content_type = "text/event-stream")),
)]
pub(in crate::routes) async fn events(
    State(app): State<App>,
    session: MySession,
    Params(slot): Params<StreamPosition>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let room = app.runtime.shares().stream(session.user.id())?;
    let reader =
        app.runtime
            .project_session_events(&session.row, after(&headers, &slot)?, slot.follows());
    Ok(sse::session_response(reader, session.id().clone(), room))
}

/// End the current turn with everything it has open
#[utoipa::path(
    post, path = "/my/chat/{session_id}/cancel", params(Cancellation),
    responses((status = 200, description = "Nothing of it runs any more", body = ProjectSessionCancelled)),
)]
pub(in crate::routes) async fn cancel(
    State(app): State<App>,
    session: MySession,
    Params(cancellation): Params<Cancellation>,
) -> ApiResult<Json<ProjectSessionCancelled>> {
    let (view, cancelled) = app
        .runtime
        .cancel_project_session(&session.row, cancellation.drops_queue())
        .await?;
    Ok(Json(ProjectSessionCancelled {
        session_id: session.id().clone(),
        cancelled,
        queued: view.queued,
    }))
}
