//! What is known of the session, folded from its events. Pure: the same events always give the same
//! blocks and state, whether they are live or read again after a restart.

mod tasks;

use codelab_protocol::{
    AgentName, AgentQuestion, AgentStatus, ApprovalKind, ApprovalRequest, CallId, CommandPart,
    ErrorData, MessageCreated, MessageDelta, MessageId, PlanRequest, Role, SessionEvent,
    SessionEventBody, SessionId, TaskId, TaskOrigin, Tool, ToolCall, ToolCallClosed, ToolCallEvent,
    ToolResultEvent, TurnStatus, Usage, arguments_digest,
};
use serde_json::{Map, Value};

use super::block::{ApprovalCardKind, ApprovalShown, Block, CallEnd, End};
use super::diff::Before;
use super::markdown::Stream;
use super::plan::PlanView;

/// Calls and questions shown as open at once; a server that opens more is not believed.
const MAX_OPEN: usize = 256;

#[derive(Debug, Default)]
pub struct ViewState {
    pub turn: TurnView,
    pub answer: Option<Writing>,
    pub plan: Option<PlanView>,
    /// Calls that wait for hands or run.
    pub calls: Vec<OpenCallView>,
    /// What waits for the person, oldest first.
    pub asks: Vec<PendingAsk>,
    /// Of the turns seen here.
    pub spent: Usage,
    /// The last answer that was printed whole, so that its copy is not printed again.
    last_answer: Option<String>,
    /// An answer that reports a failure; the error that follows says it better.
    failure: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TurnView {
    #[default]
    Idle,
    /// `agent` is absent while the request is planned.
    Working { agent: Option<AgentName> },
}

/// An answer that is being written.
#[derive(Debug, Clone)]
pub struct Writing {
    message_id: MessageId,
    attempt: u32,
    pub agent: AgentName,
    pub stream: Stream,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OpenCallView {
    pub call: ToolCall,
    pub task: Option<TaskId>,
    /// Whether somebody was there to run it.
    pub is_attended: bool,
}

/// Something that waits for the person.
#[derive(Debug, Clone, PartialEq)]
pub enum PendingAsk {
    Approval(Box<ApprovalRequest>),
    Plan(Box<PlanRequest>),
    Question(AgentQuestion),
    /// This machine itself asks before it runs a call.
    Local(LocalAsk),
}

#[derive(Debug, Clone, PartialEq)]
pub struct LocalAsk {
    pub session_id: SessionId,
    pub call_id: CallId,
    pub tool: Tool,
    pub arguments: Map<String, Value>,
    pub reason: String,
    pub parts: Vec<CommandPart>,
}

impl PendingAsk {
    /// A plan is asked about under its own id.
    pub fn call_id(&self) -> &CallId {
        match self {
            Self::Approval(request) => &request.approval.call_id,
            Self::Plan(request) => &request.approval.call_id,
            Self::Question(question) => &question.call_id,
            Self::Local(local) => &local.call_id,
        }
    }

    /// The arguments are not those the digest was made of.
    pub fn is_forged(&self) -> bool {
        match self {
            Self::Approval(request) => is_forged(request),
            Self::Plan(_) | Self::Question(_) | Self::Local(_) => false,
        }
    }
}

impl LocalAsk {
    pub fn block(&self) -> Block {
        Block::Approval(ApprovalShown {
            agent: None,
            task: None,
            kind: approval_kind(
                self.tool.as_str(),
                &self.arguments,
                &self.parts,
                &Before::Missing,
            ),
            reason: self.reason.clone(),
            is_forged: false,
        })
    }
}

impl ViewState {
    pub fn is_working(&self) -> bool {
        self.turn != TurnView::Idle
    }

    /// Takes the next event; what comes of it is printed once. `before` is the file that an
    /// approval is about, as it is now.
    pub fn apply(&mut self, event: &SessionEvent, before: &Before) -> Vec<Block> {
        let mut out = Vec::new();
        if starts_over(event) {
            // What was shown stays on the screen, but nothing of it can be decided or answered any
            // more.
            self.become_session(Self::default());
            out.push(Block::Notice(
                "this session was replaced on the server; showing it from the start".to_owned(),
            ));
            return out;
        }
        self.take(&event.body, before, &mut out);
        out
    }

