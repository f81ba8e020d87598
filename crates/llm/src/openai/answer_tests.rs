//! Recorded bodies, cut at every byte.

use codelab_protocol::{RawToolCall, Usage};
use serde_json::{Value, json};

use super::*;
use crate::answer::ENVELOPE_BYTES;
use crate::answer::heard::{self, HeardAnswer, MAX_OUTPUT_BYTES};

fn format() -> Box<dyn AnswerFormat> {
    Box::<OpenAiFormat>::default()
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<HeardAnswer, Defect> {
    heard::read(format(), pieces)
}

fn reported<T>(error: Value) -> Result<T, Defect> {
    Err(Defect::Reported(Box::new(ProviderError::of(error))))
}

fn read_text(body: &str) -> Result<ModelAnswer, Defect> {
    read([body.as_bytes()]).map(|heard| heard.answer)
}

/// An event stream of these chunks, without an end mark.
fn events(chunks: &[Value]) -> String {
    chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect()
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn piece(call: Value) -> Value {
    delta(json!({"tool_calls": [call]}))
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn call(name: &str, arguments: &str) -> RawToolCall {
    RawToolCall {
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

fn answer(text: &str, tool_calls: Vec<RawToolCall>, usage: Option<(u64, u64)>) -> ModelAnswer {
    let usage = usage.map(|(prompt_tokens, completion_tokens)| Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens + completion_tokens,
        ..Usage::default()
    });
    ModelAnswer {
        text: text.to_owned(),
        tool_calls,
        usage,
        ..ModelAnswer::default()
    }
}

/// Streams as servers send them, with what must come out.
fn recorded() -> Vec<(&'static str, String, ModelAnswer)> {
    let text = [
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "Привіт, "})),
        delta(json!({"content": "світ 😀 \"é\"\n"})),
        finish("stop"),
        json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}),
    ];
    let wanted = answer("Привіт, світ 😀 \"é\"\n", vec![], Some((7, 3)));
    let done = "data: [DONE]\n\n";
    let tool = [
        delta(json!({"role": "assistant", "content": null})),
        piece(
            json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "write_file", "arguments": ""}}),
        ),
        piece(json!({"index": 0, "function": {"arguments": "{\"path\": \"a"}})),
        piece(json!({"index": 0, "function": {"arguments": ".md\", \"content\": \"ї\"}"}})),
        finish("tool_calls"),
    ];
    let tool_wanted = answer(
        "",
        vec![call("write_file", r#"{"path": "a.md", "content": "ї"}"#)],
        None,
    );
    let whole = json!({"id": "x", "choices": [{"index": 0, "finish_reason": "tool_calls", "message":
        {"role": "assistant", "content": "так", "tool_calls": [{"id": "c", "function": {"name": "echo", "arguments": "{}"}}]}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    let commented =
        events(&text).replace("data: ", ": keep-alive\n\nevent: message\nid: 1\ndata: ");
    let multi_line = events(&text).replace("\"choices\":", "\ndata: \"choices\":");
    vec![
        ("plain", events(&text) + done, wanted.clone()),
        (
            "CRLF",
            (events(&text) + done).replace('\n', "\r\n"),
            wanted.clone(),
        ),
        (
            "comments and other fields",
            commented + done,
            wanted.clone(),
        ),
        ("data over several lines", multi_line + done, wanted.clone()),
        ("no end mark", events(&text), wanted.clone()),
        ("no last blank line", events(&text) + "data: [DONE]", wanted),
        ("tool call", events(&tool) + done, tool_wanted),
        (
            "not streamed",
            format!("\n {whole}\n"),
            answer("так", vec![call("echo", "{}")], Some((1, 2))),
        ),
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
                    // Only usage, which comes last, may be missing.
                    assert_eq!(
                        (&got.text, &got.tool_calls),
                        (&wanted.text, &wanted.tool_calls),
                        "{name} at {end}"
                    );
                    assert_eq!(text, wanted.text, "{name} ended at {end}");
                }
            }
        }
    }
}

#[test]
fn tool_calls_are_assembled_from_any_pieces() {
    let one = |index: Value, id: Value, name: Value, arguments: Value| {
        piece(json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}}))
    };
    let null = || Value::Null;
    let cases: Vec<(&str, Vec<Value>, Vec<RawToolCall>)> = vec![
        (
            "id and name repeated",
            vec![
                one(json!(0), json!("c"), json!("echo"), json!("{\"a\"")),
                one(json!(0), json!("c"), json!("echo"), json!(":1}")),
            ],
            vec![call("echo", "{\"a\":1}")],
        ),
        (
            "no index",
            vec![
                one(null(), json!("c"), json!("echo"), json!("{")),
                one(null(), null(), null(), json!("}")),
            ],
            vec![call("echo", "{}")],
        ),
        (
            "no index, two calls",
            vec![
                one(null(), json!("c"), json!("echo"), json!("1")),
                one(null(), json!("d"), json!("echo"), json!("2")),
                one(null(), json!("c"), null(), json!("1")),
            ],
            vec![call("echo", "11"), call("echo", "2")],
        ),
        (
            "interleaved",
            vec![
                one(json!(0), json!("c"), json!("a"), json!("0")),
                one(json!(1), json!("d"), json!("b"), json!("1")),
                one(json!(0), null(), null(), json!("0")),
                one(json!(1), null(), null(), json!("1")),
            ],
            vec![call("a", "00"), call("b", "11")],
        ),
        (
            "one index for two calls",
            vec![
                one(json!(0), json!("c"), json!("a"), json!("0")),
                one(json!(0), json!("d"), json!("a"), json!("1")),
            ],
            vec![call("a", "0"), call("a", "1")],
        ),
        (
            "name in parts, far index",
            vec![
                one(json!(u64::MAX), json!("c"), json!("read_"), null()),
                one(json!(u64::MAX), null(), json!("file"), json!("{}")),
            ],
            vec![call("read_file", "{}")],
        ),
        (
            "arguments as an object",
            vec![one(json!(0), json!("c"), json!("a"), json!({"x": 1}))],
            vec![call("a", "{\"x\":1}")],
        ),
        ("nothing in it", vec![piece(json!({"index": 0}))], vec![]),
    ];
    for (name, mut chunks, wanted) in cases {
        chunks.push(finish("tool_calls"));
        assert_eq!(
            read_text(&events(&chunks)).map(|answer| answer.tool_calls),
            Ok(wanted),
            "{name}"
        );
    }
}

