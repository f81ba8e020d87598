//! Messages of people, and their choice of an agent.

use codelab_protocol::{
    AgentName, AttachedFile, Attachment, ClientMessageId, Delivery, ErrorCode, MessageQueued,
    SessionEventBody, SessionKind, TurnStatus,
};

use super::{QueuedMessage, REQUESTED, Session, Transition};
use crate::output::Output;
use crate::turn::Thread;
use crate::world::MAX_WAITING_BYTES;
use crate::{CallerAnswer, Effect, EventRange, Refusal, Team, UserMessage};

impl Output {
    pub(super) fn input_accepted(
        &mut self,
        client_message_id: Option<ClientMessageId>,
        span: EventRange,
    ) {
        if let Some(client_message_id) = client_message_id {
            self.push(Effect::InputAccepted {
                client_message_id,
                span,
            });
        }
    }

    /// Has the files stored, and returns what the session keeps of them.
    pub(crate) fn attach(&mut self, files: Vec<AttachedFile>) -> Vec<Attachment> {
        let about = files.iter().map(|file| file.about.clone()).collect();
        files
            .into_iter()
            .for_each(|file| self.push(Effect::Attached(file)));
        about
    }
}

impl Session {
    /// The agent that a message goes to: the one that it names, else the one that was chosen for the
    /// session. None if it answers a question, or is to be planned.
    pub fn addressee(&self, named: Option<AgentName>, team: &Team) -> Option<AgentName> {
        let is_there = |agent: &&AgentName| team.get(agent).is_some();
        let chosen = || self.chosen.as_ref().filter(is_there).cloned();
        named.or_else(|| match self.oldest_question() {
            Some(_) => None,
            None => chosen(),
        })
    }

    /// The agent whose question a message answers that names nobody.
    pub fn asking_agent(&self) -> Option<&AgentName> {
        let question = self.oldest_question()?;
        let asks = |thread: &&Thread| thread.asks(&question);
        let thread = self.turn.as_ref()?.threads().find(asks)?;
        Some(&thread.agent)
    }
}

impl Transition<'_, '_> {
    pub(super) fn user_message(
        &mut self,
        mut message: UserMessage,
    ) -> Result<CallerAnswer, Refusal> {
        let team = self.world.team;
        let named = message.agent.clone();
        let steers = message.delivery == Delivery::Steer
            && self.session.turn.is_some()
            && self.session.kind == SessionKind::Project;
        message.agent = self.session.addressee(message.agent, team);
        // One that was removed meanwhile is not chosen any more.
        let is_there = |agent: &AgentName| team.get(agent).is_some();
        self.session.chosen = self.session.chosen.take().filter(is_there);
        if let Some(agent) = &message.agent {
            self.world.team.known_agent(agent)?;
            // Whoever works now hears what steers.
            if !steers {
                self.free_agent(agent)?;
            }
        }
        // In a project a message that names an agent is a request of its own; in the
        // runtime kind the name only pins.
        if (message.agent.is_none() || self.session.kind == SessionKind::Runtime)
            && let Some(question) = self.session.oldest_question()
        {
            if let Some(agent) = &message.agent {
                self.session.pin(agent);
                self.session.requested = true;
            }
            let span = self.session.here();
            self.output.input_accepted(message.client_message_id, span);
            let attachments = self.output.attach(message.attachments);
            self.answered(&question, message.text, attachments)?;
            return Ok(CallerAnswer::Answered(span));
        }
        if steers {
            return self.steer(message, named);
        }
        self.room_to_wait(&message.text)?;
        let span = EventRange {
            turn: self.session.new_turn_id(),
            after_seq: self.session.last_seq,
        };
        self.output.input_accepted(message.client_message_id, span);
        let message_id = self.world.ids.message_id();
        let UserMessage {
            text,
            agent,
            caller,
            attachments,
            ..
        } = message;
        let attachments = self.output.attach(attachments);
        let planned = self.session.kind == SessionKind::Project && agent.is_none();
        let workflow_id = planned.then(|| self.world.ids.workflow_id());
        let waiting = QueuedMessage {
            turn: span.turn,
            message_id,
            workflow_id,
            text,
            agent,
            caller,
            retries: None,
            attachments,
        };
        if !self.session.is_idle() {
            self.enqueue(waiting);
        } else {
            self.begin_turn(waiting);
        }
        Ok(CallerAnswer::Span(span))
    }

    /// What waits is part of the session's state, which each of its commits writes.
    pub(super) fn room_to_wait(&self, text: &str) -> Result<(), Refusal> {
        let (queue, limit) = (&self.session.queue, self.world.limits.queue_length);
        if self.session.is_idle() || queue.is_empty() && limit > 0 {
            return Ok(());
        }
        if queue.len() >= limit {
            let why = format!("{limit} messages are already waiting");
            return Err(Refusal::new(ErrorCode::QueueFull, why).with("queue_length", limit));
        }
        let bytes = queue
            .iter()
            .map(|waiting| waiting.text.len())
            .sum::<usize>()
            + text.len();
        if bytes > MAX_WAITING_BYTES {
            let why = format!(
                "The messages that wait would be longer than {MAX_WAITING_BYTES} bytes together"
            );
            return Err(Refusal::new(ErrorCode::QueueFull, why).with("queue_length", queue.len()));
        }
        Ok(())
    }

    fn enqueue(&mut self, waiting: QueuedMessage) {
        let (turn, message_id) = (waiting.turn, waiting.message_id.clone());
        let workflow_id = waiting.workflow_id.clone();
        let (content, attachments) = (waiting.text.clone(), waiting.attachments.clone());
        self.session.queue.push_back(waiting);
        if self.session.kind == SessionKind::Project {
            let position = self.session.queue.len() as u64;
            self.log().event(
                turn,
                SessionEventBody::MessageQueued(MessageQueued {
                    message_id,
                    workflow_id,
                    position,
                    steers: false,
                    content,
                    attachments,
                }),
            );
        }
    }

    /// A message to an agent that takes no work is refused before it is accepted.
    pub(super) fn free_agent(&self, agent: &AgentName) -> Result<(), Refusal> {
        if self.session.kind == SessionKind::Runtime {
            return Ok(());
        }
        self.space
            .check(agent)
            .map_err(|closed| Refusal::of_agent(agent, closed))
    }

    pub(super) fn switch_requested(&mut self, agent: AgentName) -> Result<CallerAnswer, Refusal> {
        self.world.team.known_agent(&agent)?;
        self.session.pin(&agent);
        if let Some(turn) = &self.session.turn {
            self.session.requested = true;
            let here = EventRange {
                turn: turn.id,
                after_seq: self.session.last_seq,
            };
            return Ok(turn
                .suspended()
                .map_or(CallerAnswer::Span(here), CallerAnswer::Now));
        }
        if agent == self.session.current {
            return Ok(CallerAnswer::Now(TurnStatus::Completed));
        }
        let span = EventRange {
            turn: self.session.new_turn_id(),
            after_seq: self.session.last_seq,
        };
        self.switch(span.turn, agent, REQUESTED.to_owned(), None);
        self.output.settle(TurnStatus::Completed);
        Ok(CallerAnswer::Span(span))
    }
}