    fn take(&mut self, body: &SessionEventBody, before: &Before, out: &mut Vec<Block>) {
        match body {
            SessionEventBody::MessageCreated(created) => self.message(created, out),
            SessionEventBody::MessageDelta(delta) => self.delta(delta, out),
            SessionEventBody::MessageQueued(queued) => out.push(Block::Queued {
                position: queued.position,
            }),
            SessionEventBody::DirectAgentCall(call) => self.working(Some(&call.agent)),
            SessionEventBody::AgentStatusChanged(changed) => {
                if changed.origin == TaskOrigin::default()
                    && changed.status == AgentStatus::Processing
                {
                    self.working(Some(&changed.agent));
                }
            }
            // The way back at the end of a turn is nobody's taking over.
            SessionEventBody::AgentSwitched(switch) if switch.to_agent.is_orchestrator() => {}
            SessionEventBody::AgentSwitched(switch) => {
                self.working(Some(&switch.to_agent));
                let (from, to) = (switch.from_agent.clone(), switch.to_agent.clone());
                out.push(Block::Switched {
                    from,
                    to,
                    reason: switch.reason.clone(),
                });
            }
            SessionEventBody::TaskPlanCreated(_)
            | SessionEventBody::PlanRequest(_)
            | SessionEventBody::PlanResolved(_)
            | SessionEventBody::TaskStarted(_)
            | SessionEventBody::TaskProgress(_)
            | SessionEventBody::TaskCompleted(_)
            | SessionEventBody::TaskFailed(_)
            | SessionEventBody::TaskSkipped(_)
            | SessionEventBody::WorkflowCompleted(_) => self.plan_event(body, out),
            SessionEventBody::ToolCall(call) => self.call(call),
            SessionEventBody::ToolResult(result) => self.result(result, out),
            SessionEventBody::ToolCallClosed(closed) => self.closed(closed, out),
            SessionEventBody::ApprovalRequest(request) => self.approval(request, before, out),
            SessionEventBody::ApprovalResolved(resolved) => {
                self.answered(&resolved.call_id);
                out.push(Block::Decided {
                    decision: resolved.decision,
                    by: resolved.decided_by.clone(),
                    reason: resolved.reason.clone(),
                });
            }
            SessionEventBody::Question(question) => {
                self.ask(PendingAsk::Question(question.clone()));
                self.waiting(&question.origin);
                out.push(Block::Question {
                    agent: question.agent.clone(),
                    question: question.question.clone(),
                    options: question.options.clone(),
                });
            }
            SessionEventBody::Error(error) => self.error(&error.error, out),
            SessionEventBody::HistoryCompacted(compacted) => {
                let messages = compacted.messages;
                out.push(Block::Notice(format!(
                    "{messages} earlier messages are kept as a summary from here on"
                )));
            }
            SessionEventBody::Gap(gap) => {
                out.push(Block::Notice(format!(
                    "events {} to {} are no longer kept",
                    gap.from, gap.to
                )));
            }
        }
    }

    /// How the turn stands when its stream pauses.
    pub fn done(&mut self, status: TurnStatus) -> Vec<Block> {
        let mut out = Vec::new();
        if matches!(
            status,
            TurnStatus::AwaitingToolResult
                | TurnStatus::AwaitingApproval
                | TurnStatus::AwaitingAnswer
        ) {
            return out;
        }
        let was_working = self.is_working();
        self.cut_answer(&mut out);
        if let Some(message) = self.failure.take() {
            out.push(Block::Error {
                message,
                code: None,
            });
        }
        if was_working && status == TurnStatus::Cancelled {
            out.push(Block::Cancelled);
        }
        self.turn = TurnView::Idle;
        self.calls.clear();
        // Questions of this machine end by themselves when their call is closed.
        self.asks.retain(|ask| matches!(ask, PendingAsk::Local(_)));
        out
    }

    /// A question of this machine's own; `None` where too much is asked already.
    pub fn ask_locally(&mut self, ask: LocalAsk) -> Option<Block> {
        let block = ask.block();
        self.ask(PendingAsk::Local(ask)).then_some(block)
    }

    /// Goes over to another session. This machine's own questions stay: their calls wait for the
    /// person wherever they are, and nobody else can answer.
    pub fn become_session(&mut self, next: Self) {
        let before = std::mem::replace(self, next);
        let local = before
            .asks
            .into_iter()
            .filter(|ask| matches!(ask, PendingAsk::Local(_)));
        self.asks.splice(0..0, local);
    }

