//! Questions of agents to people, and their answers.

use codelab_protocol::{Attachment, CallId, ErrorCode, Message, Role, TaskOrigin, Tool};

use super::call::ended_or_unknown;
use super::{Thread, ThreadPhase};
use crate::session::{Transition, in_one_line};
use crate::{CallStatus, CallerAnswer, KnownCall, Refusal, Session};

impl Session {
    /// The oldest open question of an agent, if there is one. An MCP server's question is answered
    /// only by its id: what a person says to an agent is not meant for the server.
    pub(crate) fn oldest_question(&self) -> Option<CallId> {
        let turn = self.turn.as_ref()?;
        let asked = turn.threads().filter_map(|thread| match &thread.phase {
            ThreadPhase::AwaitingAnswer {
                call_id, asked_seq, ..
            } => Some((*asked_seq, call_id)),
            ThreadPhase::AwaitingResult { .. }
            | ThreadPhase::Calling { .. }
            | ThreadPhase::Routing { .. }
            | ThreadPhase::Queued
            | ThreadPhase::Thinking { .. }
            | ThreadPhase::AwaitingApproval { .. }
            | ThreadPhase::AwaitingRoom
            | ThreadPhase::AwaitingBudget { .. } => None,
        });
        asked
            .min_by_key(|(seq, _)| *seq)
            .map(|(_, call_id)| call_id.clone())
    }
}

impl Transition<'_, '_> {
    pub(super) fn ask(
        &mut self,
        thread: Thread,
        call_id: CallId,
        question: String,
        options: Vec<String>,
    ) {
        self.output
            .open_call(&thread, &call_id, Tool::AskFollowupQuestion.as_str());
        let shown = in_one_line(&question);
        self.view()
            .show_question(&thread, &call_id, question, options);
        let phase = ThreadPhase::AwaitingAnswer {
            call_id,
            asked_seq: self.session.last_seq,
            question: shown,
            asked_at: Some(self.world.now),
        };
        self.suspend(thread, phase);
    }

    /// A person answered this question. For people the answer is a message of the session; for the
    /// thread that asked it is the result of its call.
    pub(crate) fn answered(
        &mut self,
        call_id: &CallId,
        text: String,
        attachments: Vec<Attachment>,
    ) -> Result<(), Refusal> {
        if let Some(lane) = self.session.eliciting(call_id) {
            return self.elicited(lane, text, attachments);
        }
        let Some(thread) = self.session.take_waiting(call_id) else {
            never!("the answered question is not open");
            return Ok(());
        };
        self.output.close_call(call_id, CallStatus::Finished);
        let message = Message {
            answers: Some(call_id.clone()),
            attachments: attachments.clone(),
            ..self.new_message(Role::User, text.clone())
        };
        self.view().show_answer_of_user(&thread, &message);
        let TaskOrigin { plan_id, task_id } = self.session.origin(&thread);
        self.message(
            thread.turn,
            None,
            Message {
                plan_id,
                task_id,
                ..message
            },
        );
        self.view().show_answered(&thread, call_id, &text);
        let result = Message {
            attachments,
            ..self.new_message(Role::Tool, text)
        };
        self.result_message(&thread, call_id, Tool::AskFollowupQuestion.as_str(), result);
        self.next_call(thread);
        Ok(())
    }

    /// Answers a question by its id.
    pub(crate) fn answer(
        &mut self,
        call_id: CallId,
        text: String,
        known: Option<KnownCall>,
    ) -> Result<CallerAnswer, Refusal> {
        match self
            .session
            .waiting_thread(&call_id)
            .map(|thread| &thread.phase)
        {
            Some(ThreadPhase::AwaitingAnswer { .. }) => {}
            None if self.session.eliciting(&call_id).is_some() => {}
            Some(
                ThreadPhase::Routing { .. }
                | ThreadPhase::Queued
                | ThreadPhase::Thinking { .. }
                | ThreadPhase::AwaitingResult { .. }
                | ThreadPhase::Calling { .. }
                | ThreadPhase::AwaitingApproval { .. }
                | ThreadPhase::AwaitingRoom
                | ThreadPhase::AwaitingBudget { .. },
            ) => {
                return Err(Refusal::new(
                    ErrorCode::Conflict,
                    "The call is not a question",
                ));
            }
            None => return Err(ended_or_unknown(&call_id, known.is_some())),
        }
        let span = self.session.here();
        self.answered(&call_id, text, Vec::new())?;
        Ok(CallerAnswer::Span(span))
    }
}
