//! Tool calls: what is refused, what runs here, what goes to the client, what comes back.

use codelab_policy::{Ask, Verdict};
use codelab_protocol::{
    CallId, ChunkBody, Digest, ErrorCode, ErrorData, Message, Question, Role, Tool, ToolArguments, ToolCall,
    ToolCallChunk, ToolResultChunk, ToolSide, TurnId, TurnStatus, arguments_digest,
};
use serde_json::{Map, Value};

use super::{COMPLETED, OpenCall, Phase, PlannedCall, Turn, agent_of, error_data};
use crate::session::Step;
use crate::world::{MAX_MODIFIED_FILES, MAX_PATH_CHARS, MAX_REASON_CHARS};
use crate::{Answer, CallStatus, Effect, KnownCall, Refusal, Span, calculator};

impl Step<'_, '_> {
    pub(crate) fn run_call(&mut self, mut turn: Turn, call: PlannedCall) {
        if self.repeats_itself(&mut turn, &call) {
            return;
        }
        let checked = self.check_call(&call.name, &call.arguments);
        let (tool, arguments, checked) = match checked {
            Ok(checked) => checked,
            Err(error) => return self.refuse_call(turn, &call, error),
        };
        match (tool.side(), checked) {
            (ToolSide::Client, checked) => {
                let open = OpenCall { call_id: call.call_id, tool, arguments, edited: false };
                self.client_call(turn, open, &checked);
            }
            (ToolSide::Server, ToolArguments::SwitchMode(switch)) => self.switch_mode(turn, &call, switch),
            (ToolSide::Server, ToolArguments::AskFollowupQuestion { question, options }) => {
                self.ask(turn, call.call_id, question, options);
            }
            (ToolSide::Server, ToolArguments::Echo { text }) => self.server_result(turn, &call, text.into()),
            (ToolSide::Server, ToolArguments::Calculator { expression }) => {
                let result = match calculator::evaluate(&expression) {
                    Ok(value) => calculator::shown(value),
                    Err(error) => Value::from(format!("error: {error}")),
                };
                self.server_result(turn, &call, result);
            }
            // The last of several calls; alone it never comes here.
            (ToolSide::Server, ToolArguments::AttemptCompletion { result }) if turn.waiting_calls.is_empty() => {
                self.tool_message(turn.id, &call.call_id, &call.name, COMPLETED.to_owned());
                self.complete_turn(turn, result);
            }
            // Before others a completion would cut them off.
            (ToolSide::Server, _) => {
                let message = format!("{} must be the last call of an answer", call.name);
                self.refuse_call(turn, &call, error_data(ErrorCode::ToolValidationError, &message));
            }
        }
    }

    /// The result of a lone `attempt_completion`, if this is one that may be made.
    pub(crate) fn attempted_completion(&self, call: &PlannedCall) -> Option<String> {
        match self.check_call(&call.name, &call.arguments) {
            Ok((_, _, ToolArguments::AttemptCompletion { result })) => Some(result),
            _ => None,
        }
    }

    /// Validation, the agent's tools, then its file restrictions.
    pub(crate) fn check_call(
        &self,
        name: &str,
        arguments: &Result<Map<String, Value>, String>,
    ) -> Result<(Tool, Map<String, Value>, ToolArguments), ErrorData> {
        let agent_name = &self.session.current;
        let detailed = |code, message: String| {
            let mut error = error_data(code, &message);
            error.details.insert("tool_name".to_owned(), name.into());
            error.details.insert("agent".to_owned(), agent_of(agent_name));
            error
        };
        let agent = self.world.team.get(agent_name);
        let offered = |tool: &Tool| agent.is_some_and(|agent| agent.offers(*tool));
        let Some(tool) = Tool::parse(name).filter(offered) else {
            let message = format!("Tool {name} is not available to {agent_name}");
            return Err(detailed(ErrorCode::ToolValidationError, message));
        };
        let invalid =
            |why: String| detailed(ErrorCode::InvalidToolArguments, format!("Invalid arguments for {name}: {why}"));
        let arguments = arguments.clone().map_err(invalid)?;
        let checked = tool.check(&arguments).map_err(|error| invalid(error.0))?;
        if let (Some(agent), Some(path)) = (agent, checked.written_path())
            && !agent.may_write(path)
        {
            let patterns: Vec<Value> = agent.file_restrictions.iter().map(|p| p.as_str().into()).collect();
            let message = format!("{agent_name} may not write {path}");
            let mut error = detailed(ErrorCode::FileRestrictionError, message);
            error.details.insert("tool".to_owned(), name.into());
            error.details.insert("file_path".to_owned(), path.into());
            error.details.insert("allowed_patterns".to_owned(), patterns.into());
            return Err(error);
        }
        Ok((tool, arguments, checked))
    }

