//! A turn: all work caused by one user message, until the session is idle again.
//!
//! The work is one thread (an agent's loop of model steps and tool calls) or a workflow whose tasks
//! are such threads.

mod answer;
mod approval;
mod budget;
mod call;
mod claim;
mod did;
mod elicit;
mod ending;
mod named;
mod partial;
mod preview;
mod question;
mod renew;
mod repeats;
mod reservation;
mod show;
mod skill;
mod slots;
mod thread;
mod time;

use codelab_protocol::{
    AgentName, ErrorCode, ErrorData, Message, MessageId, ModelFailure, ModelFailureKind,
    ModelOutput, Role, SessionKind, TaskId, TurnId, TurnStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use answer::too_deep;
pub(crate) use budget::BudgetQuestion;
pub use budget::{BudgetScope, BudgetWhy};
pub(crate) use claim::LateCall;
pub use ending::cut;
pub(crate) use reservation::{Funds, Reservation, Reserved};
pub(crate) use show::View;
pub(crate) use thread::PlannedCall;
pub use thread::{CallClaim, OpenCall, Thread, ThreadPhase};

use crate::plan::Workflow;
use crate::prompt::without_middle;
use crate::session::{QueuedMessage, REQUESTED, ToldMessage, Transition};
use crate::world::{MAX_REQUEST_BYTES, MAX_TITLE_CHARS};
use crate::{
    AgentMode, CallerAnswer, Effect, Lane, ModelCall, ModelCallId, Purpose, RecallAbout, Session,
    WorkOutcome, orchestrator, routing,
};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Turn {
    pub id: TurnId,
    /// The user message that it answers.
    pub(crate) message_id: MessageId,
    /// The agent that was called directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) called: Option<AgentName>,
    /// What was asked; a long one without its middle, so that one task can be told it.
    pub(crate) request: String,
    pub(crate) work: TurnWork,
    /// Messages of the session's own history before this turn.
    #[serde(default)]
    pub(crate) earlier: u64,
    /// How many of these prompts may show: those since the summary that a person asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shown: Option<u64>,
    /// How many messages of the turn before are not sent, because there are too many.
    #[serde(default)]
    pub(crate) left_out: u64,
    /// Messages of this turn hold reasoning that their provider wants back.
    #[serde(default)]
    pub(crate) keeps_reasoning: bool,
    /// What each thread was told since its last model call, for the size of its next one.
    #[serde(default)]
    pub(crate) said: Vec<ThreadSize>,
    /// What steered its plan so far. Tasks that start later are told it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) told: Vec<ToldMessage>,
}

/// The size of what a thread was told, by the estimate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ThreadSize {
    /// Absent for the turn's own thread.
    pub task: Option<TaskId>,
    pub tokens: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnWork {
    /// Absent only within a step that holds it.
    Thread(Option<Box<Thread>>),
    Workflow(Box<Workflow>),
}

impl Turn {
    /// The user message that it answers.
    pub fn message_id(&self) -> &MessageId {
        &self.message_id
    }

    /// Every thread of work that has not ended.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        let (own, tasks) = match &self.work {
            TurnWork::Thread(thread) => (thread.as_deref(), None),
            TurnWork::Workflow(workflow) => (None, Some(workflow.threads())),
        };
        own.into_iter().chain(tasks.into_iter().flatten())
    }

    pub(crate) fn threads_mut(&mut self) -> Vec<&mut Thread> {
        match &mut self.work {
            TurnWork::Thread(thread) => thread.as_deref_mut().into_iter().collect(),
            TurnWork::Workflow(workflow) => workflow.threads_mut().collect(),
        }
    }

    pub(crate) fn say(&mut self, task: Option<TaskId>, tokens: u64) {
        match self.said.iter_mut().find(|said| said.task == task) {
            Some(said) => said.tokens = said.tokens.saturating_add(tokens),
            None => self.said.push(ThreadSize { task, tokens }),
        }
    }

    pub fn workflow(&self) -> Option<&Workflow> {
        match &self.work {
            TurnWork::Workflow(workflow) => Some(workflow),
            TurnWork::Thread(_) => None,
        }
    }

    /// Those of this turn; [`crate::Session::model_calls`] are all.
    pub fn model_calls(&self) -> Vec<(ModelCallId, Option<&MessageId>)> {
        let mut calls: Vec<_> = self
            .threads()
            .filter_map(|thread| Some((thread.model_call()?, thread.awaited())))
            .collect();
        if let Some(workflow) = self.workflow() {
            calls.extend(
                workflow
                    .model_call(self.id)
                    .map(|id| (id, workflow.awaited())),
            );
        }
        calls
    }

    pub(crate) fn awaits_room(&self) -> bool {
        let planner = self
            .workflow()
            .is_some_and(|workflow| workflow.awaits_room());
        planner
            || self
                .threads()
                .any(|thread| matches!(thread.phase, ThreadPhase::AwaitingRoom))
    }

    /// The status of a turn that waits for somebody outside as a whole.
    pub fn suspended(&self) -> Option<TurnStatus> {
        match &self.work {
            TurnWork::Thread(thread) => thread.as_ref().and_then(|thread| thread.phase.suspended()),
            TurnWork::Workflow(workflow) => workflow.suspended(),
        }
    }
}

