//! Tool calls: decided once, executed at most once, answered with what was acknowledged.

use std::collections::BTreeMap;

use codelab_protocol::{AuditEntry, CallId, ChunkBody, ToolCallChunk, arguments_digest};
use serde_json::{Map, Value};

use super::turns::CallFound;
use super::{CANCELLED, QUESTION};
use crate::workload::found::Found;
use crate::workload::ledger::{Call, Choice, Ledger, Outcome, result_of};
use crate::workload::plan::Step;
use crate::workload::requests::Told;

/// All that is known of one call.
struct Known<'a> {
    call_id: &'a CallId,
    asked: Vec<&'a ToolCallChunk>,
    dispatched: Vec<&'a ToolCallChunk>,
    audit: Vec<&'a AuditEntry>,
    ledger: Option<&'a Call>,
}

pub fn check(ledger: &Ledger, found: &Found, calls: &[&CallFound<'_>], told: &Told) -> Vec<String> {
    let mut problems = Vec::new();
    if !found.audit.verified {
        problems.push("the audit chain is broken".to_owned());
    }
    let by_id: BTreeMap<&CallId, &CallFound<'_>> =
        calls.iter().map(|call| (call.call_id, *call)).collect();
    if by_id.len() != calls.len() {
        problems.push("two calls have the same id".to_owned());
    }
    for call in calls {
        if let Some(words) = told
            .get(call.call_id.as_str())
            .filter(|words| *words != call.content)
        {
            problems.push(format!(
                "the model was told {words:?} of {}, the history says {:?}",
                call.call_id, call.content
            ));
        }
        let known = Known::of(call.call_id, ledger, found);
        problems.extend(known.check(call, ledger));
    }
    let strangers = found
        .audit
        .audit
        .iter()
        .map(|row| &row.call_id)
        .chain(ledger.calls.keys());
    let unknown = strangers.filter(|id| !by_id.contains_key(id));
    problems
        .extend(unknown.map(|id| format!("{id} was shown or decided and is not in the history")));
    problems.extend(remembered(ledger, found));
    problems
}

impl<'a> Known<'a> {
    fn of(call_id: &'a CallId, ledger: &'a Ledger, found: &'a Found) -> Self {
        let shown = found
            .events
            .iter()
            .filter_map(|(_, chunk)| match &chunk.body {
                ChunkBody::ToolCall(call) if call.tool_call.call_id == *call_id => Some(call),
                _ => None,
            });
        let (asked, dispatched) = shown.partition(|call| call.requires_approval);
        let audit = found
            .audit
            .audit
            .iter()
            .filter(|row| row.call_id == *call_id)
            .collect();
        Self {
            call_id,
            asked,
            dispatched,
            audit,
            ledger: ledger.calls.get(call_id),
        }
    }

    fn check(&self, call: &CallFound<'_>, ledger: &Ledger) -> Vec<String> {
        let mut problems = self.shown_once();
        problems.extend(self.decided_once());
        let content = call.content;
        let is_right = match call.step {
            Step::Read | Step::Write | Step::Run => match call.refused_with() {
                Some(code) => {
                    call.step == Step::Write
                        && code == "TOOL_VALIDATION_ERROR"
                        && self.asked.is_empty()
                }
                None => self.client_result(content, ledger),
            },
            Step::Ask => {
                let is_said = ledger
                    .messages
                    .iter()
                    .any(|sent| sent.plan.text() == content);
                is_said || (content == CANCELLED && may_be_cancelled(ledger))
            }
            Step::Echo => {
                content.starts_with("echo of ")
                    || call.refused_with() == Some("TOOL_VALIDATION_ERROR")
            }
            Step::HandOver => {
                content == "Handed over to debug" || call.refused_with() == Some("AGENT_NOT_FOUND")
            }
            Step::Twice => call.refused_with() == Some("MULTIPLE_TOOL_CALLS"),
            Step::Say | Step::Finish => false,
        };
        if !is_right {
            let tool = if call.step == Step::Ask {
                QUESTION
            } else {
                "a tool"
            };
            let sent = self.ledger.map(|call| (&call.decisions, &call.results));
            problems.push(format!(
                "the result of {} ({tool}) is {content:?}; sent were {sent:?}",
                self.call_id
            ));
        }
        problems
    }

    /// A client runs what it is told to run, so it must be told once, and only what was decided.
    fn shown_once(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (what, count) in [
            ("asked about", self.asked.len()),
            ("dispatched", self.dispatched.len()),
        ] {
            if count > 1 {
                problems.push(format!("{} was {what} {count} times", self.call_id));
            }
        }
        for chunk in self.asked.iter().chain(&self.dispatched) {
            if chunk.digest != arguments_digest(&chunk.tool_call.name, &chunk.tool_call.arguments) {
                problems.push(format!(
                    "the digest of {} does not fit what it shows",
                    self.call_id
                ));
            }
        }
        if let (Some(asked), Some(dispatched)) = (self.asked.first(), self.dispatched.first()) {
            let decided = self
                .audit
                .first()
                .and_then(|row| row.modified_args.as_ref());
            if dispatched.tool_call.arguments != *decided.unwrap_or(&asked.tool_call.arguments) {
                let ran = &dispatched.tool_call.arguments;
                problems.push(format!(
                    "{} runs with {ran:?}, which nobody agreed to",
                    self.call_id
                ));
            }
        }
        problems
    }

    fn decided_once(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let attempts = self
            .ledger
            .map_or(&[][..], |call| call.decisions.as_slice());
        let acknowledged = attempts
            .iter()
            .find(|decision| decision.attempt.outcome.is_taken());
        if self.audit.len() > 1 {
            problems.push(format!(
                "{} has {} audit rows",
                self.call_id,
                self.audit.len()
            ));
        }
        let Some(row) = self.audit.first() else {
            if let Some(decision) = acknowledged {
                problems.push(format!(
                    "the acknowledged decision {decision:?} of {} was lost",
                    self.call_id
                ));
            }
            if !self.asked.is_empty() && !self.dispatched.is_empty() {
                problems.push(format!(
                    "{} was dispatched without a decision",
                    self.call_id
                ));
            }
            return problems;
        };
        if row.decided_by.starts_with("remembered: ") {
            if !self.asked.is_empty() || self.dispatched.len() != 1 {
                problems.push(format!(
                    "{} was remembered and still asked about",
                    self.call_id
                ));
            }
            return problems;
        }
        let decided = attempts
            .iter()
            .find(|decision| decision.person.to_string() == row.decided_by);
        let is_the_one = decided.is_some_and(|decision| {
            decision.attempt.outcome.is_possible()
                && fits(&decision.choice, row)
                && self.fits_events(&decision.choice)
        });
        let other_acknowledged =
            acknowledged.is_some_and(|decision| decision.person.to_string() != row.decided_by);
        if !is_the_one || other_acknowledged {
            problems.push(format!(
                "{} was decided {attempts:?}, and the audit says {row:?}",
                self.call_id
            ));
        }
        problems
    }

    fn fits_events(&self, choice: &Choice) -> bool {
        let dispatches = usize::from(*choice != Choice::Reject);
        self.asked.len() == 1 && self.dispatched.len() == dispatches
    }

    /// The content of a client tool's result: what the client sent, unless a person said no or
    /// cancelled.
    fn client_result(&self, content: &str, ledger: &Ledger) -> bool {
        let answered = self.ledger.map_or(Outcome::Refused, Call::answered);
        let row = self.audit.first();
        let is_rejected = row.is_some_and(|row| row.decision.as_str() == "REJECT");
        if is_rejected {
            return content.starts_with("A person rejected this call") && !answered.is_possible();
        }
        let edited = row.and_then(|row| row.modified_args.as_ref());
        let is_result =
            content == with_note(edited, result_of(self.call_id)) && !self.dispatched.is_empty();
        match answered {
            Outcome::Taken { .. } => is_result,
            Outcome::Unknown => is_result || (content == CANCELLED && may_be_cancelled(ledger)),
            Outcome::Refused => content == CANCELLED && may_be_cancelled(ledger),
        }
    }
}

fn may_be_cancelled(ledger: &Ledger) -> bool {
    ledger
        .cancels
        .iter()
        .any(|cancel| cancel.attempt.outcome.is_possible())
}

/// The model hears of it when a person changed what ran.
fn with_note(edited: Option<&Map<String, Value>>, result: String) -> String {
    match edited {
        Some(arguments) => {
            serde_json::json!({"result": result, "arguments_changed_by_a_person_to": arguments})
                .to_string()
        }
        None => result,
    }
}

fn fits(choice: &Choice, row: &AuditEntry) -> bool {
    match choice {
        Choice::Approve { .. } => row.decision.as_str() == "APPROVE" && row.modified_args.is_none(),
        Choice::Edit(arguments) => {
            row.decision.as_str() == "EDIT" && row.modified_args.as_ref() == Some(arguments)
        }
        Choice::Reject => row.decision.as_str() == "REJECT" && row.modified_args.is_none(),
    }
}

/// After an acknowledged "remember", nobody is asked about files again.
fn remembered(ledger: &Ledger, found: &Found) -> Vec<String> {
    let is_remembered = |call: &Call| {
        let mut decisions = call.decisions.iter();
        decisions
            .any(|d| d.attempt.outcome.is_taken() && d.choice == Choice::Approve { remember: true })
    };
    let mut since = None;
    let mut problems = Vec::new();
    for (id, chunk) in &found.events {
        let ChunkBody::ToolCall(call) = &chunk.body else {
            continue;
        };
        if call.tool_call.name != "write_file" {
            continue;
        }
        match since {
            Some(since) if call.requires_approval => {
                problems.push(format!(
                    "event {id} asks about a file although event {since} was remembered"
                ));
            }
            None if !call.requires_approval
                && ledger
                    .calls
                    .get(&call.tool_call.call_id)
                    .is_some_and(is_remembered) =>
            {
                since = Some(*id);
            }
            _ => {}
        }
    }
    problems
}
