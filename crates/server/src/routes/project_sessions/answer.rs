//! A message's events as one answer.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use codelab_protocol::{
    AcceptedStatus, AgentName, DequeueReason, DirectAnswer, DirectErrorType, ErrorCode, ErrorData,
    MessageAccepted, MessageId, MessageMode, PendingData, PendingToolCall, Role, SessionEvent,
    SessionEventBody, TaskCompleted, TurnId, TurnStatus,
};
use codelab_runtime::{Reader, ReaderItem};
use codelab_store::{OwnedSession, StoreError};
use serde_json::Map;
use tokio::time::Instant;

use crate::app::App;
use crate::error::{ApiError, ApiResult, retry_after};

/// How long a request waits for an earlier message to end, or for a slot of its agent.
const QUEUED_DEADLINE: Duration = Duration::from_secs(30);

/// What a direct call showed so far.
struct Seen {
    turn: Option<TurnId>,
    /// Its position in the queue, until it begins.
    queued: Option<u64>,
    user_message: Option<MessageId>,
    answer: Option<MessageId>,
    /// What was said about the answers of this turn, each once.
    warnings: Vec<String>,
    agent: AgentName,
    completed: Option<TaskCompleted>,
    error: Option<ErrorData>,
    pending: Option<PendingData>,
}

/// What a message is answered with.
pub(in crate::routes) enum MessageOutcome {
    /// It is durable, and nobody waits for what becomes of it.
    Accepted(MessageAccepted),
    /// The direct call has ended, or waits for somebody.
    Answered(Box<AnsweredCall>),
}

pub(in crate::routes) struct AnsweredCall {
    pub answer: DirectAnswer,
    status: StatusCode,
    retry_after_seconds: Option<u32>,
}

impl IntoResponse for MessageOutcome {
    fn into_response(self) -> Response {
        match self {
            Self::Accepted(accepted) => (StatusCode::ACCEPTED, Json(accepted)).into_response(),
            Self::Answered(call) => {
                let mut response = (call.status, Json(call.answer)).into_response();
                if let Some(seconds) = call.retry_after_seconds {
                    response
                        .headers_mut()
                        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
                }
                response
            }
        }
    }
}

/// The message is durable: says so without waiting for what becomes of it.
pub(in crate::routes) async fn accepted(mut reader: Reader) -> ApiResult<MessageAccepted> {
    let first = match next_of(&mut reader).await? {
        Some(TurnItem::Event(_, event)) => Some(event.body),
        Some(TurnItem::Settled(_)) | None => None,
        Some(TurnItem::NotStored(error)) => return Err(ApiError::outcome_not_stored(error, None)),
    };
    Ok(acceptance(first.as_ref()))
}

/// What the first event of a message says about it.
fn acceptance(first: Option<&SessionEventBody>) -> MessageAccepted {
    let (message_id, status, workflow_id, position) = match first {
        Some(SessionEventBody::MessageQueued(queued)) => {
            let position = Some(queued.position);
            let status = match queued.steers {
                true => AcceptedStatus::Steering,
                false => AcceptedStatus::Queued,
            };
            (
                Some(queued.message_id.clone()),
                status,
                queued.workflow_id.clone(),
                position,
            )
        }
        Some(SessionEventBody::MessageCreated(created)) if created.message.role == Role::User => {
            let message_id = Some(created.message.message_id.clone());
            let status = match created.message.answers {
                Some(_) => AcceptedStatus::Answered,
                None => AcceptedStatus::Accepted,
            };
            (message_id, status, created.workflow_id.clone(), None)
        }
        // The tasks of a plan run again.
        Some(SessionEventBody::TaskPlanCreated(plan)) => {
            let workflow_id = Some(plan.workflow_id.clone());
            (None, AcceptedStatus::Accepted, workflow_id, None)
        }
        // An answer that an earlier version stored.
        _ => (None, AcceptedStatus::Answered, None, None),
    };
    let is_planned = first.is_some_and(is_planned);
    let mode = if is_planned {
        MessageMode::Orchestrated
    } else {
        MessageMode::Direct
    };
    MessageAccepted {
        message_id,
        mode,
        status,
        workflow_id,
        position,
    }
}

