//! Reads a request for the demonstration model. It looks for simple marks and understands nothing.

use codelab_protocol::{ModelMessage, ModelRequest};
use serde_json::Value;

use super::texts::{ROUTING_DEFAULT, ROUTING_WORDS};

const MAX_SHOWN_CHARS: usize = 400;
const MAX_SHOWN_FILES: usize = 10;
const PLAN_SCHEMA: &str = "plan";
/// The prefix of the results of a plan's tasks.
const RESULTS: &str = "Results:\n\n";

/// The kind of answer that a request wants.
pub enum RequestKind {
    Classify,
    Plan,
    /// A summary of these results of a plan's tasks.
    Join(String),
    /// The tool of this turn has returned.
    Summary(ToolOutcome),
    /// The person has answered.
    Answered(String),
    Step,
}

pub enum ToolOutcome {
    Done(String),
    Rejected,
    Failed(String),
}

pub fn what_is_asked(request: &ModelRequest) -> RequestKind {
    if request
        .schema
        .as_ref()
        .is_some_and(|schema| schema.name == PLAN_SCHEMA)
    {
        return RequestKind::Plan;
    }
    let said = last_user_text(request);
    if request.tools.is_empty() && said.contains("\"agent\"") && said.contains("\"confidence\"") {
        return RequestKind::Classify;
    }
    if let Some(results) = said
        .strip_prefix(RESULTS)
        .filter(|_| request.tools.is_empty())
    {
        return RequestKind::Join(results.to_owned());
    }
    let this_turn = request
        .messages
        .iter()
        .rev()
        .take_while(|message| !matches!(message, ModelMessage::User { .. }));
    let result = this_turn.into_iter().find_map(|message| match message {
        ModelMessage::Tool { content, .. } => Some(content),
        _ => None,
    });
    match result {
        Some(answer) if asked_a_question(request) => {
            RequestKind::Answered(answer.chars().take(MAX_SHOWN_CHARS).collect())
        }
        Some(content) => RequestKind::Summary(tool_outcome(content)),
        None => RequestKind::Step,
    }
}

/// Whether the last tool call was a question to the person.
fn asked_a_question(request: &ModelRequest) -> bool {
    let last = request
        .messages
        .iter()
        .rev()
        .find_map(|message| match message {
            ModelMessage::Assistant { tool_calls, .. } => tool_calls.last(),
            _ => None,
        });
    last.is_some_and(|call| call.name == "ask_followup_question")
}

pub fn last_user_text(request: &ModelRequest) -> &str {
    let said = request
        .messages
        .iter()
        .rev()
        .find(|message| matches!(message, ModelMessage::User { .. }));
    said.map_or("", content)
}

pub fn content(message: &ModelMessage) -> &str {
    match message {
        ModelMessage::System { content }
        | ModelMessage::User { content, .. }
        | ModelMessage::Assistant { content, .. }
        | ModelMessage::Tool { content, .. } => content,
    }
}

/// The agents listed in the system message, otherwise in any message. Each stands on a line
/// `- name: what it does`.
pub fn listed_agents(request: &ModelRequest) -> Vec<String> {
    let in_system = request
        .messages
        .iter()
        .filter(|message| matches!(message, ModelMessage::System { .. }));
    let named: Vec<String> = in_system
        .flat_map(|message| listed_names(content(message)))
        .collect();
    if named.is_empty() {
        request
            .messages
            .iter()
            .flat_map(|message| listed_names(content(message)))
            .collect()
    } else {
        named
    }
}

/// The listed agent with the most keywords in the request.
pub fn fitting_agent(prompt: &str) -> String {
    let listed = listed_names(prompt);
    let request = request_in(prompt).to_lowercase();
    let allowed = |agent: &str| listed.is_empty() || listed.iter().any(|name| name == agent);
    let scored = ROUTING_WORDS
        .iter()
        .filter(|(agent, _)| allowed(agent))
        .map(|(agent, words)| {
            let score = words.iter().filter(|word| request.contains(**word)).count();
            (score, *agent)
        });
    // On a tie the earlier row of the table wins.
    let best = scored.fold((0, None), |best, (score, agent)| {
        if score > best.0 {
            (score, Some(agent))
        } else {
            best
        }
    });
    let fallback = || {
        if allowed(ROUTING_DEFAULT) {
            ROUTING_DEFAULT.to_owned()
        } else {
            listed[0].clone()
        }
    };
    best.1.map_or_else(fallback, str::to_owned)
}

/// The user's text inside a classification prompt. The list of agents is left out, because it holds
/// the keywords of all agents.
fn request_in(prompt: &str) -> String {
    // The first letter is left out, so that both spellings match.
    const MARK: &str = "equest:";
    let rest = prompt.split_once(MARK).map_or(prompt, |(_, rest)| rest);
    let lines = rest
        .lines()
        .filter(|line| !line.trim_start().starts_with("- ") && !line.contains("\"confidence\""));
    lines.collect::<Vec<_>>().join("\n")
}

fn listed_names(text: &str) -> Vec<String> {
    text.lines().filter_map(listed_name).collect()
}

fn listed_name(line: &str) -> Option<String> {
    let item = line
        .trim_start()
        .strip_prefix("- ")?
        .trim_start_matches(['*', '`']);
    let end = item
        .find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
        .unwrap_or(item.len());
    let (name, rest) = item.split_at(end);
    let rest = rest.trim_start_matches(['*', '`']);
    let closed = rest.is_empty() || rest.starts_with([':', ' ']);
    // Sentences in a list begin with a word too, so only `name:` or a name alone counts.
    let is_name = closed
        && (rest.trim().is_empty() || rest.trim_start().starts_with([':', '(', '-', '–', '—']));
    (!name.is_empty() && is_name).then(|| name.to_owned())
}

fn tool_outcome(content: &str) -> ToolOutcome {
    let result: Value = serde_json::from_str(content).unwrap_or(Value::Null);
    if result["success"] == Value::Bool(true) {
        return ToolOutcome::Done(shown_files(&result));
    }
    let lower = content.to_lowercase();
    if lower.contains("reject") {
        return ToolOutcome::Rejected;
    }
    let failed = result["success"] == Value::Bool(false)
        || result.get("error").is_some_and(|error| !error.is_null());
    let shown = content.chars().take(MAX_SHOWN_CHARS).collect();
    if failed {
        ToolOutcome::Failed(shown)
    } else {
        ToolOutcome::Done(shown)
    }
}

fn shown_files(result: &Value) -> String {
    let files = result["files"].as_array().map_or(&[][..], Vec::as_slice);
    let lines: Vec<String> = files
        .iter()
        .filter_map(|file| file["path"].as_str())
        .take(MAX_SHOWN_FILES)
        .map(|path| format!("- `{path}`"))
        .collect();
    let more = files.len().saturating_sub(MAX_SHOWN_FILES);
    let tail = if more > 0 {
        format!("\n- … +{more}")
    } else {
        String::new()
    };
    lines.join("\n") + &tail
}
