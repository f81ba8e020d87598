//! What a project session's events mean for a person: messages, tool calls, questions, plans, what
//! waits for a decision, and the state of the turn.
//!
//! [`SessionView`] is a pure value. The same events give the same view, whether they arrive live or
//! are read again from the log. `tests/projection` in the repository holds the rules and the cases;
//! the web page's reducer passes the same cases. Nothing here formats text for a screen.

mod calls;
mod item;
mod plans;
mod timeline;

use codelab_protocol::{
    AgentName, AgentStatus, CallId, DequeueReason, ErrorData, MessageCreated, MessageDelta,
    MessageId, PlanId, Role, SessionEvent, SessionEventBody, SwitchAgent, TaskId, TaskOrigin, Tool,
    TurnError, TurnStatus, Usage, WorkflowStatus,
};

pub use item::{
    BudgetView, CallView, DecisionView, MessageStatus, MessageView, QuestionStatus, QuestionView,
    SessionItem, SessionNote, ToolCallStatus, WaitingItem,
};
pub use plans::{PlanView, TaskNote};

use self::timeline::Timeline;

/// Queued messages that are remembered. The server's own limit is lower.
const MAX_QUEUED: usize = 1_000;

/// A session as a person sees it. Its size is bounded: the oldest finished items are dropped first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionView {
    timeline: Timeline,
    turn: TurnState,
    /// The agent that works on the session's own turn. `None` while the request is planned.
    agent: Option<AgentName>,
    queued: Vec<QueuedView>,
    result: TurnResult,
    usage: Option<Usage>,
    /// A person asked for a summary of the history, and it is being written.
    is_compacting: bool,
    last_seq: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TurnState {
    /// Nothing has happened in this session yet.
    #[default]
    Idle,
    Working,
    /// The stream paused with this status. The turn has ended, or waits for a person or a client.
    Stopped(TurnStatus),
}

/// What the latest turn has produced so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnResult {
    /// Present once the turn's workflow has ended.
    pub workflow: Option<WorkflowStatus>,
    pub response: Option<String>,
    /// The last error of the turn itself; errors of single tasks are in their plan.
    pub error: Option<ErrorData>,
    /// An answer ended at its token limit.
    pub is_cut: bool,
}

/// A message that waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedView {
    pub message_id: MessageId,
    /// Empty where an earlier version queued it.
    pub text: String,
    /// It waits for the next tool results of the turn that runs, not for its end.
    pub steers: bool,
}

/// What an event changed. A front draws this; the details are in the view.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionChange {
    /// The server has another log now. Everything known before was dropped.
    StartedOver,
    /// A message is complete. It replaces what was streamed under the same id.
    MessageStored(MessageId),
    /// The streamed text differs from byte `from_bytes` on.
    TextChanged {
        message_id: MessageId,
        from_bytes: usize,
    },
    /// The model thought some more before this answer.
    ReasoningChanged(MessageId),
    MessageQueued {
        message_id: MessageId,
        /// 1 = next.
        position: u64,
    },
    /// A queued message was taken back.
    MessageDequeued(QueuedView),
    /// A tool call has a new status.
    Call(CallId),
    /// A tool call is further than before.
    Progress(CallId),
    /// An approval, a plan, a budget or a question waits for the person.
    Waits(CallId),
    /// What waits would do something else to its file than was shown.
    Previewed(CallId),
    /// An approval, a plan or a budget was decided, expired or was cancelled.
    Resolved(CallId, DecisionView),
    /// A question was answered or closed.
    QuestionEnded(CallId),
    PlanCreated(PlanId),
    /// A task starts, for the first time or again.
    TaskStarted(PlanId, TaskId),
    /// A task has another status or does something else.
    Task(PlanId, TaskId),
    PlanEnded(PlanId),
    Error(TurnError),
    Note(SessionNote),
    /// A turn reported what it used.
    Used(Usage),
    Stopped(TurnStatus),
}

