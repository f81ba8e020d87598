//! What is printed for a change of the session.

use codelab_client::{
    DecisionView, MessageStatus, MessageView, PlanView, QuestionStatus, SessionChange, SessionNote,
    TaskNote, ToolCallStatus,
};
use codelab_protocol::{
    ApprovalOutcome, CallId, CallOutcome, ErrorCode, MessageId, PlanId, PlanStatus, Role, Task,
    TaskId, TaskOrigin, TaskStatus, TurnError, TurnStatus, Usage,
};

use super::{Grant, PendingAsk, ViewState, Writing};
use crate::Text;
use crate::texts::{CommandText, EditText};
use crate::ui::block::{ApprovalShown, Block, CallEnd, End};
use crate::ui::files::ShownFile;
use crate::ui::markdown::Stream;
use crate::ui::mention::without_files;
use crate::ui::{allowed, rewind};

/// How the server begins the list of tasks that a plan did not do.
const NOT_DONE: &str = "Not done:";
/// The beginning of what a model thought, in one row.
const MAX_NOTE_CHARS: usize = 160;

impl ViewState {
    pub(super) fn printed(&mut self, change: &SessionChange, before: &ShownFile) -> Vec<Block> {
        let mut out = Vec::new();
        match change {
            SessionChange::StartedOver => {
                // What was printed stays on the screen, but nothing of it can be decided any more.
                (self.answer, self.last_answer, self.failure) = (None, None, None);
                out.push(Block::Notice(
                    self.language.text(Text::SessionReplaced).to_owned(),
                ));
            }
            SessionChange::MessageStored(id) => self.message(id, &mut out),
            SessionChange::TextChanged {
                message_id,
                from_bytes,
            } => self.text_changed(message_id, *from_bytes, &mut out),
            SessionChange::MessageQueued {
                position,
                message_id,
            } => {
                let mut queued = self.view.queued().iter();
                let waits = queued.find(|queued| queued.message_id == *message_id);
                out.push(Block::Queued {
                    position: *position,
                    steers: waits.is_some_and(|queued| queued.steers),
                    text: waits
                        .map(|queued| without_files(&queued.text).to_owned())
                        .unwrap_or_default(),
                });
            }
            SessionChange::MessageDequeued(queued) => {
                out.push(Block::Dequeued(queued.text.clone()));
            }
            SessionChange::Call(id) => out.extend(self.call_ended(id)),
            SessionChange::Waits(id) => self.waiting(id, before),
            SessionChange::Resolved(id, decision) => {
                out.extend(match decision.decision {
                    ApprovalOutcome::Edited => {
                        self.edited_card(id).or_else(|| self.closed_card(id))
                    }
                    ApprovalOutcome::Approved
                    | ApprovalOutcome::Rejected
                    | ApprovalOutcome::Expired
                    | ApprovalOutcome::Cancelled => self.closed_card(id),
                });
                let granted = self.granted.remove(id);
                out.push(decided(decision, granted));
                let is_plan = self.view.plan_of(id).is_some();
                let hint = match decision.decision {
                    ApprovalOutcome::Expired => Some(self.language.text(Text::RenewHint)),
                    ApprovalOutcome::Rejected if decision.reason.is_some() => {
                        Some(self.language.text(EditText::PlanReasonHint))
                    }
                    ApprovalOutcome::Approved
                    | ApprovalOutcome::Edited
                    | ApprovalOutcome::Rejected
                    | ApprovalOutcome::Cancelled => None,
                };
                let hint = hint.filter(|_| is_plan).map(str::to_owned);
                out.extend(hint.map(Block::Notice));
            }
            SessionChange::QuestionEnded(id) => {
                out.extend(self.closed_card(id));
                out.extend(self.question_ended(id));
            }
            SessionChange::PlanCreated(id) => {
                self.used_before = self.view.plan(id).and_then(used_by_tasks);
                out.extend(self.planned(id));
            }
            SessionChange::Task(plan, id) => out.extend(self.task_ended(plan, id)),
            SessionChange::PlanEnded(id) => out.extend(self.plan_ended(id)),
            SessionChange::Error(error) => out.extend(self.error(error)),
            SessionChange::Note(note) => out.extend(self.noted(note)),
            SessionChange::Used(usage) => out.extend(self.spent(usage)),
            SessionChange::ReasoningChanged(_)
            | SessionChange::Progress(_)
            | SessionChange::Previewed(_)
            | SessionChange::TaskStarted(..)
            | SessionChange::Stopped(_) => {}
        }
        out
    }

