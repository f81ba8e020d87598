//! What people see of a turn: chunks in a session of the runtime kind, chat events in a project.

use codelab_protocol::{
    AgentName, AgentQuestion, AgentStatus, AgentStatusChanged, ApprovalRequest, ApprovalResolved,
    AssistantMessage, CallId, CallOutcome, ChunkBody, DirectAgentCall, ErrorData, Message,
    MessageCreated, ModelFallback, ModelOutput, ModelWaiting, Question, SessionEventBody,
    SessionKind, SwitchAgent, TaskCompleted, TaskOrigin, Timestamp, Tool, ToolCallChunk,
    ToolCallClosed, ToolCallEvent, ToolResultChunk, ToolResultEvent, TurnError, TurnId, WorkflowId,
};
use serde_json::{Map, Value};

use super::claim::LateCall;
use super::{OpenCall, Thread, Turn};
use crate::output::EventLog;
use crate::{Approval, ApprovalKind, ApprovalOutcome, Session};

/// What people see of a turn. It adds events, and changes nothing.
pub(crate) struct View<'a> {
    pub kind: SessionKind,
    pub turn: Option<&'a Turn>,
    /// The turn that began last; it may have ended.
    pub last_turn: TurnId,
    pub now: Timestamp,
    pub client_attached: bool,
    pub log: EventLog<'a>,
}

impl Turn {
    /// The task that a thread is; none for a turn's own thread.
    pub(crate) fn task_of(&self, thread: &Thread) -> Option<TaskOrigin> {
        self.workflow()?.origin(thread.lane.task()?)
    }
}