/// Waits until the direct call to this agent ends or waits for somebody, but not for long for its
/// turn to come. `tell` hears of each event meanwhile.
pub(in crate::routes) async fn direct(
    app: &App,
    session: &OwnedSession,
    mut reader: Reader,
    agent: AgentName,
    mut tell: impl FnMut(&SessionEventBody),
) -> ApiResult<MessageOutcome> {
    let mut seen = Seen::new(agent);
    let mut deadline = tokio::time::interval_at(Instant::now() + QUEUED_DEADLINE, QUEUED_DEADLINE);
    loop {
        tokio::select! {
            item = next_of(&mut reader) => {
                let item = item?;
                if let Some(TurnItem::Event(_, event)) = &item {
                    tell(&event.body);
                }
                if let Some(answer) = seen.next(item)? {
                    return Ok(answer);
                }
            }
            _ = deadline.tick() => {
                if let Some(turn) = seen.turn
                    && (seen.queued.is_some() || app.runtime.waits_for_agent(session, turn).await?)
                {
                    return Ok(MessageOutcome::Accepted(seen.still_queued()));
                }
            }
        }
    }
}

/// Whether the turn is a plan's.
fn is_planned(first: &SessionEventBody) -> bool {
    match first {
        SessionEventBody::MessageQueued(queued) => queued.workflow_id.is_some(),
        SessionEventBody::MessageCreated(created) => created.workflow_id.is_some(),
        SessionEventBody::TaskPlanCreated(_) => true,
        // An answer that an earlier version stored.
        SessionEventBody::ToolResult(result) => result.origin.plan_id.is_some(),
        _ => false,
    }
}

fn steers(first: &SessionEventBody) -> bool {
    matches!(first, SessionEventBody::MessageQueued(queued) if queued.steers)
}

/// What a turn's reader shows that an answer is made of.
pub(super) enum TurnItem {
    Event(TurnId, Box<SessionEvent>),
    Settled(TurnStatus),
    NotStored(StoreError),
}

/// Waits for the next such thing; `None` at the end. Giving up the wait loses nothing.
pub(super) async fn next_of(reader: &mut Reader) -> ApiResult<Option<TurnItem>> {
    loop {
        return Ok(Some(match reader.next().await? {
            Some(ReaderItem::Event(stored)) => {
                TurnItem::Event(stored.turn, Box::new(stored.session_event()?))
            }
            Some(ReaderItem::Settled(status)) => TurnItem::Settled(status),
            Some(ReaderItem::NotStored(error)) => TurnItem::NotStored(error),
            // Tokens are not waited for, a turn is read from its start, and this reader gets
            // large events whole.
            Some(
                ReaderItem::Delta(_)
                | ReaderItem::Progress(_)
                | ReaderItem::Gap { .. }
                | ReaderItem::StartOver { .. }
                | ReaderItem::LargeBegins { .. }
                | ReaderItem::LargePiece(_)
                | ReaderItem::LargeEnds,
            ) => continue,
            None => return Ok(None),
        }));
    }
}

impl Seen {
    fn new(agent: AgentName) -> Self {
        Self {
            turn: None,
            queued: None,
            user_message: None,
            answer: None,
            warnings: Vec::new(),
            agent,
            completed: None,
            error: None,
            pending: None,
        }
    }

    /// What comes next of the turn; the answer once it settles.
    fn next(&mut self, item: Option<TurnItem>) -> ApiResult<Option<MessageOutcome>> {
        match item {
            Some(TurnItem::Event(turn, event)) => {
                let is_first = self.turn.replace(turn).is_none();
                if is_first && (is_planned(&event.body) || steers(&event.body)) {
                    // The same message came before, without an agent's name or to steer.
                    let accepted = acceptance(Some(&event.body));
                    return Ok(Some(MessageOutcome::Accepted(accepted)));
                }
                self.note(*event);
                Ok(None)
            }
            Some(TurnItem::Settled(status)) => self.answer(status).map(Some),
            Some(TurnItem::NotStored(error)) => Err(ApiError::outcome_not_stored(
                error,
                self.user_message.as_ref(),
            )),
            None => Err(ApiError::new(
                ErrorCode::DbConnectionError,
                "The server is stopping; the turn goes on when it is back",
            )),
        }
    }

