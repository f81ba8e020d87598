//! A completion in the OpenAI chat format.

use bytes::Bytes;
use serde_json::{Value, json};

use super::split;
use crate::reply::ScriptedCompletion;

pub fn deltas(completion: &ScriptedCompletion) -> Vec<Bytes> {
    let mut out = vec![event(chunk(
        json!({"role": "assistant", "content": ""}),
        None,
    ))];
    let mut say = |field: &str, text: &str| {
        out.extend(
            text.split_inclusive(' ')
                .map(|word| event(chunk(json!({field: word}), None))),
        );
    };
    say("reasoning_content", &completion.reasoning);
    say("content", &completion.text);
    say("refusal", &completion.refusal);
    for (index, (name, arguments)) in completion.calls.iter().enumerate() {
        let first = json!({"index": index, "id": format!("call_{index}"), "type": "function",
            "function": {"name": name, "arguments": ""}});
        out.push(event(chunk(json!({"tool_calls": [first]}), None)));
        for piece in split(arguments, completion.argument_pieces.max(1)) {
            let next = json!({"index": index, "function": {"arguments": piece}});
            out.push(event(chunk(json!({"tool_calls": [next]}), None)));
        }
    }
    out.push(event(chunk(json!({}), Some(finish_reason(completion)))));
    if let Some(usage) = usage(completion) {
        out.push(event(
            json!({"id": "fake", "object": "chat.completion.chunk", "created": 1,
                "model": "fake", "choices": [], "usage": usage}),
        ));
    }
    out.push(Bytes::from_static(b"data: [DONE]\n\n"));
    out
}

pub fn whole(completion: &ScriptedCompletion) -> Value {
    let calls: Vec<Value> = completion
        .calls
        .iter()
        .enumerate()
        .map(|(index, (name, arguments))| {
            json!({"id": format!("call_{index}"), "type": "function",
                "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": or_null(&completion.text)});
    if !completion.reasoning.is_empty() {
        message["reasoning_content"] = json!(completion.reasoning);
    }
    if !completion.refusal.is_empty() {
        message["refusal"] = json!(completion.refusal);
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    let choice =
        json!({"index": 0, "message": message, "finish_reason": finish_reason(completion)});
    let mut body = json!({"id": "fake", "object": "chat.completion", "created": 1, "model": "fake",
        "choices": [choice]});
    if let Some(usage) = usage(completion) {
        body["usage"] = usage;
    }
    body
}

/// An event of a stream that holds an error.
pub fn error_event(body: Value) -> Bytes {
    event(body)
}

fn finish_reason(completion: &ScriptedCompletion) -> &str {
    let usual = if completion.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    completion.finish_reason.as_deref().unwrap_or(usual)
}

fn usage(completion: &ScriptedCompletion) -> Option<Value> {
    let usage = completion.usage?;
    let mut body = json!({"prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens});
    if usage.cached_tokens > 0 {
        body["prompt_tokens_details"] = json!({"cached_tokens": usage.cached_tokens});
    }
    if usage.reasoning_tokens > 0 {
        body["completion_tokens_details"] = json!({"reasoning_tokens": usage.reasoning_tokens});
    }
    Some(body)
}

fn or_null(text: &str) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        json!(text)
    }
}

fn chunk(delta: Value, finish_reason: Option<&str>) -> Value {
    json!({"id": "fake", "object": "chat.completion.chunk", "created": 1, "model": "fake",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
}

fn event(body: Value) -> Bytes {
    Bytes::from(format!("data: {body}\n\n"))
}
