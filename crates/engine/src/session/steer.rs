//! Messages that steer: what a person says to the agents that are at work.
//!
//! Such a message waits for the next model step of the running turn. There it becomes a message of
//! the history, after the tool results that came before. In a plan each task that works or starts
//! later is told it in its own thread. If the turn ends first, it waits like any other message.

use codelab_protocol::{
    AgentName, Attachment, ErrorCode, Message, MessageQueued, Role, SessionEventBody, SessionKind,
};
use serde::{Deserialize, Serialize};

use super::{QueuedMessage, Session, Transition};
use crate::turn::{Thread, Turn};
use crate::world::{MAX_STEERS, MAX_WAITING_BYTES};
use crate::{CallerAnswer, Refusal, UserMessage};

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
        let workflow = turn.and_then(Turn::workflow);
        let workflow_id = workflow.map(|workflow| workflow.workflow_id().clone());
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
        let queued = MessageQueued {
            message_id: waiting.message_id.clone(),
            workflow_id,
            position: self.session.steers.len() as u64 + 1,
            steers: true,
            content: waiting.text.clone(),
            attachments: waiting.attachments.clone(),
        };
        self.session.steers.push_back(waiting);
        self.log()
            .event(span.turn, SessionEventBody::MessageQueued(queued));
        Ok(CallerAnswer::Steers(span))
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
        for mut waiting in std::mem::take(&mut self.session.steers) {
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
}