    fn noted(&self, note: &SessionNote) -> Option<Block> {
        Some(match note {
            // The row beneath the input shows it.
            SessionNote::ApproveChanged(_) => return None,
            SessionNote::AgentSwitched(switch) => Block::Switched {
                from: switch.from_agent.clone(),
                to: switch.to_agent.clone(),
                reason: switch.reason.clone(),
            },
            SessionNote::HistoryCompacted(compacted) => Block::Notice(
                self.language
                    .with(Text::HistoryCompacted, &[&compacted.messages.to_string()]),
            ),
            SessionNote::CompactionFailed(error) if error.error_code == ErrorCode::Cancelled => {
                Block::Notice(
                    self.language
                        .text(CommandText::CompactionStopped)
                        .to_owned(),
                )
            }
            SessionNote::CompactionFailed(error) => Block::Error {
                message: error.message.clone(),
                code: Some(error.error_code),
                status: None,
            },
            SessionNote::RememberedRevoked(revoked) => {
                let what = allowed::named(&revoked.remembered.covers, self.language);
                Block::Notice(self.language.with(CommandText::Revoked, &[&what]))
            }
            SessionNote::Rewound(rewound) => Block::Listing(rewind::told(rewound, self.language)),
            SessionNote::ModelFallback(fallback) => Block::Notice(self.language.with(
                Text::ModelFallback,
                &[
                    &fallback.from,
                    &self.language.failure(fallback.kind),
                    &fallback.to,
                ],
            )),
            SessionNote::ModelWaiting(waiting) => {
                let since = self.event_at.unwrap_or(waiting.until);
                Block::Notice(self.language.model_waiting(waiting, since))
            }
            SessionNote::Gap(gap) => Block::Notice(self.language.with(
                Text::EventsPruned,
                &[&gap.from.to_string(), &gap.to.to_string()],
            )),
            SessionNote::StartOver => {
                Block::Notice(self.language.text(Text::SessionReplaced).to_owned())
            }
        })
    }

    /// The turn is over.
    pub(super) fn ended(&mut self, status: TurnStatus, was_working: bool) -> Vec<Block> {
        let mut out = Vec::new();
        self.cut_answer(&mut out);
        if let Some(message) = self.failure.take() {
            out.push(Block::Error {
                message,
                code: None,
                status: None,
            });
        }
        if was_working && status == TurnStatus::Cancelled {
            out.push(Block::Cancelled);
        }
        out
    }

    fn message(&mut self, id: &MessageId, out: &mut Vec<Block>) {
        let Some(message) = self.view.message(id).cloned() else {
            return;
        };
        match message.role {
            Role::User if message.origin == TaskOrigin::default() => {
                (self.last_answer, self.used_before) = (None, None);
                out.push(Block::User(with_names(&message)));
            }
            Role::Assistant if message.status == MessageStatus::Error => {
                self.answer = None;
                self.failure = Some(message.text.clone()).filter(|text| !self.is_known(text));
            }
            Role::Assistant if self.is_main(&message.origin) => {
                let mut writing = self.answer.iter();
                if !writing.any(|writing| writing.message_id == *id && writing.has_thoughts) {
                    out.extend(self.thoughts(&message));
                }
                let is_whole = match message.status {
                    MessageStatus::Stopped | MessageStatus::Failed => false,
                    MessageStatus::Streaming { .. }
                    | MessageStatus::Complete
                    | MessageStatus::Error => true,
                };
                if self.answer(&message, out) && !is_whole {
                    out.push(Block::AnswerCut);
                }
            }
            Role::User | Role::Assistant | Role::Tool | Role::System => {}
        }
        if !self.view.repeats_its_task(id) {
            let task = self.shown_task(&message.origin);
            let warning = |text: String| match &task {
                Some(task) => Block::Notice(format!("[{task}] {text}")),
                None => Block::Notice(text),
            };
            out.extend(message.warnings.into_iter().map(warning));
        }
    }

    /// What this run of a plan used, or a turn. The tasks that were done before are not paid again.
    fn spent(&mut self, usage: &Usage) -> Option<Block> {
        let spent = match self.used_before.take() {
            Some(before) => Usage {
                total_tokens: usage.total_tokens.saturating_sub(before.total_tokens),
                cost_usd: usage
                    .cost_usd
                    .map(|cost| (cost - before.cost_usd.unwrap_or_default()).max(0.0)),
                ..usage.clone()
            },
            None => usage.clone(),
        };
        (spent.total_tokens > 0).then_some(Block::Spent(spent))
    }

