//! Messages that steer: what a person says to the agents that are at work.
//!
//! Such a message waits for the next model step of the running turn. There it becomes a message of
//! the history, after the tool results that came before. In a plan each task that works or starts
//! later is told it in its own thread. If the turn ends first, it waits like any other message.

use codelab_protocol::{
    AgentName, Attachment, Delivery, DequeueReason, ErrorCode, Message, MessageDequeued, MessageId,
    MessageQueued, Role, SessionEventBody, SessionKind, TurnStatus,
};
use serde::{Deserialize, Serialize};

use super::{QueuedMessage, Session, Transition};
use crate::turn::{Thread, Turn};
use crate::world::{MAX_STEERS, MAX_WAITING_BYTES};
use crate::{CallerAnswer, Refusal, UserMessage, WaitingWish};

/// A message that steered a plan, for the tasks that have not heard it yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ToldMessage {
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

impl Session {
    /// Messages that wait for the next tool results of the turn.
    pub fn steering(&self) -> usize {
        self.steers.len()
    }

    /// What steered the plan of the current turn, for whoever writes its answer.
    pub(crate) fn steered_by(&self) -> impl Iterator<Item = &str> {
        let told = self.turn.iter().flat_map(|turn| &turn.told);
        told.map(|told| told.text.as_str())
    }
}

impl Transition<'_, '_> {
    /// `named` is the agent that the message names. It does not matter while the turn takes the
    /// message; it is who gets it otherwise, or the agent that the turn called.
    pub(super) fn steer(
        &mut self,
        message: UserMessage,
        named: Option<AgentName>,
    ) -> Result<CallerAnswer, Refusal> {
        self.room_to_steer(&message.text)?;
        let span = self.session.here();
        self.output.input_accepted(message.client_message_id, span);
        let turn = self.session.turn.as_ref();
        let called = turn.and_then(|turn| turn.called.clone());
        let attachments = self.output.attach(message.attachments);
        let waiting = QueuedMessage {
            // For the case that the turn does not take it.
            turn: self.session.new_turn_id(),
            message_id: self.world.ids.message_id(),
            workflow_id: None,
            text: message.text,
            agent: named.or(called).or(message.agent),
            caller: message.caller,
            retries: None,
            attachments,
        };
        self.wait_to_steer(waiting);
        Ok(CallerAnswer::Steers(span))
    }

    fn wait_to_steer(&mut self, waiting: QueuedMessage) {
        let span = self.session.here();
        let workflow = self.session.turn.as_ref().and_then(Turn::workflow);
        let queued = MessageQueued {
            message_id: waiting.message_id.clone(),
            workflow_id: workflow.map(|workflow| workflow.workflow_id().clone()),
            position: self.session.steers.len() as u64 + 1,
            steers: true,
            content: waiting.text.clone(),
            attachments: waiting.attachments.clone(),
        };
        self.session.steers.push_back(waiting);
        self.log()
            .event(span.turn, SessionEventBody::MessageQueued(queued));
    }

    /// A message that waits steers instead, waits for the turn's end instead, or is taken back.
    pub(super) fn change_waiting(
        &mut self,
        id: &MessageId,
        wish: WaitingWish,
    ) -> Result<CallerAnswer, Refusal> {
        let is_it = |waiting: &QueuedMessage| waiting.message_id == *id;
        let queued = self.session.queue.iter().position(is_it);
        let steers = self.session.steers.iter().position(is_it);
        match (wish, queued, steers) {
            (_, None, None) => {
                let why = "No such message waits; it may have been told already";
                let refusal = Refusal::new(ErrorCode::NotFound, why);
                return Err(refusal.with("message_id", id.as_str()));
            }
            (WaitingWish::TakeBack, ..) => {
                let queued = queued.and_then(|place| self.session.queue.remove(place));
                let taken = queued.or_else(|| steers.and_then(|at| self.session.steers.remove(at)));
                if let Some(waiting) = taken {
                    self.dequeued(&waiting, DequeueReason::TakenBack);
                }
            }
            (WaitingWish::Deliver(Delivery::Steer), Some(place), _) => self.steer_with(place)?,
            (WaitingWish::Deliver(Delivery::Queue), _, Some(place)) => {
                let text = self.session.steers.get(place).map(|waiting| &waiting.text);
                self.room_to_wait(text.map_or("", String::as_str))?;
                if let Some(waiting) = self.session.steers.remove(place) {
                    self.queue_one(waiting);
                }
            }
            // It is so already.
            (WaitingWish::Deliver(_), ..) => {}
        }
        // The newest event of a turn says how it stands.
        if let Some(status) = self.session.suspended() {
            self.output.settle_turn(self.session.here().turn, status);
        }
        Ok(CallerAnswer::Nothing)
    }

