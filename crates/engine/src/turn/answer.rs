//! An answer of the model: what is kept of it, and the tool calls that it asks for.

use codelab_protocol::{
    AnswerCut, ErrorCode, ErrorData, Message, MessageId, ModelOutput, RawToolCall, Reasoning, Role,
    SessionKind, ToolCall, TurnId,
};
use serde_json::Value;

use super::thread::{PlannedCall, Thread};
use super::{COMPLETED, cut, error_data};
use crate::session::Transition;
use crate::world::{
    MAX_ARGUMENT_DEPTH, MAX_CALLS_PER_ANSWER, MAX_OPAQUE_REASONING_BYTES, MAX_RESULT_BYTES,
    MAX_SHOWN_REASONING_BYTES, MultipleToolCalls,
};
use crate::{Lane, Session};

const REASONING_TOO_LONG: &str = "The model's reasoning is too long to be sent back to it. It goes \
    on without what it thought before this answer.";

impl Session {
    /// The turn has reasoning to forget when it ends.
    fn keep_reasoning(&mut self, turn: TurnId) {
        if let Some(now) = self.turn.as_mut().filter(|now| now.id == turn) {
            now.keeps_reasoning = true;
        }
    }
}

impl Transition<'_, '_> {
    pub(crate) fn answered_by_model(
        &mut self,
        mut thread: Thread,
        message_id: MessageId,
        output: ModelOutput,
    ) {
        self.progressed(&thread, &output);
        if output.tool_calls.is_empty() {
            if output.text.trim().is_empty() {
                return self.fail_thread(thread, empty_answer(&output));
            }
            self.keep_answer(
                &mut thread,
                message_id,
                &output,
                output.text.clone(),
                Vec::new(),
            );
            return self.complete_thread(thread, output.text, COMPLETED.to_owned());
        }
        let last = output.tool_calls.len() - 1;
        let calls: Vec<PlannedCall> = output
            .tool_calls
            .iter()
            .enumerate()
            .map(|(place, raw)| self.plan_call(raw, output.cut.filter(|_| place == last)))
            .collect();
        let only = if calls.len() == 1 {
            calls.first()
        } else {
            None
        };
        if let Some(result) = only.and_then(|call| {
            let team = self.world.team;
            team.attempted_completion(&thread, &self.space, call)
        }) {
            return self.completed_by_tool(thread, message_id, &output, result);
        }
        let recorded = calls.iter().map(PlannedCall::record).collect();
        self.keep_answer(
            &mut thread,
            message_id,
            &output,
            output.text.clone(),
            recorded,
        );
        let too_many = calls.len() > MAX_CALLS_PER_ANSWER;
        let reject =
            self.world.limits.several_calls(self.session.kind) == MultipleToolCalls::Reject;
        if calls.len() > 1 && (reject || too_many) {
            let allowed = if reject { 1 } else { MAX_CALLS_PER_ANSWER };
            return self.refuse_several(thread, &calls, allowed);
        }
        thread.waiting_calls = calls.into();
        self.next_call(thread);
    }

    /// Shows and records what the agent said.
    pub(crate) fn keep_answer(
        &mut self,
        thread: &mut Thread,
        message_id: MessageId,
        output: &ModelOutput,
        content: String,
        tool_calls: Vec<ToolCall>,
    ) {
        let mut warnings = output.warnings.clone();
        if tool_calls.is_empty() && thread.lane == Lane::OWN {
            warnings.extend(self.left_out());
        }
        let reasoning = output
            .reasoning
            .as_deref()
            .map(kept_reasoning)
            .map(Box::new);
        let is_sent_back = |kept: &Reasoning| !kept.opaque.is_null();
        match (&output.reasoning, &reasoning) {
            (Some(all), Some(kept)) if is_sent_back(all) && !is_sent_back(kept) => {
                warnings.push(REASONING_TOO_LONG.to_owned());
            }
            (_, Some(kept)) if is_sent_back(kept) => self.session.keep_reasoning(thread.turn),
            _ => {}
        }
        let message = Message {
            agent_id: Some(thread.agent.clone()),
            name: Some(thread.agent.clone().into()),
            tool_calls,
            usage: output.usage.clone(),
            warnings,
            reasoning,
            is_cut: output.cut.is_some(),
            ..Message::new(message_id.clone(), Role::Assistant, content, self.world.now)
        };
        thread.answer_id = Some(message_id);
        thread.warnings.clone_from(&message.warnings);
        if self.session.kind == SessionKind::Project && !message.content.trim().is_empty() {
            thread.said = Some(cut(&message.content, MAX_RESULT_BYTES).to_owned());
        }
        self.view().show_answer(thread, &message, output);
        self.message(thread.turn, self.session.task_of(thread), message);
    }

