//! Tool calls: what is refused, what runs here, what goes to the client, what comes back.

use codelab_policy::{Ask, Verdict};
use codelab_protocol::{
    CallId, ClientId, Digest, ErrorCode, ErrorData, Message, Role, SwitchMode, TaskOrigin, Tool,
    ToolArguments, ToolCall, ToolCallChunk, ToolSide, arguments_digest,
};
use serde_json::{Map, Value};

use super::{
    COMPLETED, EDITED_BY_PERSON, OpenCall, PlannedCall, REFUSED, Thread, ThreadPhase, agent_of,
    error_data,
};
use crate::session::Transition;
use crate::world::{MAX_MODIFIED_FILES, MAX_PATH_CHARS, MAX_REASON_CHARS};
use crate::{CallStatus, CallerAnswer, Effect, EventRange, KnownCall, Refusal, calculator};

impl Transition<'_, '_> {
    pub(crate) fn run_call(&mut self, mut thread: Thread, call: PlannedCall) {
        if let Some(error) = self.repeats_itself(&mut thread, &call) {
            self.abandon_calls(&mut thread, &call, &error.message);
            return self.fail_thread(thread, error);
        }
        let checked = self.check_call(&thread, &call.name, &call.arguments);
        let (tool, arguments, checked) = match checked {
            Ok(checked) => checked,
            Err(error) => return self.refuse_call(thread, &call, error),
        };
        match (tool.side(), checked) {
            (ToolSide::Client, checked) => {
                let open = OpenCall {
                    call_id: call.call_id,
                    tool,
                    arguments,
                    edited: false,
                };
                self.client_call(thread, open, &checked);
            }
            (ToolSide::Server, ToolArguments::SwitchMode(switch)) => {
                self.switch_mode(thread, &call, switch)
            }
            (ToolSide::Server, ToolArguments::AskFollowupQuestion { question, options }) => {
                self.ask(thread, call.call_id, question, options);
            }
            (ToolSide::Server, ToolArguments::Echo { text }) => {
                self.server_result(thread, &call, text.into())
            }
            (ToolSide::Server, ToolArguments::Calculator { expression }) => {
                let result = match calculator::evaluate(&expression) {
                    Ok(value) => calculator::shown(value),
                    Err(error) => Value::from(format!("error: {error}")),
                };
                self.server_result(thread, &call, result);
            }
            // The last of several calls; alone it never comes here.
            (ToolSide::Server, ToolArguments::AttemptCompletion { result })
                if thread.waiting_calls.is_empty() =>
            {
                self.tool_message(&thread, &call.call_id, &call.name, COMPLETED.to_owned());
                let result = if result.trim().is_empty() {
                    COMPLETED.to_owned()
                } else {
                    result
                };
                self.complete_thread(thread, result.clone(), result);
            }
            // Before others a completion would cut them off.
            (ToolSide::Server, _) => {
                let message = format!("{} must be the last call of an answer", call.name);
                self.refuse_call(
                    thread,
                    &call,
                    error_data(ErrorCode::ToolValidationError, &message),
                );
            }
        }
    }

    /// The result of a lone `attempt_completion`, if this is one that may be made.
    pub(crate) fn attempted_completion(
        &self,
        thread: &Thread,
        call: &PlannedCall,
    ) -> Option<String> {
        match self.check_call(thread, &call.name, &call.arguments) {
            Ok((_, _, ToolArguments::AttemptCompletion { result })) => Some(result),
            _ => None,
        }
    }

    /// Validation, the agent's tools, then its file restrictions.
    pub(crate) fn check_call(
        &self,
        thread: &Thread,
        name: &str,
        arguments: &Result<Map<String, Value>, String>,
    ) -> Result<(Tool, Map<String, Value>, ToolArguments), ErrorData> {
        let agent_name = &thread.agent;
        let detailed = |code, message: String| {
            let mut error = error_data(code, &message);
            error.details.insert("tool_name".to_owned(), name.into());
            error
                .details
                .insert("agent".to_owned(), agent_of(agent_name));
            error
        };
        let agent = self.world.team.get(agent_name);
        let offered = |tool: &Tool| agent.is_some_and(|agent| agent.offers(*tool, thread.lane));
        let Some(tool) = Tool::parse(name).filter(offered) else {
            let message = format!("Tool {name} is not available to {agent_name}");
            return Err(detailed(ErrorCode::ToolValidationError, message));
        };
        let invalid = |why: String| {
            detailed(
                ErrorCode::InvalidToolArguments,
                format!("Invalid arguments for {name}: {why}"),
            )
        };
        let arguments = arguments.clone().map_err(invalid)?;
        let checked = tool.check(&arguments).map_err(|error| invalid(error.0))?;
        if let (Some(agent), Some(path)) = (agent, checked.written_path())
            && !agent.may_write(path)
        {
            let patterns: Vec<Value> = agent
                .file_restrictions
                .iter()
                .map(|p| p.as_str().into())
                .collect();
            let message = format!("{agent_name} may not write {path}");
            let mut error = detailed(ErrorCode::FileRestrictionError, message);
            error.details.insert("tool".to_owned(), name.into());
            error.details.insert("file_path".to_owned(), path.into());
            error
                .details
                .insert("allowed_patterns".to_owned(), patterns.into());
            return Err(error);
        }
        Ok((tool, arguments, checked))
    }

