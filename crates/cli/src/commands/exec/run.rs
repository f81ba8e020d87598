//! One task from its message to its end: follows the session, decides what waits, cancels on a
//! signal.

use std::collections::HashSet;
use std::process::ExitCode;

use anyhow::bail;
use codelab_client::{
    Backoff, Client, ClientError, DecisionView, EventData, FollowUntil, RESTART_BACKOFF,
    ResumingEvents, SessionChange, SessionView, StreamEvent, TurnResult, WaitingItem, repeated,
};
use codelab_protocol::{
    AgentQuestion, ApprovalInfo, ApprovalOutcome, CallId, ErrorCode, SendMessage, SessionEvent,
    SessionId, TurnStatus, WorkflowStatus,
};
use codelab_terminal::Text;
use codelab_toolrunner::{ToolRunner, ToolRunnerEvent};
use tokio::task::JoinSet;

use super::super::note;
use super::super::tool_runner::line_of;
use super::approve::Approver;
use super::deadline::ExecDeadline;
use super::show::EventPrinter;

const FAILED: u8 = 1;
const NOT_APPROVED: u8 = 3;
/// How often a write is shown again because its file changed.
const MAX_SHOWN_AGAIN: usize = 20;
const MAX_OPEN_APPROVALS: u64 = 100;
const PARTIAL: u8 = 4;
pub(super) const WRONG_USAGE: u8 = 2;
pub(super) const CANCELLED: u8 = 130;
/// Attempts to send the message while the connection breaks. The server accepts it once.
const SEND_ATTEMPTS: u32 = 5;

pub(super) struct Run {
    client: Client,
    session: SessionId,
    tool_runner: ToolRunner,
    approver: Approver,
    show: EventPrinter,
    /// Calls that were decided or are being decided. Each is decided once.
    decided: HashSet<CallId>,
    /// Requests that are being sent: decisions, answers, and cancelling.
    decisions: JoinSet<Result<(), ClientError>>,
    is_cancelled: bool,
    /// Somebody rejected something, or nobody decided in time.
    is_refused: bool,
    view: SessionView,
}

