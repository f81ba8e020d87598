//! How a thread and its turn end, and what follows: back home, then the next message that waits.

use std::collections::VecDeque;

use codelab_protocol::{
    AgentName, CallId, CallOutcome, ChunkBody, Completion, CompletionStatus, DequeueReason,
    ErrorCode, ErrorData, MessageDequeued, MessageId, ModelOutput, SessionEventBody, SessionKind,
    TurnId, TurnStatus,
};

use super::{COMPLETED, OpenCall, Thread, ThreadPhase, Turn, TurnWork, error_data};
use crate::session::Transition;
use crate::world::{MAX_LAST_ERROR_BYTES, MAX_REMEMBERED_REQUEST_BYTES, MAX_RESULT_BYTES};
use crate::{
    CallStatus, CallerAnswer, Effect, Interaction, Lane, Session, WorkOutcome, orchestrator,
};

impl Session {
    /// Remembered for the prompts of later steps.
    pub(crate) fn note_error(&mut self, message: &str) {
        self.last_error = Some(cut(message, MAX_LAST_ERROR_BYTES).to_owned());
    }

    /// Every thread that is still open, taken out of the turn.
    pub(crate) fn take_all_threads(&mut self) -> Vec<Thread> {
        match self.turn.as_mut().map(|turn| &mut turn.work) {
            Some(TurnWork::Workflow(workflow)) => workflow.take_all_threads(),
            Some(TurnWork::Thread(thread)) => {
                thread.take().map(|thread| *thread).into_iter().collect()
            }
            None => Vec::new(),
        }
    }
}

impl Transition<'_, '_> {
    /// `response` is what the agent answered, `completion` how the runtime's last chunk puts it.
    pub(crate) fn complete_thread(
        &mut self,
        mut thread: Thread,
        response: String,
        completion: String,
    ) {
        self.leave(&mut thread, Some(WorkOutcome::Succeeded));
        if self.session.kind == SessionKind::Runtime {
            let agent = self.session.current.clone();
            self.return_home(thread.turn, "turn_completed");
            let completion = Completion {
                status: CompletionStatus::Success,
                message: completion,
                agent,
            };
            self.log()
                .event(thread.turn, ChunkBody::Completion(completion));
            return self.end_turn(TurnStatus::Completed);
        }
        self.remember_work(&thread, &response, true);
        match thread.lane {
            Lane::OWN => {
                self.leave_direct(thread.turn, "turn_completed");
                self.view().show_completed(&thread, response, true);
                self.end_turn(TurnStatus::Completed);
            }
            _ => self.task_completed(thread, response),
        }
    }

    /// The agent called `attempt_completion`: its result is the answer.
    pub(crate) fn completed_by_tool(
        &mut self,
        mut thread: Thread,
        message_id: MessageId,
        output: &ModelOutput,
        result: String,
    ) {
        let said = output.text.trim();
        let content = match (said.is_empty(), result.trim().is_empty()) {
            (true, true) => COMPLETED.to_owned(),
            (true, false) => result.clone(),
            (false, true) => said.to_owned(),
            (false, false) => format!("{said}\n\n{result}"),
        };
        self.keep_answer(&mut thread, message_id, output, content.clone(), Vec::new());
        let completion = if result.trim().is_empty() {
            COMPLETED.to_owned()
        } else {
            result
        };
        self.complete_thread(thread, content, completion);
    }

    pub(crate) fn fail_thread(&mut self, thread: Thread, error: ErrorData) {
        self.fail_thread_as(thread, error, WorkOutcome::Failed);
    }

    /// `outcome` says whether the failure counts against the agent.
    pub(crate) fn fail_thread_as(
        &mut self,
        mut thread: Thread,
        error: ErrorData,
        outcome: WorkOutcome,
    ) {
        self.leave(&mut thread, Some(outcome));
        self.session.note_error(&error.message);
        if thread.lane != Lane::OWN {
            self.remember_work(&thread, &error.message, false);
            let streamed = self.keep_failed_task(&thread, &error);
            return self.task_failed(thread, error, streamed);
        }
        match self.session.kind {
            SessionKind::Runtime => {
                self.view().show_error(&thread, error);
                self.return_home(thread.turn, "turn_failed");
            }
            SessionKind::Project => {
                self.remember_work(&thread, &error.message, false);
                self.leave_direct(thread.turn, "turn_failed");
                self.keep_failure(&thread, &error);
                self.view().show_error(&thread, error);
            }
        }
        self.end_turn(TurnStatus::Failed);
    }