impl SessionView {
    /// Applies the next event and returns what it changed. An event that was applied before changes
    /// nothing.
    pub fn apply(&mut self, event: &SessionEvent) -> Vec<SessionChange> {
        if let SessionEventBody::Gap(gap) = &event.body
            && gap.starts_over(self.last_seq)
        {
            *self = Self::default();
            self.timeline
                .push(SessionItem::Note(SessionNote::StartOver));
            return vec![SessionChange::StartedOver];
        }
        if let Some(seq) = event.seq
            && !self.is_new(seq)
        {
            return Vec::new();
        }
        if wakes(&event.body) {
            self.turn = TurnState::Working;
        }
        let mut changes = Vec::new();
        self.apply_body(&event.body, &mut changes);
        changes
    }

    /// Moves past an event whose type this client does not know.
    pub fn skip(&mut self, seq: u64) {
        self.is_new(seq);
    }

    /// The stream paused: the turn has ended or waits.
    pub fn done(&mut self, status: TurnStatus) -> Vec<SessionChange> {
        self.turn = TurnState::Stopped(status);
        let mut changes = Vec::new();
        if status.is_end() {
            self.agent = None;
            self.timeline.drop_streamed();
            self.timeline.end_proposed(|_| true, &mut changes);
        }
        changes.push(SessionChange::Stopped(status));
        changes
    }

    /// The connection was lost, and the server sends the text of unfinished answers again. Readers
    /// of [`crate::ResumingEvents`] do not need this: they never see a text twice.
    pub fn reconnected(&mut self) {
        self.timeline.drop_streamed();
    }

    /// Everything a person sees, in the order of first appearance.
    pub fn items(&self) -> impl DoubleEndedIterator<Item = &SessionItem> {
        self.timeline.iter()
    }

    pub fn turn(&self) -> TurnState {
        self.turn
    }

    /// Whether a summary of the history is being written that a person asked for.
    pub fn is_compacting(&self) -> bool {
        self.is_compacting
    }

    /// Whether a turn runs or waits.
    pub fn is_busy(&self) -> bool {
        match self.turn {
            TurnState::Idle => false,
            TurnState::Working => true,
            TurnState::Stopped(status) => !status.is_end(),
        }
    }

    pub fn agent(&self) -> Option<&AgentName> {
        self.agent.as_ref()
    }

    /// Messages that wait for their turn or steer the one that runs, oldest first.
    pub fn queued(&self) -> &[QueuedView] {
        &self.queued
    }

    pub fn result(&self) -> &TurnResult {
        &self.result
    }

    /// The sum of what the turns in this view reported.
    pub fn usage(&self) -> Option<Usage> {
        self.usage.clone()
    }

