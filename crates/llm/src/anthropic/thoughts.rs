//! Reasoning between an answer and the next request. A server checks that it gets its thinking
//! blocks back unchanged and in their place among the other blocks of the answer. So the places are
//! kept together with the blocks. The other blocks are not: they are in the message.

use serde_json::{Value, json};

/// A part of an assistant's message, in the order of the wire.
#[derive(Debug, PartialEq)]
pub enum Part<'a> {
    Thinking(&'a Value),
    Text(&'a str),
    /// The call with this index.
    ToolCall(usize),
}

const TEXT: &str = "text";
const TOOL_CALL: &str = "tool_use";

/// A thinking block as the server wants it back.
pub fn thinking(thinking: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": thinking, "signature": signature})
}

/// A thinking block that only the server can read.
pub fn redacted(data: &str) -> Value {
    json!({"type": "redacted_thinking", "data": data})
}

/// The place of a text of this length.
pub fn text(bytes: usize) -> Value {
    json!({"type": TEXT, "bytes": bytes})
}

/// The place of a tool call.
pub fn tool_call() -> Value {
    json!({"type": TOOL_CALL})
}

/// What is kept of an answer with these blocks and places. Newer models refuse the thoughts of
/// other models, so the model is kept too.
pub fn keep(model: &str, blocks: Vec<Value>) -> Value {
    json!({"model": model, "blocks": blocks})
}

/// The parts of an assistant's message for this model. `kept` comes from [`keep`].
pub fn parts<'a>(
    kept: Option<&'a Value>,
    model: &str,
    content: &'a str,
    calls: usize,
) -> Vec<Part<'a>> {
    let blocks = kept
        .filter(|kept| kept["model"] == model)
        .and_then(|kept| kept["blocks"].as_array())
        .map_or(&[][..], Vec::as_slice);
    let mut parts = in_place(blocks, content, calls).unwrap_or_else(|| {
        let leading = blocks.iter().take_while(|block| is_thinking(block));
        leading
            .map(Part::Thinking)
            .chain([Part::Text(content)])
            .chain((0..calls).map(Part::ToolCall))
            .collect()
    });
    // Servers refuse blocks of blank text.
    parts.retain(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()));
    parts
}

/// `None` if the message is not the one of which the places were kept, e.g. because it was
/// shortened.
fn in_place<'a>(blocks: &'a [Value], content: &'a str, calls: usize) -> Option<Vec<Part<'a>>> {
    let (mut rest, mut call) = (content, 0);
    let mut parts = Vec::with_capacity(blocks.len());
    for block in blocks {
        parts.push(if is_thinking(block) {
            Part::Thinking(block)
        } else if block["type"] == TEXT {
            let bytes = usize::try_from(block["bytes"].as_u64()?).ok()?;
            let (text, after) = rest.split_at_checked(bytes)?;
            rest = after;
            Part::Text(text)
        } else {
            call += 1;
            Part::ToolCall(call - 1)
        });
    }
    (rest.is_empty() && call == calls).then_some(parts)
}

fn is_thinking(block: &Value) -> bool {
    block["type"] != TEXT && block["type"] != TOOL_CALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_go_back_to_their_places_or_to_the_front() {
        let (first, second) = (thinking("a", "s"), redacted("d"));
        let blocks = vec![
            first.clone(),
            text(4),
            second.clone(),
            tool_call(),
            tool_call(),
        ];
        let kept = keep("m", blocks);
        let (first, second) = (Part::Thinking(&first), Part::Thinking(&second));
        let calls = [Part::ToolCall(0), Part::ToolCall(1)];
        for (model, content, number, wanted) in [
            ("m", "ї є", 2, vec![]),
            (
                "m",
                "їє",
                2,
                vec![&first, &Part::Text("їє"), &second, &calls[0], &calls[1]],
            ),
            ("m", "їє", 1, vec![&first, &Part::Text("їє"), &calls[0]]),
            (
                "m",
                "short",
                2,
                vec![&first, &Part::Text("short"), &calls[0], &calls[1]],
            ),
            (
                "other",
                "їє",
                2,
                vec![&Part::Text("їє"), &calls[0], &calls[1]],
            ),
            ("other", " \n", 1, vec![&calls[0]]),
        ] {
            let got = parts(Some(&kept), model, content, number);
            if wanted.is_empty() {
                assert_eq!(got[0], first, "{content}");
                continue;
            }
            assert_eq!(
                got.iter().collect::<Vec<_>>(),
                wanted,
                "{model} {content} {number}"
            );
        }
        assert_eq!(parts(None, "m", "hi", 0), [Part::Text("hi")]);
        assert_eq!(
            parts(Some(&json!("nonsense")), "m", "hi", 0),
            [Part::Text("hi")]
        );
    }
}