    /// A person allowed no more spending: what the agent did so far is the answer. Where it did
    /// nothing, the call failed.
    pub(crate) fn stop_thread(&mut self, mut thread: Thread, error: ErrorData) {
        if thread.steps == 0 {
            return self.fail_thread(thread, error);
        }
        self.leave(&mut thread, Some(WorkOutcome::Cancelled));
        self.session.note_error(&error.message);
        let done = match thread.said() {
            Some(said) => said.to_owned(),
            None => format!(
                "{} has written no answer yet (model steps: {}).",
                thread.agent, thread.steps
            ),
        };
        let response = format!("{done}\n\nStopped here. {}.", error.message);
        self.remember_work(&thread, &response, false);
        self.leave_direct(thread.turn, "turn_completed");
        let message_id = self.world.ids.message_id();
        let message = self.said_by(&thread.agent, message_id, response.clone());
        thread.answer_id = Some(message.message_id.clone());
        self.view().show_message(thread.turn, &message, None);
        self.message(thread.turn, None, message);
        self.view().show_completed(&thread, response, false);
        self.end_turn(TurnStatus::Completed);
    }

    /// In a project the next message is planned anew, or names its agent. A way back is one only
    /// from where a switch led.
    fn leave_direct(&mut self, turn: TurnId, reason: &str) {
        match self.session.last_switch {
            Some(_) if self.session.current != orchestrator() => {
                self.switch(turn, orchestrator(), reason.to_owned(), None);
            }
            Some(_) | None => self.session.current = orchestrator(),
        }
    }

    /// What the agent will be able to remember of this work.
    fn remember_work(&mut self, thread: &Thread, response: &str, success: bool) {
        // Work that never began is not remembered.
        if thread.steps == 0 {
            return;
        }
        // An agent that left the team has no memory any more.
        if self.world.team.get(&thread.agent).is_none() {
            return;
        }
        let Some(turn) = &self.session.turn else {
            never!("a thread ends after its turn");
            return;
        };
        let task = self
            .session
            .task_of(thread)
            .and_then(|origin| origin.task_id);
        let asked = turn
            .workflow()
            .zip(thread.lane.task())
            .and_then(|(workflow, task)| workflow.description(task));
        let asked = cut(asked.unwrap_or(&turn.request), MAX_REMEMBERED_REQUEST_BYTES);
        let text = format!(
            "User: {asked}\nAssistant: {}",
            cut(response, MAX_RESULT_BYTES)
        );
        self.output.push(Effect::Remember(Interaction {
            agent: thread.agent.clone(),
            turn: thread.turn,
            task,
            success,
            text,
        }));
    }

    /// The turn is over; the message that waits longest starts the next one.
    pub(crate) fn end_turn(&mut self, status: TurnStatus) {
        let ended = self.leave_turn(status);
        self.output.settle(status);
        self.queue_steers();
        if let Some(turn) = ended {
            self.compact_if_long(turn.id);
        }
        self.begin_next();
    }

    /// The session has no turn any more. Providers want reasoning back only within its turn.
    fn leave_turn(&mut self, status: TurnStatus) -> Option<Turn> {
        let turn = self.session.turn.take()?;
        self.session.note_end(&turn, status);
        if turn.keeps_reasoning {
            let forget = Effect::ForgetReasoning { turn: turn.id };
            self.output.push(forget);
        }
        Some(turn)
    }

    pub(crate) fn cancel(&mut self, drop_queue: bool) -> CallerAnswer {
        let mut dropped = VecDeque::new();
        if drop_queue {
            dropped.append(&mut self.session.queue);
            dropped.append(&mut self.session.steers);
        }
        let cancelled = match self.session.turn.is_some() {
            true => Some(self.cancel_turn()),
            false => {
                (self.cancel_rewind() || self.stop_compacting()).then_some(TurnStatus::Cancelled)
            }
        };
        for waiting in dropped {
            match self.session.kind {
                SessionKind::Runtime => self.cancelled_event(waiting.turn),
                SessionKind::Project => {
                    let taken_back = SessionEventBody::MessageDequeued(MessageDequeued {
                        message_id: waiting.message_id,
                        reason: DequeueReason::Stopped,
                    });
                    self.log().event(waiting.turn, taken_back);
                }
            }
            self.output.settle(TurnStatus::Cancelled);
        }
        self.begin_next();
        cancelled.map_or(CallerAnswer::Nothing, CallerAnswer::Now)
    }

    pub(crate) fn reset(&mut self) -> CallerAnswer {
        self.session.pinned = None;
        self.session.remembered.clear();
        self.output.mark_changed();
        let answer = self.cancel(true);
        if self.session.current != orchestrator() {
            let turn = self.session.new_turn_id();
            self.switch(turn, orchestrator(), "reset".to_owned(), None);
            self.output.settle(TurnStatus::Cancelled);
        }
        answer
    }

    fn cancel_turn(&mut self) -> TurnStatus {
        let Some(id) = self.session.turn.as_ref().map(|turn| turn.id) else {
            never!("there is no turn to cancel");
            return TurnStatus::Cancelled;
        };
        if self.session.in_workflow() {
            self.cancelled_event(id);
            self.cancel_workflow();
        } else {
            self.session
                .take_thread(Lane::OWN)
                .into_iter()
                .for_each(|thread| drop(self.cancel_thread(thread)));
            self.cancelled_event(id);
        }
        match self.session.kind {
            SessionKind::Runtime => self.return_home(id, "turn_cancelled"),
            SessionKind::Project => self.leave_direct(id, "turn_cancelled"),
        }
        self.leave_turn(TurnStatus::Cancelled);
        self.output.settle(TurnStatus::Cancelled);
        self.queue_steers();
        TurnStatus::Cancelled
    }

