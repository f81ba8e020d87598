//! Tool calls: what is refused, what runs here, what goes to the client, what comes back.

use codelab_policy::{Ask, Verdict};
use codelab_protocol::{
    AttachedFile, CallId, CalledTool, ClientId, Digest, ErrorCode, ErrorData, Message, Role,
    SwitchMode, Tool, ToolArguments, ToolCall, ToolCallChunk, ToolSide, check_named,
};
use serde_json::{Map, Value};

use super::did::has_done;
use super::{
    EDITED_BY_PERSON, OpenCall, PlannedCall, REFUSED, Thread, ThreadPhase, agent_of, error_data,
};
use crate::output::Output;
use crate::session::Transition;
use crate::world::{MAX_MODIFIED_FILES, MAX_PATH_CHARS, MAX_REASON_CHARS};
use crate::{
    CallStatus, CallerAnswer, Effect, EventRange, KnownCall, NamedTool, Refusal, Session,
    SpaceSnapshot, Team, calculator,
};

impl Team {
    /// The result of a lone `attempt_completion`, if this is one that may be made.
    pub(crate) fn attempted_completion(
        &self,
        thread: &Thread,
        space: &SpaceSnapshot,
        call: &PlannedCall,
    ) -> Option<String> {
        match self.check_call(thread, space, &call.name, &call.arguments) {
            Ok((_, CheckedTool::BuiltIn(_, ToolArguments::AttemptCompletion { result }))) => {
                Some(result)
            }
            Ok(_) | Err(_) => None,
        }
    }

    /// Validation, the agent's tools, then its file restrictions.
    pub(crate) fn check_call(
        &self,
        thread: &Thread,
        space: &SpaceSnapshot,
        name: &str,
        arguments: &Result<Map<String, Value>, String>,
    ) -> Result<(Map<String, Value>, CheckedTool), ErrorData> {
        let agent_name = &thread.agent;
        let detailed = |code, message: String| {
            let mut error = error_data(code, &message);
            error.details.insert("tool_name".to_owned(), name.into());
            error
                .details
                .insert("agent".to_owned(), agent_of(agent_name));
            error
        };
        let agent = self.get(agent_name);
        let named = &space.named_tools;
        let offered = |tool: &Tool| match (tool, agent) {
            (_, None) => false,
            (Tool::SearchTools, Some(agent)) => {
                named.is_searched(agent, space.window_of(agent_name))
            }
            (Tool::UseSkill, Some(agent)) => agent.uses_skills(&space.instructions, thread.lane),
            (tool, Some(agent)) => agent.offers(*tool, thread.lane),
        };
        let built_in = Tool::parse(name).filter(offered);
        let called = agent.and_then(|agent| named.of_agent(agent, name));
        let invalid = |why: String| {
            detailed(
                ErrorCode::InvalidToolArguments,
                format!("Invalid arguments for {name}: {why}"),
            )
        };
        let (tool, arguments) = match (built_in, called) {
            (Some(tool), _) => (tool, arguments.clone().map_err(invalid)?),
            (None, Some(called)) => {
                let arguments = arguments.clone().map_err(invalid)?;
                check_named(&arguments).map_err(|error| invalid(error.0))?;
                return Ok((arguments, CheckedTool::Named(Box::new(called.clone()))));
            }
            (None, None) => {
                let why = match named.why_off(name) {
                    Some(why) => format!(": {why}"),
                    None => String::new(),
                };
                let message = format!("Tool {name} is not available to {agent_name}{why}");
                return Err(detailed(ErrorCode::ToolValidationError, message));
            }
        };
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
        Ok((arguments, CheckedTool::BuiltIn(tool, checked)))
    }
}

/// The tool of a call that passed validation.
pub(crate) enum CheckedTool {
    BuiltIn(Tool, ToolArguments),
    Named(Box<NamedTool>),
}

impl Session {
    /// Whether the call failed.
    pub(super) fn note_failure(&mut self, call: &OpenCall, result: &Value) -> bool {
        let failed = result.get("success") == Some(&Value::Bool(false));
        if failed {
            let error = result
                .get("error")
                .and_then(Value::as_str)
                .unwrap_or("the tool failed");
            self.note_error(&format!("{}: {error}", call.tool.name()));
        }
        failed
    }