    /// It did not begin in time; 0 are before it when only its agent is busy.
    fn still_queued(&self) -> MessageAccepted {
        MessageAccepted {
            message_id: self.user_message.clone(),
            mode: MessageMode::Direct,
            status: AcceptedStatus::Queued,
            workflow_id: None,
            position: Some(self.queued.unwrap_or(0)),
        }
    }

    fn note(&mut self, event: SessionEvent) {
        self.queued = None;
        match event.body {
            // Somebody steers the turn; its own message stays the one that it answers.
            SessionEventBody::MessageQueued(queued) if queued.steers => {}
            SessionEventBody::MessageCreated(created) if created.message.steered => {}
            SessionEventBody::MessageQueued(queued) => {
                self.user_message = Some(queued.message_id);
                self.queued = Some(queued.position);
            }
            SessionEventBody::MessageCreated(created) if created.message.role == Role::User => {
                self.user_message = Some(created.message.message_id);
            }
            SessionEventBody::MessageCreated(created) => {
                self.answer = Some(created.message.message_id);
                for warning in created.message.warnings {
                    if !self.warnings.contains(&warning) {
                        self.warnings.push(warning);
                    }
                }
            }
            SessionEventBody::DirectAgentCall(call) => self.agent = call.agent,
            // The way back at the end is no agent's that answers.
            SessionEventBody::AgentSwitched(switch) if !switch.to_agent.is_orchestrator() => {
                self.agent = switch.to_agent
            }
            SessionEventBody::TaskCompleted(completed) => self.completed = Some(completed),
            SessionEventBody::Error(error) => self.error = Some(error.error),
            SessionEventBody::MessageDequeued(back) => {
                let why = match back.reason {
                    DequeueReason::Stopped | DequeueReason::TakenBack => {
                        "The message was taken back before its turn began"
                    }
                    DequeueReason::Steers => "The message steers the turn that runs instead",
                };
                self.error = Some(ErrorData {
                    message: why.to_owned(),
                    error_code: ErrorCode::Cancelled,
                    details: Map::new(),
                });
            }
            SessionEventBody::ToolCall(event) => {
                let call_id = event.call.tool_call.call_id.clone();
                let event = *event;
                let call = PendingToolCall { event, call_id };
                self.pending = Some(PendingData::ToolCall(Box::new(call)));
            }
            SessionEventBody::ApprovalRequest(request) => {
                self.pending = Some(PendingData::Approval(request));
            }
            SessionEventBody::Question(question) => {
                self.pending = Some(PendingData::Question(Box::new(question)));
            }
            // The answer to a direct call says nothing of these.
            SessionEventBody::AgentSwitched(_)
            | SessionEventBody::MessageDelta(_)
            | SessionEventBody::ReasoningDelta(_)
            | SessionEventBody::ModelFallback(_)
            | SessionEventBody::ModelWaiting(_)
            | SessionEventBody::WaitingAdded(_)
            | SessionEventBody::WaitingRemoved(_)
            | SessionEventBody::AgentStatusChanged(_)
            | SessionEventBody::TaskPlanCreated(_)
            | SessionEventBody::PlanRequest(_)
            | SessionEventBody::PlanResolved(_)
            | SessionEventBody::TaskStarted(_)
            | SessionEventBody::TaskProgress(_)
            | SessionEventBody::TaskFailed(_)
            | SessionEventBody::TaskSkipped(_)
            | SessionEventBody::WorkflowCompleted(_)
            | SessionEventBody::ToolResult(_)
            | SessionEventBody::ToolProgress(_)
            | SessionEventBody::ToolCallClosed(_)
            | SessionEventBody::ApprovalPreview(_)
            | SessionEventBody::ApprovalResolved(_)
            | SessionEventBody::HistoryCompacting(_)
            | SessionEventBody::HistoryCompacted(_)
            | SessionEventBody::CompactionFailed(_)
            | SessionEventBody::RememberedRevoked(_)
            | SessionEventBody::ApproveChanged(_)
            | SessionEventBody::Rewound(_)
            | SessionEventBody::Gap(_) => {}
        }
    }