    /// Counts identical calls in a row; too many end the thread.
    fn repeats_itself(&mut self, thread: &mut Thread, call: &PlannedCall) -> Option<ErrorData> {
        let digest = match &call.arguments {
            Ok(arguments) => arguments_digest(&call.name, arguments),
            Err(error) => Digest::of_bytes(format!("{} {error}", call.name).as_bytes()),
        };
        thread.repeats = if thread.last_call.as_ref() == Some(&digest) {
            thread.repeats + 1
        } else {
            1
        };
        thread.last_call = Some(digest);
        let limit = self.world.limits.repeats;
        if thread.repeats <= limit {
            return None;
        }
        let message = format!(
            "{} was called {limit} times in a row with the same arguments",
            call.name
        );
        let mut error = error_data(ErrorCode::StepLimit, &message);
        error
            .details
            .insert("tool_name".to_owned(), call.name.clone().into());
        error.details.insert("repeats".to_owned(), limit.into());
        Some(error)
    }

    /// Every call of an answer gets a result, also when the thread ends before it could run.
    fn abandon_calls(&mut self, thread: &mut Thread, current: &PlannedCall, why: &str) {
        self.tool_message(thread, &current.call_id, &current.name, why.to_owned());
        for call in std::mem::take(&mut thread.waiting_calls) {
            self.tool_message(thread, &call.call_id, &call.name, why.to_owned());
        }
    }

    fn refuse_call(&mut self, thread: Thread, call: &PlannedCall, error: ErrorData) {
        self.note_error(&error.message);
        let told = format!("{REFUSED}{}: {}", error.error_code.as_str(), error.message);
        self.tool_message(&thread, &call.call_id, &call.name, told);
        self.show_error(&thread, error);
        self.next_call(thread);
    }

    pub(crate) fn refuse_several(&mut self, thread: Thread, calls: &[PlannedCall]) {
        let message = format!(
            "The model made {} tool calls at once; one at a time is allowed",
            calls.len()
        );
        let mut error = error_data(ErrorCode::MultipleToolCalls, &message);
        let names: Vec<Value> = calls.iter().map(|call| call.name.clone().into()).collect();
        error.details.insert("tool_names".to_owned(), names.into());
        let told = format!(
            "{REFUSED}{}: {message}. Make one call, wait for its result.",
            error.error_code.as_str()
        );
        for call in calls {
            self.tool_message(&thread, &call.call_id, &call.name, told.clone());
        }
        self.show_error(&thread, error);
        self.work(thread);
    }

    fn server_result(&mut self, thread: Thread, call: &PlannedCall, result: Value) {
        self.tool_message(&thread, &call.call_id, &call.name, text_of(&result));
        self.show_result(&thread, &call.call_id, &call.name, result, false);
        self.next_call(thread);
    }

    fn switch_mode(&mut self, mut thread: Thread, call: &PlannedCall, switch: SwitchMode) {
        let target = self
            .world
            .team
            .resolve(switch.agent.as_str())
            .map_or(switch.agent, |agent| agent.name.clone());
        if !self.world.team.is_specialist(&target) || target == thread.agent {
            let message = format!("Agent not found or not a switch target: {target}");
            let mut error = error_data(ErrorCode::AgentNotFound, &message);
            error.details.insert("agent".to_owned(), agent_of(&target));
            return self.refuse_call(thread, call, error);
        }
        let limit = self.world.limits.switches;
        if thread.switches >= limit {
            let message = format!("The turn reached its limit of {limit} agent switches");
            let mut error = error_data(ErrorCode::AgentSwitchFailed, &message);
            error.details.insert("switches".to_owned(), limit.into());
            self.abandon_calls(&mut thread, call, &message);
            return self.fail_thread(thread, error);
        }
        thread.switches += 1;
        self.tool_message(
            &thread,
            &call.call_id,
            &call.name,
            format!("Handed over to {target}"),
        );
        let reason: String = match switch.reason.trim() {
            "" => "switch_mode".to_owned(),
            reason => reason.chars().take(MAX_REASON_CHARS).collect(),
        };
        self.hand_over(&mut thread, target, reason, None);
        self.next_call(thread);
    }

