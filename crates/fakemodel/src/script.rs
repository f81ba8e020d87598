//! A reply as bytes and pauses. They are computed once, so that serving a reply a thousand times
//! needs no JSON.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::gate::Gate;
use crate::reply::{After, Interruption, Reply, ReplyContent, ScriptedCompletion};

/// What the server performs for one request.
#[derive(Debug, Clone)]
pub(crate) struct ReplyScript {
    pub hold: Option<Gate>,
    pub answer: ScriptAnswer,
}

#[derive(Debug, Clone)]
pub(crate) enum ScriptAnswer {
    Never,
    Http {
        code: u16,
        headers: Vec<(String, String)>,
        steps: Vec<ScriptStep>,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum ScriptStep {
    Send(Bytes),
    Pause(Duration),
    Pass(Gate),
    Silence,
    Cut,
    /// One byte of a comment per period, without end.
    Dribble(Duration),
}

impl ReplyScript {
    pub fn of(reply: &Reply) -> Self {
        Self {
            hold: reply.hold.clone(),
            answer: answer_of(reply),
        }
    }
}

fn answer_of(reply: &Reply) -> ScriptAnswer {
    let pieces = match &reply.content {
        ReplyContent::Hang => return ScriptAnswer::Never,
        ReplyContent::Status {
            code,
            headers,
            body,
        } => {
            let mut headers = headers.clone();
            if !headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            {
                headers.push(("content-type".to_owned(), "application/json".to_owned()));
            }
            let steps = vec![ScriptStep::Send(Bytes::from(body.clone()))];
            return ScriptAnswer::Http {
                code: *code,
                headers,
                steps,
            };
        }
        ReplyContent::Dribble { every } => {
            return ok("text/event-stream", vec![ScriptStep::Dribble(*every)]);
        }
        ReplyContent::Completion(completion) if !reply.streamed => {
            let pieces = vec![Bytes::from(whole(completion).to_string())];
            return ok("application/json", paced(pieces, reply));
        }
        ReplyContent::Completion(completion) => deltas(completion),
        ReplyContent::Raw(pieces) => pieces.clone(),
    };
    ok("text/event-stream", paced(pieces, reply))
}

fn ok(content_type: &str, steps: Vec<ScriptStep>) -> ScriptAnswer {
    ScriptAnswer::Http {
        code: 200,
        headers: vec![("content-type".to_owned(), content_type.to_owned())],
        steps,
    }
}

fn paced(pieces: Vec<Bytes>, reply: &Reply) -> Vec<ScriptStep> {
    let mut steps = Vec::with_capacity(pieces.len());
    let mut sent_bytes = 0;
    let mut pending = reply.interruption.as_ref();
    for (index, piece) in pieces.into_iter().enumerate() {
        let cut_at = match pending {
            Some((After::Deltas(count), _)) if *count == index => Some(0),
            Some((After::Bytes(count), _)) if *count < sent_bytes + piece.len() => {
                Some(count - sent_bytes)
            }
            _ => None,
        };
        sent_bytes += piece.len();
        let Some(((_, interruption), at)) = pending.zip(cut_at) else {
            steps.extend(reply.delay_per_delta.map(ScriptStep::Pause));
            steps.push(ScriptStep::Send(piece));
            continue;
        };
        pending = None;
        if at > 0 {
            steps.push(ScriptStep::Send(piece.slice(..at)));
        }
        match interruption {
            Interruption::Hold(gate) => steps.extend([
                ScriptStep::Pass(gate.clone()),
                ScriptStep::Send(piece.slice(at..)),
            ]),
            Interruption::Silence => return [steps, vec![ScriptStep::Silence]].concat(),
            Interruption::Cut => return [steps, vec![ScriptStep::Cut]].concat(),
        }
    }
    assert!(
        pending.is_none(),
        "the reply ends before the point where it should be interrupted"
    );
    steps
}

fn deltas(completion: &ScriptedCompletion) -> Vec<Bytes> {
    let mut out = vec![event(chunk(
        json!({"role": "assistant", "content": ""}),
        None,
    ))];
    out.extend(
        completion
            .text
            .split_inclusive(' ')
            .map(|word| event(chunk(json!({"content": word}), None))),
    );
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
    if let Some(usage) = completion.usage {
        out.push(event(
            json!({"object": "chat.completion.chunk", "choices": [], "usage": usage_json(usage)}),
        ));
    }
    out.push(Bytes::from_static(b"data: [DONE]\n\n"));
    out
}

fn whole(completion: &ScriptedCompletion) -> Value {
    let calls: Vec<Value> = completion
        .calls
        .iter()
        .enumerate()
        .map(|(index, (name, arguments))| {
            json!({"id": format!("call_{index}"), "type": "function",
                "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    let content = if completion.text.is_empty() {
        Value::Null
    } else {
        json!(completion.text)
    };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    let choice =
        json!({"index": 0, "message": message, "finish_reason": finish_reason(completion)});
    let mut body =
        json!({"id": "fake", "object": "chat.completion", "model": "fake", "choices": [choice]});
    if let Some(usage) = completion.usage {
        body["usage"] = usage_json(usage);
    }
    body
}

fn finish_reason(completion: &ScriptedCompletion) -> &str {
    let usual = if completion.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    completion.finish_reason.as_deref().unwrap_or(usual)
}

fn usage_json((prompt, completion): (u64, u64)) -> Value {
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

fn chunk(delta: Value, finish_reason: Option<&str>) -> Value {
    json!({"id": "fake", "object": "chat.completion.chunk", "model": "fake",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
}

fn event(body: Value) -> Bytes {
    Bytes::from(format!("data: {body}\n\n"))
}

/// At most `pieces` parts of about the same length, cut between characters.
fn split(text: &str, pieces: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let size = chars.len().div_ceil(pieces).max(1);
    chars
        .chunks(size)
        .map(|part| part.iter().collect())
        .collect()
}