impl Session {
    /// Takes a thread out of the turn; `put` brings it back. A lane that a late input names can be
    /// one of an earlier turn, whose work was of the other kind.
    pub(crate) fn take_thread(&mut self, lane: Lane) -> Option<Thread> {
        match (&mut self.turn.as_mut()?.work, lane.task()) {
            (TurnWork::Thread(thread), None) => thread.take().map(|thread| *thread),
            (TurnWork::Workflow(workflow), Some(task)) => workflow.take_thread(task),
            (TurnWork::Thread(_), Some(_)) | (TurnWork::Workflow(_), None) => None,
        }
    }

    pub(crate) fn put(&mut self, thread: Thread) {
        let Some(turn) = &mut self.turn else {
            never!("a thread is put back after its turn ended");
            return;
        };
        match (&mut turn.work, thread.lane.task()) {
            (TurnWork::Thread(own), None) => *own = Some(Box::new(thread)),
            (TurnWork::Workflow(workflow), Some(task)) => workflow.put_thread(task, thread),
            (TurnWork::Thread(_), Some(_)) | (TurnWork::Workflow(_), None) => {
                never!("a thread is put into work of another kind");
            }
        }
    }
}

impl Transition<'_, '_> {
    pub(crate) fn begin_turn(&mut self, waiting: QueuedMessage) {
        let QueuedMessage {
            turn: id,
            message_id,
            workflow_id,
            text,
            agent,
            caller,
            retries,
            attachments,
        } = waiting;
        if self.session.message_count == 0
            && let Some(title) = title_of(&text)
        {
            self.output.push(Effect::Title(title));
        }
        self.session.caller = caller;
        self.session.ended = None;
        if self.session.kind == SessionKind::Project {
            // No message of a project goes on from where the one before was handed over.
            self.session.last_switch = None;
        }
        let request = without_middle(&text, MAX_REQUEST_BYTES);
        let message = Message {
            message_id: message_id.clone(),
            retries,
            attachments,
            ..self.new_message(Role::User, text.clone())
        };
        let earlier = self.session.compaction.said();
        let before = self.session.last_began_at.replace(earlier);
        let last_turn = before.map_or(0, |before| earlier.saturating_sub(before));
        let sent = self.world.limits.prompt.window_of(earlier) as u64;
        self.session.turn = Some(Turn {
            id,
            message_id,
            called: agent.clone(),
            request,
            work: TurnWork::Thread(None),
            earlier,
            shown: self.session.compaction.shown(),
            left_out: last_turn.saturating_sub(sent),
            keeps_reasoning: false,
            said: Vec::new(),
            told: Vec::new(),
        });
        self.view()
            .show_user_message(id, &message, workflow_id.clone());
        self.message(id, None, message);
        match (self.session.kind, agent, workflow_id) {
            (SessionKind::Runtime, agent, _) => self.begin_routed(id, text, agent),
            (SessionKind::Project, Some(agent), _) => self.begin_direct(id, agent),
            (SessionKind::Project, None, workflow_id) => {
                let workflow_id = workflow_id.unwrap_or_else(|| self.world.ids.workflow_id());
                self.begin_planning(workflow_id);
            }
        }
    }

