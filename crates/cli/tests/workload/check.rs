//! Compares what was acknowledged with what is found. Pure: the same ledger and findings give the
//! same verdict.

mod calls;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use codelab_protocol::{Chunk, ChunkBody, ErrorCode, Message, Role};

use self::turns::{CallFound, TurnFound};
use crate::workload::found::Found;
use crate::workload::ledger::{Ledger, Outcome};
use crate::workload::requests::Told;

/// What the history says of a call that a cancel ended.
const CANCELLED: &str = "Cancelled by the user before it finished.";
const QUESTION: &str = "ask_followup_question";

/// Everything that is wrong with an idle session, in words.
pub fn check(ledger: &Ledger, found: &Found, told: &Told) -> Vec<String> {
    let mut problems = ledger.violations.clone();
    problems.extend(unchanged_events(ledger, &found.events));
    let (turns, unplanned) = turns::read(ledger, &found.history);
    problems.extend(unplanned);
    problems.extend(messages_kept(ledger, &found.history));
    problems.extend(order_kept(ledger, &found.history));
    problems.extend(every_turn_ended(ledger, found, &turns));
    problems.extend(answers_shown_once(found));
    let calls: Vec<&CallFound<'_>> = turns.iter().flat_map(|turn| &turn.calls).collect();
    problems.extend(calls::check(ledger, found, &calls, told));
    problems.extend(switches_kept(ledger, found));
    if !found.pending.is_empty() {
        problems.push(format!("approvals are still open: {:?}", found.pending));
    }
    problems
}

/// What is wrong with the history of an idle session in which nobody cancels anything.
pub fn whole_history(ledger: &Ledger, history: &[Message]) -> Vec<String> {
    let mut problems = ledger.violations.clone();
    let (turns, unplanned) = turns::read(ledger, history);
    problems.extend(unplanned);
    problems.extend(messages_kept(ledger, history));
    problems.extend(order_kept(ledger, history));
    let cut_off = turns.iter().filter(|turn| !turn.is_complete).count();
    if cut_off > 0 {
        problems.push(format!("{cut_off} turns are cut off"));
    }
    problems
}

/// The numbers run from 1 without a hole, and what a reader saw has not changed.
pub fn unchanged_events(ledger: &Ledger, found: &[(u64, Chunk)]) -> Vec<String> {
    let mut problems = Vec::new();
    for ((id, _), expected) in found.iter().zip(1..) {
        if *id != expected {
            problems.push(format!(
                "event {expected} is missing: {id} stands in its place"
            ));
            break;
        }
    }
    let by_id: BTreeMap<u64, &Chunk> = found.iter().map(|(id, chunk)| (*id, chunk)).collect();
    for (id, seen) in &ledger.events {
        match by_id.get(id) {
            None => problems.push(format!("event {id} was seen and is lost: {seen:?}")),
            Some(now) if *now != seen => {
                problems.push(format!("event {id} was {seen:?} and is now {now:?}"))
            }
            Some(_) => {}
        }
    }
    problems
}

/// How often a text was taken: as a message of its own, or as the answer to a question.
fn occurrences(history: &[Message], text: &str) -> usize {
    history
        .iter()
        .filter(|message| message.role == Role::User && message.content == text)
        .count()
}

/// Acknowledged: exactly once. Unanswered: at most once. Refused: never. Dropping the queue may
/// take some away.
fn messages_kept(ledger: &Ledger, history: &[Message]) -> Vec<String> {
    let mut problems = Vec::new();
    let drops: Vec<&crate::workload::ledger::Cancel> = ledger
        .cancels
        .iter()
        .filter(|cancel| cancel.drops_queue)
        .collect();
    for sent in &ledger.messages {
        let (count, label) = (occurrences(history, &sent.plan.text()), &sent.plan.label);
        let may_be_dropped = drops.iter().any(|drop| match drop.attempt.outcome {
            Outcome::Taken { at } => at > sent.first_sent(),
            Outcome::Unknown => true,
            Outcome::Refused => false,
        });
        let is_right = match sent.outcome() {
            Outcome::Taken { .. } => count == 1 || (count == 0 && may_be_dropped),
            Outcome::Unknown => count <= 1,
            Outcome::Refused => count == 0,
        };
        if !is_right {
            problems.push(format!(
                "{label} was {:?} and is in the history {count} times",
                sent.outcome()
            ));
        }
    }
    problems
}

/// A message that was sent after another was acknowledged is taken up after it.
fn order_kept(ledger: &Ledger, history: &[Message]) -> Vec<String> {
    let places: BTreeMap<&str, usize> = history
        .iter()
        .enumerate()
        // An answer does not wait behind other messages.
        .filter(|(_, message)| message.role == Role::User && message.answers.is_none())
        .map(|(place, message)| (message.content.as_str(), place))
        .collect();
    let placed: Vec<(usize, &crate::workload::ledger::Sent)> = ledger
        .messages
        .iter()
        .filter_map(|sent| {
            places
                .get(sent.plan.text().as_str())
                .map(|place| (*place, sent))
        })
        .collect();
    let mut problems = Vec::new();
    for (place, sent) in &placed {
        let Outcome::Taken { at } = sent.outcome() else {
            continue;
        };
        for (other_place, other) in &placed {
            if other.first_sent() > at && other_place < place {
                problems.push(format!(
                    "{} came before {}, which was first",
                    other.plan.label, sent.plan.label
                ));
            }
        }
    }
    problems
}

