//! A turn: all work caused by one user message, until the session is idle again.

mod approval;
mod call;
mod ending;

use std::collections::VecDeque;

use codelab_protocol::{
    AgentName, AssistantMessage, CallId, ChunkBody, Digest, ErrorCode, ErrorData, Message, MessageId, ModelFailure,
    ModelOutput, RawToolCall, Role, Timestamp, Tool, ToolCall, TurnId, TurnStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::session::{REQUESTED, Step, Waiting};
use crate::world::{MAX_ARGUMENT_DEPTH, MAX_ATTEMPTS, MAX_TITLE_CHARS, MultipleToolCalls, RECOVERY_GRACE_SECONDS};
use crate::{Answer, Approval, Effect, Mode, ModelCall, ModelCallId, Purpose, orchestrator, routing};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Turn {
    pub id: TurnId,
    pub phase: Phase,
    pub(crate) steps: u32,
    pub(crate) switches: u32,
    pub(crate) last_call: Option<Digest>,
    pub(crate) repeats: u32,
    /// Calls of the last answer that still wait for their turn (`multiple_tool_calls = "sequence"`).
    pub(crate) waiting_calls: VecDeque<PlannedCall>,
}

/// What the turn waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// The model says which agent fits.
    Routing { text: String, attempt: u32 },
    /// The agent's model works on the next step.
    Thinking { message_id: MessageId, attempt: u32 },
    /// A client runs a tool.
    AwaitingResult { call: OpenCall, deadline: Timestamp },
    /// A person decides about a tool call.
    AwaitingApproval { call: OpenCall, approval: Box<Approval> },
    /// A person answers a question.
    AwaitingAnswer { call_id: CallId },
}

/// A client tool call that has not ended. `arguments` are the ones that run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenCall {
    pub call_id: CallId,
    pub tool: Tool,
    pub arguments: Map<String, Value>,
    /// A person changed the arguments, and the model must hear of it.
    pub edited: bool,
}

/// A call the model asked for; its arguments may be anything.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PlannedCall {
    pub call_id: CallId,
    pub name: String,
    pub arguments: Result<Map<String, Value>, String>,
}

impl Phase {
    /// How the turn stands when it waits for someone outside.
    pub fn suspended(&self) -> Option<TurnStatus> {
        match self {
            Self::Routing { .. } | Self::Thinking { .. } => None,
            Self::AwaitingResult { .. } => Some(TurnStatus::AwaitingToolResult),
            Self::AwaitingApproval { .. } => Some(TurnStatus::AwaitingApproval),
            Self::AwaitingAnswer { .. } => Some(TurnStatus::AwaitingAnswer),
        }
    }
}

impl Step<'_, '_> {
    pub(crate) fn begin_turn(&mut self, waiting: Waiting) {
        let Waiting { turn: id, text, agent, caller } = waiting;
        if self.session.message_count == 0
            && let Some(title) = title_of(&text)
        {
            self.effects.push(Effect::Title(title));
        }
        self.session.caller = caller;
        let message = self.new_message(Role::User, text.clone());
        self.message(id, message);
        if let Some(agent) = agent {
            self.session.pinned = (agent != orchestrator()).then(|| agent.clone());
            if agent != self.session.current {
                self.switch(id, agent, REQUESTED.to_owned(), None);
            }
        }
        let turn = Turn {
            id,
            phase: Phase::Routing { text, attempt: 0 },
            steps: 0,
            switches: 0,
            last_call: None,
            repeats: 0,
            waiting_calls: VecDeque::new(),
        };
        // An agent can have left the team since the session chose it.
        if self.session.current != orchestrator() && self.world.team.get(&self.session.current).is_some() {
            return self.think(turn);
        }
        if self.world.team.mode() == Mode::Single {
            let universal = self.world.team.single().clone();
            self.switch(id, universal, "single-agent mode".to_owned(), None);
            return self.think(turn);
        }
        self.session.turn = Some(turn);
        self.call_model();
    }

    pub(crate) fn model_finished(&mut self, call: ModelCallId, outcome: Result<ModelOutput, ModelFailure>) -> Answer {
        let expected = self.session.turn.as_ref().and_then(|turn| turn.model_call());
        if expected != Some(call) {
            return Answer::Nothing;
        }
        let Some(turn) = self.session.turn.take() else { return Answer::Nothing };
        match turn.phase.clone() {
            Phase::Routing { text, .. } => self.classified(turn, &text, outcome),
            Phase::Thinking { message_id, .. } => match outcome {
                Ok(output) => self.answered_by_model(turn, message_id, output),
                Err(failure) => self.model_failed(turn, failure),
            },
            _ => self.session.turn = Some(turn),
        }
        Answer::Nothing
    }