    fn ask(&mut self, thread: Thread, call_id: CallId, question: String, options: Vec<String>) {
        self.open_call(&thread, &call_id, Tool::AskFollowupQuestion);
        self.show_question(&thread, &call_id, question, options);
        let asked_seq = self.session.last_seq;
        self.suspend(thread, ThreadPhase::AwaitingAnswer { call_id, asked_seq });
    }

    /// The oldest question that is open, if there is one.
    pub(crate) fn oldest_question(&self) -> Option<CallId> {
        let turn = self.session.turn.as_ref()?;
        let asked = turn.threads().filter_map(|thread| match &thread.phase {
            ThreadPhase::AwaitingAnswer { call_id, asked_seq } => Some((*asked_seq, call_id)),
            _ => None,
        });
        asked
            .min_by_key(|(seq, _)| *seq)
            .map(|(_, call_id)| call_id.clone())
    }

    /// A person answered this question. For people the answer is a message of the session; for the
    /// thread that asked it is the result of its call.
    pub(crate) fn answered(&mut self, call_id: &CallId, text: String) {
        let Some(thread) = self.take_waiting(call_id) else {
            return;
        };
        self.close_call(call_id, CallStatus::Finished);
        let message = Message {
            answers: Some(call_id.clone()),
            ..self.new_message(Role::User, text.clone())
        };
        self.show_answer_of_user(&thread, &message);
        let TaskOrigin { plan_id, task_id } = self.origin(&thread);
        self.message(
            thread.turn,
            None,
            Message {
                plan_id,
                task_id,
                ..message
            },
        );
        self.show_answered(&thread, call_id, &text);
        self.tool_message(&thread, call_id, Tool::AskFollowupQuestion.as_str(), text);
        self.next_call(thread);
    }

    /// Answers a question by its id.
    pub(crate) fn answer(
        &mut self,
        call_id: CallId,
        text: String,
        known: Option<KnownCall>,
    ) -> Result<CallerAnswer, Refusal> {
        match self.waiting_thread(&call_id).map(|thread| &thread.phase) {
            Some(ThreadPhase::AwaitingAnswer { .. }) => {}
            Some(_) => {
                return Err(Refusal::new(
                    ErrorCode::Conflict,
                    "The call is not a question",
                ));
            }
            None => return Err(ended_or_unknown(&call_id, known.is_some())),
        }
        let span = self.here();
        self.answered(&call_id, text);
        Ok(CallerAnswer::Span(span))
    }

    fn client_call(&mut self, thread: Thread, open: OpenCall, checked: &ToolArguments) {
        self.open_call(&thread, &open.call_id, open.tool);
        match self.world.policy.review(checked) {
            Verdict::Allow => self.dispatch(thread, open, None),
            Verdict::Ask(ask) => match self.remembered(&ask) {
                Some(rule) => self.pass_remembered(thread, open, ask, rule),
                None => self.request_approval(thread, open, ask),
            },
        }
    }

    fn remembered(&self, ask: &Ask) -> Option<String> {
        let key = ask.remember.as_ref()?;
        self.session
            .remembered
            .contains(key)
            .then(|| super::approval::rule_name(key))
    }

    /// Shows the call to the client that will run it, and waits for the result.
    pub(crate) fn dispatch(
        &mut self,
        thread: Thread,
        call: OpenCall,
        approved_because: Option<String>,
    ) {
        let shown = ToolCallChunk {
            requires_approval: false,
            approved: approved_because.is_some(),
            reason: approved_because,
            ..self.call_chunk(&thread, &call)
        };
        self.show_call(&thread, shown);
        let deadline = self
            .world
            .now
            .plus_seconds(self.world.limits.tool_result_timeout_seconds);
        self.suspend(
            thread,
            ThreadPhase::AwaitingResult {
                call,
                deadline,
                claim: None,
            },
        );
    }

