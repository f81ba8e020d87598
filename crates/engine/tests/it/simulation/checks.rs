//! What was committed in a life, and the promises it must keep.

use std::collections::{BTreeMap, BTreeSet};

use codelab_engine::{
    ApprovalOutcome, CallStatus, Effect, EventBody, EventRange, EventRecord, Input, KnownCall,
    MessageRecord, ModelCallId, Purpose, Session, SessionLimits,
};
use codelab_protocol::{CallId, ChunkBody, Digest, Role, TurnId, TurnStatus};
use serde_json::{Map, Value};

#[derive(Default)]
pub struct Record {
    last_seq: u64,
    messages: u64,
    texts: usize,
    model: Option<ModelCallId>,
    steps: BTreeMap<TurnId, BTreeSet<u32>>,
    /// Calls of assistant messages that have no result yet.
    unanswered: BTreeSet<CallId>,
    calls: BTreeMap<CallId, Call>,
    approvals: BTreeMap<CallId, Asked>,
    ended: BTreeMap<TurnId, TurnStatus>,
    begun: Vec<TurnId>,
}

#[derive(Default)]
struct Call {
    status: Option<CallStatus>,
    result: Option<(Digest, EventRange)>,
    dispatched: Option<Map<String, Value>>,
}

struct Asked {
    arguments: Map<String, Value>,
    status: Option<ApprovalOutcome>,
    modified: Option<Map<String, Value>>,
    audited: usize,
}

impl Record {
    pub fn commit(
        &mut self,
        input: &Input,
        effects: &[Effect],
        session: &Session,
        limits: &SessionLimits,
    ) {
        if let Input::ModelFinished { call, .. } = input
            && self.model == Some(*call)
        {
            self.model = None;
        }
        // What the session does not expect any more is stopped.
        let wanted = session.model_calls();
        self.model = self
            .model
            .filter(|call| wanted.iter().any(|(wanted, _)| wanted == call));
        for effect in effects {
            match effect {
                Effect::CallTool { .. } | Effect::Elicited { .. } => {
                    panic!("a session of the runtime kind has no tools of MCP servers")
                }
                Effect::Event(event) => self.event(event),
                Effect::Message(message) => self.message(message),
                Effect::CallOpened { call_id, .. } => {
                    let fresh = self
                        .calls
                        .insert(call_id.clone(), Call::default())
                        .is_none();
                    assert!(fresh, "{call_id} opened twice");
                }
                Effect::CallClosed {
                    call_id,
                    status,
                    result_digest,
                    span,
                } => {
                    let call = self
                        .calls
                        .get_mut(call_id)
                        .expect("closed a call that was never opened");
                    assert_eq!(call.status.replace(*status), None, "{call_id} closed twice");
                    call.result = result_digest.clone().zip(*span);
                }
                Effect::ApprovalOpened(approval) => {
                    let (arguments, status) = (approval.arguments.clone(), None);
                    let asked = Asked {
                        arguments,
                        status,
                        modified: None,
                        audited: 0,
                    };
                    assert!(
                        self.approvals
                            .insert(approval.call_id.clone(), asked)
                            .is_none(),
                        "asked twice"
                    );
                }
                Effect::ApprovalClosed { call_id, status } => {
                    let asked = self
                        .approvals
                        .get_mut(call_id)
                        .expect("closed an approval that was never opened");
                    assert_eq!(
                        asked.status.replace(*status),
                        None,
                        "{call_id} decided twice"
                    );
                }
                Effect::Audit(row) => {
                    if let Some(asked) = self.approvals.get_mut(&row.call_id) {
                        asked.audited += 1;
                        asked.modified = row.modified.clone();
                        assert_eq!(
                            asked.arguments, row.original,
                            "the audit log shows other arguments"
                        );
                    }
                }
                Effect::CallModel(call) => {
                    assert_eq!(self.model.replace(call.id), None, "two model calls at once");
                    if matches!(call.purpose, Purpose::Step { .. }) {
                        assert!(
                            self.unanswered.is_empty(),
                            "the model is called before {:?} have results",
                            self.unanswered
                        );
                        let steps = self.steps.entry(call.id.turn).or_default();
                        steps.insert(call.id.step);
                        assert!(steps.len() <= limits.steps as usize, "too many steps");
                    }
                }
                Effect::ApprovalMoved { .. }
                | Effect::ApprovalPreviewed { .. }
                | Effect::Attached(_)
                | Effect::ForgetReasoning { .. }
                | Effect::Switched(_)
                | Effect::InputAccepted { .. }
                | Effect::Title(_) => {}
                Effect::PlanSaved { .. }
                | Effect::Spent(_)
                | Effect::ProjectBudget { .. }
                | Effect::TakeSlot { .. }
                | Effect::QueueForSlot { .. }
                | Effect::LeaveSlot { .. }
                | Effect::AgentQueueFull { .. }
                | Effect::ReserveBudget { .. }
                | Effect::SpendBudget { .. }
                | Effect::Remember(_) => {
                    panic!("an effect of projects")
                }
            }
        }
        self.after(input, session, limits);
    }