    /// The orchestrator finds the agent, unless the caller did.
    fn begin_routed(&mut self, id: TurnId, text: String, agent: Option<AgentName>) {
        if let Some(agent) = agent {
            self.session.pin(&agent);
            if agent != self.session.current {
                self.switch(id, agent, REQUESTED.to_owned(), None);
            }
        }
        let mut thread = Thread::new(id, Lane::OWN, self.session.current.clone(), None);
        // An agent can have left the team since the session chose it.
        if self.session.current != orchestrator()
            && self.world.team.get(&self.session.current).is_some()
        {
            return self.think(thread);
        }
        if self.world.team.mode() == AgentMode::Single {
            let universal = self.world.team.single().clone();
            self.hand_over(&mut thread, universal, "single-agent mode".to_owned(), None);
            return self.think(thread);
        }
        thread.phase = ThreadPhase::Routing { text, attempt: 0 };
        self.call_model(&thread, None);
        self.session.put(thread);
    }

    fn begin_direct(&mut self, id: TurnId, agent: AgentName) {
        self.session.current = agent.clone();
        self.view().show_direct_call(id, &agent);
        let limits = self.world.limits;
        let limit_ms = limits.task_timeout_seconds * 1000;
        self.work(Thread {
            silence_ms: Some(limits.direct_timeout_seconds * 1000),
            ..Thread::new(id, Lane::OWN, agent, Some(limit_ms))
        });
    }

    /// Changes the agent of a thread, and where it is the turn's own, of the session.
    pub(crate) fn hand_over(
        &mut self,
        thread: &mut Thread,
        to: AgentName,
        reason: String,
        confidence: Option<String>,
    ) {
        thread.agent = to.clone();
        // Each agent has a memory of its own.
        thread.recalled.clear();
        thread.found_tools.clear();
        thread.begins_with = thread.steps + 1;
        self.switch(thread.turn, to, reason, confidence);
    }

    pub(crate) fn model_finished(
        &mut self,
        call: ModelCallId,
        outcome: Result<ModelOutput, ModelFailure>,
        recalled: Vec<String>,
    ) -> CallerAnswer {
        if call.lane == Lane::ASIDE {
            return self.summarized(call, outcome, recalled);
        }
        // The turn can have ended while its model call was under way.
        let Some(turn) = &self.session.turn else {
            return CallerAnswer::Nothing;
        };
        if turn
            .workflow()
            .is_some_and(|workflow| workflow.model_call(turn.id) == Some(call))
        {
            self.workflow_answered(outcome);
            return CallerAnswer::Nothing;
        }
        // The outcome of a call that nobody awaits any more: cancelled, or made again since.
        if !turn
            .threads()
            .any(|thread| thread.model_call() == Some(call))
        {
            return CallerAnswer::Nothing;
        }
        let Some(mut thread) = self.session.take_thread(call.lane) else {
            never!("a thread that awaits a model call is not in its turn");
            return CallerAnswer::Nothing;
        };
        self.spend(
            &mut thread,
            outcome
                .as_ref()
                .ok()
                .and_then(|output| output.usage.clone()),
        );
        if !recalled.is_empty() {
            thread.recalled = recalled;
        }
        match thread.phase.clone() {
            ThreadPhase::Routing { text, .. } => self.classified(thread, &text, outcome),
            ThreadPhase::Thinking { message_id, .. } => match outcome {
                Ok(output) => self.answered_by_model(thread, message_id, output),
                Err(failure) => self.model_failed(thread, failure),
            },
            ThreadPhase::Queued
            | ThreadPhase::AwaitingResult { .. }
            | ThreadPhase::Calling { .. }
            | ThreadPhase::AwaitingApproval { .. }
            | ThreadPhase::AwaitingAnswer { .. }
            | ThreadPhase::AwaitingRoom
            | ThreadPhase::AwaitingBudget { .. } => {
                never!("a thread awaits a model call in a phase that has none");
                self.session.put(thread);
            }
        }
        CallerAnswer::Nothing
    }

    fn classified(
        &mut self,
        mut thread: Thread,
        text: &str,
        outcome: Result<ModelOutput, ModelFailure>,
    ) {
        let route = routing::decide(
            self.world.team,
            text,
            outcome.as_ref().map(|output| output.text.as_str()).ok(),
        );
        self.hand_over(
            &mut thread,
            route.agent,
            route.reason,
            Some(route.confidence.to_owned()),
        );
        self.think(thread);
    }

    fn model_failed(&mut self, thread: Thread, failure: ModelFailure) {
        let outcome = match failure.kind {
            Some(kind) if !is_agents_failure(kind) => WorkOutcome::Hindered,
            Some(_) | None => WorkOutcome::Failed,
        };
        self.fail_thread_as(thread, failure.into_error(), outcome);
    }

