//! Client tool calls in the ledger: who was asked, what was decided, what came of them.

use codelab_protocol::{CallId, Digest, ErrorCode, ToolCallChunk};
use serde_json::{Map, Value};

use super::{Answered, Attempt, Ledger, Outcome, combined};

#[derive(Debug, Clone, Default)]
pub struct Call {
    pub tool: String,
    /// As the model gave them.
    pub arguments: Map<String, Value>,
    /// A person was asked, about these very arguments.
    pub digest: Option<Digest>,
    pub seen_at: u64,
    pub is_dispatched: bool,
    pub decisions: Vec<DecisionAttempt>,
    pub results: Vec<ResultAttempt>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    Approve { remember: bool },
    Edit(Map<String, Value>),
    Reject,
}

#[derive(Debug, Clone)]
pub struct DecisionAttempt {
    /// Each attempt is another person's, so that the audit log tells which one won.
    pub person: i64,
    pub choice: Choice,
    pub attempt: Attempt,
}

#[derive(Debug, Clone)]
pub struct ResultAttempt {
    /// The result this call gets, rather than another one that must be refused.
    pub is_true: bool,
    pub attempt: Attempt,
}

impl Call {
    pub(super) fn shown(&mut self, chunk: &ToolCallChunk, at: u64) {
        if self.tool.is_empty() {
            self.tool.clone_from(&chunk.tool_call.name);
            self.seen_at = at;
        }
        if chunk.requires_approval {
            self.arguments.clone_from(&chunk.tool_call.arguments);
            self.digest = Some(chunk.digest.clone());
        } else {
            self.is_dispatched = true;
            if self.digest.is_none() {
                self.arguments.clone_from(&chunk.tool_call.arguments);
            }
        }
    }

    pub fn decided(&self) -> Outcome {
        combined(self.decisions.iter().map(|decision| &decision.attempt))
    }

    /// Whether the true result was acknowledged.
    pub fn answered(&self) -> Outcome {
        combined(
            self.results
                .iter()
                .filter(|result| result.is_true)
                .map(|result| &result.attempt),
        )
    }
}

/// What a client's tool gives back: the same each time, and never the same for two calls.
pub fn result_of(call_id: &CallId) -> String {
    format!("result of {call_id}")
}

impl Ledger {
    pub fn begin_decision(&mut self, call_id: &CallId, choice: Choice) -> (usize, i64) {
        let attempt = self.begin();
        let person = self.new_person();
        let decisions = &mut self.calls.entry(call_id.clone()).or_default().decisions;
        decisions.push(DecisionAttempt {
            person,
            choice,
            attempt,
        });
        (decisions.len() - 1, person)
    }

    pub fn end_decision(&mut self, call_id: &CallId, number: usize, answered: Answered) {
        let outcome = self.settled(answered);
        let Some(call) = self.calls.get_mut(call_id) else {
            return;
        };
        call.decisions[number].attempt.outcome = outcome;
        let winners = call
            .decisions
            .iter()
            .filter(|decision| decision.attempt.outcome.is_taken())
            .count();
        let others = call.decisions.iter().enumerate();
        let another = others
            .filter(|(index, _)| *index != number)
            .any(|(_, d)| d.attempt.outcome.is_possible());
        let seen_at = call.seen_at;
        match answered {
            Answered::Taken if winners > 1 => {
                self.violate(format!("{call_id} was decided {winners} times"))
            }
            Answered::Taken | Answered::Lost => {}
            Answered::Refused(409, Some(ErrorCode::Conflict))
                if another || self.may_be_cancelled(seen_at) => {}
            Answered::Refused(status, code) => {
                let which = if another { "another" } else { "the first" };
                self.violate(format!(
                    "{which} decision about {call_id} was refused: {status} {code:?}"
                ));
            }
        }
    }

    pub fn begin_result(&mut self, call_id: &CallId, is_true: bool) -> usize {
        let attempt = self.begin();
        let results = &mut self.calls.entry(call_id.clone()).or_default().results;
        results.push(ResultAttempt { is_true, attempt });
        results.len() - 1
    }

    pub fn end_result(&mut self, call_id: &CallId, number: usize, answered: Answered) {
        let outcome = self.settled(answered);
        let Some(call) = self.calls.get_mut(call_id) else {
            return;
        };
        let (is_true, started) = (
            call.results[number].is_true,
            call.results[number].attempt.started,
        );
        let was_answered = matches!(call.answered(), Outcome::Taken { at } if at < started);
        let seen_at = call.seen_at;
        call.results[number].attempt.outcome = outcome;
        match answered {
            Answered::Taken if is_true => {}
            Answered::Taken => self.violate(format!("{call_id} took a second, different result")),
            Answered::Refused(409, Some(ErrorCode::Conflict)) if !is_true => {}
            Answered::Refused(409, Some(ErrorCode::Conflict))
                if !was_answered && self.may_be_cancelled(seen_at) => {}
            Answered::Refused(status, code) => {
                let what = if was_answered {
                    "the repeat of an acknowledged result"
                } else {
                    "a result"
                };
                self.violate(format!(
                    "{what} of {call_id} was refused: {status} {code:?}"
                ));
            }
            Answered::Lost => {}
        }
    }
}
