//! What of the past is sent, within its bounds: the newest messages, and of those that do not all
//! fit the last one, then the pinned ones, then the newest. Long messages lose their middle before
//! whole messages are left out.
//!
//! A tool call and its results are one unit: kept or left out together.

use std::collections::BTreeMap;

use codelab_protocol::{CallId, Message, Role, Tool};
use serde_json::{Map, Value};

use super::PromptLimits;
use super::size::{chars, chars_of_tokens, estimated_tokens, fair_bound, shorten};
use crate::turn::{REFUSED, decision_in};

/// How the past is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// As messages of the request.
    Messages,
    /// As a text in the prompt; a line for each message.
    Text,
}

/// The messages that are sent, oldest first.
pub(super) struct Selection {
    pub messages: Vec<Message>,
    /// How many of them lost something.
    pub shortened: usize,
    pub tokens: usize,
}

/// A message on its way into the selection.
struct Candidate {
    message: Message,
    shortened: bool,
    /// Characters that it takes however short it is made.
    fixed: usize,
    /// Characters that can be left out.
    flexible: usize,
}

/// Messages that only make sense together, by their places.
struct Unit {
    places: Vec<usize>,
    rank: Rank,
}

/// Who is kept first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Last,
    /// The oldest request that is within the bound of messages.
    FirstRequest,
    /// A decision of a person, or an error.
    Pinned,
    Other,
}

/// What a line of the text has besides names, arguments and content: time, role, punctuation.
const LINE_CHARS: usize = 32;
/// What a line tells of a tool's result and of its arguments.
const TOOL_RESULT_CHARS: usize = 600;
const TOOL_ARGUMENTS_CHARS: usize = 200;
/// A message is not cut below a part of the bound, nor below what can be understood; rather one is
/// left out.
const LEAST_PART: usize = 16;
const LEAST_CHARS: usize = 200;
/// Arguments whose texts would be shorter are left out.
const LEAST_ARGUMENT_CHARS: usize = 16;
/// `{}`
const NO_ARGUMENTS_CHARS: usize = 2;

/// The same for both forms, apart from what a form adds to each message.
pub(super) fn select(earlier: &[Message], limits: &PromptLimits, form: Form) -> Selection {
    let mut candidates: Vec<Candidate> = window(earlier, limits.messages)
        .into_iter()
        .map(|message| Candidate::new(message, limits, form))
        .collect();
    let budget = chars_of_tokens(limits.tokens);
    let kept = kept_places(&candidates, limits.messages, budget);
    give_room(&mut candidates, &kept, budget);
    let chosen = kept.iter().map(|place| &candidates[*place]);
    let total: usize = chosen
        .clone()
        .map(|candidate| candidate.fixed + candidate.flexible)
        .sum();
    Selection {
        shortened: chosen
            .clone()
            .filter(|candidate| candidate.shortened)
            .count(),
        tokens: estimated_tokens(total),
        messages: chosen.map(|candidate| candidate.message.clone()).collect(),
    }
}

/// The size of messages as they are.
pub(super) fn tokens_of(messages: &[Message]) -> usize {
    let of = |message: &Message| chars(&message.content) + calls_chars(message);
    estimated_tokens(messages.iter().map(of).sum())
}

/// The newest messages that say something now. A notice of the system does so until a user speaks
/// again; then it is settled, unless it reports an error.
fn window(earlier: &[Message], max_messages: usize) -> Vec<&Message> {
    let spoke = earlier
        .iter()
        .rposition(|message| message.role == Role::User);
    let is_relevant = |place: usize, message: &Message| {
        message.role != Role::System || message.error || spoke.is_none_or(|spoke| place > spoke)
    };
    let relevant: Vec<&Message> = earlier
        .iter()
        .enumerate()
        .filter(|(place, message)| is_relevant(*place, message))
        .map(|(_, message)| message)
        .collect();
    if max_messages == 0 {
        return Vec::new();
    }
    let newest = relevant.len().saturating_sub(max_messages);
    // The last message is kept even if its call has more results than there is room for messages.
    let last_call = relevant
        .last()
        .and_then(|message| message.tool_call_id.as_ref());
    let asked =
        last_call.and_then(|call_id| relevant.iter().rposition(|message| asks(message, call_id)));
    relevant[newest.min(asked.unwrap_or(newest))..].to_vec()
}

