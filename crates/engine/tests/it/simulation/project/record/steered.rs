//! What people said to agents at work: each message is told once, or waits for a turn of its own.

use std::collections::{BTreeMap, BTreeSet};

use codelab_engine::{MessageRecord, ModelCallId, Session};
use codelab_protocol::{DequeueReason, MessageId, SessionEventBody, TaskId, TaskOrigin, TurnId};

#[derive(Default)]
pub struct Steered {
    /// Messages that wait for the next step of their turn.
    waiting: BTreeMap<MessageId, TurnId>,
    /// Those whose turn ended first, or that a person let wait.
    queued: BTreeSet<MessageId>,
    /// Those that never steered.
    plain: BTreeSet<MessageId>,
    over: BTreeSet<MessageId>,
    /// What each plan was told, and what each of its tasks has heard.
    told: BTreeMap<TurnId, usize>,
    heard: BTreeMap<(TurnId, Option<TaskId>), usize>,
}

impl Steered {
    pub fn event(&mut self, turn: TurnId, body: &SessionEventBody) {
        match body {
            SessionEventBody::MessageQueued(queued) if queued.steers => {
                let before = self.waiting.insert(queued.message_id.clone(), turn);
                assert_eq!(before, None, "a message steers twice");
            }
            SessionEventBody::MessageQueued(queued)
                if self.waiting.remove(&queued.message_id).is_some() =>
            {
                self.queued.insert(queued.message_id.clone());
            }
            SessionEventBody::MessageQueued(queued) => {
                self.plain.insert(queued.message_id.clone());
            }
            SessionEventBody::MessageDequeued(back) => {
                let waited = self.waiting.remove(&back.message_id).is_some()
                    | self.queued.remove(&back.message_id)
                    | self.plain.remove(&back.message_id);
                assert!(
                    waited,
                    "{} was taken back and did not wait",
                    back.message_id
                );
                // One that steers from now on is still to be said.
                if back.reason != DequeueReason::Steers {
                    self.end(&back.message_id);
                }
            }
            SessionEventBody::MessageCreated(created) => {
                let id = &created.message.message_id;
                if created.message.steered {
                    let steers = self.waiting.remove(id);
                    assert_eq!(steers, Some(turn), "{id} was told to another turn");
                    self.end(id);
                } else if self.queued.remove(id) | self.plain.remove(id) {
                    self.end(id);
                }
            }
            _ => {}
        }
    }

    pub fn all_waiting(&self) -> Vec<MessageId> {
        let steering = self.waiting.keys();
        let queued = self.queued.iter().chain(&self.plain);
        steering.chain(queued).cloned().collect()
    }

    fn end(&mut self, id: &MessageId) {
        assert!(self.over.insert(id.clone()), "{id} was said twice");
    }

    pub fn message(&mut self, record: &MessageRecord) {
        if !record.message.steered {
            return;
        }
        match &record.task {
            None => *self.told.entry(record.turn).or_default() += 1,
            Some(task) => {
                let thread = (record.turn, task.task_id.clone());
                *self.heard.entry(thread).or_default() += 1;
            }
        }
    }

    /// A task that asks its model has heard everything that was told so far, once.
    pub fn step(&self, call: ModelCallId, origin: &TaskOrigin) {
        if origin.task_id.is_some() {
            let told = self.told.get(&call.turn).copied().unwrap_or_default();
            let heard = self
                .heard
                .get(&(call.turn, origin.task_id.clone()))
                .copied();
            assert_eq!(heard.unwrap_or_default(), told, "{origin:?} of {call:?}");
        }
    }

    /// The session holds what waits, and only while it has a turn.
    pub fn agrees(&self, session: &Session) {
        assert_eq!(session.steering(), self.waiting.len());
        assert!(
            session.turn().is_some() || session.steering() == 0,
            "a message steers nothing"
        );
    }

    /// Messages that are in the queue beyond its limit, because they steered.
    pub fn queued(&self) -> usize {
        self.queued.len()
    }
}