    pub(crate) fn note_result(&mut self, call: &OpenCall, result: &Value) {
        let failed = self.note_failure(call, result);
        if !failed
            && call.tool.is(Tool::WriteFile)
            && let Some(path) = call.arguments.get("path").and_then(Value::as_str)
        {
            let path: String = path.chars().take(MAX_PATH_CHARS).collect();
            self.modified_files.retain(|file| *file != path);
            self.modified_files.push_back(path);
            if self.modified_files.len() > MAX_MODIFIED_FILES {
                self.modified_files.pop_front();
            }
        }
    }

    /// The thread that waits for somebody outside to end this call.
    pub(crate) fn waiting_thread(&self, call_id: &CallId) -> Option<&Thread> {
        self.turn
            .as_ref()?
            .threads()
            .find(|thread| thread.phase.call_id() == Some(call_id))
    }

    pub(crate) fn take_waiting(&mut self, call_id: &CallId) -> Option<Thread> {
        let lane = self.waiting_thread(call_id)?.lane;
        self.take_thread(lane)
    }

    /// The events of the turn from here on.
    pub(crate) fn here(&self) -> EventRange {
        let turn = self
            .turn
            .as_ref()
            .map_or(codelab_protocol::TurnId(self.last_turn), |turn| turn.id);
        EventRange {
            turn,
            after_seq: self.last_seq,
        }
    }

    pub(super) fn remembered(&self, ask: &Ask) -> Option<String> {
        let key = ask.remember.as_ref()?;
        self.remembered
            .contains(key)
            .then(|| super::approval::rule_name(key))
    }

    pub(crate) fn call_chunk(&self, thread: &Thread, call: &OpenCall) -> ToolCallChunk {
        ToolCallChunk {
            digest: call.tool.digest(&call.arguments),
            mcp: call.tool.mcp().cloned().map(Box::new),
            tool_call: ToolCall {
                call_id: call.call_id.clone(),
                name: call.tool.name(),
                arguments: call.arguments.clone(),
            },
            requires_approval: false,
            approved: false,
            reason: None,
            parts: Vec::new(),
            expires_at: None,
            agent: thread.agent.clone(),
            user_id: self.caller.user_id,
            base: call.base.clone(),
        }
    }
}

impl Output {
    pub(super) fn open_call(&mut self, thread: &Thread, call_id: &CallId, tool: &str) {
        self.push(Effect::CallOpened {
            call_id: call_id.clone(),
            turn: thread.turn,
            tool: tool.to_owned(),
        });
    }

    pub(crate) fn close_call(&mut self, call_id: &CallId, status: CallStatus) {
        self.close_call_that_did(call_id, status, None);
    }

    /// A call without a result; `did` is what it may have done.
    pub(crate) fn close_call_that_did(
        &mut self,
        call_id: &CallId,
        status: CallStatus,
        did: Option<String>,
    ) {
        self.push(Effect::CallClosed {
            call_id: call_id.clone(),
            status,
            result_digest: None,
            span: None,
            did,
        });
    }
}