    fn after(&self, input: &Input, session: &Session, limits: &SessionLimits) {
        assert_eq!(session.last_seq(), self.last_seq);
        assert_eq!(session.message_count(), self.messages);
        assert!(
            session.queued() <= limits.queue_length,
            "the queue is longer than its limit"
        );
        let expected = session
            .turn()
            .and_then(|turn| turn.model_calls().first().map(|(call, _)| *call));
        assert_eq!(expected, self.model, "after {input:?}");
        assert_eq!(session.is_running(), self.model.is_some());
        let pending: Vec<&CallId> = self
            .approvals
            .iter()
            .filter(|(_, asked)| asked.status.is_none())
            .map(|(id, _)| id)
            .collect();
        let shown: Vec<&CallId> = session
            .pending_approvals()
            .map(|approval| &approval.call_id)
            .collect();
        assert_eq!(pending, shown, "the pending approvals differ");
    }

    fn event(&mut self, event: &EventRecord) {
        self.last_seq += 1;
        assert_eq!(event.seq, self.last_seq, "event numbers have a gap");
        assert!(
            !self.ended.contains_key(&event.turn),
            "turn {} goes on after its end",
            event.turn
        );
        if let EventBody::Chunk(ChunkBody::ToolCall(shown)) = &event.body
            && !shown.requires_approval
        {
            self.dispatched(&shown.tool_call.call_id, &shown.tool_call.arguments);
        }
        if let Some(status @ (TurnStatus::Completed | TurnStatus::Failed | TurnStatus::Cancelled)) =
            event.settled
        {
            self.ended.insert(event.turn, status);
        }
    }

    fn dispatched(&mut self, call_id: &CallId, arguments: &Map<String, Value>) {
        if let Some(asked) = self.approvals.get(call_id) {
            let expected = match asked.status {
                Some(ApprovalOutcome::Approved) => Some(&asked.arguments),
                Some(ApprovalOutcome::Edited) => asked.modified.as_ref(),
                _ => panic!("{call_id} runs without a yes"),
            };
            assert_eq!(
                expected,
                Some(arguments),
                "what runs is not what was approved"
            );
        }
        let call = self
            .calls
            .get_mut(call_id)
            .expect("dispatched a call that was never opened");
        assert_eq!(
            call.dispatched.replace(arguments.clone()),
            None,
            "{call_id} runs twice"
        );
    }

    fn message(&mut self, record: &MessageRecord) {
        assert_eq!(record.ord, self.messages, "message numbers have a gap");
        self.messages += 1;
        match record.message.role {
            // It answers a question of the turn that runs.
            Role::User if record.message.answers.is_some() => {
                assert_eq!(
                    self.begun.last(),
                    Some(&record.turn),
                    "an answer in another turn"
                );
            }
            Role::User => {
                assert!(
                    self.begun.last().is_none_or(|last| *last < record.turn),
                    "messages changed their order"
                );
                self.begun.push(record.turn);
            }
            Role::Assistant => {
                self.unanswered.extend(
                    record
                        .message
                        .tool_calls
                        .iter()
                        .map(|call| call.call_id.clone()),
                );
            }
            Role::Tool => {
                let call_id = record.message.tool_call_id.as_ref().unwrap();
                assert!(
                    self.unanswered.remove(call_id),
                    "{call_id} has a second result, or one without a call"
                );
            }
            Role::System => {}
        }
    }

    /// Every accepted message came to an end; nothing is left open.
    pub fn at_rest(&self, session: &Session) {
        assert!(session.turn().is_none(), "the session never came to rest");
        assert_eq!(session.queued(), 0);
        for turn in &self.begun {
            assert!(self.ended.contains_key(turn), "turn {turn} never ended");
        }
        assert!(
            self.unanswered.is_empty(),
            "calls without results: {:?}",
            self.unanswered
        );
        for (call_id, call) in &self.calls {
            assert!(call.status.is_some(), "{call_id} is still open");
        }
        for (call_id, asked) in &self.approvals {
            let decided = asked.status.expect("an approval is still open");
            let rows = usize::from(decided != ApprovalOutcome::Cancelled);
            assert_eq!(
                asked.audited, rows,
                "{call_id} ({decided:?}) has {} audit rows",
                asked.audited
            );
        }
    }

    pub fn model_lost(&mut self) {
        self.model = None;
    }

    pub fn next_text(&mut self) -> usize {
        self.texts += 1;
        self.texts
    }

    pub fn call_ids(&self) -> Vec<CallId> {
        self.calls.keys().cloned().collect()
    }

    pub fn known_call(&self, call_id: &CallId) -> Option<KnownCall> {
        let call = self.calls.get(call_id)?;
        let (result_digest, span) = call.result.clone().unzip();
        Some(KnownCall {
            result_digest,
            span,
        })
    }

    pub fn known_approval(&self, call_id: &CallId) -> bool {
        self.approvals
            .get(call_id)
            .is_some_and(|asked| asked.status.is_some())
    }
}
