//! A completion in the format of Anthropic's Messages.
//!
//! A piece of the stream holds as many events as make it the counterpart of the same piece in the
//! OpenAI format, so that a script interrupts both at the same place.

use bytes::Bytes;
use serde_json::{Value, json};

use super::split;
use crate::reply::{ScriptedCompletion, ScriptedUsage};

/// What stands in for the signature of a thinking block. Real ones are opaque too.
const SIGNATURE: &str = "c2lnbmVkIGJ5IHRoZSBmYWtlIG1vZGVs";

pub fn deltas(completion: &ScriptedCompletion) -> Vec<Bytes> {
    let mut stream = Stream::default();
    let message = message(completion, Vec::new(), None);
    let start = [
        event("message_start", json!({"message": message})),
        event("ping", json!({})),
    ];
    stream.pieces.push(start.concat());
    if !completion.reasoning.is_empty() {
        let block = json!({"type": "thinking", "thinking": "", "signature": ""});
        stream.block(
            block,
            |word| json!({"type": "thinking_delta", "thinking": word}),
            &completion.reasoning,
        );
        let signature = json!({"type": "signature_delta", "signature": SIGNATURE});
        stream.delta(signature);
    }
    let text = said(completion);
    if !text.is_empty() {
        let block = json!({"type": "text", "text": ""});
        stream.block(
            block,
            |word| json!({"type": "text_delta", "text": word}),
            &text,
        );
    }
    for (index, (name, arguments)) in completion.calls.iter().enumerate() {
        let block =
            json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {}});
        let opened = stream.open(block);
        stream.pieces.push(opened);
        for piece in split(arguments, completion.argument_pieces.max(1)) {
            let delta = json!({"type": "input_json_delta", "partial_json": piece});
            let event = stream.delta_event(delta);
            stream.pieces.push(event);
        }
    }
    let closed = stream.close();
    let mut end = json!({"delta": {"stop_reason": stop_reason(completion), "stop_sequence": null}});
    if let Some(usage) = completion.usage {
        end["usage"] = json!({"output_tokens": usage.completion_tokens});
    }
    stream.pieces.push(closed + &event("message_delta", end));
    stream.pieces.push(event("message_stop", json!({})));
    stream.pieces.into_iter().map(Bytes::from).collect()
}

pub fn whole(completion: &ScriptedCompletion) -> Value {
    let mut content = Vec::new();
    if !completion.reasoning.is_empty() {
        content.push(json!({"type": "thinking", "thinking": completion.reasoning,
            "signature": SIGNATURE}));
    }
    let text = said(completion);
    if !text.is_empty() {
        content.push(json!({"type": "text", "text": text}));
    }
    content.extend(
        completion
            .calls
            .iter()
            .enumerate()
            .map(|(index, (name, arguments))| {
                // Arguments that are no JSON cannot be sent whole on this wire.
                let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
                json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": name,
                    "input": input})
            }),
    );
    message(completion, content, Some(stop_reason(completion)))
}

/// An event of a stream that holds an error.
pub fn error_event(body: Value) -> Bytes {
    Bytes::from(format!("event: error\ndata: {body}\n\n"))
}

/// The pieces so far, and the block that is open.
#[derive(Default)]
struct Stream {
    pieces: Vec<String>,
    blocks: usize,
    is_open: bool,
}

impl Stream {
    /// A block whose text comes word by word. The first word comes together with its start.
    fn block(&mut self, block: Value, delta: impl Fn(&str) -> Value, text: &str) {
        let mut before = self.open(block);
        for word in text.split_inclusive(' ') {
            let event = self.delta_event(delta(word));
            self.pieces.push(std::mem::take(&mut before) + &event);
        }
    }

    fn open(&mut self, block: Value) -> String {
        let closed = self.close();
        self.blocks += 1;
        self.is_open = true;
        closed
            + &event(
                "content_block_start",
                json!({"index": self.blocks - 1, "content_block": block}),
            )
    }

    fn close(&mut self) -> String {
        if !std::mem::take(&mut self.is_open) {
            return String::new();
        }
        event("content_block_stop", json!({"index": self.blocks - 1}))
    }

    /// Adds to the last piece.
    fn delta(&mut self, delta: Value) {
        let event = self.delta_event(delta);
        if let Some(last) = self.pieces.last_mut() {
            last.push_str(&event);
        }
    }

    fn delta_event(&self, delta: Value) -> String {
        event(
            "content_block_delta",
            json!({"index": self.blocks - 1, "delta": delta}),
        )
    }
}

/// On this wire a refusal is text, and the stop reason says what it is.
fn said(completion: &ScriptedCompletion) -> String {
    format!("{}{}", completion.text, completion.refusal)
}

fn stop_reason(completion: &ScriptedCompletion) -> &str {
    match completion.finish_reason.as_deref() {
        None if !completion.refusal.is_empty() => "refusal",
        None if !completion.calls.is_empty() => "tool_use",
        None | Some("stop") => "end_turn",
        Some("tool_calls") => "tool_use",
        Some("length") => "max_tokens",
        Some("content_filter") => "refusal",
        Some(other) => other,
    }
}

fn message(
    completion: &ScriptedCompletion,
    content: Vec<Value>,
    stop_reason: Option<&str>,
) -> Value {
    let mut message = json!({"id": "msg_fake", "type": "message", "role": "assistant",
        "model": "fake", "content": content, "stop_reason": stop_reason, "stop_sequence": null});
    if let Some(usage) = completion.usage {
        message["usage"] = usage_json(usage, stop_reason.is_some());
    }
    message
}

/// Here `input_tokens` leaves out what was read from the cache or written to it. A message that has
/// just begun counts its first token only.
fn usage_json(usage: ScriptedUsage, is_finished: bool) -> Value {
    let fresh = usage
        .prompt_tokens
        .saturating_sub(usage.cached_tokens + usage.cache_write_tokens);
    let output_tokens = if is_finished {
        usage.completion_tokens
    } else {
        1
    };
    json!({"input_tokens": fresh, "output_tokens": output_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens})
}

fn event(name: &str, fields: Value) -> String {
    let mut data = json!({"type": name});
    for (field, value) in fields.as_object().into_iter().flatten() {
        data[field] = value.clone();
    }
    format!("event: {name}\ndata: {data}\n\n")
}