    /// `max_tokens` is what a budget has room for.
    pub(crate) fn call_model(&mut self, thread: &Thread, max_tokens: Option<u32>) {
        let Some(id) = thread.model_call() else {
            never!("a thread asks for a model call in a phase that has none");
            return;
        };
        let (agent, purpose, recall) = match &thread.phase {
            ThreadPhase::Routing { text, .. } => (
                orchestrator(),
                Purpose::Classify { text: text.clone() },
                None,
            ),
            ThreadPhase::Thinking { message_id, .. } => (
                thread.agent.clone(),
                Purpose::Step {
                    message_id: message_id.clone(),
                    origin: self.session.origin(thread),
                },
                self.recall_for(thread),
            ),
            ThreadPhase::Queued
            | ThreadPhase::AwaitingResult { .. }
            | ThreadPhase::Calling { .. }
            | ThreadPhase::AwaitingApproval { .. }
            | ThreadPhase::AwaitingAnswer { .. }
            | ThreadPhase::AwaitingRoom
            | ThreadPhase::AwaitingBudget { .. } => {
                never!("a thread asks for a model call in a phase that has none");
                return;
            }
        };
        self.output.push(Effect::CallModel(ModelCall {
            id,
            agent,
            purpose,
            max_tokens,
            recall,
        }));
    }

    /// In a project each agent has a memory, and is reminded once, when it begins.
    fn recall_for(&self, thread: &Thread) -> Option<RecallAbout> {
        if self.session.kind == SessionKind::Runtime || thread.steps != thread.begins_with {
            return None;
        }
        match self.session.task_of(thread) {
            Some(origin) => Some(RecallAbout::Task(origin)),
            None => {
                let turn = self.session.turn.as_ref()?;
                Some(RecallAbout::Request(turn.message_id.clone()))
            }
        }
    }

    pub(crate) fn new_message(&mut self, role: Role, content: String) -> Message {
        Message::new(self.world.ids.message_id(), role, content, self.world.now)
    }
}

/// Whether a failed model call says something about the agent. A key, an account, a limit of the
/// provider, a setting or a request that does not fit do not: the agent works again as soon as they
/// are put right, so it is not left alone for a while.
fn is_agents_failure(kind: ModelFailureKind) -> bool {
    match kind {
        ModelFailureKind::WrongKey
        | ModelFailureKind::UnknownModel
        | ModelFailureKind::ContextTooLong
        | ModelFailureKind::ContentFilter
        | ModelFailureKind::RateLimit
        | ModelFailureKind::Quota => false,
        ModelFailureKind::Overloaded
        | ModelFailureKind::ServerError
        | ModelFailureKind::Timeout
        | ModelFailureKind::Unreachable
        | ModelFailureKind::Nonsense => true,
    }
}

pub(crate) const COMPLETED: &str = "Task completed successfully";
/// Prefix of the tool result when a person rejected the call. A prompt that has no room for
/// everything keeps such results.
pub(crate) const REJECTED_BY_PERSON: &str = "A person rejected this call";
/// Field of the tool result that holds the arguments which ran, when a person changed them. Kept
/// like a rejection.
pub(crate) const EDITED_BY_PERSON: &str = "arguments_changed_by_a_person_to";
/// Prefix of the tool result when the call could not be made.
pub(crate) const REFUSED: &str = "Error ";

/// What a person decided about a tool call, if the message is its result and says so.
pub(crate) fn decision_in(message: &Message) -> Option<String> {
    let content = &message.content;
    if message.role != Role::Tool {
        return None;
    }
    if content.starts_with(REJECTED_BY_PERSON) {
        return Some(content.clone());
    }
    // A quote inside a text of the JSON is escaped, so this is a field.
    let is_edited =
        content.starts_with('{') && content.contains(&format!("\"{EDITED_BY_PERSON}\":"));
    is_edited.then(
        || match serde_json::from_str::<Map<String, Value>>(content) {
            Ok(fields) => {
                format!(
                    "A person changed the arguments to {}",
                    fields.get(EDITED_BY_PERSON).unwrap_or(&Value::Null)
                )
            }
            // Shortened since.
            Err(_) => content.clone(),
        },
    )
}

pub(crate) fn error_data(error_code: ErrorCode, message: &str) -> ErrorData {
    ErrorData {
        message: message.to_owned(),
        error_code,
        details: Map::new(),
    }
}

/// The first line said, cut on a character boundary.
fn title_of(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let mut title: String = line.chars().take(MAX_TITLE_CHARS).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    Some(title)
}

pub(crate) fn agent_of(name: &AgentName) -> Value {
    Value::from(name.as_str())
}
