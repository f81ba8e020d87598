//! How a turn ends, and what follows: back home, then the next message that waits.

use codelab_protocol::{
    ChunkBody, Completion, CompletionStatus, ErrorCode, ErrorData, MessageId, ModelOutput, TurnId, TurnStatus,
};

use super::{COMPLETED, Phase, Turn, error_data};
use crate::session::Step;
use crate::world::MAX_LAST_ERROR_BYTES;
use crate::{Answer, ApprovalStatus, CallStatus, Effect, orchestrator};

impl Step<'_, '_> {
    pub(crate) fn complete_turn(&mut self, turn: Turn, message: String) {
        let agent = self.session.current.clone();
        self.return_home(turn.id, "turn_completed");
        let completion = Completion { status: CompletionStatus::Success, message, agent };
        self.event(turn.id, ChunkBody::Completion(completion));
        self.settle(TurnStatus::Completed);
        self.begin_next();
    }

    /// The agent called `attempt_completion`: its result is the answer.
    pub(crate) fn completed_by_tool(
        &mut self,
        turn: Turn,
        message_id: MessageId,
        output: &ModelOutput,
        result: String,
    ) {
        self.show_answer(&turn, &message_id, output);
        let said = output.text.trim();
        let content = match (said.is_empty(), result.trim().is_empty()) {
            (true, true) => COMPLETED.to_owned(),
            (true, false) => result.clone(),
            (false, true) => said.to_owned(),
            (false, false) => format!("{said}\n\n{result}"),
        };
        self.keep_answer(&turn, message_id, output, content, Vec::new());
        let message = if result.trim().is_empty() { COMPLETED.to_owned() } else { result };
        self.complete_turn(turn, message);
    }

    pub(crate) fn fail_turn(&mut self, turn: Turn, error: ErrorData) {
        self.note_error(&error.message);
        self.event(turn.id, ChunkBody::Error(error));
        self.return_home(turn.id, "turn_failed");
        self.settle(TurnStatus::Failed);
        self.begin_next();
    }

    pub(crate) fn cancel(&mut self, drop_queue: bool) -> Answer {
        let dropped = if drop_queue { std::mem::take(&mut self.session.queue) } else { Default::default() };
        let cancelled = self.session.turn.take().map(|turn| self.cancel_turn(turn));
        for waiting in dropped {
            self.cancelled_event(waiting.turn);
            self.settle(TurnStatus::Cancelled);
        }
        self.begin_next();
        cancelled.map_or(Answer::Nothing, Answer::Now)
    }

    pub(crate) fn reset(&mut self) -> Answer {
        self.session.pinned = None;
        self.session.remembered.clear();
        self.changed = true;
        let answer = self.cancel(true);
        if self.session.current != orchestrator() {
            let turn = self.new_turn_id();
            self.switch(turn, orchestrator(), "reset".to_owned(), None);
            self.settle(TurnStatus::Cancelled);
        }
        answer
    }

    fn cancel_turn(&mut self, mut turn: Turn) -> TurnStatus {
        match std::mem::replace(&mut turn.phase, Phase::Routing { text: String::new(), attempt: 0 }) {
            Phase::Routing { .. } | Phase::Thinking { .. } => self.effects.push(Effect::AbortModel),
            Phase::AwaitingResult { call, .. } => {
                self.close_call(&call.call_id, CallStatus::Cancelled);
                self.tool_message(turn.id, &call.call_id, call.tool.as_str(), CANCELLED.to_owned());
            }
            Phase::AwaitingApproval { call, .. } => {
                let status = ApprovalStatus::Cancelled;
                self.effects.push(Effect::ApprovalClosed { call_id: call.call_id.clone(), status });
                self.close_call(&call.call_id, CallStatus::Cancelled);
                self.tool_message(turn.id, &call.call_id, call.tool.as_str(), CANCELLED.to_owned());
            }
            Phase::AwaitingAnswer { call_id } => {
                self.close_call(&call_id, CallStatus::Cancelled);
                self.tool_message(turn.id, &call_id, "ask_followup_question", CANCELLED.to_owned());
            }
        }
        for call in std::mem::take(&mut turn.waiting_calls) {
            self.tool_message(turn.id, &call.call_id, &call.name, CANCELLED.to_owned());
        }
        self.cancelled_event(turn.id);
        self.return_home(turn.id, "turn_cancelled");
        self.settle(TurnStatus::Cancelled);
        TurnStatus::Cancelled
    }

    fn cancelled_event(&mut self, turn: TurnId) {
        self.event(turn, ChunkBody::Error(error_data(ErrorCode::Cancelled, "The turn was cancelled")));
    }

    pub(crate) fn begin_next(&mut self) {
        if self.session.turn.is_none()
            && let Some(waiting) = self.session.queue.pop_front()
        {
            self.begin_turn(waiting);
        }
    }

    /// Remembered for the prompts of later steps.
    pub(crate) fn note_error(&mut self, message: &str) {
        let mut end = message.len().min(MAX_LAST_ERROR_BYTES);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        self.session.last_error = message.get(..end).map(str::to_owned);
    }
}

const CANCELLED: &str = "Cancelled by the user before it finished.";