/// Every turn of the history was completed or cancelled, and the events say so just as often.
fn every_turn_ended(ledger: &Ledger, found: &Found, turns: &[TurnFound<'_>]) -> Vec<String> {
    let mut problems = Vec::new();
    let bodies = || found.events.iter().map(|(_, chunk)| &chunk.body);
    let completions = bodies()
        .filter(|body| matches!(body, ChunkBody::Completion(_)))
        .count();
    let complete = turns.iter().filter(|turn| turn.is_complete).count();
    if completions != complete {
        problems.push(format!(
            "{complete} turns have their last answer, {completions} were completed"
        ));
    }
    let mut errors: BTreeMap<&str, usize> = BTreeMap::new();
    for body in bodies() {
        if let ChunkBody::Error(error) = body {
            *errors.entry(error.error_code.as_str()).or_default() += 1;
        }
    }
    let cancelled = errors
        .remove(ErrorCode::Cancelled.as_str())
        .unwrap_or_default();
    let incomplete = turns.len() - complete;
    let lost = |outcome: Outcome| {
        let gone = ledger
            .messages
            .iter()
            .filter(|sent| occurrences(&found.history, &sent.plan.text()) == 0);
        gone.filter(|sent| {
            sent.outcome() == outcome || (outcome.is_taken() && sent.outcome().is_taken())
        })
        .count()
    };
    let dropped = cancelled.checked_sub(incomplete);
    let (acknowledged, unanswered) = (lost(Outcome::Taken { at: 0 }), lost(Outcome::Unknown));
    if dropped.is_none_or(|dropped| dropped < acknowledged || dropped > acknowledged + unanswered) {
        problems.push(format!(
            "{cancelled} turns were cancelled; {incomplete} are cut off in the history, and {acknowledged} \
             acknowledged and {unanswered} unanswered messages are not there"
        ));
    }
    let cancels = |had_turn: bool| {
        let taken = |cancel: &&crate::workload::ledger::Cancel| {
            cancel.attempt.outcome.is_taken() && cancel.had_turn
        };
        let possible = |cancel: &&crate::workload::ledger::Cancel| {
            cancel.attempt.outcome == Outcome::Unknown && !had_turn
        };
        ledger
            .cancels
            .iter()
            .filter(|cancel| taken(cancel) || possible(cancel))
            .count()
    };
    if incomplete < cancels(true) || incomplete > cancels(false) {
        let (least, most) = (cancels(true), cancels(false));
        problems.push(format!(
            "{incomplete} turns are cut off, but {least} to {most} were cancelled"
        ));
    }
    problems.extend(refusals_told(errors, turns));
    problems
}

/// An error that was shown was also told to the model as the result of its call, and there is no
/// other error.
fn refusals_told(mut shown: BTreeMap<&str, usize>, turns: &[TurnFound<'_>]) -> Vec<String> {
    let mut told: BTreeMap<&str, BTreeSet<(usize, usize)>> = BTreeMap::new();
    for (number, turn) in turns.iter().enumerate() {
        for call in &turn.calls {
            if let Some(code) = call.refused_with() {
                told.entry(code)
                    .or_default()
                    .insert((number, call.step_index));
            }
        }
    }
    let mut problems = Vec::new();
    for (code, places) in told {
        let count = shown.remove(code).unwrap_or_default();
        if count != places.len() {
            problems.push(format!(
                "{code} was shown {count} times and told {} times",
                places.len()
            ));
        }
    }
    problems.extend(
        shown
            .into_iter()
            .map(|(code, count)| format!("{count} turns met the error {code}")),
    );
    problems
}

/// Each answer with a text is one event, under its message's id.
fn answers_shown_once(found: &Found) -> Vec<String> {
    let mut shown: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (_, chunk) in &found.events {
        if let ChunkBody::AssistantMessage(answer) = &chunk.body {
            shown
                .entry(answer.message_id.as_str())
                .or_default()
                .push(&answer.content);
        }
    }
    let mut problems = Vec::new();
    for message in found
        .history
        .iter()
        .filter(|message| message.role == Role::Assistant)
    {
        let texts = shown
            .remove(message.message_id.as_str())
            .unwrap_or_default();
        let is_finish = message.content.starts_with("Finished ");
        let expected = usize::from(!message.content.is_empty() && !is_finish);
        if texts.len() != expected || texts.iter().any(|text| *text != message.content) {
            problems.push(format!(
                "the answer {:?} was shown as {texts:?}",
                message.content
            ));
        }
    }
    problems.extend(
        shown
            .into_values()
            .map(|texts| format!("{texts:?} was shown and is not in the history")),
    );
    problems
}

/// The log of switches is a chain, the events show the same, and the session stands where it was
/// sent last.
fn switches_kept(ledger: &Ledger, found: &Found) -> Vec<String> {
    let mut problems = Vec::new();
    let shown: Vec<(&str, &str)> = found
        .events
        .iter()
        .filter_map(|(_, chunk)| match &chunk.body {
            ChunkBody::SwitchAgent(switch) => {
                Some((switch.from_agent.as_str(), switch.to_agent.as_str()))
            }
            _ => None,
        })
        .collect();
    let stored: Vec<(&str, &str)> = found
        .switches
        .iter()
        .map(|switch| (switch.from_agent.as_str(), switch.to_agent.as_str()))
        .collect();
    if shown != stored {
        problems.push(format!(
            "the switches are {stored:?}, the events show {shown:?}"
        ));
    }
    let mut current = "orchestrator";
    for (from, to) in stored {
        if from != current {
            problems.push(format!("a switch leaves {from}, but {current} was active"));
        }
        current = to;
    }
    if found.current_agent.as_str() != current {
        problems.push(format!(
            "{} is active, the last switch was to {current}",
            found.current_agent
        ));
    }
    if ledger
        .home()
        .is_some_and(|home| home != found.current_agent)
    {
        problems.push(format!(
            "{} is active, {:?} was asked for",
            found.current_agent,
            ledger.home()
        ));
    }
    problems
}