    /// Whether a failure only repeats what was printed for each task of the plan.
    fn is_known(&self, failure: &str) -> bool {
        let has_failed = |task: &Task| task.status == TaskStatus::Failed;
        let mut plans = self.plan().into_iter();
        failure.starts_with(NOT_DONE) && plans.any(|view| view.plan.tasks.iter().any(has_failed))
    }

    /// What the model thought, folded into one row.
    fn thoughts(&self, message: &MessageView) -> Option<Block> {
        let first = message
            .reasoning
            .lines()
            .find(|line| !line.trim().is_empty())?;
        let shown = beginning(first.trim(), MAX_NOTE_CHARS);
        let size = message.reasoning.chars().count().to_string();
        let text = self.language.with(Text::Thought, &[&size, &shown]);
        Some(Block::Notice(text))
    }

    /// Prints an answer, unless it was printed already. Whether it did.
    fn answer(&mut self, message: &MessageView, out: &mut Vec<Block>) -> bool {
        let writing = self
            .answer
            .take()
            .filter(|writing| writing.message_id == message.message_id);
        if message.text.trim().is_empty() || self.last_answer.as_ref() == Some(&message.text) {
            return false;
        }
        self.last_answer = Some(message.text.clone());
        let is_begun = writing
            .as_ref()
            .is_some_and(|writing| writing.stream.is_begun());
        let rest = writing
            .map(|writing| writing.stream)
            .unwrap_or_default()
            .finish(&message.text);
        let (is_named, piece) = match rest {
            Some(piece) => (!is_begun, piece),
            None => {
                out.push(Block::AnswerRestarted);
                let mut whole = Stream::default();
                whole.push(&message.text);
                (true, whole.rest())
            }
        };
        out.push(Block::Answer {
            agent: message.agent.clone().filter(|_| is_named),
            piece,
        });
        true
    }