#[test]
fn odd_streams_are_told_apart() {
    let hello = || delta(json!({"content": "hi"}));
    let big = "x".repeat(MAX_OUTPUT_BYTES + 1);
    let many: Vec<Value> = (0..200)
        .map(|i| piece(json!({"index": i, "function": {"name": "a", "arguments": ""}})))
        .collect();
    let cases: Vec<(&str, String, Result<&str, Defect>)> = vec![
        ("reasoning", events(&[delta(json!({"reasoning_content": "hm"})), hello(), finish("stop")]), Ok("hi")),
        (
            "refusal",
            events(&[
                delta(json!({"content": null, "refusal": "I will "})),
                delta(json!({"refusal": "not."})),
                finish("stop"),
            ]),
            Ok("I will not."),
        ),
        (
            "refusal, not streamed",
            json!({"choices": [{"message": {"content": null, "refusal": "No."}, "finish_reason": "stop"}]}).to_string(),
            Ok("No."),
        ),
        ("only the end mark", events(&[hello()]) + "data: [DONE]\n\n", Ok("hi")),
        ("empty reason", events(&[hello(), finish("")]), Err(Defect::Cut)),
        (
            "thoughts between marks",
            events(&[delta(json!({"content": "<think>hm"})), delta(json!({"content": "</think>\nhi"})), finish("stop")]),
            Ok("hi"),
        ),
        ("other reason", events(&[hello(), finish("eos")]), Ok("hi")),
        (
            "null usage and error",
            events(&[
                json!({"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}], "usage": null, "error": null}),
            ]),
            Ok("hi"),
        ),
        (
            "second choice",
            events(&[hello(), json!({"choices": [{"index": 1, "delta": {"content": "no"}}]}), finish("stop")]),
            Ok("hi"),
        ),
        ("error inside", events(&[hello(), json!({"error": {"message": "overloaded"}})]), reported(json!({"message": "overloaded"}))),
        ("error reason", events(&[hello(), finish("error")]), reported(Value::Null)),
        ("error as JSON", json!({"error": "no"}).to_string(), reported(json!("no"))),
        ("JSON of something else", json!({"status": "ok"}).to_string(), Err(Defect::NotAnAnswer)),
        ("broken event", "data: {nonsense}\n\n".to_owned(), Err(Defect::NotAnAnswer)),
        ("a page", "<html>\n\n<body>hello</body></html>".to_owned(), Err(Defect::Cut)),
        ("nothing", String::new(), Err(Defect::Cut)),
        ("too much text", events(&[delta(json!({"content": big.clone()})), finish("stop")]), Err(Defect::TooLarge)),
        (
            "too much arguments",
            events(&[piece(json!({"index": 0, "function": {"name": "a", "arguments": big.clone()}}))]),
            Err(Defect::TooLarge),
        ),
        ("too many calls", events(&many), Err(Defect::TooLarge)),
        ("endless line", format!("data: {}", "x".repeat(ENVELOPE_BYTES * 2)), Err(Defect::TooLarge)),
        ("endless JSON", format!("{{{}", " ".repeat(ENVELOPE_BYTES * 2)), Err(Defect::TooLarge)),
    ];
    for (name, body, wanted) in cases {
        let got = read_text(&body).map(|answer| answer.text);
        assert_eq!(got.as_deref().map_err(Clone::clone), wanted, "{name}");
    }
    let broken = b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\n";
    assert_eq!(read([&broken[..]]), Err(Defect::NotAnAnswer));
}

#[test]
fn the_reason_for_stopping_is_kept() {
    for (reason, wanted) in [
        ("stop", Finish::Complete),
        ("tool_calls", Finish::Complete),
        ("function_call", Finish::Complete),
        ("length", Finish::TokenLimit),
        ("content_filter", Finish::Filtered),
    ] {
        assert_eq!(
            read_text(&events(&[finish(reason)])).map(|answer| answer.finish),
            Ok(wanted),
            "{reason}"
        );
    }
}

#[test]
fn pieces_of_opaque_reasoning_become_whole_again() {
    let detail = |detail: Value| delta(json!({"reasoning": "a", "reasoning_details": [detail]}));
    let body = events(&[
        detail(json!({"type": "reasoning.text", "text": "I ", "index": 0, "signature": null})),
        detail(json!({"type": "reasoning.text", "text": "think", "index": 0})),
        detail(json!({"type": "reasoning.text", "index": 0, "signature": "s1"})),
        detail(json!({"type": "reasoning.encrypted", "data": "x", "index": 1})),
        finish("stop"),
    ]);
    let answer = read_text(&body).unwrap();
    assert_eq!(
        answer.opaque_reasoning,
        json!({"reasoning_details": [
            {"type": "reasoning.text", "text": "I think", "index": 0, "signature": "s1"},
            {"type": "reasoning.encrypted", "data": "x", "index": 1},
        ]})
    );
}

#[test]
fn parts_of_usage_are_read_under_all_their_names() {
    let usage = |usage: Value| {
        let body = events(&[finish("stop"), json!({"choices": [], "usage": usage})]);
        let usage = read_text(&body).unwrap().usage.unwrap();
        (
            usage.cached_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
        )
    };
    let whole = |more: Value| {
        let mut usage = json!({"prompt_tokens": 10, "completion_tokens": 5});
        let fields = usage.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        usage
    };
    for (more, wanted) in [
        (
            json!({"prompt_tokens_details": {"cached_tokens": 4}}),
            (4, 0, 0),
        ),
        (
            json!({"prompt_tokens_details": null, "prompt_cache_hit_tokens": 3}),
            (3, 0, 0),
        ),
        (
            json!({"cache_read_input_tokens": 4, "cache_creation_input_tokens": 5}),
            (4, 5, 0),
        ),
        (
            json!({"completion_tokens_details": {"reasoning_tokens": 2}}),
            (0, 0, 2),
        ),
        (
            json!({"prompt_tokens_details": {"cached_tokens": 99}, "completion_tokens_details": {"reasoning_tokens": 99}}),
            (10, 0, 5),
        ),
    ] {
        assert_eq!(usage(whole(more.clone())), wanted, "{more}");
    }
}