fn asks(message: &Message, call_id: &CallId) -> bool {
    message
        .tool_calls
        .iter()
        .any(|call| call.call_id == *call_id)
}

/// A result whose call is not there belongs to no unit.
fn units(candidates: &[Candidate]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut unit_of_call: BTreeMap<&CallId, usize> = BTreeMap::new();
    let first_request = candidates
        .iter()
        .position(|candidate| candidate.message.role == Role::User);
    for (place, Candidate { message, .. }) in candidates.iter().enumerate() {
        let rank = if place + 1 == candidates.len() {
            Rank::Last
        } else if first_request == Some(place) {
            Rank::FirstRequest
        } else if is_decision(message) || is_error(message) {
            Rank::Pinned
        } else {
            Rank::Other
        };
        match &message.tool_call_id {
            Some(call_id) if message.role == Role::Tool => {
                if let Some(unit) = unit_of_call
                    .get(call_id)
                    .and_then(|unit| units.get_mut(*unit))
                {
                    unit.places.push(place);
                    unit.rank = unit.rank.min(rank);
                }
            }
            _ => {
                unit_of_call.extend(
                    message
                        .tool_calls
                        .iter()
                        .map(|call| (&call.call_id, units.len())),
                );
                units.push(Unit {
                    places: vec![place],
                    rank,
                });
            }
        }
    }
    units
}

/// What a person answered, refused or changed.
fn is_decision(message: &Message) -> bool {
    let is_answer = message.name.as_deref() == Some(Tool::AskFollowupQuestion.as_str());
    message.role == Role::Tool && is_answer || decision_in(message).is_some()
}

fn is_error(message: &Message) -> bool {
    let has_failed =
        || message.content.starts_with('{') && message.content.contains("\"success\":false");
    message.error
        || (message.role == Role::Tool && (message.content.starts_with(REFUSED) || has_failed()))
}

/// Which messages are sent, whatever they are shortened to.
fn kept_places(candidates: &[Candidate], max_messages: usize, budget: usize) -> Vec<usize> {
    let mut units = units(candidates);
    units.reverse();
    // Newest first within a rank.
    units.sort_by_key(|unit| unit.rank);
    let least = (budget / LEAST_PART).max(LEAST_CHARS);
    let mut kept = Vec::new();
    let (mut room, mut messages) = (budget, max_messages);
    for unit in &units {
        let needs =
            |place: &usize| candidates[*place].fixed + candidates[*place].flexible.min(least);
        let needed: usize = unit.places.iter().map(needs).sum();
        let fixed: usize = unit
            .places
            .iter()
            .map(|place| candidates[*place].fixed)
            .sum();
        let fits = match unit.rank {
            // Whatever is left of it, it is not empty.
            Rank::Last => fixed < room,
            _ => needed <= room && unit.places.len() <= messages,
        };
        match (fits, unit.rank) {
            (true, _) => kept.extend(&unit.places),
            (false, Rank::FirstRequest | Rank::Pinned) => continue,
            // An older one that fits would stand for what was said after it.
            (false, Rank::Last | Rank::Other) => break,
        }
        room = room.saturating_sub(needed);
        messages = messages.saturating_sub(unit.places.len());
    }
    kept.sort_unstable();
    kept
}

/// Half of the room is for the last message if it needs it; the others share the rest, the long
/// ones equally.
fn give_room(candidates: &mut [Candidate], kept: &[usize], budget: usize) {
    let Some((last, others)) = kept.split_last() else {
        return;
    };
    let fixed: usize = kept.iter().map(|place| candidates[*place].fixed).sum();
    let room = budget.saturating_sub(fixed);
    let reserved = candidates[*last].flexible.min(room / 2);
    let bound = fair_bound(
        others.iter().map(|place| candidates[*place].flexible),
        room - reserved,
    );
    let mut used = 0;
    for place in others {
        candidates[*place].shorten_to(bound);
        used += candidates[*place].flexible;
    }
    candidates[*last].shorten_to(room.saturating_sub(used));
}

