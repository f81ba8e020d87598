//! Recorded bodies, cut at every byte.

use codelab_protocol::{ModelFailureKind, RawToolCall, Usage};
use serde_json::{Value, json};

use super::*;
use crate::answer::heard::{self, HeardAnswer, MAX_OUTPUT_BYTES};

const MODEL: &str = "claude";

fn format() -> Box<dyn AnswerFormat> {
    Box::new(AnthropicFormat::new(MODEL))
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<HeardAnswer, Defect> {
    heard::read(format(), pieces)
}

fn read_text(body: &str) -> Result<ModelAnswer, Defect> {
    read([body.as_bytes()]).map(|heard| heard.answer)
}

fn events(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| {
            format!(
                "event: {}\ndata: {event}\n\n",
                event["type"].as_str().unwrap()
            )
        })
        .collect()
}

fn start(usage: Value) -> Value {
    json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": [],
        "model": "claude-x", "stop_reason": null, "usage": usage}})
}

fn begin(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn end(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn finish(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": 9}})
}

fn stop() -> Value {
    json!({"type": "message_stop"})
}

fn text(index: u64, words: &[&str]) -> Vec<Value> {
    let mut out = vec![begin(index, json!({"type": "text", "text": ""}))];
    out.extend(
        words
            .iter()
            .map(|word| delta(index, json!({"type": "text_delta", "text": word}))),
    );
    out.push(end(index));
    out
}

fn call(name: &str, arguments: &str) -> RawToolCall {
    RawToolCall {
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

fn usage(prompt: u64, cached: u64, written: u64, completion: u64) -> Option<Usage> {
    Some(Usage {
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens: prompt + completion,
        cached_tokens: cached,
        cache_write_tokens: written,
        ..Usage::default()
    })
}

/// Streams as servers send them, with what must come out.
fn recorded() -> Vec<(&'static str, String, ModelAnswer)> {
    let input = || json!({"input_tokens": 5, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 7, "output_tokens": 1});
    let said = ["Привіт, ", "світ 😀 \"é\"\n"];
    let plain = [
        vec![start(input()), json!({"type": "ping"})],
        text(0, &said),
        vec![finish("end_turn"), stop()],
    ]
    .concat();
    let plain_wanted = ModelAnswer {
        text: said.concat(),
        usage: usage(52, 40, 7, 9),
        ..ModelAnswer::default()
    };
    let thinking = [
        vec![
            start(input()),
            begin(
                0,
                json!({"type": "thinking", "thinking": "", "signature": ""}),
            ),
            delta(0, json!({"type": "thinking_delta", "thinking": "Гм, "})),
            delta(0, json!({"type": "thinking_delta", "thinking": "файл"})),
            delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
            end(0),
            begin(1, json!({"type": "redacted_thinking", "data": "ZGF0YQ=="})),
            end(1),
        ],
        text(2, &["Дивлюсь."]),
        vec![
            begin(
                3,
                json!({"type": "tool_use", "id": "toolu_1", "name": "write_file", "input": {}}),
            ),
            delta(3, json!({"type": "input_json_delta", "partial_json": ""})),
            delta(
                3,
                json!({"type": "input_json_delta", "partial_json": "{\"path\": \"a"}),
            ),
            delta(
                3,
                json!({"type": "input_json_delta", "partial_json": ".md\", \"content\": \"ї\"}"}),
            ),
            end(3),
            finish("tool_use"),
            stop(),
        ],
    ]
    .concat();
    let blocks = json!([{"type": "thinking", "thinking": "Гм, файл", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="}, {"type": "text", "bytes": 15}, {"type": "tool_use"}]);
    let thinking_wanted = ModelAnswer {
        text: "Дивлюсь.".to_owned(),
        reasoning: "Гм, файл".to_owned(),
        opaque_reasoning: json!({"model": MODEL, "blocks": blocks}),
        tool_calls: vec![call("write_file", r#"{"path": "a.md", "content": "ї"}"#)],
        usage: usage(52, 40, 7, 9),
        ..ModelAnswer::default()
    };
    let whole = json!({"id": "m", "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "thinking", "thinking": "Гм, файл", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "ZGF0YQ=="}, {"type": "text", "text": "Дивлюсь."},
            {"type": "tool_use", "id": "toolu_1", "name": "write_file", "input": {"path": "a.md"}}],
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 7, "output_tokens": 9}});
    let whole_wanted = ModelAnswer {
        tool_calls: vec![call("write_file", r#"{"path":"a.md"}"#)],
        ..thinking_wanted.clone()
    };
    vec![
        ("plain", events(&plain), plain_wanted.clone()),
        (
            "CRLF",
            events(&plain).replace('\n', "\r\n"),
            plain_wanted.clone(),
        ),
        (
            "without names of events",
            events(&plain).replace("event: ", ": "),
            plain_wanted.clone(),
        ),
        (
            "no last event",
            events(&plain[..plain.len() - 1]),
            plain_wanted,
        ),
        ("thinking and a call", events(&thinking), thinking_wanted),
        ("not streamed", format!("\n {whole}\n"), whole_wanted),
    ]
}

#[test]
fn an_answer_is_the_same_however_its_bytes_are_cut() {
    for (name, body, wanted) in recorded() {
        heard::assert_the_same_however_cut(format, (name, &body, wanted));
    }
}

#[test]
fn a_body_that_ends_early_is_never_taken_for_an_answer() {
    for (name, body, wanted) in recorded() {
        for end in 0..body.len() {
            match read([&body.as_bytes()[..end]]) {
                Err(defect) => assert_eq!(defect, Defect::Cut, "{name} ended at {end}"),
                Ok(HeardAnswer {
                    answer: got, text, ..
                }) => {
                    assert_eq!(got, wanted, "{name} ended at {end}");
                    assert_eq!(text, wanted.text, "{name} ended at {end}");
                }
            }
        }
    }
}

#[test]
fn odd_streams_are_told_apart() {
    let hello = || [vec![start(json!({}))], text(0, &["hi"])].concat();
    let with = |more: Vec<Value>| events(&[hello(), more].concat());
    let done = |reason: &str| vec![finish(reason), stop()];
    let big = "x".repeat(MAX_OUTPUT_BYTES + 1);
    let many: Vec<Value> = (0..=MAX_BLOCKS as u64)
        .map(|i| begin(i, json!({"type": "text", "text": ""})))
        .collect();
    let unknown = vec![
        json!({"type": "new_event", "something": [1]}),
        begin(
            1,
            json!({"type": "server_tool_use", "id": "s", "name": "web", "input": {}}),
        ),
        delta(1, json!({"type": "input_json_delta", "partial_json": "{}"})),
        delta(0, json!({"type": "citations_delta", "citation": {}})),
    ];
    for (name, body, wanted) in [
        (
            "unknown things",
            with([unknown, done("end_turn")].concat()),
            Ok("hi"),
        ),
        ("other reason", with(done("new_reason")), Ok("hi")),
        ("cut", with(vec![]), Err(Defect::Cut)),
        ("nothing", String::new(), Err(Defect::Cut)),
        (
            "no block",
            events(&[delta(4, json!({"type": "text_delta", "text": "x"}))]),
            Err(Defect::NotAnAnswer),
        ),
        (
            "broken event",
            "data: {nonsense}\n\n".to_owned(),
            Err(Defect::NotAnAnswer),
        ),
        (
            "JSON of something else",
            json!({"status": "ok"}).to_string(),
            Err(Defect::NotAnAnswer),
        ),
        (
            "too much text",
            events(&text(0, &[&big])),
            Err(Defect::TooLarge),
        ),
        (
            "too much arguments",
            events(&[
                begin(0, json!({"type": "tool_use", "name": "a", "input": {}})),
                delta(0, json!({"type": "input_json_delta", "partial_json": big})),
            ]),
            Err(Defect::TooLarge),
        ),
        (
            "too long a signature",
            events(&[
                begin(0, json!({"type": "thinking", "thinking": ""})),
                delta(0, json!({"type": "signature_delta", "signature": big})),
            ]),
            Err(Defect::TooLarge),
        ),
        ("too many blocks", events(&many), Err(Defect::TooLarge)),
    ] {
        let got = read_text(&body).map(|answer| answer.text);
        assert_eq!(got.as_deref().map_err(Clone::clone), wanted, "{name}");
    }
}

#[test]
fn an_error_in_a_stream_that_began_well_is_told() {
    for (kind, wanted) in [
        ("overloaded_error", ModelFailureKind::Overloaded),
        ("rate_limit_error", ModelFailureKind::RateLimit),
        ("api_error", ModelFailureKind::ServerError),
        ("timeout_error", ModelFailureKind::Timeout),
        ("authentication_error", ModelFailureKind::WrongKey),
        ("not_found_error", ModelFailureKind::UnknownModel),
        ("billing_error", ModelFailureKind::Quota),
    ] {
        let error = json!({"type": "error", "error": {"type": kind, "message": "Because"}});
        let stream = events(
            &[
                vec![start(json!({}))],
                text(0, &["hi"]),
                vec![error.clone()],
            ]
            .concat(),
        );
        for body in [stream, error.to_string()] {
            let Err(Defect::Reported(error)) = read_text(&body) else {
                panic!("{kind}: no error")
            };
            assert_eq!(
                (error.kind(), error.shown(None)),
                (wanted, Some("Because".to_owned())),
                "{kind}"
            );
        }
    }
}

#[test]
fn the_reason_for_stopping_is_kept() {
    let answer = |words: &[&str], last: Value| {
        read_text(&events(&[text(0, words), vec![last]].concat())).unwrap()
    };
    for (reason, wanted) in [
        ("end_turn", Finish::Complete),
        ("stop_sequence", Finish::Complete),
        ("max_tokens", Finish::TokenLimit),
        ("model_context_window_exceeded", Finish::TokenLimit),
        ("pause_turn", Finish::Paused),
    ] {
        let got = answer(&["hi"], finish(reason));
        assert_eq!(got.finish, wanted, "{reason}");
    }
    let refused = |why: Value| json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": why}});
    for (words, why, wanted) in [
        (&["I will not."][..], Value::Null, "I will not."),
        (&[], Value::Null, REFUSED),
        (
            &[],
            json!({"type": "refusal", "explanation": "Too risky."}),
            "Too risky.",
        ),
    ] {
        let got = answer(words, refused(why));
        assert_eq!(got.text, wanted);
    }
}

#[test]
fn calls_come_in_any_pieces_and_thoughts_keep_their_places() {
    let tool = |index, name: &str, input: Value| {
        begin(
            index,
            json!({"type": "tool_use", "name": name, "input": input}),
        )
    };
    let piece = |index, json: &str| {
        delta(
            index,
            json!({"type": "input_json_delta", "partial_json": json}),
        )
    };
    let stream = [
        vec![
            begin(0, json!({"type": "thinking", "thinking": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "first"})),
            tool(1, "a", json!({})),
            tool(2, "b", json!({"at": "once"})),
            piece(1, "{\"x\":"),
            piece(1, "1}"),
            begin(
                3,
                json!({"type": "thinking", "thinking": "second", "signature": "s2"}),
            ),
            tool(4, "c", json!({})),
            piece(4, "not JSON"),
            tool(5, "d", json!({})),
        ],
        vec![finish("tool_use"), stop()],
    ]
    .concat();
    let got = read_text(&events(&stream)).unwrap();
    let calls = [
        call("a", "{\"x\":1}"),
        call("b", "{\"at\":\"once\"}"),
        call("c", "not JSON"),
        call("d", "{}"),
    ];
    assert_eq!(got.tool_calls, calls);
    assert_eq!(got.reasoning, "first\n\nsecond");
    let kinds: Vec<&str> = got.opaque_reasoning["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "thinking", "tool_use", "tool_use", "thinking", "tool_use", "tool_use"
        ]
    );
}