    /// The number of the last event, to continue after it.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub fn message(&self, id: &MessageId) -> Option<&MessageView> {
        self.items().rev().find_map(|item| match item {
            SessionItem::Message(message) if message.message_id == *id => Some(message),
            _ => None,
        })
    }

    /// Whether an answer of the session is word for word what a task of its plan said. Then its
    /// warnings are known as well.
    pub fn repeats_its_task(&self, id: &MessageId) -> bool {
        let (Some(message), Some(plan)) = (self.message(id), self.latest_plan()) else {
            return false;
        };
        let is_its_task = |item: &SessionItem| match item {
            SessionItem::Message(task) => {
                task.origin.plan_id.as_ref() == Some(plan.id())
                    && task.origin.task_id.is_some()
                    && task.role == Role::Assistant
                    && (&task.text, &task.warnings) == (&message.text, &message.warnings)
            }
            _ => false,
        };
        let is_answer = message.role == Role::Assistant && message.origin.task_id.is_none();
        is_answer && !message.warnings.is_empty() && self.items().rev().any(is_its_task)
    }

    pub fn call(&self, id: &CallId) -> Option<&CallView> {
        self.items().rev().find_map(|item| match item {
            SessionItem::Call(call) if call.call.call_id == *id => Some(call.as_ref()),
            _ => None,
        })
    }

    pub fn question(&self, id: &CallId) -> Option<&QuestionView> {
        self.items().rev().find_map(|item| match item {
            SessionItem::Question(view) if view.question.call_id == *id => Some(view),
            _ => None,
        })
    }

    pub fn plan(&self, id: &PlanId) -> Option<&PlanView> {
        self.plans().find(|view| view.id() == id)
    }

    /// The plan that an approval is about.
    pub fn plan_of(&self, call: &CallId) -> Option<&PlanView> {
        self.plans()
            .find(|view| view.id().as_str() == call.as_str())
    }

    /// The plan of the latest workflow.
    pub fn latest_plan(&self) -> Option<&PlanView> {
        self.plans().next()
    }

    fn plans(&self) -> impl Iterator<Item = &PlanView> {
        self.items().rev().filter_map(|item| match item {
            SessionItem::Plan(view) => Some(view.as_ref()),
            _ => None,
        })
    }

    /// What waits for the person, oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = WaitingItem<'_>> {
        self.items().filter_map(SessionItem::waiting)
    }

    pub fn waits(&self, call: &CallId) -> Option<WaitingItem<'_>> {
        self.items()
            .rev()
            .filter_map(SessionItem::waiting)
            .find(|waiting| waiting.call_id() == call)
    }

    fn is_new(&mut self, seq: u64) -> bool {
        let is_new = seq > self.last_seq;
        self.last_seq = self.last_seq.max(seq);
        is_new
    }

    fn apply_body(&mut self, body: &SessionEventBody, changes: &mut Vec<SessionChange>) {
        match body {
            SessionEventBody::MessageCreated(created) => self.message_created(created, changes),
            SessionEventBody::MessageDelta(delta) => self.message_delta(delta, changes),
            SessionEventBody::ReasoningDelta(delta) => {
                if self.timeline.think(delta) {
                    self.task_writes(&delta.origin);
                    changes.push(SessionChange::ReasoningChanged(delta.message_id.clone()));
                }
            }
            SessionEventBody::MessageQueued(queued) => {
                let is_full = self.queued.len() >= MAX_QUEUED;
                let is_known = |known: &&mut QueuedView| known.message_id == queued.message_id;
                if let Some(known) = self.queued.iter_mut().find(is_known) {
                    // Its turn ended before it could be told.
                    known.steers = queued.steers;
                } else if !is_full {
                    self.queued.push(QueuedView {
                        message_id: queued.message_id.clone(),
                        text: queued.content.clone(),
                        steers: queued.steers,
                    });
                }
                changes.push(SessionChange::MessageQueued {
                    message_id: queued.message_id.clone(),
                    position: queued.position,
                });
            }
            SessionEventBody::MessageDequeued(back) => {
                let is_it = |queued: &QueuedView| queued.message_id == back.message_id;
                if let Some(at) = self.queued.iter().position(is_it) {
                    let taken_back = self.queued.remove(at);
                    // The event that follows says how it waits now.
                    if back.reason != DequeueReason::Steers {
                        changes.push(SessionChange::MessageDequeued(taken_back));
                    }
                }
            }
            SessionEventBody::DirectAgentCall(call) => self.agent = Some(call.agent.clone()),
            SessionEventBody::AgentStatusChanged(changed) => {
                let is_own = changed.origin == TaskOrigin::default();
                if is_own && changed.status == AgentStatus::Processing {
                    self.agent = Some(changed.agent.clone());
                }
            }
            SessionEventBody::AgentSwitched(switch) => self.agent_switched(switch, changes),
            SessionEventBody::TaskPlanCreated(plan) => self.plan_created(plan, changes),
            SessionEventBody::PlanRequest(request) => self.plan_requested(request, changes),
            SessionEventBody::PlanResolved(resolved) => self.plan_resolved(resolved, changes),
            SessionEventBody::TaskStarted(task) => self.task_started(task, changes),
            SessionEventBody::TaskProgress(task) => self.task_progress(task, changes),
            SessionEventBody::TaskCompleted(task) => self.task_completed(task, changes),
            SessionEventBody::TaskFailed(task) => self.task_failed(task, changes),
            SessionEventBody::TaskSkipped(task) => self.task_skipped(task, changes),
            SessionEventBody::WorkflowCompleted(done) => self.workflow_completed(done, changes),
            // The event `rewound` tells what became of it.
            SessionEventBody::ToolCall(call) if is_rewind(&call.call.tool_call.name) => {}
            SessionEventBody::ToolResult(result) if is_rewind(&result.tool_name) => {}
            SessionEventBody::ToolCall(call) => self.tool_call(call, changes),
            SessionEventBody::ToolResult(result) => self.tool_result(result, changes),
            SessionEventBody::ToolProgress(progress) => self.tool_progress(progress, changes),
            SessionEventBody::ToolCallClosed(closed) => self.tool_call_closed(closed, changes),
            SessionEventBody::ApprovalRequest(request) => self.approval_request(request, changes),
            SessionEventBody::ApprovalPreview(shown) => self.approval_preview(shown, changes),
            SessionEventBody::ApprovalResolved(resolved) => {
                self.approval_resolved(resolved, changes)
            }
            SessionEventBody::Question(question) => self.question_asked(question, changes),
            SessionEventBody::Error(error) => self.error(error, changes),
            SessionEventBody::HistoryCompacting(_) => self.is_compacting = true,
            SessionEventBody::HistoryCompacted(compacted) => {
                self.is_compacting = false;
                self.note(SessionNote::HistoryCompacted(compacted.clone()), changes)
            }
            SessionEventBody::CompactionFailed(error) => {
                self.is_compacting = false;
                self.note(SessionNote::CompactionFailed(error.clone()), changes)
            }
            SessionEventBody::RememberedRevoked(revoked) => {
                self.note(SessionNote::RememberedRevoked(revoked.clone()), changes)
            }
            SessionEventBody::ApproveChanged(changed) => {
                self.note(SessionNote::ApproveChanged(changed.approve), changes)
            }
            SessionEventBody::Rewound(rewound) => {
                self.note(SessionNote::Rewound(rewound.clone()), changes)
            }
            SessionEventBody::ModelFallback(fallback) => {
                self.note(SessionNote::ModelFallback(fallback.clone()), changes)
            }
            SessionEventBody::ModelWaiting(waiting) => {
                self.note(SessionNote::ModelWaiting(waiting.clone()), changes)
            }
            // The approvals and questions themselves are shown.
            SessionEventBody::WaitingAdded(_) | SessionEventBody::WaitingRemoved(_) => {}
            SessionEventBody::Gap(gap) => {
                self.last_seq = self.last_seq.max(gap.to);
                self.note(SessionNote::Gap(*gap), changes);
            }
        }
    }

    fn message_created(&mut self, created: &MessageCreated, changes: &mut Vec<SessionChange>) {
        let message = &created.message;
        let answered = match message.role {
            Role::Tool => {
                // The result of a call has its own event; only answers to questions are shown.
                if let Some(call) = &message.tool_call_id {
                    self.answer_question(call, message.content.clone(), changes);
                }
                return;
            }
            Role::User | Role::Assistant | Role::System => &message.answers,
        };
        self.queued
            .retain(|queued| queued.message_id != message.message_id);
        if let Some(call) = answered
            && self.answer_question(call, message.content.clone(), changes)
        {
            return;
        }
        match message.role {
            Role::Assistant => {
                // One that goes on with tool calls was told, and may still finish.
                self.result.is_cut |= message.is_cut && message.tool_calls.is_empty();
                self.timeline
                    .end_proposed(|call| call.origin == created.origin, changes);
            }
            Role::User if created.origin == TaskOrigin::default() && !message.steered => {
                self.result = TurnResult::default();
            }
            Role::User | Role::System | Role::Tool => {}
        }
        self.timeline.put_message(MessageView::stored(created));
        for call in &message.tool_calls {
            self.timeline.put_call(CallView::proposed(call, created));
        }
        changes.push(SessionChange::MessageStored(message.message_id.clone()));
    }

    fn message_delta(&mut self, delta: &MessageDelta, changes: &mut Vec<SessionChange>) {
        if let Some(from_bytes) = self.timeline.stream(delta) {
            self.task_writes(&delta.origin);
            changes.push(SessionChange::TextChanged {
                message_id: delta.message_id.clone(),
                from_bytes,
            });
        }
    }

    fn agent_switched(&mut self, switch: &SwitchAgent, changes: &mut Vec<SessionChange>) {
        // At the end of a turn the session goes back to the orchestrator. People need not see that.
        if switch.to_agent.is_orchestrator() {
            return;
        }
        self.agent = Some(switch.to_agent.clone());
        // The note below replaces the tool call that asked for the switch.
        self.timeline.remove(|item| {
            matches!(item, SessionItem::Call(call)
                if call.call.name == Tool::SwitchMode.as_str() && call.status == ToolCallStatus::Proposed)
        });
        self.note(SessionNote::AgentSwitched(switch.clone()), changes);
    }

    fn error(&mut self, error: &TurnError, changes: &mut Vec<SessionChange>) {
        if error.origin.task_id.is_none() {
            self.result.error = Some(error.error.clone());
        }
        self.timeline.push(SessionItem::Error(error.clone()));
        changes.push(SessionChange::Error(error.clone()));
    }

    fn note(&mut self, note: SessionNote, changes: &mut Vec<SessionChange>) {
        self.timeline.push(SessionItem::Note(note.clone()));
        changes.push(SessionChange::Note(note));
    }

    fn add_usage(&mut self, usage: Option<Usage>, changes: &mut Vec<SessionChange>) {
        let Some(usage) = usage else { return };
        self.usage = Some(match self.usage.take() {
            Some(before) => before.plus(usage.clone()),
            None => usage.clone(),
        });
        changes.push(SessionChange::Used(usage));
    }
}

