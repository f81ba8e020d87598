//! The past as a text: `[HH:MM] Role: content`, a line for each author's words.

use std::collections::BTreeMap;

use codelab_protocol::{AgentName, CallId, Message, Role, ToolCall};

use super::region::Region;

/// Lines after a message's first are moved in, so that nobody's words can look like another
/// message.
const INDENT: &str = "\n  ";
/// Everything that is shown as, or taken for, the end of a line.
const LINE_ENDS: [char; 7] = [
    '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}',
];

/// Whose words a line holds; a tool's results are never joined.
type Author<'a> = (Role, Option<&'a AgentName>);

/// Messages whose contents are indented already; each call before its results.
pub(super) fn history_text(messages: &[&Message], region: &Region) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut last_author: Option<Author<'_>> = None;
    let mut open: BTreeMap<&CallId, &ToolCall> = BTreeMap::new();
    for (place, message) in messages.iter().enumerate() {
        if message.role == Role::Tool {
            let call = message
                .tool_call_id
                .as_ref()
                .and_then(|call_id| open.remove(call_id));
            let tool = call.map_or_else(
                || one_line(message.name.as_deref().unwrap_or_default()),
                call_words,
            );
            lines.push(line(
                Role::Tool,
                message,
                region,
                &format!("{tool} → {}", message.content),
            ));
            last_author = None;
            continue;
        }
        let author = (message.role, message.agent_id.as_ref());
        match lines.last_mut() {
            _ if message.content.trim().is_empty() => {}
            Some(line) if last_author == Some(author) => {
                line.extend([INDENT, message.content.as_str()])
            }
            _ => {
                lines.push(line(message.role, message, region, &message.content));
                last_author = Some(author);
            }
        }
        for call in &message.tool_calls {
            if messages[place..]
                .iter()
                .any(|later| later.tool_call_id.as_ref() == Some(&call.call_id))
            {
                open.insert(&call.call_id, call);
            } else {
                lines.push(line(Role::Tool, message, region, &call_words(call)));
                last_author = None;
            }
        }
    }
    match lines.is_empty() {
        true => region.locale.empty_history().to_owned(),
        false => lines.join("\n"),
    }
}

pub(super) fn indented(content: &str) -> String {
    content
        .trim()
        .replace("\r\n", "\n")
        .split(LINE_ENDS)
        .collect::<Vec<_>>()
        .join(INDENT)
}

fn line(role: Role, at: &Message, region: &Region, words: &str) -> String {
    format!(
        "[{}] {}: {words}",
        region.zone.clock(at.timestamp),
        region.locale.role(role)
    )
}

fn call_words(call: &ToolCall) -> String {
    match call.arguments.is_empty() {
        true => one_line(&call.name),
        false => one_line(&format!(
            "{} {}",
            call.name,
            serde_json::Value::Object(call.arguments.clone())
        )),
    }
}

fn one_line(text: &str) -> String {
    text.replace(LINE_ENDS, " ")
}