impl Candidate {
    fn new(message: &Message, limits: &PromptLimits, form: Form) -> Self {
        let mut message = super::for_prompts(message, limits);
        let line_chars = match form {
            Form::Messages => 0,
            Form::Text => LINE_CHARS,
        };
        let mut shortened = false;
        if form == Form::Text {
            let size = chars(&message.content) + calls_chars(&message);
            if message.role == Role::Tool {
                message.content = shorten(&message.content, TOOL_RESULT_CHARS);
            }
            for call in &mut message.tool_calls {
                shorten_arguments(&mut call.arguments, TOOL_ARGUMENTS_CHARS);
            }
            shortened = chars(&message.content) + calls_chars(&message) < size;
            message.content = super::history::indented(&message.content);
        }
        let calls = message.tool_calls.len();
        let names: usize = message
            .tool_calls
            .iter()
            .map(|call| chars(&call.name))
            .sum();
        let tool = message
            .name
            .as_deref()
            .filter(|_| form == Form::Text && message.role == Role::Tool);
        let fixed =
            line_chars * (1 + calls) + names + NO_ARGUMENTS_CHARS * calls + tool.map_or(0, chars);
        let flexible = flexible_chars(&message);
        Self {
            message,
            shortened,
            fixed,
            flexible,
        }
    }

    fn shorten_to(&mut self, max_chars: usize) {
        if self.flexible <= max_chars {
            return;
        }
        let content = chars(&self.message.content);
        let for_content =
            content.min((max_chars / 2).max(max_chars.saturating_sub(self.flexible - content)));
        self.message.content = shorten(&self.message.content, for_content);
        let for_calls = max_chars - chars(&self.message.content);
        let size = |arguments: &Map<String, Value>| {
            json_chars(arguments).saturating_sub(NO_ARGUMENTS_CHARS)
        };
        let bound = fair_bound(
            self.message
                .tool_calls
                .iter()
                .map(|call| size(&call.arguments)),
            for_calls,
        );
        for call in &mut self.message.tool_calls {
            shorten_arguments(
                &mut call.arguments,
                bound.saturating_add(NO_ARGUMENTS_CHARS),
            );
        }
        self.flexible = flexible_chars(&self.message);
        self.shortened = true;
    }
}

fn flexible_chars(message: &Message) -> usize {
    let arguments = message
        .tool_calls
        .iter()
        .map(|call| json_chars(&call.arguments) - NO_ARGUMENTS_CHARS);
    chars(&message.content) + arguments.sum::<usize>()
}

fn calls_chars(message: &Message) -> usize {
    message
        .tool_calls
        .iter()
        .map(|call| chars(&call.name) + json_chars(&call.arguments))
        .sum()
}

fn json_chars(arguments: &Map<String, Value>) -> usize {
    // A map of JSON values can always be written.
    serde_json::to_string(arguments)
        .map_or(0, |text| chars(&text))
        .max(NO_ARGUMENTS_CHARS)
}

/// Its texts lose their middles; where that is not enough there are no arguments.
fn shorten_arguments(arguments: &mut Map<String, Value>, max_chars: usize) {
    let mut longest = max_chars;
    while json_chars(arguments) > max_chars {
        if longest < LEAST_ARGUMENT_CHARS {
            arguments.clear();
            return;
        }
        arguments
            .values_mut()
            .for_each(|value| shorten_texts(value, longest));
        longest /= 2;
    }
}

fn shorten_texts(value: &mut Value, max_chars: usize) {
    match value {
        Value::String(text) => *text = shorten(text, max_chars),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| shorten_texts(item, max_chars)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| shorten_texts(field, max_chars)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
