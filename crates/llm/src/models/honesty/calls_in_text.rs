//! Tool calls that a model wrote as text. This happens when a server does not know the model's own
//! format for tool calls.

use codelab_protocol::{ModelOutput, RawToolCall};
use serde_json::Value;

/// What encloses calls in the formats of common models: Hermes and Qwen, Mistral, Llama.
const ENCLOSURES: &[(&str, &str)] = &[
    ("<tool_call>", "</tool_call>"),
    ("[TOOL_CALLS]", ""),
    ("<|python_tag|>", ""),
    ("<function_call>", "</function_call>"),
];
const FENCE: &str = "```";
const FENCES: &[&str] = &["```json", "```tool_call", FENCE];
/// More calls in one text are not repaired.
const MAX_CALLS: usize = 16;
const REPAIRED: &str = "The model wrote a tool call as text. CodeLab read it as a tool call. The \
    model server may lack the tool format of this model.";
const NOT_REPAIRED: &str = "The answer looks like a tool call that the model wrote as text, but it \
    cannot be read as one. The model server may lack the tool format of this model.";

/// Turns text into tool calls where nothing else can be meant: calls of offered tools, in the
/// enclosure of a known format or as the whole answer.
pub fn repair(output: &mut ModelOutput, is_tool: impl Fn(&str) -> bool) {
    let text = output.text.trim();
    let enclosed = ENCLOSURES
        .iter()
        .filter_map(|(open, close)| Some((text.find(open)?, *open, *close)))
        .min_by_key(|(at, _, _)| *at);
    let found = match enclosed {
        Some((at, open, close)) => {
            enclosed_calls(&text[at..], open, close, &is_tool).map(|calls| (at, calls))
        }
        None => match calls_of(unfenced(text), &is_tool) {
            Some(calls) => Some((0, calls)),
            None => return,
        },
    };
    match found {
        Some((before, calls)) => {
            output.text = text[..before].trim_end().to_owned();
            output.tool_calls = calls;
            output.warnings.push(REPAIRED.to_owned());
        }
        None if enclosed.is_some_and(|found| is_attempt(text, found, &is_tool)) => {
            output.warnings.push(NOT_REPAIRED.to_owned());
        }
        None => {}
    }
}

/// Whether the enclosure was meant as a call. Text about a format mentions it within a sentence or
/// shows it as code; a call begins a line, has JSON or a tool's name inside, and ends the answer.
fn is_attempt(
    text: &str,
    (at, open, close): (usize, &str, &str),
    is_tool: &impl Fn(&str) -> bool,
) -> bool {
    let before = &text[..at];
    let begins_a_line = before.is_empty() || before.ends_with('\n');
    let is_code = before.matches(FENCE).count() % 2 == 1;
    let inner = text[at + open.len()..].trim_start();
    let name = inner.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
    let is_named = name.into_iter().next().is_some_and(is_tool);
    begins_a_line
        && !is_code
        && (inner.starts_with(['{', '[']) || is_named)
        && text.ends_with(close)
}

/// All of `text` must be enclosed calls, one after another.
fn enclosed_calls(
    text: &str,
    open: &str,
    close: &str,
    is_tool: &impl Fn(&str) -> bool,
) -> Option<Vec<RawToolCall>> {
    let mut calls = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let inner = rest.strip_prefix(open)?;
        let end = match close {
            "" => inner.len(),
            close => inner.find(close)?,
        };
        calls.extend(calls_of(inner[..end].trim(), is_tool)?);
        if calls.len() > MAX_CALLS {
            return None;
        }
        rest = inner[end..].strip_prefix(close)?.trim_start();
    }
    Some(calls)
}

/// One call, or a list of them.
fn calls_of(text: &str, is_tool: &impl Fn(&str) -> bool) -> Option<Vec<RawToolCall>> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let calls = match serde_json::from_str(text).ok()? {
        Value::Array(calls) => calls,
        call => vec![call],
    };
    let calls: Option<Vec<_>> = calls
        .into_iter()
        .map(|call| call_of(call, is_tool))
        .collect();
    calls.filter(|calls| !calls.is_empty() && calls.len() <= MAX_CALLS)
}

