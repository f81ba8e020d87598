//! Answers that were not finished: what people saw of one stays when its turn is stopped or fails.
//!
//! Only what was streamed by this server counts. After a crash nothing partial is kept: the call is
//! made again.

use codelab_protocol::{
    AgentName, ErrorData, Message, MessageId, PartialReason, Role, SessionKind, TaskOrigin, TurnId,
};

use super::{Thread, ThreadPhase, cut};
use crate::session::Transition;
use crate::world::MAX_PARTIAL_BYTES;

impl Transition<'_, '_> {
    /// What was streamed of an answer. The runtime API stores whole answers only.
    pub(crate) fn streamed(&self, message_id: &MessageId, attempt: u32) -> Option<String> {
        if self.session.kind == SessionKind::Runtime {
            return None;
        }
        let text = self.world.streamed.text(message_id, attempt)?;
        let kept = cut(&text, MAX_PARTIAL_BYTES);
        (!kept.trim().is_empty()).then(|| kept.to_owned())
    }

    /// The answer that the thread's model was writing, and the id that it was streamed under.
    fn unfinished(&self, thread: &Thread) -> Option<(MessageId, String)> {
        let ThreadPhase::Thinking {
            message_id,
            attempt,
        } = &thread.phase
        else {
            return None;
        };
        // A turn can fail because of what its whole answer asks for.
        if thread.answer_id.as_ref() == Some(message_id) {
            return None;
        }
        let text = self.streamed(message_id, *attempt)?;
        Some((message_id.clone(), text))
    }

    /// Keeps what a thread that was stopped had said. The text is returned as well.
    pub(super) fn keep_stopped(&mut self, thread: &Thread) -> Option<String> {
        let (message_id, text) = self.unfinished(thread)?;
        let partial = self
            .said_by(&thread.agent, message_id, text.clone())
            .into_partial(PartialReason::Stopped);
        self.keep_partial(thread.turn, self.session.task_of(thread), partial);
        Some(text)
    }

    /// A failure is part of the conversation: the person who comes back later finds it there. What
    /// was streamed before it is its text, else the error is.
    pub(super) fn keep_failure(&mut self, thread: &Thread, error: &ErrorData) {
        let message = match self.unfinished(thread) {
            Some((message_id, text)) => self.failed(&thread.agent, message_id, text, error),
            None => {
                let message_id = self.world.ids.message_id();
                Message {
                    error: true,
                    ..self.said_by(&thread.agent, message_id, error.message.clone())
                }
            }
        };
        self.keep_partial(thread.turn, None, message);
    }

    /// Keeps what a task had said when it failed, in its own thread. The text is returned as well.
    pub(super) fn keep_failed_task(
        &mut self,
        thread: &Thread,
        error: &ErrorData,
    ) -> Option<String> {
        let (message_id, text) = self.unfinished(thread)?;
        let message = self.failed(&thread.agent, message_id, text.clone(), error);
        self.keep_partial(thread.turn, self.session.task_of(thread), message);
        Some(text)
    }

    pub(crate) fn keep_partial(
        &mut self,
        turn: TurnId,
        task: Option<TaskOrigin>,
        message: Message,
    ) {
        self.view().show_message(turn, &message, task.clone());
        self.message(turn, task, message);
    }

    fn failed(
        &self,
        agent: &AgentName,
        message_id: MessageId,
        text: String,
        error: &ErrorData,
    ) -> Message {
        Message {
            error: true,
            error_message: Some(error.message.clone()),
            ..self
                .said_by(agent, message_id, text)
                .into_partial(PartialReason::Failed)
        }
    }

    pub(crate) fn said_by(
        &self,
        agent: &AgentName,
        message_id: MessageId,
        text: String,
    ) -> Message {
        Message {
            agent_id: Some(agent.clone()),
            name: Some(agent.clone().into()),
            ..Message::new(message_id, Role::Assistant, text, self.world.now)
        }
    }
}
