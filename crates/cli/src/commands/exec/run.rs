//! One task from its message to its end: follows the session, decides what waits, stops on a signal.

use std::collections::HashSet;
use std::process::ExitCode;

use anyhow::bail;
use codelab_client::{Client, ClientError, EventData, ResumingEvents, Until};
use codelab_protocol::{
    ApprovalInfo, CallId, ChatEvent, ChatEventBody, ChatQuestion, ErrorCode, SendMessage, SessionId, TurnStatus,
    WorkflowStatus,
};
use codelab_terminal::{Hands, HandsEvent};
use tokio::task::JoinSet;

use super::super::hands::line_of;
use super::super::{StopSignals, note};
use super::approve::Approver;
use super::show::Show;

const FAILED: u8 = 1;
const NOT_APPROVED: u8 = 3;
const PARTIAL: u8 = 4;
const CANCELLED: u8 = 130;
/// How often the message is sent while the connection breaks; the server takes it once.
const SEND_ATTEMPTS: u32 = 5;

pub(super) struct Run {
    client: Client,
    session: SessionId,
    hands: Hands,
    approver: Approver,
    show: Show,
    /// What was decided or is being decided; a resumed stream shows nothing twice, a decision is made once.
    decided: HashSet<CallId>,
    decisions: JoinSet<Result<(), ClientError>>,
    workflow: Option<WorkflowStatus>,
    response: Option<String>,
    error: Option<String>,
}

/// How the task came out.
pub(super) struct Ending {
    pub status: TurnStatus,
    pub response: Option<String>,
    pub error: Option<String>,
}

impl Run {
    pub fn new(client: Client, session: SessionId, hands: Hands, approver: Approver, show: Show) -> Self {
        Self {
            client,
            session,
            hands,
            approver,
            show,
            decided: HashSet::new(),
            decisions: JoinSet::new(),
            workflow: None,
            response: None,
            error: None,
        }
    }

    pub async fn finish(mut self, message: &SendMessage) -> anyhow::Result<ExitCode> {
        let status = match self.send(message).await {
            Ok(()) => self.follow().await,
            Err(error) => Err(error),
        };
        let Self { session, hands, approver, show, workflow, response, error, mut decisions, .. } = self;
        decisions.abort_all();
        hands.stop().await;
        let ending = Ending { status: status?, response, error };
        let code = exit_code(ending.status, workflow, approver.has_refused());
        show.ending(&session, &ending, code);
        Ok(ExitCode::from(code))
    }

    /// The events of the message are read from the session's log, so that a lost connection loses nothing.
    async fn send(&self, message: &SendMessage) -> anyhow::Result<()> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.client.stream_chat(&self.session, message).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_passing() && attempt < SEND_ATTEMPTS => {
                    tokio::time::sleep(codelab_client::Backoff::default().delay(attempt)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn follow(&mut self) -> anyhow::Result<TurnStatus> {
        let mut events: ResumingEvents<ChatEvent> =
            ResumingEvents::new(self.client.clone(), self.session.clone(), None, Until::Dropped);
        let mut signals = StopSignals::new()?;
        let mut is_cancelled = false;
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => if let Some(status) = self.take(event.data) { return Ok(status) },
                    Some(Err(error)) => return Err(error.into()),
                    None => bail!("the events of the session ended"),
                },
                event = self.hands.next() => self.hands_said(&event)?,
                Some(decided) = self.decisions.join_next() => decided??,
                // A second one does not wait for the server.
                () = signals.next() => {
                    if std::mem::replace(&mut is_cancelled, true) {
                        return Ok(TurnStatus::Cancelled);
                    }
                    note("cancelling");
                    self.client.cancel_chat(&self.session, true).await?;
                }
            }
        }
    }

    fn hands_said(&self, event: &HandsEvent) -> anyhow::Result<()> {
        match event {
            HandsEvent::Ended { reason } => bail!("{reason}"),
            HandsEvent::Refused { .. } | HandsEvent::Unknown { .. } | HandsEvent::Disconnected { .. } => {
                note(&line_of(event));
            }
            _ => {}
        }
        Ok(())
    }

    /// The status of a turn that is over.
    fn take(&mut self, data: EventData<ChatEvent>) -> Option<TurnStatus> {
        let event = match data {
            EventData::Chunk(event) => event,
            EventData::Done(done) => return done.status.is_end().then_some(done.status),
            EventData::Other(_) => return None,
        };
        if !matches!(event.body, ChatEventBody::MessageDelta(_)) {
            self.show.event(&event);
        }
        match event.body {
            ChatEventBody::ApprovalRequest(asked) => self.decide(asked.approval),
            ChatEventBody::PlanRequest(asked) => self.decide(asked.approval),
            ChatEventBody::Question(question) => self.answer(question),
            ChatEventBody::TaskCompleted(done) if done.origin.task_id.is_none() => self.response = Some(done.response),
            ChatEventBody::WorkflowCompleted(done) => {
                self.workflow = Some(done.status);
                self.response = (!done.response.is_empty()).then_some(done.response);
            }
            ChatEventBody::Error(error) if error.origin.task_id.is_none() => self.error = Some(error.error.message),
            _ => {}
        }
        None
    }

    fn answer(&mut self, question: ChatQuestion) {
        if !self.decided.insert(question.call_id.clone()) {
            return;
        }
        let (client, session, approver) = (self.client.clone(), self.session.clone(), self.approver.clone());
        self.decisions.spawn(async move {
            let answer = approver.answer(&question).await;
            settled(client.answer_question(&session, &question.call_id, &answer).await)
        });
    }

    /// Beside the events, since a person may take a while.
    fn decide(&mut self, approval: ApprovalInfo) {
        if !self.decided.insert(approval.call_id.clone()) {
            return;
        }
        let (client, session, approver) = (self.client.clone(), self.session.clone(), self.approver.clone());
        self.decisions.spawn(async move {
            let decision = approver.decide(&approval).await;
            settled(client.decide(&session, &approval.call_id, &decision).await)
        });
    }
}

/// Somebody else may have decided meanwhile, or the call ended.
fn settled<T>(answer: Result<T, ClientError>) -> Result<(), ClientError> {
    match answer {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.error_code(), Some(ErrorCode::Conflict | ErrorCode::PendingApprovalNotFound)) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn exit_code(status: TurnStatus, workflow: Option<WorkflowStatus>, has_refused: bool) -> u8 {
    match (status, workflow) {
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
            (Completed, None, false, 0),
            (Completed, Some(WorkflowStatus::Completed), false, 0),
            (Completed, Some(WorkflowStatus::Partial), false, 4),
            (Completed, Some(WorkflowStatus::Failed), false, 1),
            (Completed, Some(WorkflowStatus::Cancelled), false, 130),
            (Failed, None, false, 1),
            (Cancelled, None, false, 130),
            (Completed, None, true, 3),
            (Failed, None, true, 3),
        ];
        for (status, workflow, refused, code) in cases {
            assert_eq!(exit_code(status, workflow, refused), code, "{status:?} {workflow:?} {refused}");
        }
    }
}
