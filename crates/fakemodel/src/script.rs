//! A reply as bytes and pauses. They are computed once, so that serving a reply a thousand times
//! needs no JSON.

mod anthropic;
mod openai;

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::fault::Fault;
use crate::gate::Gate;
use crate::reply::{After, Interruption, Reply, ReplyContent, ScriptedCompletion};
use crate::wire::Wire;

/// What the server performs for one request. The request's path says on which wire, and its body
/// whether as a stream.
#[derive(Debug, Clone)]
pub(crate) struct ReplyScript {
    pub hold: Option<Gate>,
    /// One of each form in which the reply can be asked for.
    answers: Vec<(Form, ScriptAnswer)>,
}

/// How a request wants its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub wire: Wire,
    pub streamed: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum ScriptAnswer {
    Never,
    /// In this form the reply has no such place as the one where it should be interrupted.
    EndsTooSoon,
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
        let forms = Wire::ALL
            .into_iter()
            .flat_map(|wire| [true, false].map(|streamed| Form { wire, streamed }));
        let answers: Vec<_> = forms.map(|form| (form, answer_of(reply, form))).collect();
        assert!(
            answers
                .iter()
                .any(|(_, answer)| !matches!(answer, ScriptAnswer::EndsTooSoon)),
            "the reply ends before the point where it should be interrupted"
        );
        Self {
            hold: reply.hold.clone(),
            answers,
        }
    }

    pub fn answer(&self, wanted: Form) -> &ScriptAnswer {
        self.answers
            .iter()
            .find(|(form, _)| *form == wanted)
            .map_or(&ScriptAnswer::Never, |(_, answer)| answer)
    }
}

fn answer_of(reply: &Reply, form: Form) -> ScriptAnswer {
    let pieces = match &reply.content {
        ReplyContent::Hang => return ScriptAnswer::Never,
        ReplyContent::Status {
            code,
            headers,
            body,
        } => return status(*code, headers, body.clone()),
        ReplyContent::Fault { fault, headers } => {
            let on_wire = fault.on(form.wire);
            let body = on_wire.body(form.wire).to_string();
            return status(on_wire.status, headers, body);
        }
        ReplyContent::Dribble { every } => {
            return ok("text/event-stream", vec![ScriptStep::Dribble(*every)]);
        }
        ReplyContent::Completion(completion) if !(reply.streamed && form.streamed) => {
            let pieces = vec![Bytes::from(whole(completion, form.wire).to_string())];
            return match paced(pieces, reply, form.wire) {
                Some(steps) => ok("application/json", steps),
                None => ScriptAnswer::EndsTooSoon,
            };
        }
        ReplyContent::Completion(completion) => match form.wire {
            Wire::OpenAi => openai::deltas(completion),
            Wire::Anthropic => anthropic::deltas(completion),
        },
        ReplyContent::Raw(pieces) => pieces.clone(),
    };
    match paced(pieces, reply, form.wire) {
        Some(steps) => ok("text/event-stream", steps),
        None => ScriptAnswer::EndsTooSoon,
    }
}

fn whole(completion: &ScriptedCompletion, wire: Wire) -> Value {
    match wire {
        Wire::OpenAi => openai::whole(completion),
        Wire::Anthropic => anthropic::whole(completion),
    }
}

fn status(code: u16, headers: &[(String, String)], body: String) -> ScriptAnswer {
    let mut headers = headers.to_vec();
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
    {
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
    }
    ScriptAnswer::Http {
        code,
        headers,
        steps: vec![ScriptStep::Send(Bytes::from(body))],
    }
}

/// What a server sends when it fails in the middle of an answer.
fn error_event(fault: &Fault, wire: Wire) -> Bytes {
    let body = fault.on(wire).body(wire);
    match wire {
        Wire::OpenAi => openai::error_event(body),
        Wire::Anthropic => anthropic::error_event(body),
    }
}

fn ok(content_type: &str, steps: Vec<ScriptStep>) -> ScriptAnswer {
    ScriptAnswer::Http {
        code: 200,
        headers: vec![("content-type".to_owned(), content_type.to_owned())],
        steps,
    }
}

/// `None` if the reply ends before the place where it should be interrupted.
fn paced(pieces: Vec<Bytes>, reply: &Reply, wire: Wire) -> Option<Vec<ScriptStep>> {
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
            Interruption::Silence => return Some([steps, vec![ScriptStep::Silence]].concat()),
            Interruption::Cut => return Some([steps, vec![ScriptStep::Cut]].concat()),
            Interruption::Fault(fault) => {
                let error = ScriptStep::Send(error_event(fault, wire));
                return Some([steps, vec![error]].concat());
            }
        }
    }
    pending.is_none().then_some(steps)
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