    pub fn answered(&mut self, call: &CallId) {
        self.asks.retain(|ask| ask.call_id() != call);
    }

    fn ask(&mut self, ask: PendingAsk) -> bool {
        let is_new = self.asks.len() < MAX_OPEN && !self.asks.contains(&ask);
        if is_new {
            self.asks.push(ask);
        }
        is_new
    }

    fn working(&mut self, agent: Option<&AgentName>) {
        self.turn = TurnView::Working {
            agent: agent.cloned(),
        };
    }

    /// Whether text of this origin is the session's own, or that of a plan with a single task,
    /// which reads the same.
    fn is_main(&self, origin: &TaskOrigin) -> bool {
        origin.task_id.is_none() || self.plan.as_ref().is_some_and(PlanView::is_single)
    }

    fn message(&mut self, created: &MessageCreated, out: &mut Vec<Block>) {
        let message = &created.message;
        match message.role {
            // Shown as what it answers: the result of the call that asked.
            Role::User if message.answers.is_some() => {}
            Role::User if created.origin.task_id.is_none() => {
                self.last_answer = None;
                if !self.is_working() {
                    self.working(None);
                }
                out.push(Block::User(message.content.clone()));
            }
            Role::Assistant if message.error => {
                self.answer = None;
                self.failure = Some(message.content.clone());
            }
            Role::Assistant if self.is_main(&created.origin) => self.answer(created, out),
            Role::User | Role::Assistant | Role::Tool | Role::System => {}
        }
        out.extend(
            message
                .warnings
                .iter()
                .map(|warning| Block::Notice(warning.clone())),
        );
    }

    fn answer(&mut self, created: &MessageCreated, out: &mut Vec<Block>) {
        let message = &created.message;
        let writing = self
            .answer
            .take()
            .filter(|writing| writing.message_id == message.message_id);
        if message.content.trim().is_empty() || self.last_answer.as_ref() == Some(&message.content)
        {
            return;
        }
        self.last_answer = Some(message.content.clone());
        let is_begun = writing
            .as_ref()
            .is_some_and(|writing| writing.stream.is_begun());
        let rest = writing
            .map(|writing| writing.stream)
            .unwrap_or_default()
            .finish(&message.content);
        let (named, piece) = match rest {
            Some(piece) => (!is_begun, piece),
            None => {
                out.push(Block::AnswerRestarted);
                let mut whole = Stream::default();
                whole.push(&message.content);
                (true, whole.rest())
            }
        };
        out.push(Block::Answer {
            agent: message.agent_id.clone().filter(|_| named),
            piece,
        });
    }

    fn delta(&mut self, delta: &MessageDelta, out: &mut Vec<Block>) {
        if !self.is_main(&delta.origin) {
            return self.task_writes(&delta.origin);
        }
        let is_same = |writing: &Writing| {
            writing.message_id == delta.message_id && writing.attempt == delta.attempt
        };
        if !self.answer.as_ref().is_some_and(is_same) {
            if self
                .answer
                .as_ref()
                .is_some_and(|writing| writing.stream.is_begun())
            {
                out.push(Block::AnswerRestarted);
            }
            self.answer = Some(Writing {
                message_id: delta.message_id.clone(),
                attempt: delta.attempt,
                agent: delta.agent.clone(),
                stream: Stream::default(),
            });
        }
        let Some(writing) = &mut self.answer else {
            return;
        };
        writing.stream.push(&delta.content);
        loop {
            let agent = (!writing.stream.is_begun()).then(|| writing.agent.clone());
            let Some(piece) = writing.stream.settle() else {
                break;
            };
            out.push(Block::Answer { agent, piece });
        }
    }

    fn cut_answer(&mut self, out: &mut Vec<Block>) {
        let Some(writing) = self.answer.take() else {
            return;
        };
        let piece = writing.stream.rest();
        if !piece.source.trim().is_empty() {
            let agent = (!writing.stream.is_begun()).then_some(writing.agent);
            out.push(Block::Answer { agent, piece });
        }
        out.push(Block::AnswerCut);
    }

    fn call(&mut self, call: &ToolCallEvent) {
        let is_known = self
            .calls
            .iter()
            .any(|open| open.call.call_id == call.call.tool_call.call_id);
        if call.call.requires_approval || is_known || self.calls.len() >= MAX_OPEN {
            return;
        }
        self.calls.push(OpenCallView {
            call: call.call.tool_call.clone(),
            task: call.origin.task_id.clone(),
            is_attended: call.client_attached,
        });
    }

