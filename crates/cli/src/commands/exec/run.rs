//! One task from its message to its end: follows the session, decides what waits, stops on a
//! signal.

use std::collections::HashSet;
use std::process::ExitCode;

use anyhow::bail;
use codelab_client::{
    Backoff, Client, ClientError, EventData, FollowUntil, RESTART_BACKOFF, ResumingEvents, repeated,
};
use codelab_protocol::{
    AgentQuestion, ApprovalInfo, CallId, ErrorCode, SendMessage, SessionEvent, SessionEventBody,
    SessionId, TurnStatus, WorkflowStatus,
};
use codelab_toolrunner::{ToolRunner, ToolRunnerEvent};
use tokio::task::JoinSet;

use super::super::note;
use super::super::tool_runner::line_of;
use super::approve::Approver;
use super::deadline::ExecDeadline;
use super::show::EventPrinter;

const FAILED: u8 = 1;
const NOT_APPROVED: u8 = 3;
const PARTIAL: u8 = 4;
pub(super) const WRONG_USAGE: u8 = 2;
pub(super) const CANCELLED: u8 = 130;
/// How often the message is sent while the connection breaks; the server takes it once.
const SEND_ATTEMPTS: u32 = 5;

pub(super) struct Run {
    client: Client,
    session: SessionId,
    tool_runner: ToolRunner,
    approver: Approver,
    show: EventPrinter,
    /// What was decided or is being decided; a resumed stream shows nothing twice, a decision is
    /// made once.
    decided: HashSet<CallId>,
    /// Decisions on their way, and the person's wish to cancel.
    decisions: JoinSet<Result<(), ClientError>>,
    is_cancelled: bool,
    /// Somebody said no, or nobody said anything in time.
    is_refused: bool,
    workflow: Option<WorkflowStatus>,
    response: Option<String>,
    error: Option<String>,
}

/// How the task came out.
pub(super) struct ExecResult {
    pub status: TurnStatus,
    pub response: Option<String>,
    pub error: Option<String>,
}

impl Run {
    pub fn new(
        client: Client,
        session: SessionId,
        tool_runner: ToolRunner,
        approver: Approver,
        show: EventPrinter,
    ) -> Self {
        Self {
            client,
            session,
            tool_runner,
            approver,
            show,
            decided: HashSet::new(),
            decisions: JoinSet::new(),
            is_cancelled: false,
            is_refused: false,
            workflow: None,
            response: None,
            error: None,
        }
    }

    pub async fn finish(
        mut self,
        message: &SendMessage,
        deadline: &mut ExecDeadline,
    ) -> anyhow::Result<ExitCode> {
        let status = match deadline.unless(self.send(message)).await {
            Some(Ok(())) => self.follow(deadline).await,
            Some(Err(error)) => Err(error.into()),
            None => {
                // The message may have got there all the same.
                self.cancel();
                let cancelled = async { while self.decisions.join_next().await.is_some() {} };
                deadline.wait_for(cancelled).await;
                Ok(TurnStatus::Cancelled)
            }
        };
        let has_refused = self.is_refused || self.approver.has_refused();
        let Self {
            session,
            tool_runner,
            show,
            workflow,
            response,
            error,
            mut decisions,
            is_cancelled,
            ..
        } = self;
        decisions.abort_all();
        deadline.wait_for(tool_runner.stop()).await;
        let ending = ExecResult {
            status: status?,
            response,
            error,
        };
        let code = exit_code(ending.status, workflow, has_refused, is_cancelled);
        show.ending(&session, &ending, code);
        Ok(ExitCode::from(code))
    }