impl View<'_> {
    fn task_of(&self, thread: &Thread) -> Option<TaskOrigin> {
        self.turn?.task_of(thread)
    }

    fn origin(&self, thread: &Thread) -> TaskOrigin {
        self.task_of(thread).unwrap_or_default()
    }

    fn is_runtime(&self) -> bool {
        self.kind == SessionKind::Runtime
    }

    pub(crate) fn show_user_message(
        &mut self,
        turn: TurnId,
        message: &Message,
        workflow_id: Option<WorkflowId>,
    ) {
        if !self.is_runtime() {
            let created = MessageCreated {
                origin: TaskOrigin::default(),
                message: message.clone(),
                workflow_id,
            };
            self.log
                .event(turn, SessionEventBody::MessageCreated(Box::new(created)));
        }
    }

    /// A person answered a question of this thread.
    pub(crate) fn show_answer_of_user(&mut self, thread: &Thread, message: &Message) {
        if !self.is_runtime() {
            let workflow = self.turn.and_then(Turn::workflow);
            let workflow_id = workflow.map(|workflow| workflow.workflow_id().clone());
            let created = MessageCreated {
                origin: self.origin(thread),
                message: message.clone(),
                workflow_id,
            };
            self.log.event(
                thread.turn,
                SessionEventBody::MessageCreated(Box::new(created)),
            );
        }
    }

    pub(crate) fn show_message(
        &mut self,
        turn: TurnId,
        message: &Message,
        task: Option<TaskOrigin>,
    ) {
        let (message, origin) = (message.clone(), task.unwrap_or_default());
        let created = MessageCreated {
            origin,
            message,
            workflow_id: None,
        };
        self.log
            .event(turn, SessionEventBody::MessageCreated(Box::new(created)));
    }

    pub(crate) fn show_direct_call(&mut self, turn: TurnId, agent: &AgentName) {
        let Some(message_id) = self.turn.map(|turn| turn.message_id.clone()) else {
            never!("a direct call is shown outside of a turn");
            return;
        };
        self.log.event(
            turn,
            SessionEventBody::DirectAgentCall(DirectAgentCall {
                agent: agent.clone(),
                message_id,
            }),
        );
    }

    /// What the agent said, where it said anything.
    pub(crate) fn show_answer(&mut self, thread: &Thread, message: &Message, output: &ModelOutput) {
        if !self.is_runtime() {
            return self.show_message(thread.turn, message, self.task_of(thread));
        }
        if output.text.trim().is_empty() && output.warnings.is_empty() {
            return;
        }
        let shown = AssistantMessage {
            content: output.text.clone(),
            agent: thread.agent.clone(),
            message_id: message.message_id.clone(),
            timestamp: self.now,
            usage: output.usage.clone(),
            warnings: output.warnings.clone(),
        };
        self.log
            .event(thread.turn, ChunkBody::AssistantMessage(shown));
    }

    pub(crate) fn show_switch(&mut self, turn: TurnId, switch: SwitchAgent) {
        match self.is_runtime() {
            true => self.log.event(turn, ChunkBody::SwitchAgent(switch)),
            false => self
                .log
                .event(turn, SessionEventBody::AgentSwitched(switch)),
        }
    }

    pub(crate) fn show_status(&mut self, thread: &Thread, status: AgentStatus) {
        self.show_left(thread, thread.agent.clone(), status);
    }

    /// The status of an agent that the thread came to or left.
    pub(crate) fn show_left(&mut self, thread: &Thread, agent: AgentName, status: AgentStatus) {
        if !self.is_runtime() {
            let changed = AgentStatusChanged {
                agent,
                status,
                origin: self.origin(thread),
            };
            self.log
                .event(thread.turn, SessionEventBody::AgentStatusChanged(changed));
        }
    }

    pub(crate) fn show_error(&mut self, thread: &Thread, error: ErrorData) {
        match self.is_runtime() {
            true => self.log.event(thread.turn, ChunkBody::Error(error)),
            false => {
                let origin = self.origin(thread);
                self.log.event(
                    thread.turn,
                    SessionEventBody::Error(TurnError { error, origin }),
                );
            }
        }
    }

    pub(crate) fn show_model_waiting(&mut self, turn: TurnId, waiting: ModelWaiting) {
        match self.is_runtime() {
            true => self.log.event(turn, ChunkBody::ModelWaiting(waiting)),
            false => self
                .log
                .event(turn, SessionEventBody::ModelWaiting(waiting)),
        }
    }

    pub(crate) fn show_model_fallback(&mut self, turn: TurnId, fallback: ModelFallback) {
        match self.is_runtime() {
            true => self.log.event(turn, ChunkBody::ModelFallback(fallback)),
            false => self
                .log
                .event(turn, SessionEventBody::ModelFallback(fallback)),
        }
    }

    pub(crate) fn show_turn_error(&mut self, turn: TurnId, error: ErrorData) {
        match self.is_runtime() {
            true => self.log.event(turn, ChunkBody::Error(error)),
            false => self.log.event(
                turn,
                SessionEventBody::Error(TurnError {
                    error,
                    origin: TaskOrigin::default(),
                }),
            ),
        }
    }

    pub(crate) fn show_result(
        &mut self,
        thread: &Thread,
        call_id: &CallId,
        tool: &str,
        result: Value,
        late: bool,
    ) {
        let (call_id, tool_name) = (call_id.clone(), tool.to_owned());
        match self.is_runtime() {
            true => self.log.event(
                thread.turn,
                ChunkBody::ToolResult(ToolResultChunk {
                    call_id,
                    tool_name,
                    result,
                }),
            ),
            false => {
                let origin = self.origin(thread);
                let shown = ToolResultEvent {
                    call_id,
                    tool_name,
                    result,
                    late,
                    origin,
                };
                self.log
                    .event(thread.turn, SessionEventBody::ToolResult(shown));
            }
        }
    }

    /// In the runtime kind the one who reads the stream is the one who sent the result.
    pub(crate) fn show_client_result(&mut self, thread: &Thread, call: &OpenCall, result: Value) {
        if !self.is_runtime() {
            self.show_result(thread, &call.call_id, &call.tool.name(), result, false);
        }
    }

    /// A person answered a question. In the runtime API the reader is that person, so nothing is
    /// shown.
    pub(crate) fn show_answered(&mut self, thread: &Thread, call_id: &CallId, answer: &str) {
        if !self.is_runtime() {
            self.show_result(
                thread,
                call_id,
                Tool::AskFollowupQuestion.as_str(),
                answer.into(),
                false,
            );
            self.show_closed(thread, call_id, CallOutcome::Completed);
        }
    }

    pub(crate) fn show_late_result(&mut self, late: &LateCall, result: Value) {
        let shown = ToolResultEvent {
            call_id: late.call_id.clone(),
            tool_name: late.tool.name(),
            result,
            late: true,
            origin: late.task.clone().unwrap_or_default(),
        };
        self.log
            .event(late.turn, SessionEventBody::ToolResult(shown));
    }

    pub(crate) fn show_closed(&mut self, thread: &Thread, call_id: &CallId, outcome: CallOutcome) {
        if !self.is_runtime() {
            let closed = ToolCallClosed {
                call_id: call_id.clone(),
                outcome,
            };
            self.log
                .event(thread.turn, SessionEventBody::ToolCallClosed(closed));
        }
    }

    pub(crate) fn show_question(
        &mut self,
        thread: &Thread,
        call_id: &CallId,
        question: String,
        options: Vec<String>,
    ) {
        let (call_id, agent) = (call_id.clone(), thread.agent.clone());
        match self.is_runtime() {
            true => self.log.event(
                thread.turn,
                ChunkBody::Question(Question {
                    call_id,
                    question,
                    options,
                    agent,
                }),
            ),
            false => {
                let origin = self.origin(thread);
                let shown = AgentQuestion {
                    call_id,
                    question,
                    server: None,
                    requested_schema: None,
                    options,
                    agent,
                    origin,
                };
                self.log
                    .event(thread.turn, SessionEventBody::Question(shown));
            }
        }
    }

    pub(crate) fn show_call(&mut self, thread: &Thread, call: ToolCallChunk) {
        match self.is_runtime() {
            true => self.log.event(thread.turn, ChunkBody::ToolCall(call)),
            false => {
                let client_attached = self.client_attached;
                let shown = ToolCallEvent {
                    call,
                    client_attached,
                    origin: self.origin(thread),
                };
                self.log
                    .event(thread.turn, SessionEventBody::ToolCall(Box::new(shown)));
            }
        }
    }

    /// `call` is how a session of the runtime kind shows the question.
    pub(crate) fn show_approval(
        &mut self,
        thread: &Thread,
        approval: &Approval,
        call: Option<ToolCallChunk>,
    ) {
        if self.is_runtime() {
            return call
                .into_iter()
                .for_each(|call| self.log.event(thread.turn, ChunkBody::ToolCall(call)));
        }
        let agent = Some(thread.agent.clone());
        let shown = ApprovalRequest {
            approval: approval.info(),
            agent,
            origin: self.origin(thread),
        };
        self.log.event(
            thread.turn,
            SessionEventBody::ApprovalRequest(Box::new(shown)),
        );
    }

    /// A plan says for itself how it was decided.
    pub(crate) fn show_resolved(
        &mut self,
        approval: &Approval,
        status: ApprovalOutcome,
        decided_by: &str,
        reason: Option<String>,
        modified_args: Option<Map<String, Value>>,
    ) {
        if self.is_runtime() || approval.kind == ApprovalKind::Plan {
            return;
        }
        let resolved = ApprovalResolved {
            call_id: approval.call_id.clone(),
            kind: approval.kind,
            decision: status,
            decided_by: decided_by.to_owned(),
            reason,
            modified_args,
        };
        let turn = self.turn.map_or(self.last_turn, |turn| turn.id);
        self.log
            .event(turn, SessionEventBody::ApprovalResolved(resolved));
    }

    /// Shows that a direct call ended with an answer. `success` is false if the answer is only what
    /// was done so far.
    pub(crate) fn show_completed(&mut self, thread: &Thread, response: String, success: bool) {
        let Some(message_id) = thread.answer_id.clone() else {
            never!("a thread completed without an answer");
            return;
        };
        let completed = TaskCompleted {
            origin: self.origin(thread),
            agent: thread.agent.clone(),
            success,
            response,
            message_id,
            context: thread.recalled.clone(),
            usage: thread.usage.clone(),
        };
        self.log
            .event(thread.turn, SessionEventBody::TaskCompleted(completed));
    }
}
impl Session {
    /// The task that a thread is; none for a turn's own thread.
    pub(crate) fn task_of(&self, thread: &Thread) -> Option<TaskOrigin> {
        self.turn.as_ref()?.task_of(thread)
    }

    pub(crate) fn origin(&self, thread: &Thread) -> TaskOrigin {
        self.task_of(thread).unwrap_or_default()
    }
}
