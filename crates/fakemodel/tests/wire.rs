//! The fake model as a caller sees it: raw bytes over TCP.

use codelab_fakemodel::{FakeModel, Fault, Gate, Reply, Wire, is_classification};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn connect(server: &FakeModel, body: &Value) -> TcpStream {
    connect_on(server, Wire::OpenAi, body).await
}

async fn connect_on(server: &FakeModel, wire: Wire, body: &Value) -> TcpStream {
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut socket = TcpStream::connect(&address)
        .await
        .expect("the server listens");
    let body = body.to_string();
    let path = wire.path();
    let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    let request = format!(
        "{head}x-test: 1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket
        .write_all(request.as_bytes())
        .await
        .expect("the request is taken");
    socket
}

async fn rest(mut socket: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A cut connection may end in a reset; what came before it counts.
    let _reset = socket.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).expect("an answer in UTF-8")
}

async fn ask(server: &FakeModel, body: Value) -> String {
    rest(connect(server, &body).await).await
}

const LAST_CHUNK: &str = "0\r\n\r\n";

#[tokio::test]
async fn rules_come_before_the_script_and_the_default_after_it() {
    let server = FakeModel::start().await;
    server.route_to("debug");
    server.on(|body| body["model"] == "special", Reply::text("ruled"));
    server.reply(Reply::text("first"));
    server.reply(Reply::text("second"));
    let stream = || json!({"stream": true});
    let classification = json!({"max_tokens": 200, "temperature": 0.3});
    assert!(is_classification(&classification));
    assert!(!is_classification(
        &json!({"max_tokens": 200, "temperature": 0.3, "tools": [{}]})
    ));
    for (body, wanted) in [
        (stream(), "first"),
        (classification, "debug"),
        (json!({"model": "special"}), "ruled"),
        (stream(), "second"),
        (json!({"n": 5}), "script exhausted"),
    ] {
        let answer = ask(&server, body).await;
        assert!(answer.contains(wanted), "{wanted}: {answer}");
    }
    server.default_reply(Reply::text("default"));
    assert!(ask(&server, json!({})).await.contains("default"));
    let requests = server.wait_for_requests(6).await;
    assert_eq!(requests[4].body, json!({"n": 5}));
    assert_eq!(requests[0].header("x-test"), Some("1"));
}

#[tokio::test]
async fn replies_go_wrong_as_told() {
    let server = FakeModel::start().await;
    let whole = Reply::text("one two three");
    for (reply, has, has_not) in [
        (whole.clone(), &["three", "[DONE]", LAST_CHUNK][..], &[][..]),
        (
            whole.clone().cut_after_deltas(2),
            &["one"],
            &["two", LAST_CHUNK],
        ),
        (
            whole.clone().cut_after_bytes(10),
            &["data: {"],
            &["one", LAST_CHUNK],
        ),
        (
            whole.clone().not_streamed_json(),
            &["one two three"],
            &["[DONE]"],
        ),
        (whole.clone().without_usage(), &["[DONE]"], &["usage"]),
        (
            Reply::status_with_headers(429, &[("retry-after", "7")], "no"),
            &["HTTP/1.1 429", "retry-after: 7"],
            &[],
        ),
        (
            Reply::tool_call("echo", json!({"text": "abcdef"})).split_arguments(20),
            &["echo", "tool_calls"],
            &["abcdef"],
        ),
    ] {
        server.reply(reply.clone());
        let answer = ask(&server, json!({"stream": true})).await;
        assert!(
            has.iter().all(|part| answer.contains(part)),
            "{reply:?}: {answer}"
        );
        assert!(
            !has_not.iter().any(|part| answer.contains(part)),
            "{reply:?}: {answer}"
        );
    }
}

#[tokio::test]
async fn a_gate_holds_and_a_dropped_server_lets_go() {
    let server = FakeModel::start().await;
    let gate = Gate::new();
    server.reply(Reply::text("held").hold(&gate));
    server.reply(Reply::hang());
    let held = connect(&server, &json!({})).await;
    gate.reached().await;
    server.wait_until_in_flight(1).await;
    gate.open();
    assert!(rest(held).await.contains("held"));
    server.wait_until_in_flight(0).await;
    let hanging = connect(&server, &json!({})).await;
    server.wait_for_requests(2).await;
    drop(server);
    assert_eq!(rest(hanging).await, "");
}