impl Transition<'_, '_> {
    pub(crate) fn run_call(&mut self, mut thread: Thread, call: PlannedCall) {
        if let Some(error) = thread.repeats_itself(&call, self.world.limits.repeats) {
            self.abandon_calls(&mut thread, &call, &error.message);
            return self.fail_thread(thread, error);
        }
        let team = self.world.team;
        let checked = team.check_call(&thread, &self.space, &call.name, &call.arguments);
        let (arguments, checked) = match checked {
            Ok(checked) => checked,
            Err(error) => return self.refuse_call(thread, &call, error),
        };
        let open = |tool: CalledTool| OpenCall::new(call.call_id.clone(), tool, arguments);
        let (tool, checked) = match checked {
            CheckedTool::BuiltIn(tool, checked) => (tool, checked),
            CheckedTool::Named(named) => {
                let call = open(CalledTool::Named(Box::new(named.call.clone())));
                return self.named_call(thread, call, &named);
            }
        };
        match (tool.side(), checked) {
            (ToolSide::Client, checked) => self.client_call(thread, open(tool.into()), &checked),
            (ToolSide::Server, ToolArguments::SearchTools { query }) => {
                self.search_tools(thread, &call, &query);
            }
            (ToolSide::Server, ToolArguments::UseSkill { name }) => {
                self.use_skill(thread, &call, &name)
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
            // The model has not seen what became of the other calls. A completion that is the only
            // call of an answer is handled before.
            (ToolSide::Server, ToolArguments::AttemptCompletion { .. }) => {
                let message = format!("{} must be the only call of an answer", call.name);
                self.refuse_call(
                    thread,
                    &call,
                    error_data(ErrorCode::ToolValidationError, &message),
                );
            }
            (
                ToolSide::Server,
                ToolArguments::ReadFile(_)
                | ToolArguments::WriteFile(_)
                | ToolArguments::ListFiles(_)
                | ToolArguments::SearchInCode(_)
                | ToolArguments::CreateDirectory { .. }
                | ToolArguments::ExecuteCommand(_)
                | ToolArguments::RewindFiles(_),
            ) => {
                never!("a client's tool runs on the server: {}", call.name);
                let message = format!("{} cannot run here", call.name);
                self.refuse_call(
                    thread,
                    &call,
                    error_data(ErrorCode::ToolValidationError, &message),
                );
            }
        }
    }

    /// Every call of an answer gets a result, also when the thread ends before it could run.
    fn abandon_calls(&mut self, thread: &mut Thread, current: &PlannedCall, why: &str) {
        self.tool_message(thread, &current.call_id, &current.name, why.to_owned());
        for call in std::mem::take(&mut thread.waiting_calls) {
            self.tool_message(thread, &call.call_id, &call.name, why.to_owned());
        }
    }

    pub(super) fn refuse_call(&mut self, thread: Thread, call: &PlannedCall, error: ErrorData) {
        self.session.note_error(&error.message);
        let told = format!("{REFUSED}{}: {}", error.error_code.as_str(), error.message);
        self.tool_message(&thread, &call.call_id, &call.name, told);
        self.view().show_error(&thread, error);
        self.next_call(thread);
    }

    pub(crate) fn refuse_several(&mut self, thread: Thread, calls: &[PlannedCall], allowed: usize) {
        let made = calls.len();
        let (message, advice) = match allowed {
            1 => (
                format!("The model made {made} tool calls at once; one at a time is allowed"),
                "Make one call, wait for its result.",
            ),
            most => (
                format!("The model made {made} tool calls at once; at most {most} are allowed"),
                "None of them ran. Make fewer calls.",
            ),
        };
        let mut error = error_data(ErrorCode::MultipleToolCalls, &message);
        let names: Vec<Value> = calls.iter().map(|call| call.name.clone().into()).collect();
        error.details.insert("tool_names".to_owned(), names.into());
        let told = format!(
            "{REFUSED}{}: {message}. {advice}",
            error.error_code.as_str()
        );
        for call in calls {
            self.tool_message(&thread, &call.call_id, &call.name, told.clone());
        }
        self.view().show_error(&thread, error);
        self.work(thread);
    }

    pub(super) fn server_result(&mut self, thread: Thread, call: &PlannedCall, result: Value) {
        self.tool_message(&thread, &call.call_id, &call.name, text_of(&result));
        self.view()
            .show_result(&thread, &call.call_id, &call.name, result, false);
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
        // The other calls were meant for the agent that made them, and for its rights.
        let not_run = format!("Not run, because the session was handed over to {target}");
        for call in std::mem::take(&mut thread.waiting_calls) {
            self.tool_message(&thread, &call.call_id, &call.name, not_run.clone());
        }
        self.hand_over(&mut thread, target, reason, None);
        self.work(thread);
    }

    fn client_call(&mut self, thread: Thread, open: OpenCall, checked: &ToolArguments) {
        self.output
            .open_call(&thread, &open.call_id, &open.tool.name());
        match self.world.policy.review(checked) {
            Verdict::Allow => self.dispatch(thread, open, None),
            Verdict::Ask(ask) => match self.session.passes_unasked(&ask) {
                Some(rule) => self.pass_remembered(thread, open, ask, rule),
                None => self.request_approval(thread, open, ask),
            },
        }
    }

    /// Shows the call. The client that will run it sees it there; a call of the server's own is made.
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
            ..self.session.call_chunk(&thread, &call)
        };
        self.view().show_call(&thread, shown);
        if call.tool.side() == ToolSide::Server {
            return self.make_named_call(thread, call);
        }
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