/// How the task ended.
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
            view: SessionView::default(),
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
                // The message may have reached the server.
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
            view,
            mut decisions,
            is_cancelled,
            ..
        } = self;
        decisions.abort_all();
        deadline.wait_for(tool_runner.stop()).await;
        let TurnResult {
            workflow,
            response,
            error,
            is_cut,
        } = view.result().clone();
        let ending = ExecResult {
            status: status?,
            response,
            error: error.map(|error| error.message),
        };
        let code = exit_code(ending.status, workflow, has_refused, is_cancelled, is_cut);
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
                    Some(Ok(event)) => if let Some(status) = self.apply(event) { return Ok(status) },
                    Some(Err(error)) => return Err(error.into()),
                    None => bail!("the events of the session ended"),
                },
                event = self.tool_runner.next() => self.tool_runner_event(&event)?,
                Some(decided) = self.decisions.join_next() => decided??,
                () = deadline.signal() => match deadline.is_over() {
                    true => return Ok(TurnStatus::Cancelled),
                    false => self.cancel(),
                },
            }
        }
    }

    /// In its own task, because the server may not answer.
    fn cancel(&mut self) {
        note(self.show.language.text(Text::ExecCancelling));
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

    fn tool_runner_event(&self, event: &ToolRunnerEvent) -> anyhow::Result<()> {
        match event {
            ToolRunnerEvent::Ended { reason } => bail!("{reason}"),
            ToolRunnerEvent::Refused { .. }
            | ToolRunnerEvent::Brought { .. }
            | ToolRunnerEvent::Unknown { .. }
            | ToolRunnerEvent::Disconnected { .. } => {
                note(&line_of(event));
            }
            ToolRunnerEvent::McpServer { error, .. } => {
                if error.is_some() {
                    note(&line_of(event));
                }
            }
            ToolRunnerEvent::Started { .. }
            | ToolRunnerEvent::Progress { .. }
            | ToolRunnerEvent::Finished { .. }
            | ToolRunnerEvent::AskedAgain { .. }
            | ToolRunnerEvent::Closed { .. }
            | ToolRunnerEvent::Reconnected => {}
        }
        Ok(())
    }

    /// The status of the turn, once it has ended.
    fn apply(&mut self, event: StreamEvent<SessionEvent>) -> Option<TurnStatus> {
        let (changes, at) = match event.data {
            EventData::Chunk(event) => {
                self.show.event(&event);
                (self.view.apply(&event), event.timestamp)
            }
            EventData::Done(done) => {
                self.view.done(done.status);
                return done.status.is_end().then_some(done.status);
            }
            EventData::Other(_) => {
                event.id.iter().for_each(|seq| self.view.skip(*seq));
                return None;
            }
        };
        for change in &changes {
            self.show.change(change, &self.view, at);
            match change {
                SessionChange::Waits(call) => self.waits(call),
                SessionChange::Resolved(call, decision) => {
                    // It can be asked about again.
                    self.decided.remove(call);
                    self.resolved(decision);
                }
                SessionChange::StartedOver
                | SessionChange::MessageStored(_)
                | SessionChange::TextChanged { .. }
                | SessionChange::ReasoningChanged(_)
                | SessionChange::MessageQueued { .. }
                | SessionChange::MessageDequeued(_)
                | SessionChange::Call(_)
                | SessionChange::Progress(_)
                | SessionChange::Previewed(_)
                | SessionChange::QuestionEnded(_)
                | SessionChange::PlanCreated(_)
                | SessionChange::TaskStarted(..)
                | SessionChange::Task(..)
                | SessionChange::PlanEnded(_)
                | SessionChange::Error(_)
                | SessionChange::Note(_)
                | SessionChange::Used(_)
                | SessionChange::Stopped(_) => {}
            }
        }
        None
    }

    fn waits(&mut self, call: &CallId) {
        match self.view.waits(call) {
            Some(WaitingItem::Approval(request)) => self.decide(request.approval.clone()),
            Some(WaitingItem::Plan(request)) => self.decide(request.approval.clone()),
            Some(WaitingItem::Question(question)) => self.answer(question.clone()),
            None => {}
        }
    }

    fn resolved(&mut self, decision: &DecisionView) {
        self.is_refused |= matches!(
            decision.decision,
            ApprovalOutcome::Rejected | ApprovalOutcome::Expired
        );
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

    /// In its own task, because a person may need a while.
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
            let mut approval = approval;
            for _ in 0..MAX_SHOWN_AGAIN {
                let decision = approver.decide(&approval).await;
                let decided = repeated(RESTART_BACKOFF, || {
                    client.decide(&session, &approval.call_id, &decision)
                });
                let decided = decided.await;
                if !is_conflict(&decided) {
                    return settled(decided);
                }
                // The file may have changed while the person looked.
                match still_pending(&client, &session, &approval.call_id).await? {
                    Some(now) => approval = now,
                    None => return Ok(()),
                }
            }
            Ok(())
        });
    }
}

fn is_conflict<T>(answer: &Result<T, ClientError>) -> bool {
    let code = answer.as_ref().err().and_then(ClientError::error_code);
    code == Some(ErrorCode::Conflict)
}

/// The approval as it is now, if nobody has decided about it.
async fn still_pending(
    client: &Client,
    session: &SessionId,
    call: &CallId,
) -> Result<Option<ApprovalInfo>, ClientError> {
    let open = repeated(RESTART_BACKOFF, || {
        client.project_session_approvals(session, MAX_OPEN_APPROVALS, 0)
    });
    let mut open = open.await?.approvals.into_iter();
    let found = open.find(|open| open.approval.call_id == *call);
    Ok(found.map(|open| open.approval))
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
    is_cut: bool,
) -> u8 {
    match (status, workflow) {
        (TurnStatus::Cancelled, _) | (_, Some(WorkflowStatus::Cancelled)) if is_cancelled => {
            CANCELLED
        }
        _ if has_refused => NOT_APPROVED,
        (TurnStatus::Cancelled, _) | (_, Some(WorkflowStatus::Cancelled)) => CANCELLED,
        (TurnStatus::Failed, _) | (_, Some(WorkflowStatus::Failed)) => FAILED,
        (_, Some(WorkflowStatus::Partial)) => PARTIAL,
        // Half an answer must not look like a whole one to a script.
        _ if is_cut => PARTIAL,
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
        assert_eq!(exit_code(Completed, None, false, false, true), 4, "cut");
        assert_eq!(exit_code(Failed, None, false, false, true), 1);
        for (status, workflow, refused, cancelled, code) in cases {
            assert_eq!(
                exit_code(status, workflow, refused, cancelled, false),
                code,
                "{status:?} {workflow:?} {refused} {cancelled}"
            );
        }
    }
}