/// A line of each stream after the other, without what is the same in every line.
fn names(answer: &str) -> Vec<&str> {
    answer
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect()
}

#[tokio::test]
async fn the_same_script_is_told_in_the_format_of_the_path() {
    let server = FakeModel::start().await;
    let reply = Reply::tool_call("echo", json!({"text": "abc"}))
        .with_reasoning("I wonder", 4)
        .with_text("Let me see.")
        .with_usage(100, 20)
        .with_cached(60, 30);
    server.default_reply(reply);
    let ask = async |wire, body: Value| rest(connect_on(&server, wire, &body).await).await;
    let streamed = json!({"stream": true});

    let anthropic = ask(Wire::Anthropic, streamed.clone()).await;
    let block = ["content_block_start", "content_block_delta"];
    let wanted = [
        &["message_start", "ping"][..],
        &block,
        &[
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
        ],
        &block,
        &[
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
        ],
        &block,
        &["content_block_stop", "message_delta", "message_stop"],
    ];
    assert_eq!(names(&anthropic), wanted.concat(), "{anthropic}");
    for part in [
        r#""thinking":"wonder""#,
        r#""signature_delta""#,
        r#""stop_reason":"tool_use""#,
        r#""input_tokens":10,"output_tokens":1,"cache_read_input_tokens":60,"cache_creation_input_tokens":30"#,
        r#""usage":{"output_tokens":20}"#,
    ] {
        assert!(anthropic.contains(part), "{part}: {anthropic}");
    }

    let openai = ask(Wire::OpenAi, streamed).await;
    for part in [
        r#""reasoning_content":"wonder""#,
        r#""prompt_tokens":100"#,
        r#""cached_tokens":60"#,
        r#""reasoning_tokens":4"#,
    ] {
        assert!(openai.contains(part), "{part}: {openai}");
    }
    for (wire, part) in [
        (Wire::Anthropic, r#""input":{"text":"abc"}"#),
        (Wire::OpenAi, r#""object":"chat.completion""#),
    ] {
        let whole = ask(wire, json!({})).await;
        assert!(whole.contains(part), "{part}: {whole}");
        assert!(whole.contains("application/json"), "{whole}");
    }
    let wires: Vec<Wire> = server.requests().iter().map(|sent| sent.wire).collect();
    assert_eq!(wires[0], Wire::Anthropic);
    assert_eq!(wires[1], Wire::OpenAi);
}

#[tokio::test]
async fn faults_are_told_in_the_words_of_the_wire() {
    let server = FakeModel::start().await;
    for (fault, wire, status, word) in [
        (
            Fault::Overloaded,
            Wire::Anthropic,
            "529",
            "overloaded_error",
        ),
        (Fault::Overloaded, Wire::OpenAi, "503", "overloaded"),
        (
            Fault::UnknownModel("m7".to_owned()),
            Wire::Anthropic,
            "404",
            "model: m7",
        ),
        (
            Fault::UnknownModel("m7".to_owned()),
            Wire::OpenAi,
            "404",
            "model `m7`",
        ),
    ] {
        server.reply(Reply::fault_with_headers(
            fault.clone(),
            &[("retry-after", "7")],
        ));
        let body = json!({"stream": true});
        let answer = rest(connect_on(&server, wire, &body).await).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert!(
            answer.contains(word) && answer.contains("retry-after: 7"),
            "{answer}"
        );

        server.reply(Reply::text("one two").fault_after_deltas(2, fault));
        let answer = rest(connect_on(&server, wire, &body).await).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(
            answer.contains("one") && !answer.contains("two"),
            "{answer}"
        );
        assert!(
            answer.contains(word) && answer.contains(LAST_CHUNK),
            "{answer}"
        );
    }
}