    /// Says so where the model was not sent all of the turn before: it may not know what it did.
    fn left_out(&self) -> Option<String> {
        let turn = self.session.turn.as_ref()?;
        if self.session.kind == SessionKind::Runtime || turn.left_out == 0 {
            return None;
        }
        let limit = self.world.limits.prompt.messages;
        Some(format!(
            "The model was not sent the first {} messages of the turn before, because at most {limit} earlier \
             messages are sent. Set context.messages, or context.tokens = \"auto\", to send more.",
            turn.left_out
        ))
    }

    /// Goes on with the next waiting call of the last answer, else asks the model again.
    pub(crate) fn next_call(&mut self, mut thread: Thread) {
        match thread.waiting_calls.pop_front() {
            Some(call) => self.run_call(thread, call),
            None => self.work(thread),
        }
    }

    /// `cut`: the answer ended at its token limit, and this is its last call.
    fn plan_call(&mut self, raw: &RawToolCall, cut: Option<AnswerCut>) -> PlannedCall {
        let text = if raw.arguments.trim().is_empty() {
            "{}"
        } else {
            raw.arguments.as_str()
        };
        let arguments = match serde_json::from_str::<Value>(text) {
            Ok(arguments) if too_deep(&arguments, MAX_ARGUMENT_DEPTH) => {
                Err("the arguments are nested too deeply".to_owned())
            }
            Ok(Value::Object(arguments)) => Ok(arguments),
            Ok(_) => Err("the arguments are not a JSON object".to_owned()),
            Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
        };
        let arguments = match cut {
            // Arguments that are complete were not cut, but none may be all that is left of them.
            Some(cut) if arguments.is_err() || raw.arguments.trim().is_empty() => {
                Err(cut_arguments(cut))
            }
            Some(_) | None => arguments,
        };
        PlannedCall {
            call_id: self.world.ids.call_id(),
            name: raw.name.clone(),
            arguments,
        }
    }
}

impl PlannedCall {
    /// The call as the history keeps it and the model reads it: with a name that every
    /// upstream takes, and without arguments that are no object.
    fn record(&self) -> ToolCall {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let name: String = self
            .name
            .chars()
            .take(64)
            .map(|c| if fits(c) { c } else { '_' })
            .collect();
        ToolCall {
            call_id: self.call_id.clone(),
            name: if name.is_empty() {
                "unknown".to_owned()
            } else {
                name
            },
            arguments: self.arguments.clone().unwrap_or_default(),
        }
    }
}

/// Tells the model why its call did not run, and how to get it through.
fn cut_arguments(cut: AnswerCut) -> String {
    let limit = match cut.max_tokens {
        Some(tokens) => format!("the limit of {tokens} tokens"),
        None => "the model's token limit".to_owned(),
    };
    format!(
        "the answer was cut at {limit} before the arguments were complete, so the call did not run. \
         Write shorter arguments: one part of the change at a time"
    )
}

/// Reasoning as it is stored: a bounded part for people, and all or nothing of what its provider
/// wants back.
fn kept_reasoning(reasoning: &Reasoning) -> Reasoning {
    let bytes = match &reasoning.opaque {
        Value::Null => 0,
        opaque => opaque.to_string().len(),
    };
    Reasoning {
        text: cut(&reasoning.text, MAX_SHOWN_REASONING_BYTES).to_owned(),
        provider: reasoning.provider.clone(),
        model: reasoning.model.clone(),
        opaque: match bytes > MAX_OPAQUE_REASONING_BYTES {
            true => Value::Null,
            false => reasoning.opaque.clone(),
        },
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
/// Says why there is nothing, where the model's server did: an answer that was withheld, or all
/// spent on thoughts.
fn empty_answer(output: &ModelOutput) -> ErrorData {
    let message = "The model gave an empty answer";
    if output.warnings.is_empty() {
        return error_data(ErrorCode::LlmError, message);
    }
    let mut error = error_data(
        ErrorCode::LlmError,
        &format!("{message}: {}", output.warnings.join(" ")),
    );
    error
        .details
        .insert("warnings".to_owned(), output.warnings.clone().into());
    error
}
