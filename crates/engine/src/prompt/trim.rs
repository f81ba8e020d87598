//! What of the past is sent, within its bounds: the newest messages, and of those that do not all
//! fit the last one, then the pinned ones, then the newest. Long messages lose their middle before
//! whole messages are left out.
//!
//! A tool call and its results are one unit: kept or left out together.
//!
//! Messages are trimmed in jumps: more is cut than must be, and the cut stays where it is while what
//! was said since then fits. So two turns in a row begin with the same messages, which a model's
//! server has read already.

use std::collections::BTreeMap;

use codelab_protocol::{CallId, Message, Role, Tool};
use serde_json::{Map, Value};

use super::PromptLimits;
use super::attached::{are_too_large, file_chars, without_files};
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
/// Messages that do not fit are cut down to this part of the bound. The rest is room for the next
/// turns.
const CUT_TO_PERCENT: usize = 75;
/// `{}`
const NO_ARGUMENTS_CHARS: usize = 2;

/// The same for both forms, apart from what a form adds to each message.
pub(super) fn select(earlier: &[Message], limits: &PromptLimits, form: Form) -> Selection {
    let mut candidates: Vec<Candidate> = window(earlier, limits.messages)
        .into_iter()
        .map(|message| Candidate::new(message, limits, form))
        .collect();
    let budget = chars_of_tokens(limits.tokens);
    let kept = match form {
        Form::Messages => trim_in_jumps(&mut candidates, limits.messages, budget),
        // A prompt with the history in it is a new one each turn anyway.
        Form::Text => trim(&mut candidates, limits.messages, budget),
    };
    let chosen = kept.iter().map(|place| &candidates[*place]);
    let total: usize = chosen.clone().map(Candidate::size).sum();
    Selection {
        shortened: chosen
            .clone()
            .filter(|candidate| candidate.shortened)
            .count(),
        tokens: estimated_tokens(total),
        messages: chosen.map(|candidate| candidate.message.clone()).collect(),
    }
}

/// What was said up to the last cut is trimmed as it was then. What was said since is sent whole.
fn trim_in_jumps(candidates: &mut [Candidate], max_messages: usize, budget: usize) -> Vec<usize> {
    let mut cut = last_cut(candidates, max_messages, budget);
    let answers = |late: &Candidate, earlier: &[Candidate]| {
        let call = late.message.tool_call_id.as_ref();
        call.is_some_and(|call| earlier.iter().any(|asked| asks(&asked.message, call)))
    };
    // A late result stays with its call, so both are trimmed together.
    let (before, since) = candidates.split_at(cut);
    if since.iter().any(|late| answers(late, before)) {
        cut = candidates.len();
    }
    let mut kept = trim(&mut candidates[..cut], max_messages, cut_to(budget));
    for place in cut..candidates.len() {
        let message = &candidates[place].message;
        let call = message
            .tool_call_id
            .as_ref()
            .filter(|_| message.role == Role::Tool);
        let is_asked = |call_id| {
            let mut sent = kept.iter().map(|place| &candidates[*place].message);
            sent.any(|message| asks(message, call_id))
        };
        if call.is_none_or(is_asked) {
            kept.push(place);
        }
    }
    kept
}

/// The place of the last cut: the end of the turn at which the messages did not fit any more. Goes
/// through the turns as they came, so the result depends on the history alone. A cut counts with
/// all that it may leave.
fn last_cut(candidates: &[Candidate], max_messages: usize, budget: usize) -> usize {
    // The results of one call alone are too many messages.
    if candidates.len() > max_messages {
        return candidates.len();
    }
    let (mut cut, mut used) = (0, 0);
    for end in 1..=candidates.len() {
        used += candidates[end - 1].size();
        let next = candidates.get(end).map(|next| &next.message);
        if used > budget && next.is_none_or(begins_turn) {
            (cut, used) = (end, cut_to(budget));
        }
    }
    cut
}

fn cut_to(budget: usize) -> usize {
    budget / 100 * CUT_TO_PERCENT + budget % 100 * CUT_TO_PERCENT / 100
}

fn begins_turn(message: &Message) -> bool {
    message.role == Role::User && message.answers.is_none() && !message.steered
}

/// The places of the messages that fit, shortened where that is needed.
fn trim(candidates: &mut [Candidate], max_messages: usize, budget: usize) -> Vec<usize> {
    let kept = kept_places(candidates, max_messages, budget);
    give_room(candidates, &kept, budget);
    kept
}

/// The size of messages as they are.
pub(super) fn tokens_of(messages: &[Message]) -> usize {
    let of =
        |message: &Message| chars(&message.content) + calls_chars(message) + file_chars(message);
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
    if max_messages == 0 {
        return Vec::new();
    }
    // Notices count too: the window would begin elsewhere as soon as one is settled.
    let newest = earlier.len().saturating_sub(max_messages);
    // The last message is kept even if its call has more results than there is room for messages.
    let last_call = earlier
        .last()
        .and_then(|message| message.tool_call_id.as_ref());
    let asked =
        last_call.and_then(|call_id| earlier.iter().rposition(|message| asks(message, call_id)));
    let window = earlier.iter().enumerate();
    window
        .skip(newest.min(asked.unwrap_or(newest)))
        .filter(|(place, message)| is_relevant(*place, message))
        .map(|(_, message)| message)
        .collect()
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
            Some(_) | None => {
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
            Rank::FirstRequest | Rank::Pinned | Rank::Other => {
                needed <= room && unit.places.len() <= messages
            }
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
        // A line of text shows no files.
        if form == Form::Text || are_too_large(&message, chars_of_tokens(limits.tokens)) {
            message = without_files(message);
        }
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
        let fixed = line_chars * (1 + calls)
            + names
            + NO_ARGUMENTS_CHARS * calls
            + tool.map_or(0, chars)
            + file_chars(&message);
        let flexible = flexible_chars(&message);
        Self {
            message,
            shortened,
            fixed,
            flexible,
        }
    }

    fn size(&self) -> usize {
        self.fixed + self.flexible
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