    fn result(&mut self, result: &ToolResultEvent, out: &mut Vec<Block>) {
        self.answered(&result.call_id);
        if result.tool_name == Tool::AskFollowupQuestion.as_str() {
            let said = result
                .result
                .as_str()
                .map_or_else(|| result.result.to_string(), str::to_owned);
            return out.push(Block::Answered(said));
        }
        let place = self
            .calls
            .iter()
            .position(|open| open.call.call_id == result.call_id);
        let call = match place {
            Some(place) => self.calls.remove(place).call,
            None => ToolCall {
                call_id: result.call_id.clone(),
                name: result.tool_name.clone(),
                arguments: Map::new(),
            },
        };
        let end = End::Result {
            value: result.result.clone(),
            is_late: result.late,
        };
        out.push(Block::Call(CallEnd {
            call,
            task: self.shown_task(&result.origin),
            end,
        }));
    }

    fn closed(&mut self, closed: &ToolCallClosed, out: &mut Vec<Block>) {
        self.answered(&closed.call_id);
        let Some(place) = self
            .calls
            .iter()
            .position(|open| open.call.call_id == closed.call_id)
        else {
            return;
        };
        let OpenCallView { call, task, .. } = self.calls.remove(place);
        out.push(Block::Call(CallEnd {
            call,
            task,
            end: End::Closed(closed.outcome),
        }));
    }

    fn approval(&mut self, request: &ApprovalRequest, before: &Before, out: &mut Vec<Block>) {
        out.push(Block::Approval(self.shown(request, before)));
        self.waiting(&request.origin);
        self.ask(PendingAsk::Approval(Box::new(request.clone())));
    }

    /// What a person sees of the question; `before` is the file it is about.
    pub fn shown(&self, request: &ApprovalRequest, before: &Before) -> ApprovalShown {
        let approval = &request.approval;
        let kind = match approval.kind {
            ApprovalKind::Budget => ApprovalCardKind::Budget(approval.arguments.clone()),
            ApprovalKind::Tool | ApprovalKind::Plan => approval_kind(
                &approval.tool_name,
                &approval.arguments,
                &approval.parts,
                before,
            ),
        };
        ApprovalShown {
            agent: request.agent.clone(),
            task: self.shown_task(&request.origin),
            kind,
            reason: approval.reason.clone(),
            is_forged: is_forged(request),
        }
    }

    fn error(&mut self, error: &ErrorData, out: &mut Vec<Block>) {
        self.failure = None;
        // A cancelled turn is told once, when it is over.
        if error.error_code != codelab_protocol::ErrorCode::Cancelled {
            out.push(Block::Error {
                message: error.message.clone(),
                code: Some(error.error_code),
            });
        }
    }

    /// A task is worth naming only where there are several.
    fn shown_task(&self, origin: &TaskOrigin) -> Option<TaskId> {
        origin.task_id.clone().filter(|_| !self.is_main(origin))
    }
}

fn is_forged(request: &ApprovalRequest) -> bool {
    let approval = &request.approval;
    approval.digest != arguments_digest(&approval.tool_name, &approval.arguments)
}

pub fn approval_kind(
    tool: &str,
    arguments: &Map<String, Value>,
    parts: &[CommandPart],
    before: &Before,
) -> ApprovalCardKind {
    let text = |name: &str| {
        arguments
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    match (Tool::parse(tool), text("command")) {
        (Some(Tool::ExecuteCommand), Some(command)) => ApprovalCardKind::Command {
            command,
            cwd: text("cwd"),
            parts: parts.to_vec(),
        },
        (Some(Tool::WriteFile), _) => ApprovalCardKind::Write {
            arguments: arguments.clone(),
            before: before.clone(),
        },
        _ => ApprovalCardKind::Tool {
            name: tool.to_owned(),
            arguments: arguments.clone(),
        },
    }
}

#[cfg(test)]
#[path = "state/tests.rs"]
mod tests;
/// Whether this is a gap before the first event: the numbers that were known are another log's.
fn starts_over(event: &SessionEvent) -> bool {
    matches!(event.body, SessionEventBody::Gap(_)) && event.seq == Some(0)
}