    fn answer(&mut self, status: TurnStatus) -> ApiResult<MessageOutcome> {
        let Some(message_id) = self.user_message.clone() else {
            return Err(ApiError::new(
                ErrorCode::DbReadError,
                "The turn's events could not be read",
            ));
        };
        let mut answer = DirectAnswer {
            message_id,
            response_message_id: self.answer.clone(),
            mode: MessageMode::Direct,
            agent: self.agent.clone(),
            status,
            success: status == TurnStatus::Completed,
            response: None,
            context: Vec::new(),
            usage: None,
            warnings: std::mem::take(&mut self.warnings),
            pending: None,
            error: None,
            error_type: None,
            error_code: None,
            detail: None,
            details: None,
        };
        let mut wait = None;
        let code = match status {
            TurnStatus::Completed => {
                if let Some(completed) = self.completed.take() {
                    // An answer can be what was done until a person stopped it.
                    answer.success = completed.success;
                    answer.response_message_id = Some(completed.message_id);
                    answer.agent = completed.agent;
                    answer.response = Some(completed.response);
                    answer.context = completed.context;
                    answer.usage = completed.usage;
                }
                StatusCode::OK
            }
            TurnStatus::Failed | TurnStatus::Cancelled => {
                let error = self.error.take().unwrap_or_else(|| ErrorData {
                    message: "The turn ended without an answer".to_owned(),
                    error_code: ErrorCode::LlmError,
                    details: Map::new(),
                });
                let (code, kind) = failure(error.error_code);
                answer.error_type = Some(kind);
                answer.error_code = Some(error.error_code);
                answer.detail = Some(error.message.clone());
                answer.error = Some(error.message);
                wait = retry_after(&error.details);
                answer.details = Some(error.details);
                code
            }
            TurnStatus::AwaitingToolResult
            | TurnStatus::AwaitingApproval
            | TurnStatus::AwaitingAnswer => {
                answer.response_message_id = None;
                answer.pending = self.pending.take();
                StatusCode::OK
            }
        };
        Ok(MessageOutcome::Answered(Box::new(AnsweredCall {
            answer,
            status: code,
            retry_after_seconds: wait,
        })))
    }
}

fn failure(code: ErrorCode) -> (StatusCode, DirectErrorType) {
    match code {
        ErrorCode::TaskTimeout | ErrorCode::LlmTimeout => {
            (StatusCode::GATEWAY_TIMEOUT, DirectErrorType::Timeout)
        }
        ErrorCode::AgentUnavailable => (
            StatusCode::SERVICE_UNAVAILABLE,
            DirectErrorType::Unavailable,
        ),
        ErrorCode::QueueFull => (StatusCode::TOO_MANY_REQUESTS, DirectErrorType::Unavailable),
        ErrorCode::Cancelled => (StatusCode::CONFLICT, DirectErrorType::Cancelled),
        _ => (StatusCode::BAD_GATEWAY, DirectErrorType::Execution),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_a_person_stopped_is_no_success() {
        let agent = AgentName::parse("agent_coder").expect("a name");
        for success in [true, false] {
            let mut seen = Seen::new(agent.clone());
            seen.user_message = Some(MessageId::parse("m-1").expect("an id"));
            seen.completed = Some(TaskCompleted {
                origin: Default::default(),
                agent: agent.clone(),
                success,
                response: "Stopped here.".to_owned(),
                message_id: MessageId::parse("m-2").expect("an id"),
                context: Vec::new(),
                usage: None,
            });
            let outcome = seen.answer(TurnStatus::Completed).expect("an answer");
            let response = outcome.into_response();
            assert_eq!(response.status(), StatusCode::OK);
            let body = axum::body::to_bytes(response.into_body(), 1 << 20)
                .await
                .expect("a body");
            let body: DirectAnswer = serde_json::from_slice(&body).expect("an answer");
            assert_eq!(
                (body.success, body.response.as_deref()),
                (success, Some("Stopped here."))
            );
        }
    }
}