    fn classified(&mut self, turn: Turn, text: &str, outcome: Result<ModelOutput, ModelFailure>) {
        let route = routing::decide(self.world.team, text, outcome.as_ref().map(|output| output.text.as_str()).ok());
        self.switch(turn.id, route.agent, route.reason, Some(route.confidence.to_owned()));
        self.think(turn);
    }

    fn model_failed(&mut self, turn: Turn, failure: ModelFailure) {
        let ModelFailure { code, message, details } = failure;
        self.fail_turn(turn, ErrorData { message, error_code: code, details });
    }

    fn answered_by_model(&mut self, turn: Turn, message_id: MessageId, output: ModelOutput) {
        if output.tool_calls.is_empty() {
            if output.text.trim().is_empty() {
                return self.fail_turn(turn, error_data(ErrorCode::LlmError, "The model gave an empty answer"));
            }
            self.show_answer(&turn, &message_id, &output);
            let content = output.text.clone();
            self.keep_answer(&turn, message_id, &output, content, Vec::new());
            return self.complete_turn(turn, COMPLETED.to_owned());
        }
        let calls: Vec<PlannedCall> = output.tool_calls.iter().map(|raw| self.plan_call(raw)).collect();
        let only = if calls.len() == 1 { calls.first() } else { None };
        if let Some(result) = only.and_then(|call| self.attempted_completion(call)) {
            return self.completed_by_tool(turn, message_id, &output, result);
        }
        self.show_answer(&turn, &message_id, &output);
        let recorded = calls.iter().map(PlannedCall::record).collect();
        let content = output.text.clone();
        self.keep_answer(&turn, message_id, &output, content, recorded);
        let too_many = calls.len() > crate::world::MAX_CALLS_PER_ANSWER;
        let reject = self.world.limits.multiple_tool_calls == MultipleToolCalls::Reject;
        if calls.len() > 1 && (reject || too_many) {
            return self.refuse_several(turn, &calls);
        }
        let turn = Turn { waiting_calls: calls.into(), ..turn };
        self.next_call(turn);
    }

    /// Shows what the agent said, where it said anything.
    pub(crate) fn show_answer(&mut self, turn: &Turn, message_id: &MessageId, output: &ModelOutput) {
        if output.text.trim().is_empty() && output.warnings.is_empty() {
            return;
        }
        let shown = AssistantMessage {
            content: output.text.clone(),
            agent: self.session.current.clone(),
            message_id: message_id.clone(),
            timestamp: self.world.now,
            usage: output.usage,
            warnings: output.warnings.clone(),
        };
        self.event(turn.id, ChunkBody::AssistantMessage(shown));
    }

    pub(crate) fn keep_answer(
        &mut self,
        turn: &Turn,
        message_id: MessageId,
        output: &ModelOutput,
        content: String,
        tool_calls: Vec<ToolCall>,
    ) {
        let agent = self.session.current.clone();
        let message = Message {
            message_id,
            role: Role::Assistant,
            content,
            agent_id: Some(agent.clone()),
            name: Some(agent.into()),
            tool_calls,
            tool_call_id: None,
            timestamp: self.world.now,
            usage: output.usage,
            error: false,
        };
        self.message(turn.id, message);
    }

    /// Goes on with the next waiting call of the last answer, else asks the model again.
    pub(crate) fn next_call(&mut self, mut turn: Turn) {
        match turn.waiting_calls.pop_front() {
            Some(call) => self.run_call(turn, call),
            None => self.think(turn),
        }
    }

    /// Starts the agent's next model step.
    pub(crate) fn think(&mut self, mut turn: Turn) {
        if turn.steps >= self.world.limits.steps {
            let limit = self.world.limits.steps;
            let mut error = error_data(ErrorCode::StepLimit, &format!("The turn reached its limit of {limit} steps"));
            error.details.insert("steps".to_owned(), limit.into());
            return self.fail_turn(turn, error);
        }
        turn.steps += 1;
        turn.phase = Phase::Thinking { message_id: self.world.ids.message_id(), attempt: 0 };
        self.session.turn = Some(turn);
        self.call_model();
    }

