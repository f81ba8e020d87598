//! Questions that an MCP server asks a person while it runs a call.

use codelab_protocol::{
    AgentQuestion, Attachment, CallId, CallOutcome, ClientId, ErrorCode, Message, Role,
    SessionEventBody, TaskOrigin, elicited_content,
};
use serde_json::{Map, Value};

use super::call::ended_or_unknown;
use super::thread::Elicitation;
use super::{OpenCall, Thread, ThreadPhase};
use crate::session::{Transition, in_one_line};
use crate::{CallStatus, CallerAnswer, Effect, Lane, Refusal, Session};

/// Questions of one call.
const MAX_ELICITATIONS: u32 = 10;
/// How the store names a question of a server.
const ELICITATION: &str = "elicitation";

impl Session {
    /// Whether an MCP server waits for the answer to this question.
    pub fn is_open_question(&self, question_id: &CallId) -> bool {
        self.eliciting(question_id).is_some()
    }

    /// The thread in whose call this question is open.
    pub(crate) fn eliciting(&self, question_id: &CallId) -> Option<Lane> {
        let asks = |thread: &&Thread| {
            let asked = thread.phase.elicitation();
            asked.is_some_and(|asked| asked.question_id == *question_id)
        };
        self.turn.as_ref()?.threads().find(asks).map(Thread::lane)
    }
}

impl Thread {
    /// Whether this question of its agent, or of a server that its agent called, is open.
    pub(crate) fn asks(&self, question: &CallId) -> bool {
        let asked = self.phase.elicitation();
        match &self.phase {
            ThreadPhase::AwaitingAnswer { call_id, .. } => call_id == question,
            ThreadPhase::AwaitingResult { .. } | ThreadPhase::Calling { .. } => {
                asked.is_some_and(|asked| asked.question_id == *question)
            }
            ThreadPhase::Routing { .. }
            | ThreadPhase::Queued
            | ThreadPhase::Thinking { .. }
            | ThreadPhase::AwaitingApproval { .. }
            | ThreadPhase::AwaitingRoom
            | ThreadPhase::AwaitingBudget { .. } => false,
        }
    }

    fn open_call_mut(&mut self) -> Option<&mut OpenCall> {
        match &mut self.phase {
            ThreadPhase::AwaitingResult { call, .. } | ThreadPhase::Calling { call, .. } => {
                Some(call)
            }
            ThreadPhase::Routing { .. }
            | ThreadPhase::Queued
            | ThreadPhase::Thinking { .. }
            | ThreadPhase::AwaitingApproval { .. }
            | ThreadPhase::AwaitingAnswer { .. }
            | ThreadPhase::AwaitingRoom
            | ThreadPhase::AwaitingBudget { .. } => None,
        }
    }
}

impl Transition<'_, '_> {
    /// `client`: who runs the call; absent for the server itself.
    pub(crate) fn elicit(
        &mut self,
        call_id: &CallId,
        question_id: CallId,
        client: Option<&ClientId>,
        (message, requested_schema): (String, Map<String, Value>),
    ) -> Result<CallerAnswer, Refusal> {
        let thread = self.session.waiting_thread(call_id);
        let thread = thread.ok_or_else(|| ended_or_unknown(call_id, false))?;
        let call = match (&thread.phase, client) {
            (ThreadPhase::AwaitingResult { call, claim, .. }, Some(client)) => {
                self.session.check_holder(claim.as_ref(), Some(client))?;
                call
            }
            (ThreadPhase::Calling { call, .. }, None) => call,
            _ => return Err(conflict("The call is not one that a server can ask in")),
        };
        let server = call.tool.mcp().map(|mcp| mcp.id.server.clone());
        let server = server.ok_or_else(|| conflict("The call is not one of an MCP server"))?;
        // The answer to the first request was lost.
        if call.last_question.as_ref() == Some(&question_id) {
            return Ok(CallerAnswer::Nothing);
        }
        // A client asks one question after the other, so it does not wait for the open one any more.
        if call.elicitation.is_some() && client.is_none() {
            return Err(conflict(
                "The server has asked already and has no answer yet",
            ));
        }
        if call.elicited >= MAX_ELICITATIONS {
            return Err(conflict("The server has asked too often in this call"));
        }
        let Some(mut thread) = self.session.take_waiting(call_id) else {
            never!("the thread of a call that asks is not in its turn");
            return Ok(CallerAnswer::Nothing);
        };
        if let Some(call) = thread.open_call_mut().map(|call| call.clone()) {
            self.withdraw_elicitation(&thread, &call);
        }
        self.output.open_call(&thread, &question_id, ELICITATION);
        let shown = AgentQuestion {
            call_id: question_id.clone(),
            question: message.clone(),
            server: Some(server.clone()),
            requested_schema: Some(requested_schema.clone()),
            options: options(&requested_schema),
            agent: thread.agent.clone(),
            origin: self.session.origin(&thread),
        };
        self.log()
            .event(thread.turn, SessionEventBody::Question(shown));
        let asked_at = self.world.now;
        if let Some(call) = thread.open_call_mut() {
            call.elicited += 1;
            call.last_question = Some(question_id.clone());
            call.elicitation = Some(Box::new(Elicitation {
                question_id,
                asked_at,
                question: in_one_line(&format!("{server}: {message}")),
                server,
                requested_schema,
            }));
        }
        let phase = thread.phase.clone();
        self.suspend(thread, phase);
        Ok(CallerAnswer::Nothing)
    }