    /// The message of this place in the queue steers the turn that runs. The turn that it waited for
    /// is given up; if this one does not take it, it gets another.
    fn steer_with(&mut self, place: usize) -> Result<(), Refusal> {
        let Some(turn) = &self.session.turn else {
            let why = "No turn runs that the message could steer";
            return Err(Refusal::new(ErrorCode::Conflict, why));
        };
        let called = turn.called.clone();
        let text = self.session.queue.get(place).map(|waiting| &waiting.text);
        self.room_to_steer(text.map_or("", String::as_str))?;
        if let Some(mut waiting) = self.session.queue.remove(place) {
            self.dequeued(&waiting, DequeueReason::Steers);
            waiting.turn = self.session.new_turn_id();
            waiting.workflow_id = None;
            waiting.agent = waiting.agent.or(called);
            self.wait_to_steer(waiting);
        }
        Ok(())
    }

    /// Whoever waits for the turn of the message is told that there will be none.
    fn dequeued(&mut self, waiting: &QueuedMessage, reason: DequeueReason) {
        let taken_back = MessageDequeued {
            message_id: waiting.message_id.clone(),
            reason,
        };
        self.log()
            .event(waiting.turn, SessionEventBody::MessageDequeued(taken_back));
        self.output.settle(TurnStatus::Cancelled);
    }

    /// What steers is part of the session's state, and of a plan's until it ends.
    fn room_to_steer(&self, text: &str) -> Result<(), Refusal> {
        let told = self.session.turn.iter().flat_map(|turn| &turn.told);
        let steers = self.session.steers.iter();
        let texts = steers.map(|waiting| &waiting.text);
        let sizes: Vec<usize> = texts
            .chain(told.map(|told| &told.text))
            .map(String::len)
            .collect();
        let full = |why: String| {
            let why = format!("{why}; send it with delivery \"queue\"");
            Err(Refusal::new(ErrorCode::QueueFull, why).with("steering", sizes.len()))
        };
        if sizes.len() >= MAX_STEERS {
            return full(format!("{MAX_STEERS} messages steer this turn already"));
        }
        if sizes.iter().sum::<usize>() + text.len() > MAX_WAITING_BYTES {
            let limit = MAX_WAITING_BYTES;
            return full(format!(
                "The messages that steer would be longer than {limit} bytes together"
            ));
        }
        Ok(())
    }

    /// The thread's next model step hears what waits.
    pub(crate) fn tell_steers(&mut self, thread: &mut Thread) {
        let task = self.session.task_of(thread);
        for waiting in std::mem::take(&mut self.session.steers) {
            let message = Message {
                message_id: waiting.message_id,
                steered: true,
                attachments: waiting.attachments.clone(),
                ..self.new_message(Role::User, waiting.text.clone())
            };
            let turn = self.session.turn.as_ref();
            let workflow = turn.and_then(Turn::workflow);
            let workflow_id = workflow.map(|workflow| workflow.workflow_id().clone());
            self.view()
                .show_user_message(thread.turn, &message, workflow_id);
            self.message(thread.turn, None, message);
            if let Some(turn) = self.session.turn.as_mut().filter(|_| task.is_some()) {
                turn.told.push(ToldMessage {
                    text: waiting.text,
                    attachments: waiting.attachments,
                });
            }
        }
        let told = self.session.turn.iter().flat_map(|turn| &turn.told);
        let news: Vec<ToldMessage> = told.skip(thread.heard_steers).cloned().collect();
        thread.heard_steers += news.len();
        for ToldMessage { text, attachments } in news {
            let message = Message {
                steered: true,
                attachments,
                ..self.new_message(Role::User, text)
            };
            self.message(thread.turn, task.clone(), message);
        }
    }

    /// The turn ends without having heard them: they wait for turns of their own, in the order in
    /// which everything was said.
    pub(crate) fn queue_steers(&mut self) {
        for waiting in std::mem::take(&mut self.session.steers) {
            self.queue_one(waiting);
        }
    }

    fn queue_one(&mut self, mut waiting: QueuedMessage) {
        if waiting.agent.is_none() && self.session.kind == SessionKind::Project {
            waiting.workflow_id = Some(self.world.ids.workflow_id());
        }
        let mut queue = self.session.queue.iter();
        let place = queue.position(|later| later.turn > waiting.turn);
        let place = place.unwrap_or(self.session.queue.len());
        let queued = MessageQueued {
            message_id: waiting.message_id.clone(),
            workflow_id: waiting.workflow_id.clone(),
            position: place as u64 + 1,
            steers: false,
            content: waiting.text.clone(),
            attachments: waiting.attachments.clone(),
        };
        let turn = waiting.turn;
        self.session.queue.insert(place, waiting);
        self.log()
            .event(turn, SessionEventBody::MessageQueued(queued));
    }
}