    pub(crate) fn tool_result(
        &mut self,
        call_id: CallId,
        result: Value,
        client: Option<ClientId>,
        known: Option<KnownCall>,
        images: Vec<AttachedFile>,
    ) -> Result<CallerAnswer, Refusal> {
        if self.session.is_rewind_call(&call_id) {
            let digest = Digest::of_json(&result);
            return self.rewind_result(result, client.as_ref(), digest);
        }
        // A result that names an image has the image's digest in it.
        let digest = Digest::of_json(&result);
        match self
            .session
            .waiting_thread(&call_id)
            .map(|thread| &thread.phase)
        {
            Some(ThreadPhase::AwaitingResult { claim, .. }) => {
                self.session.check_holder(claim.as_ref(), client.as_ref())?
            }
            Some(ThreadPhase::AwaitingAnswer { .. }) => {
                return Err(Refusal::new(
                    ErrorCode::Conflict,
                    "The call is a question; answer it with a message",
                ));
            }
            Some(ThreadPhase::Calling { .. }) => {
                return Err(Refusal::new(
                    ErrorCode::Conflict,
                    "The call is one that the server makes",
                ));
            }
            Some(
                ThreadPhase::Routing { .. }
                | ThreadPhase::Queued
                | ThreadPhase::Thinking { .. }
                | ThreadPhase::AwaitingApproval { .. }
                | ThreadPhase::AwaitingRoom
                | ThreadPhase::AwaitingBudget { .. },
            ) => {
                return Err(Refusal::new(
                    ErrorCode::Conflict,
                    "The call is not approved yet",
                ));
            }
            None => {
                return match client.and_then(|client| self.session.take_late(&call_id, &client)) {
                    Some(late) => Ok(self.late_result(late, result, digest)),
                    None => known_result(&call_id, &digest, known),
                };
            }
        }
        let span = self.session.here();
        let Some(thread) = self.session.take_waiting(&call_id) else {
            never!("the call that a result is for is not open");
            return Ok(CallerAnswer::Nothing);
        };
        let ThreadPhase::AwaitingResult { call, .. } = thread.phase.clone() else {
            never!("the call that a result is for is not open");
            self.session.put(thread);
            return Ok(CallerAnswer::Nothing);
        };
        self.output.push(Effect::CallClosed {
            call_id,
            status: CallStatus::Finished,
            result_digest: Some(digest),
            span: Some(span),
            did: call.about().filter(|_| has_done(&call.tool, &result)),
        });
        self.withdraw_elicitation(&thread, &call);
        self.session.note_result(&call, &result);
        self.note_touched(&call);
        let text = call.told(&result);
        self.view().show_client_result(&thread, &call, result);
        let message = Message {
            attachments: self.output.attach(images),
            ..self.new_message(Role::Tool, text)
        };
        self.result_message(&thread, &call.call_id, &call.tool.name(), message);
        self.next_call(thread);
        Ok(CallerAnswer::Span(span))
    }

    pub(crate) fn tool_message(
        &mut self,
        thread: &Thread,
        call_id: &CallId,
        tool: &str,
        content: String,
    ) {
        let message = self.new_message(Role::Tool, content);
        self.result_message(thread, call_id, tool, message);
    }

    pub(crate) fn result_message(
        &mut self,
        thread: &Thread,
        call_id: &CallId,
        tool: &str,
        message: Message,
    ) {
        let message = Message {
            name: Some(tool.to_owned()),
            tool_call_id: Some(call_id.clone()),
            ..message
        };
        self.message(thread.turn, self.session.task_of(thread), message);
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
pub(super) fn edited_result(result: &Value, ran: &Map<String, Value>) -> String {
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