    fn call_model(&mut self) {
        let Some(turn) = &self.session.turn else { return };
        let Some(id) = turn.model_call() else { return };
        let (agent, purpose) = match &turn.phase {
            Phase::Routing { text, .. } => (orchestrator(), Purpose::Classify { text: text.clone() }),
            Phase::Thinking { message_id, .. } => {
                (self.session.current.clone(), Purpose::Step { message_id: message_id.clone() })
            }
            _ => return,
        };
        self.effects.push(Effect::CallModel(ModelCall { id, agent, purpose }));
    }

    /// Time stood still while nobody owned the session; a model call is made again.
    pub(crate) fn recovered(&mut self, down_ms: i64, epoch: u64) -> Answer {
        self.session.epoch = epoch;
        self.changed = true;
        let earliest = self.world.now.plus_seconds(RECOVERY_GRACE_SECONDS);
        let moved = |deadline: Timestamp| deadline.plus_millis(down_ms.max(0)).max(earliest);
        let Some(turn) = &mut self.session.turn else { return Answer::Nothing };
        match &mut turn.phase {
            Phase::Routing { attempt, .. } | Phase::Thinking { attempt, .. } => {
                *attempt += 1;
                if *attempt > MAX_ATTEMPTS {
                    return self.give_up();
                }
                self.call_model();
            }
            Phase::AwaitingResult { deadline, .. } => *deadline = moved(*deadline),
            Phase::AwaitingApproval { approval, .. } => {
                if let Some(expires_at) = approval.expires_at.map(moved) {
                    approval.expires_at = Some(expires_at);
                    let call_id = approval.call_id.clone();
                    self.effects.push(Effect::ApprovalMoved { call_id, expires_at });
                }
            }
            Phase::AwaitingAnswer { .. } => {}
        }
        Answer::Nothing
    }

    fn give_up(&mut self) -> Answer {
        if let Some(turn) = self.session.turn.take() {
            let message = "The server stopped each time this answer was awaited";
            self.fail_turn(turn, error_data(ErrorCode::LlmError, message));
        }
        Answer::Nothing
    }

    pub(crate) fn new_message(&mut self, role: Role, content: String) -> Message {
        Message {
            message_id: self.world.ids.message_id(),
            role,
            content,
            agent_id: None,
            name: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            timestamp: self.world.now,
            usage: None,
            error: false,
        }
    }

    fn plan_call(&mut self, raw: &RawToolCall) -> PlannedCall {
        let text = if raw.arguments.trim().is_empty() { "{}" } else { raw.arguments.as_str() };
        let arguments = match serde_json::from_str::<Value>(text) {
            Ok(arguments) if too_deep(&arguments, MAX_ARGUMENT_DEPTH) => {
                Err("the arguments are nested too deeply".to_owned())
            }
            Ok(Value::Object(arguments)) => Ok(arguments),
            Ok(_) => Err("the arguments are not a JSON object".to_owned()),
            Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
        };
        PlannedCall { call_id: self.world.ids.call_id(), name: raw.name.clone(), arguments }
    }
}

impl Turn {
    /// The model call that must be under way.
    pub fn model_call(&self) -> Option<ModelCallId> {
        let (step, attempt) = match self.phase {
            Phase::Routing { attempt, .. } => (0, attempt),
            Phase::Thinking { attempt, .. } => (self.steps, attempt),
            _ => return None,
        };
        Some(ModelCallId { turn: self.id, step, attempt })
    }
}

impl PlannedCall {
    /// The call as it stands in the history, and goes back to the model: with a name that every upstream takes, and
    /// without arguments that are no object.
    fn record(&self) -> ToolCall {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let name: String = self.name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect();
        ToolCall {
            call_id: self.call_id.clone(),
            name: if name.is_empty() { "unknown".to_owned() } else { name },
            arguments: self.arguments.clone().unwrap_or_default(),
        }
    }
}

/// Whether a value is nested deeper than this; looks no further than that.
pub(crate) fn too_deep(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| too_deep(item, levels - 1)),
        Value::Object(map) => levels == 0 || map.values().any(|item| too_deep(item, levels - 1)),
        _ => false,
    }
}

pub(crate) const COMPLETED: &str = "Task completed successfully";

pub(crate) fn error_data(error_code: ErrorCode, message: &str) -> ErrorData {
    ErrorData { message: message.to_owned(), error_code, details: Map::new() }
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
