//! An answer that waits: what happens meanwhile is told as progress, then the result follows.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use codelab_protocol::SessionEventBody;
use futures_util::stream;
use rmcp::model::{CallToolResult, ProgressToken, RequestId};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};

use super::calls::{ResultFuture, WaitingCall};
use super::envelope;
use super::headers::Lifecycle;

/// While nothing happens, this is said again. Clients give up a call that is silent for long, and
/// proxies close a connection that is.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The result as server-sent events, after what is told until then. Dropping it ends the wait and
/// not the turn.
pub(super) fn stream(
    waiting: WaitingCall,
    (id, lifecycle): (RequestId, Lifecycle),
    token: ProgressToken,
) -> Response {
    let WaitingCall { work, news, slot } = waiting;
    let mut ticks = tokio::time::interval(TELL_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let telling = Telling {
        work,
        news,
        ticks,
        told: 0,
        token,
    };
    let frames = stream::unfold(Some((telling, slot)), move |state| {
        let id = id.clone();
        async move {
            let (mut telling, slot) = state?;
            let (message, rest) = match telling.next().await {
                Next::Progress(progress) => (progress, Some((telling, slot))),
                Next::Result(result) => (envelope::call_result(&id, *result, lifecycle), None),
            };
            let frame = format!("event: message\ndata: {message}\n\n");
            Some((Ok::<_, Infallible>(frame), rest))
        }
    });
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::CACHE_CONTROL.as_str(), "no-store"),
        ("x-accel-buffering", "no"),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

struct Telling {
    work: ResultFuture,
    news: watch::Receiver<String>,
    ticks: Interval,
    /// It must grow with each message.
    told: u64,
    token: ProgressToken,
}

enum Next {
    Progress(Value),
    Result(Box<CallToolResult>),
}

impl Telling {
    async fn next(&mut self) -> Next {
        tokio::select! {
            biased;
            result = &mut self.work => return Next::Result(Box::new(result)),
            // The first one comes at once.
            _ = self.ticks.tick() => {}
            Ok(()) = self.news.changed() => self.ticks.reset(),
        }
        self.told += 1;
        let message = self.news.borrow_and_update().clone();
        let params = json!({
            "progressToken": self.token,
            "progress": self.told,
            "message": message,
        });
        Next::Progress(envelope::notification("notifications/progress", params))
    }
}

/// What an event means to somebody who waits.
pub(super) fn said(event: &SessionEventBody) -> Option<String> {
    match event {
        SessionEventBody::MessageQueued(queued) => Some(format!(
            "The message is number {} in the queue",
            queued.position
        )),
        SessionEventBody::DirectAgentCall(call) => Some(format!("{} works on it", call.agent)),
        SessionEventBody::AgentSwitched(switch) => Some(format!("{} works on it", switch.to_agent)),
        SessionEventBody::ToolCall(event) => {
            Some(format!("Tool call: {}", event.call.tool_call.name))
        }
        SessionEventBody::ToolResult(result) => Some(format!("Result of {}", result.tool_name)),
        SessionEventBody::ModelWaiting(_) => Some("Waiting for the model".to_owned()),
        SessionEventBody::MessageCreated(_)
        | SessionEventBody::MessageDelta(_)
        | SessionEventBody::ReasoningDelta(_)
        | SessionEventBody::MessageDequeued(_)
        | SessionEventBody::AgentStatusChanged(_)
        | SessionEventBody::TaskPlanCreated(_)
        | SessionEventBody::PlanRequest(_)
        | SessionEventBody::PlanResolved(_)
        | SessionEventBody::TaskStarted(_)
        | SessionEventBody::TaskProgress(_)
        | SessionEventBody::TaskCompleted(_)
        | SessionEventBody::TaskFailed(_)
        | SessionEventBody::TaskSkipped(_)
        | SessionEventBody::WorkflowCompleted(_)
        | SessionEventBody::ToolProgress(_)
        | SessionEventBody::ToolCallClosed(_)
        | SessionEventBody::ApprovalRequest(_)
        | SessionEventBody::ApprovalPreview(_)
        | SessionEventBody::ApprovalResolved(_)
        | SessionEventBody::Question(_)
        | SessionEventBody::Error(_)
        | SessionEventBody::HistoryCompacting(_)
        | SessionEventBody::HistoryCompacted(_)
        | SessionEventBody::CompactionFailed(_)
        | SessionEventBody::RememberedRevoked(_)
        | SessionEventBody::ApproveChanged(_)
        | SessionEventBody::Rewound(_)
        | SessionEventBody::ModelFallback(_)
        | SessionEventBody::WaitingAdded(_)
        | SessionEventBody::WaitingRemoved(_)
        | SessionEventBody::Gap(_) => None,
    }
}