/// An object with the name of a tool, its arguments, and nothing that a person could have meant.
fn call_of(call: Value, is_tool: &impl Fn(&str) -> bool) -> Option<RawToolCall> {
    const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];
    const OTHERS: [&str; 3] = ["name", "id", "type"];
    let Value::Object(mut fields) = call else {
        return None;
    };
    if let Some(Value::Object(function)) = fields.remove("function") {
        fields.extend(function);
    }
    let is_expected =
        |name: &String| ARGUMENTS.contains(&name.as_str()) || OTHERS.contains(&name.as_str());
    if !fields.keys().all(is_expected) {
        return None;
    }
    let name = fields.get("name")?.as_str().filter(|name| is_tool(name))?;
    let arguments = ARGUMENTS.iter().find_map(|name| fields.get(*name))?;
    let arguments = match arguments {
        Value::Object(_) => arguments.to_string(),
        Value::String(text) => {
            let is_object = serde_json::from_str(text).is_ok_and(|value: Value| value.is_object());
            is_object.then(|| text.clone())?
        }
        _ => return None,
    };
    Some(RawToolCall {
        name: name.to_owned(),
        arguments,
    })
}

fn unfenced(text: &str) -> &str {
    let inner = FENCES
        .iter()
        .find_map(|fence| text.strip_prefix(fence)?.strip_suffix(FENCE));
    inner.map_or(text, str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(text: &str) -> ModelOutput {
        let mut output = ModelOutput {
            text: text.to_owned(),
            ..ModelOutput::default()
        };
        repair(&mut output, |name| name == "read_file");
        output
    }

    #[test]
    fn calls_in_known_formats_become_calls() {
        let call = r#"{"name": "read_file", "arguments": {"path": "a.md"}}"#;
        for (text, left, count) in [
            (call.to_owned(), "", 1),
            (format!("```json\n{call}\n```"), "", 1),
            (format!("<tool_call>\n{call}\n</tool_call>"), "", 1),
            (format!("I look.\n<tool_call>{call}</tool_call>\n<tool_call>{call}</tool_call>"), "I look.", 2),
            (format!("[TOOL_CALLS][{call}, {call}]"), "", 2),
            (
                r#"<|python_tag|>{"type": "function", "name": "read_file", "parameters": {"path": "a.md"}}"#.to_owned(),
                "",
                1,
            ),
            (r#"{"function": {"name": "read_file", "arguments": "{\"path\": \"a.md\"}"}}"#.to_owned(), "", 1),
        ] {
            let output = repaired(&text);
            assert_eq!((output.text.as_str(), output.tool_calls.len()), (left, count), "{text}");
            assert_eq!(output.warnings, [REPAIRED]);
            let arguments: Value = serde_json::from_str(&output.tool_calls[0].arguments).unwrap();
            assert_eq!(arguments["path"], "a.md");
        }
    }

    #[test]
    fn other_text_stays_text() {
        for text in [
            "Plain words.",
            r#"{"name": "Ann", "arguments": {"age": 3}}"#,
            r#"{"name": "read_file"}"#,
            r#"{"name": "read_file", "arguments": {}, "note": "an example"}"#,
            r#"{"name": "read_file", "arguments": [1]}"#,
            r#"Call it like this: {"name": "read_file", "arguments": {}}"#,
            "Qwen writes <tool_call> before a call and </tool_call> after it.",
            "Mistral writes [TOOL_CALLS] and then a list.",
            "[TOOL_CALLS] is how Mistral begins a call.",
            "It printed `[TOOL_CALLS][{\"name\": 1}]`, which is broken.",
            "Mistral's format:\n```\n[TOOL_CALLS][{\"name\": \"read_file\"}]\n```\nThat is all.",
            "Llama marks code with <|python_tag|> in its answers.",
        ] {
            let output = repaired(text);
            assert_eq!((output.text.as_str(), output.tool_calls.len()), (text, 0));
            assert!(output.warnings.is_empty(), "{output:?}");
        }
        for text in [
            "<tool_call>{\"name\": \"read_file\", </tool_call>",
            "I look.\n[TOOL_CALLS][{\"name\": \"read_file\", \"arg",
            "[TOOL_CALLS]read_file{\"path\": ",
        ] {
            let broken = repaired(text);
            assert_eq!(
                (broken.tool_calls.len(), broken.warnings.as_slice()),
                (0, &[NOT_REPAIRED.to_owned()][..]),
                "{text}"
            );
        }
    }
}