fn is_rewind(tool: &str) -> bool {
    tool == Tool::RewindFiles.as_str()
}

/// Whether an event means that the turn runs. A queued message does not end a pause, and a late
/// result does not start a turn that has ended.
fn wakes(body: &SessionEventBody) -> bool {
    match body {
        SessionEventBody::MessageQueued(_)
        | SessionEventBody::MessageDequeued(_)
        | SessionEventBody::HistoryCompacting(_)
        | SessionEventBody::HistoryCompacted(_)
        | SessionEventBody::CompactionFailed(_)
        | SessionEventBody::RememberedRevoked(_)
        | SessionEventBody::ApproveChanged(_)
        | SessionEventBody::Rewound(_)
        | SessionEventBody::WaitingAdded(_)
        | SessionEventBody::WaitingRemoved(_)
        | SessionEventBody::ToolProgress(_)
        | SessionEventBody::ApprovalPreview(_)
        | SessionEventBody::Gap(_) => false,
        SessionEventBody::ToolResult(result) => !result.late,
        SessionEventBody::MessageCreated(_)
        | SessionEventBody::MessageDelta(_)
        | SessionEventBody::ReasoningDelta(_)
        | SessionEventBody::ModelFallback(_)
        | SessionEventBody::ModelWaiting(_)
        | SessionEventBody::DirectAgentCall(_)
        | SessionEventBody::AgentStatusChanged(_)
        | SessionEventBody::AgentSwitched(_)
        | SessionEventBody::TaskPlanCreated(_)
        | SessionEventBody::PlanRequest(_)
        | SessionEventBody::PlanResolved(_)
        | SessionEventBody::TaskStarted(_)
        | SessionEventBody::TaskProgress(_)
        | SessionEventBody::TaskCompleted(_)
        | SessionEventBody::TaskFailed(_)
        | SessionEventBody::TaskSkipped(_)
        | SessionEventBody::WorkflowCompleted(_)
        | SessionEventBody::ToolCall(_)
        | SessionEventBody::ToolCallClosed(_)
        | SessionEventBody::ApprovalRequest(_)
        | SessionEventBody::ApprovalResolved(_)
        | SessionEventBody::Question(_)
        | SessionEventBody::Error(_) => true,
    }
}

#[cfg(test)]
mod tests;