    /// A person answered. An answer that does not fit changes nothing.
    pub(super) fn elicited(
        &mut self,
        lane: Lane,
        text: String,
        attachments: Vec<Attachment>,
    ) -> Result<(), Refusal> {
        let Some(mut thread) = self.session.take_thread(lane) else {
            never!("the thread of an answered question is not in its turn");
            return Ok(());
        };
        let Some(call) = thread.open_call_mut() else {
            never!("a question is answered in a thread without a call");
            self.session.put(thread);
            return Ok(());
        };
        let call_id = call.call_id.clone();
        let Some(asked) = call.elicitation.take() else {
            never!("a question is answered that is not open");
            self.session.put(thread);
            return Ok(());
        };
        let content = match elicited_content(&asked.requested_schema, &text) {
            Ok(content) => content,
            Err(why) => {
                call.elicitation = Some(asked);
                self.session.put(thread);
                let refusal = Refusal::new(ErrorCode::ValidationError, why);
                return Err(refusal.with("field", "answer"));
            }
        };
        let question = &asked.question_id;
        self.output.close_call(question, CallStatus::Finished);
        let message = Message {
            answers: Some(question.clone()),
            attachments,
            ..self.new_message(Role::User, text)
        };
        self.view().show_answer_of_user(&thread, &message);
        let TaskOrigin { plan_id, task_id } = self.session.origin(&thread);
        // The answer is for the server, and may be a secret. No model reads it.
        let message = Message {
            plan_id,
            task_id,
            content: format!("(An answer to the MCP server {})", asked.server),
            ..message
        };
        self.message(thread.turn, None, message);
        self.view()
            .show_closed(&thread, question, CallOutcome::Completed);
        if matches!(thread.phase, ThreadPhase::Calling { .. }) {
            self.output.push(Effect::Elicited { call_id, content });
        }
        let phase = thread.phase.clone();
        self.suspend(thread, phase);
        Ok(())
    }

    /// The call ends, so nobody needs the answer any more.
    pub(crate) fn withdraw_elicitation(&mut self, thread: &Thread, call: &OpenCall) {
        if let Some(asked) = &call.elicitation {
            self.output
                .close_call(&asked.question_id, CallStatus::Cancelled);
            self.view()
                .show_closed(thread, &asked.question_id, CallOutcome::Cancelled);
        }
    }
}

/// The answers to choose from, where one field has a list of them.
fn options(schema: &Map<String, Value>) -> Vec<String> {
    let Some(Value::Object(fields)) = schema.get("properties") else {
        return Vec::new();
    };
    let mut fields = fields.values();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return Vec::new();
    };
    let choices = field.get("enum").and_then(Value::as_array);
    let texts = choices.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn conflict(why: &str) -> Refusal {
    Refusal::new(ErrorCode::Conflict, why)
}