    fn repeats_itself(&mut self, turn: &mut Turn, call: &PlannedCall) -> bool {
        let digest = match &call.arguments {
            Ok(arguments) => arguments_digest(&call.name, arguments),
            Err(error) => Digest::of_bytes(format!("{} {error}", call.name).as_bytes()),
        };
        turn.repeats = if turn.last_call.as_ref() == Some(&digest) { turn.repeats + 1 } else { 1 };
        turn.last_call = Some(digest);
        let limit = self.world.limits.repeats;
        if turn.repeats <= limit {
            return false;
        }
        let message = format!("{} was called {limit} times in a row with the same arguments", call.name);
        let mut error = error_data(ErrorCode::StepLimit, &message);
        error.details.insert("tool_name".to_owned(), call.name.clone().into());
        error.details.insert("repeats".to_owned(), limit.into());
        let turn = self.abandon_calls(turn, call, &message);
        self.fail_turn(turn, error);
        true
    }

    /// Every call of an answer gets a result, also when the turn ends before it could run.
    fn abandon_calls(&mut self, turn: &mut Turn, current: &PlannedCall, why: &str) -> Turn {
        let id = turn.id;
        self.tool_message(id, &current.call_id, &current.name, why.to_owned());
        for call in std::mem::take(&mut turn.waiting_calls) {
            self.tool_message(id, &call.call_id, &call.name, why.to_owned());
        }
        turn.clone()
    }

    fn refuse_call(&mut self, turn: Turn, call: &PlannedCall, error: ErrorData) {
        self.note_error(&error.message);
        let told = format!("Error {}: {}", error.error_code.as_str(), error.message);
        self.tool_message(turn.id, &call.call_id, &call.name, told);
        self.event(turn.id, ChunkBody::Error(error));
        self.next_call(turn);
    }

    pub(crate) fn refuse_several(&mut self, turn: Turn, calls: &[PlannedCall]) {
        let message = format!("The model made {} tool calls at once; one at a time is allowed", calls.len());
        let mut error = error_data(ErrorCode::MultipleToolCalls, &message);
        let names: Vec<Value> = calls.iter().map(|call| call.name.clone().into()).collect();
        error.details.insert("tool_names".to_owned(), names.into());
        let told = format!("Error {}: {message}. Make one call, wait for its result.", error.error_code.as_str());
        for call in calls {
            self.tool_message(turn.id, &call.call_id, &call.name, told.clone());
        }
        self.event(turn.id, ChunkBody::Error(error));
        self.think(turn);
    }

    fn server_result(&mut self, turn: Turn, call: &PlannedCall, result: Value) {
        self.tool_message(turn.id, &call.call_id, &call.name, text_of(&result));
        let shown = ToolResultChunk { call_id: call.call_id.clone(), tool_name: call.name.clone(), result };
        self.event(turn.id, ChunkBody::ToolResult(shown));
        self.next_call(turn);
    }