    /// A direct call goes with its agent. A plan goes on without the agent's tasks.
    pub(crate) fn agent_gone(&mut self, agent: &AgentName) -> CallerAnswer {
        let turn = self.session.turn.as_ref();
        let threads = turn
            .into_iter()
            .flat_map(Turn::threads)
            .filter(|thread| thread.agent == *agent);
        let lanes: Vec<Lane> = threads.map(Thread::lane).collect();
        if lanes.contains(&Lane::OWN) {
            return self.cancel(false);
        }
        for mut thread in lanes
            .into_iter()
            .filter_map(|lane| self.session.take_thread(lane))
            .collect::<Vec<_>>()
        {
            let error = error_data(ErrorCode::Cancelled, &format!("Agent {agent} was deleted"));
            self.leave(&mut thread, Some(WorkOutcome::Cancelled));
            let streamed = self.keep_failed_task(&thread, &error);
            self.close_calls(thread.clone());
            self.session.note_error(&error.message);
            self.task_failed(thread, error, streamed);
        }
        CallerAnswer::Nothing
    }

    /// Closes whatever the thread has open; every call keeps a result. Returns what was streamed of an
    /// answer that stays unfinished.
    pub(crate) fn cancel_thread(&mut self, mut thread: Thread) -> Option<String> {
        self.leave(&mut thread, Some(WorkOutcome::Cancelled));
        let streamed = self.keep_stopped(&thread);
        self.close_calls(thread);
        streamed
    }

    /// Every open call gets a result, and nothing waits for a person any more.
    fn close_calls(&mut self, mut thread: Thread) {
        match thread.phase.clone() {
            ThreadPhase::Routing { .. }
            | ThreadPhase::Thinking { .. }
            | ThreadPhase::Queued
            | ThreadPhase::AwaitingRoom => {}
            ThreadPhase::AwaitingResult { call, claim, .. } => {
                self.stop_call(&thread, &call, claim.is_some());
            }
            ThreadPhase::Calling { call, begun } => self.stop_call(&thread, &call, begun),
            ThreadPhase::AwaitingApproval { call, approval } => {
                self.withdraw_approval(&approval);
                self.cancel_call(&thread, &call.call_id, &call.tool.name(), None);
            }
            // Tasks that go on may wait for the same answer.
            ThreadPhase::AwaitingBudget { approval, .. }
                if self.session.waiting_thread(&approval.call_id).is_some() => {}
            ThreadPhase::AwaitingBudget { approval, .. } => self.withdraw_approval(&approval),
            ThreadPhase::AwaitingAnswer { call_id, .. } => {
                self.cancel_call(&thread, &call_id, "ask_followup_question", None)
            }
        }
        for call in std::mem::take(&mut thread.waiting_calls) {
            self.tool_message(&thread, &call.call_id, &call.name, CANCELLED.to_owned());
        }
    }

    /// One that has begun may have done something.
    fn stop_call(&mut self, thread: &Thread, call: &OpenCall, has_begun: bool) {
        self.withdraw_elicitation(thread, call);
        let did = call.may_have_done().filter(|_| has_begun);
        self.cancel_call(thread, &call.call_id, &call.tool.name(), did);
    }

    fn cancel_call(&mut self, thread: &Thread, call_id: &CallId, tool: &str, did: Option<String>) {
        self.output
            .close_call_that_did(call_id, CallStatus::Cancelled, did);
        self.view()
            .show_closed(thread, call_id, CallOutcome::Cancelled);
        self.tool_message(thread, call_id, tool, CANCELLED.to_owned());
    }

    fn cancelled_event(&mut self, turn: TurnId) {
        self.view().show_turn_error(
            turn,
            error_data(ErrorCode::Cancelled, "The turn was cancelled"),
        );
    }

    pub(crate) fn begin_next(&mut self) {
        if self.session.is_idle()
            && let Some(waiting) = self.session.queue.pop_front()
        {
            self.begin_turn(waiting);
        }
    }

    /// Ends a workflow before its time, with everything in it.
    pub(crate) fn end_workflow_early(&mut self, error: ErrorData) {
        let Some(id) = self.session.turn.as_ref().map(|turn| turn.id) else {
            never!("there is no workflow to end");
            return;
        };
        self.session.note_error(&error.message);
        self.view().show_turn_error(id, error);
        self.cancel_workflow();
        self.end_turn(TurnStatus::Cancelled);
    }
}

/// The longest start of a text within this many bytes.
pub fn cut(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

const CANCELLED: &str = "Cancelled by the user before it finished.";