    pub(crate) fn call_chunk(&self, thread: &Thread, call: &OpenCall) -> ToolCallChunk {
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
            agent: thread.agent.clone(),
            user_id: self.session.caller.user_id,
        }
    }

    pub(crate) fn tool_result(
        &mut self,
        call_id: CallId,
        result: Value,
        client: Option<ClientId>,
        known: Option<KnownCall>,
    ) -> Result<CallerAnswer, Refusal> {
        let digest = Digest::of_json(&result);
        match self.waiting_thread(&call_id).map(|thread| &thread.phase) {
            Some(ThreadPhase::AwaitingResult { claim, .. }) => {
                self.check_holder(claim.as_ref(), client.as_ref())?
            }
            Some(ThreadPhase::AwaitingAnswer { .. }) => {
                return Err(Refusal::new(
                    ErrorCode::Conflict,
                    "The call is a question; answer it with a message",
                ));
            }
            Some(_) => {
                return Err(Refusal::new(
                    ErrorCode::Conflict,
                    "The call is not approved yet",
                ));
            }
            None => {
                return match client.and_then(|client| self.take_late(&call_id, &client)) {
                    Some(late) => Ok(self.late_result(late, result, digest)),
                    None => known_result(&call_id, &digest, known),
                };
            }
        }
        let span = self.here();
        let Some(thread) = self.take_waiting(&call_id) else {
            return Ok(CallerAnswer::Nothing);
        };
        if let ThreadPhase::AwaitingResult { call, .. } = thread.phase.clone() {
            let status = CallStatus::Finished;
            let closed = Effect::CallClosed {
                call_id,
                status,
                result_digest: Some(digest),
                span: Some(span),
            };
            self.effects.push(closed);
            self.note_result(&call, &result);
            let text = match call.edited {
                true => edited_result(&result, &call.arguments),
                false => text_of(&result),
            };
            self.show_client_result(&thread, &call, result);
            self.tool_message(&thread, &call.call_id, call.tool.as_str(), text);
        }
        self.next_call(thread);
        Ok(CallerAnswer::Span(span))
    }

    pub(crate) fn note_result(&mut self, call: &OpenCall, result: &Value) {
        let failed = result.get("success") == Some(&Value::Bool(false));
        if failed {
            let error = result
                .get("error")
                .and_then(Value::as_str)
                .unwrap_or("the tool failed");
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

    /// The thread that waits for somebody outside to end this call.
    pub(crate) fn waiting_thread(&self, call_id: &CallId) -> Option<&Thread> {
        self.session
            .turn
            .as_ref()?
            .threads()
            .find(|thread| thread.phase.call_id() == Some(call_id))
    }

    pub(crate) fn take_waiting(&mut self, call_id: &CallId) -> Option<Thread> {
        let lane = self.waiting_thread(call_id)?.lane;
        self.take_thread(lane)
    }

    fn open_call(&mut self, thread: &Thread, call_id: &CallId, tool: Tool) {
        let tool = tool.as_str().to_owned();
        self.effects.push(Effect::CallOpened {
            call_id: call_id.clone(),
            turn: thread.turn,
            tool,
        });
    }

    pub(crate) fn close_call(&mut self, call_id: &CallId, status: CallStatus) {
        let call_id = call_id.clone();
        self.effects.push(Effect::CallClosed {
            call_id,
            status,
            result_digest: None,
            span: None,
        });
    }

    pub(crate) fn tool_message(
        &mut self,
        thread: &Thread,
        call_id: &CallId,
        tool: &str,
        content: String,
    ) {
        let message = Message {
            name: Some(tool.to_owned()),
            tool_call_id: Some(call_id.clone()),
            ..self.new_message(Role::Tool, content)
        };
        self.message(thread.turn, self.task_of(thread), message);
    }

    /// The events of the turn from here on.
    pub(crate) fn here(&self) -> EventRange {
        let turn = self
            .session
            .turn
            .as_ref()
            .map_or(codelab_protocol::TurnId(self.session.last_turn), |turn| {
                turn.id
            });
        EventRange {
            turn,
            after_seq: self.session.last_seq,
        }
    }
}

fn known_result(
    call_id: &CallId,
    digest: &Digest,
    known: Option<KnownCall>,
) -> Result<CallerAnswer, Refusal> {
    match &known {
        Some(KnownCall {
            span: Some(span),
            result_digest,
        }) if result_digest.as_ref() == Some(digest) => Ok(CallerAnswer::Repeat(*span)),
        known => Err(ended_or_unknown(call_id, known.is_some())),
    }
}

pub(crate) fn ended_or_unknown(call_id: &CallId, known: bool) -> Refusal {
    let refusal = match known {
        true => Refusal::new(ErrorCode::Conflict, "The call has ended already"),
        false => Refusal::new(
            ErrorCode::ToolCallNotFound,
            format!("Tool call not found: {call_id}"),
        ),
    };
    refusal.with("tool_call_id", call_id.as_str())
}

/// The result of a call whose arguments a person changed: still JSON, with what really ran.
fn edited_result(result: &Value, ran: &Map<String, Value>) -> String {
    let parsed = match result {
        Value::String(text) => serde_json::from_str(text).ok(),
        other => Some(other.clone()),
    };
    let mut told = match parsed {
        Some(Value::Object(fields)) => fields,
        _ => Map::from_iter([("result".to_owned(), result.clone())]),
    };
    told.insert(EDITED_BY_PERSON.to_owned(), Value::Object(ran.clone()));
    Value::Object(told).to_string()
}

/// What the model reads of a result: a text as it is, anything else as JSON.
pub(crate) fn text_of(result: &Value) -> String {
    match result {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