    fn switch_mode(&mut self, mut turn: Turn, call: &PlannedCall, switch: codelab_protocol::SwitchMode) {
        let target = switch.agent;
        if !self.world.team.is_specialist(&target) || target == self.session.current {
            let message = format!("Agent not found or not a switch target: {target}");
            let mut error = error_data(ErrorCode::AgentNotFound, &message);
            error.details.insert("agent".to_owned(), agent_of(&target));
            return self.refuse_call(turn, call, error);
        }
        let limit = self.world.limits.switches;
        if turn.switches >= limit {
            let message = format!("The turn reached its limit of {limit} agent switches");
            let mut error = error_data(ErrorCode::AgentSwitchFailed, &message);
            error.details.insert("switches".to_owned(), limit.into());
            let turn = self.abandon_calls(&mut turn, call, &message);
            return self.fail_turn(turn, error);
        }
        turn.switches += 1;
        self.tool_message(turn.id, &call.call_id, &call.name, format!("Handed over to {target}"));
        let reason: String = match switch.reason.trim() {
            "" => "switch_mode".to_owned(),
            reason => reason.chars().take(MAX_REASON_CHARS).collect(),
        };
        self.switch(turn.id, target, reason, None);
        self.next_call(turn);
    }

    fn ask(&mut self, mut turn: Turn, call_id: CallId, question: String, options: Vec<String>) {
        self.open_call(&turn, &call_id, Tool::AskFollowupQuestion);
        let agent = self.session.current.clone();
        let shown = Question { call_id: call_id.clone(), question, options, agent };
        self.event(turn.id, ChunkBody::Question(shown));
        self.settle(TurnStatus::AwaitingAnswer);
        turn.phase = Phase::AwaitingAnswer { call_id };
        self.session.turn = Some(turn);
    }

    /// The next user message is the answer to the open question.
    pub(crate) fn answered(&mut self, text: String) {
        let Some(turn) = self.session.turn.take() else { return };
        if let Phase::AwaitingAnswer { call_id } = &turn.phase {
            let call_id = call_id.clone();
            self.close_call(&call_id, CallStatus::Finished);
            self.tool_message(turn.id, &call_id, Tool::AskFollowupQuestion.as_str(), text);
        }
        self.next_call(turn);
    }

    fn client_call(&mut self, turn: Turn, open: OpenCall, checked: &ToolArguments) {
        self.open_call(&turn, &open.call_id, open.tool);
        match self.world.policy.review(checked) {
            Verdict::Allow => self.dispatch(turn, open, None),
            Verdict::Ask(ask) => match self.remembered(&ask) {
                Some(rule) => self.pass_remembered(turn, open, ask, rule),
                None => self.request_approval(turn, open, ask),
            },
        }
    }

    fn remembered(&self, ask: &Ask) -> Option<String> {
        let key = ask.remember.as_ref()?;
        self.session.remembered.contains(key).then(|| super::approval::rule_name(key))
    }

    /// Shows the call to the client that will run it, and waits for the result.
    pub(crate) fn dispatch(&mut self, mut turn: Turn, call: OpenCall, approved_because: Option<String>) {
        let shown = ToolCallChunk {
            requires_approval: false,
            approved: approved_because.is_some(),
            reason: approved_because,
            ..self.call_chunk(&call)
        };
        self.event(turn.id, ChunkBody::ToolCall(shown));
        self.settle(TurnStatus::AwaitingToolResult);
        let deadline = self.world.now.plus_seconds(self.world.limits.tool_result_timeout_seconds);
        turn.phase = Phase::AwaitingResult { call, deadline };
        self.session.turn = Some(turn);
    }

    pub(crate) fn call_chunk(&self, call: &OpenCall) -> ToolCallChunk {
        let name = call.tool.as_str();
        ToolCallChunk {
            digest: arguments_digest(name, &call.arguments),
            tool_call: ToolCall {
                call_id: call.call_id.clone(),
                name: name.to_owned(),
                arguments: call.arguments.clone(),
            },
            requires_approval: false,
            approved: false,
            reason: None,
            parts: Vec::new(),
            expires_at: None,
            agent: self.session.current.clone(),
            user_id: self.session.caller.user_id,
        }
    }