    fn text_changed(&mut self, id: &MessageId, from_bytes: usize, out: &mut Vec<Block>) {
        let Some(message) = self.view.message(id) else {
            return;
        };
        let Some(agent) = message
            .agent
            .clone()
            .filter(|_| self.is_main(&message.origin))
        else {
            return;
        };
        let is_continued =
            |writing: &Writing| writing.message_id == *id && writing.bytes == from_bytes;
        let mut writing = match self.answer.take() {
            Some(writing) if is_continued(&writing) => writing,
            other => {
                if other.is_some_and(|writing| writing.stream.is_begun()) {
                    out.push(Block::AnswerRestarted);
                }
                Writing {
                    message_id: id.clone(),
                    agent,
                    stream: Stream::default(),
                    bytes: 0,
                    has_thoughts: false,
                }
            }
        };
        writing
            .stream
            .push(message.text.get(writing.bytes..).unwrap_or_default());
        writing.bytes = message.text.len();
        loop {
            let agent = (!writing.stream.is_begun()).then(|| writing.agent.clone());
            let Some(piece) = writing.stream.settle() else {
                break;
            };
            if !std::mem::replace(&mut writing.has_thoughts, true) {
                out.extend(self.thoughts(message));
            }
            out.push(Block::Answer { agent, piece });
        }
        self.answer = Some(writing);
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

    /// A call is printed once it has ended. A rejected one is told by its decision.
    fn call_ended(&self, id: &CallId) -> Option<Block> {
        let view = self.view.call(id)?;
        let end = match &view.status {
            ToolCallStatus::Finished { result, is_late } => End::Result {
                value: result.clone(),
                is_late: *is_late,
            },
            ToolCallStatus::Closed(CallOutcome::Rejected) => return None,
            ToolCallStatus::Closed(outcome) => End::Closed(*outcome),
            ToolCallStatus::Proposed
            | ToolCallStatus::AwaitingApproval(_)
            | ToolCallStatus::AwaitingClient
            | ToolCallStatus::Running
            | ToolCallStatus::NotRun => return None,
        };
        Some(Block::Call(CallEnd {
            call: view.call.clone(),
            mcp: view.mcp.clone(),
            task: self.shown_task(&view.origin),
            end,
        }))
    }

    /// What waits is drawn in the live rows. It is printed when it no longer waits.
    fn waiting(&mut self, id: &CallId, before: &ShownFile) {
        // What was decided meanwhile does not wait again because it got more time.
        let is_renewed =
            |ask: &PendingAsk| self.view.waits(id).is_some_and(|now| ask.is_renewed(now));
        if self.decided.get(id).is_some_and(is_renewed) {
            return;
        }
        self.decided.remove(id);
        self.told.remove(id);
        self.reread(id, before.clone());
    }

    /// What was decided, so that it stands above its decision.
    fn closed_card(&mut self, id: &CallId) -> Option<Block> {
        let is_told = self.told.remove(id);
        let waits = self.asks.iter().find(|ask| ask.is_of_server(id));
        let ask = waits
            .or_else(|| self.decided.get(id))
            .filter(|_| !is_told)?;
        self.card(ask)
    }

    /// The call as a person changed it, which is what runs.
    fn edited_card(&mut self, id: &CallId) -> Option<Block> {
        let waits = self.asks.iter().find(|ask| ask.is_of_server(id));
        let Some(PendingAsk::Approval(request)) = waits.or_else(|| self.decided.get(id)) else {
            return None;
        };
        let mut request = request.clone();
        request.approval.arguments = self.view.call(id)?.call.arguments.clone();
        // What was found out about the call was about the proposed one.
        (request.approval.parts, request.approval.preview) = (Vec::new(), None);
        self.told.remove(id);
        let shown = ApprovalShown {
            is_forged: false,
            ..self.shown(&request, self.before(id))
        };
        Some(Block::Approval(shown))
    }

    fn question_ended(&self, id: &CallId) -> Option<Block> {
        match &self.view.question(id)?.status {
            QuestionStatus::Answered(answer) => Some(Block::Answered(answer.clone())),
            QuestionStatus::Open | QuestionStatus::Closed => None,
        }
    }

    fn planned(&self, id: &PlanId) -> Option<Block> {
        let plan = &self.view.plan(id)?.plan;
        match (plan.tasks.as_slice(), plan.status) {
            ([task], PlanStatus::Running) => Some(Block::Routed {
                agent: task.agent.clone(),
                is_fallback: plan.fallback,
            }),
            _ => None,
        }
    }

    fn task_ended(&self, plan: &PlanId, id: &TaskId) -> Option<Block> {
        let view = self.view.plan(plan)?;
        let task = view.task(id)?;
        let note = match (task.status, view.notes.get(id)) {
            (TaskStatus::Failed, _) => {
                task.error.as_ref()?;
                None
            }
            (TaskStatus::Skipped, Some(TaskNote::Because(failed))) => {
                Some(self.language.with(Text::BecauseFailed, &[failed.as_str()]))
            }
            (TaskStatus::Completed | TaskStatus::Skipped, _) => None,
            (
                TaskStatus::Pending
                | TaskStatus::Queued
                | TaskStatus::Running
                | TaskStatus::Waiting
                | TaskStatus::Cancelled,
                _,
            ) => return None,
        };
        let is_shown = !view.is_single() || task.status == TaskStatus::Failed;
        is_shown.then(|| Block::TaskEnded {
            id: id.clone(),
            agent: task.agent.clone(),
            status: task.status,
            note,
            error: task.error.clone(),
        })
    }

    fn plan_ended(&self, id: &PlanId) -> Option<Block> {
        let plan = &self.view.plan(id)?.plan;
        let is_lost = |task: &Task| matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped);
        (plan.status != PlanStatus::Completed).then(|| Block::PlanEnded {
            status: plan.status,
            can_retry: plan.tasks.iter().any(is_lost),
        })
    }

    fn error(&mut self, error: &TurnError) -> Option<Block> {
        self.failure = None;
        let task = self.shown_task(&error.origin);
        let error = &error.error;
        // A cancelled turn is told once, when it is over.
        (error.error_code != ErrorCode::Cancelled).then(|| Block::TurnError {
            error: error.clone(),
            task,
        })
    }
}

fn decided(decision: &DecisionView, granted: Option<Grant>) -> Block {
    Block::Decided {
        granted: granted.filter(|_| decision.decision == ApprovalOutcome::Approved),
        decision: decision.decision,
        by: decision.decided_by.clone(),
        reason: decision.reason.clone(),
    }
}

/// At most this many characters, cut behind a word where there is one, with the cut marked.
fn beginning(text: &str, max_chars: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(max_chars) else {
        return text.to_owned();
    };
    let words = text[..end].rfind(char::is_whitespace);
    let cut = words.map_or(end, |space| space);
    format!("{}…", text[..cut].trim_end())
}

fn used_by_tasks(view: &PlanView) -> Option<Usage> {
    let used = view.plan.tasks.iter().filter_map(|task| task.usage.clone());
    used.reduce(|sum, usage| sum.plus(usage))
}

/// What a person said, and a line for each file that went along.
fn with_names(message: &MessageView) -> String {
    let files = message.attachments.iter();
    let text = without_files(&message.text).to_owned();
    files.fold(text, |text, file| format!("{text}\n[{}]", file.name))
}

#[cfg(test)]
#[path = "print/tests.rs"]
mod tests;