    /// The events of the message are read from the session's log, so that a lost connection loses
    /// nothing.
    async fn send(&self, message: &SendMessage) -> Result<(), ClientError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self
                .client
                .stream_project_message(&self.session, message)
                .await
            {
                Err(error) if error.is_passing() && attempt < SEND_ATTEMPTS => {
                    tokio::time::sleep(Backoff::default().delay(attempt)).await;
                }
                answer => return answer.map(drop),
            }
        }
    }

    async fn follow(&mut self, deadline: &mut ExecDeadline) -> anyhow::Result<TurnStatus> {
        let mut events: ResumingEvents<SessionEvent> = ResumingEvents::new(
            self.client.clone(),
            self.session.clone(),
            None,
            FollowUntil::Dropped,
        );
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => if let Some(status) = self.take(event.data) { return Ok(status) },
                    Some(Err(error)) => return Err(error.into()),
                    None => bail!("the events of the session ended"),
                },
                event = self.tool_runner.next() => self.tool_runner_said(&event)?,
                Some(decided) = self.decisions.join_next() => decided??,
                () = deadline.signal() => match deadline.is_over() {
                    true => return Ok(TurnStatus::Cancelled),
                    false => self.cancel(),
                },
            }
        }
    }

    /// Beside the events, since the server may not answer.
    fn cancel(&mut self) {
        note("cancelling");
        self.is_cancelled = true;
        let (client, session) = (self.client.clone(), self.session.clone());
        self.decisions.spawn(async move {
            settled(
                repeated(RESTART_BACKOFF, || {
                    client.cancel_project_session(&session, true)
                })
                .await,
            )
        });
    }

    fn tool_runner_said(&self, event: &ToolRunnerEvent) -> anyhow::Result<()> {
        match event {
            ToolRunnerEvent::Ended { reason } => bail!("{reason}"),
            ToolRunnerEvent::Refused { .. }
            | ToolRunnerEvent::Unknown { .. }
            | ToolRunnerEvent::Disconnected { .. } => {
                note(&line_of(event));
            }
            _ => {}
        }
        Ok(())
    }

    /// The status of a turn that is over.
    fn take(&mut self, data: EventData<SessionEvent>) -> Option<TurnStatus> {
        let event = match data {
            EventData::Chunk(event) => event,
            EventData::Done(done) => return done.status.is_end().then_some(done.status),
            EventData::Other(_) => return None,
        };
        if !matches!(event.body, SessionEventBody::MessageDelta(_)) {
            self.show.event(&event);
        }
        match event.body {
            SessionEventBody::ApprovalRequest(asked) => self.decide(asked.approval),
            SessionEventBody::PlanRequest(asked) => self.decide(asked.approval),
            SessionEventBody::ApprovalResolved(resolved) => self.resolved(&resolved.decision),
            SessionEventBody::PlanResolved(resolved) => self.resolved(&resolved.decision),
            SessionEventBody::Question(question) => self.answer(question),
            SessionEventBody::TaskCompleted(done) if done.origin.task_id.is_none() => {
                self.response = Some(done.response)
            }
            SessionEventBody::WorkflowCompleted(done) => {
                self.workflow = Some(done.status);
                self.response = (!done.response.is_empty()).then_some(done.response);
            }
            SessionEventBody::Error(error) if error.origin.task_id.is_none() => {
                self.error = Some(error.error.message)
            }
            // A log that starts over tells again what came of the task.
            SessionEventBody::Gap(_) => {
                (self.workflow, self.response, self.error) = (None, None, None)
            }
            _ => {}
        }
        None
    }

    fn resolved(&mut self, decision: &str) {
        self.is_refused |= matches!(decision, "reject" | "expired");
    }

    fn answer(&mut self, question: AgentQuestion) {
        if !self.decided.insert(question.call_id.clone()) {
            return;
        }
        let (client, session, approver) = (
            self.client.clone(),
            self.session.clone(),
            self.approver.clone(),
        );
        self.decisions.spawn(async move {
            let answer = approver.answer(&question).await;
            settled(
                repeated(RESTART_BACKOFF, || {
                    client.answer_question(&session, &question.call_id, &answer)
                })
                .await,
            )
        });
    }

    /// Beside the events, since a person may take a while.
    fn decide(&mut self, approval: ApprovalInfo) {
        if !self.decided.insert(approval.call_id.clone()) {
            return;
        }
        let (client, session, approver) = (
            self.client.clone(),
            self.session.clone(),
            self.approver.clone(),
        );
        self.decisions.spawn(async move {
            let decision = approver.decide(&approval).await;
            settled(
                repeated(RESTART_BACKOFF, || {
                    client.decide(&session, &approval.call_id, &decision)
                })
                .await,
            )
        });
    }
}

/// The call may have ended, or it was decided meanwhile: by somebody else, or by this very request
/// before the connection broke.
fn settled<T>(answer: Result<T, ClientError>) -> Result<(), ClientError> {
    use ErrorCode::{Conflict, PendingApprovalNotFound, ToolCallNotFound};
    match answer {
        Ok(_) => Ok(()),
        Err(error) => match error.error_code() {
            Some(Conflict | PendingApprovalNotFound | ToolCallNotFound) => Ok(()),
            _ => Err(error),
        },
    }
}

fn exit_code(
    status: TurnStatus,
    workflow: Option<WorkflowStatus>,
    has_refused: bool,
    is_cancelled: bool,
) -> u8 {
    match (status, workflow) {
        (TurnStatus::Cancelled, _) | (_, Some(WorkflowStatus::Cancelled)) if is_cancelled => {
            CANCELLED
        }
        _ if has_refused => NOT_APPROVED,
        (TurnStatus::Cancelled, _) | (_, Some(WorkflowStatus::Cancelled)) => CANCELLED,
        (TurnStatus::Failed, _) | (_, Some(WorkflowStatus::Failed)) => FAILED,
        (_, Some(WorkflowStatus::Partial)) => PARTIAL,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_as_documented() {
        use TurnStatus::{Cancelled, Completed, Failed};
        let cases = [
            (Completed, None, false, false, 0),
            (Completed, Some(WorkflowStatus::Completed), false, false, 0),
            (Completed, Some(WorkflowStatus::Partial), false, false, 4),
            (Completed, Some(WorkflowStatus::Failed), false, false, 1),
            (
                Completed,
                Some(WorkflowStatus::Cancelled),
                false,
                false,
                130,
            ),
            (Failed, None, false, false, 1),
            (Cancelled, None, false, false, 130),
            (Completed, None, true, false, 3),
            (Failed, None, true, false, 3),
            (Cancelled, None, true, false, 3),
            (Cancelled, None, true, true, 130),
            (Completed, None, false, true, 0),
        ];
        for (status, workflow, refused, cancelled, code) in cases {
            assert_eq!(
                exit_code(status, workflow, refused, cancelled),
                code,
                "{status:?} {workflow:?} {refused} {cancelled}"
            );
        }
    }
}