    pub(crate) fn tool_result(
        &mut self,
        call_id: CallId,
        result: Value,
        known: Option<KnownCall>,
    ) -> Result<Answer, Refusal> {
        let digest = Digest::of_json(&result);
        match self.session.turn.as_ref().map(|turn| &turn.phase) {
            Some(Phase::AwaitingResult { call, .. }) if call.call_id == call_id => {}
            Some(Phase::AwaitingApproval { call, .. }) if call.call_id == call_id => {
                return Err(Refusal::new(ErrorCode::Conflict, "The call is not approved yet"));
            }
            Some(Phase::AwaitingAnswer { call_id: asked }) if *asked == call_id => {
                return Err(Refusal::new(ErrorCode::Conflict, "The call is a question; answer it with a message"));
            }
            _ => return known_result(&call_id, &digest, known),
        }
        let Some(turn) = self.session.turn.take() else { return Ok(Answer::Nothing) };
        let span = Span { turn: turn.id, after_seq: self.session.last_seq };
        if let Phase::AwaitingResult { call, .. } = turn.phase.clone() {
            let status = CallStatus::Finished;
            let closed = Effect::CallClosed { call_id, status, result_digest: Some(digest), span: Some(span) };
            self.effects.push(closed);
            self.note_result(&call, &result);
            let mut text = text_of(&result);
            if call.edited {
                let ran = Value::Object(call.arguments.clone());
                text = format!("[A person changed the arguments before it ran: {ran}]\n{text}");
            }
            self.tool_message(turn.id, &call.call_id, call.tool.as_str(), text);
        }
        self.next_call(turn);
        Ok(Answer::Span(span))
    }

    fn note_result(&mut self, call: &OpenCall, result: &Value) {
        let failed = result.get("success") == Some(&Value::Bool(false));
        if failed {
            let error = result.get("error").and_then(Value::as_str).unwrap_or("the tool failed");
            self.note_error(&format!("{}: {error}", call.tool.as_str()));
        } else if call.tool == Tool::WriteFile
            && let Some(path) = call.arguments.get("path").and_then(Value::as_str)
        {
            let path: String = path.chars().take(MAX_PATH_CHARS).collect();
            self.session.modified_files.retain(|file| *file != path);
            self.session.modified_files.push_back(path);
            if self.session.modified_files.len() > MAX_MODIFIED_FILES {
                self.session.modified_files.pop_front();
            }
        }
    }

    fn open_call(&mut self, turn: &Turn, call_id: &CallId, tool: Tool) {
        let tool = tool.as_str().to_owned();
        self.effects.push(Effect::CallOpened { call_id: call_id.clone(), turn: turn.id, tool });
    }

    pub(crate) fn close_call(&mut self, call_id: &CallId, status: CallStatus) {
        let call_id = call_id.clone();
        self.effects.push(Effect::CallClosed { call_id, status, result_digest: None, span: None });
    }

    pub(crate) fn tool_message(&mut self, turn: TurnId, call_id: &CallId, tool: &str, content: String) {
        let message = Message {
            name: Some(tool.to_owned()),
            tool_call_id: Some(call_id.clone()),
            ..self.new_message(Role::Tool, content)
        };
        self.message(turn, message);
    }
}

fn known_result(call_id: &CallId, digest: &Digest, known: Option<KnownCall>) -> Result<Answer, Refusal> {
    let Some(known) = known else {
        return Err(Refusal::new(ErrorCode::ToolCallNotFound, format!("Tool call not found: {call_id}"))
            .with("tool_call_id", call_id.as_str()));
    };
    match known.span {
        Some(span) if known.result_digest.as_ref() == Some(digest) => Ok(Answer::Span(span)),
        _ => {
            Err(Refusal::new(ErrorCode::Conflict, "The call has ended already").with("tool_call_id", call_id.as_str()))
        }
    }
}

/// What the model reads of a result: a text as it is, anything else as JSON.
fn text_of(result: &Value) -> String {
    match result {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
