//! The fake model as a caller sees it: raw bytes over TCP.

use codelab_fakemodel::{FakeModel, Gate, Reply, is_classification};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn connect(server: &FakeModel, body: &Value) -> TcpStream {
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut socket = TcpStream::connect(&address)
        .await
        .expect("the server listens");
    let body = body.to_string();
    let head =
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
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
    let classification = json!({"max_tokens": 200, "temperature": 0.3});
    assert!(is_classification(&classification));
    assert!(!is_classification(
        &json!({"max_tokens": 200, "temperature": 0.3, "tools": [{}]})
    ));
    for (body, wanted) in [
        (json!({}), "first"),
        (classification, "debug"),
        (json!({"model": "special"}), "ruled"),
        (json!({}), "second"),
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
        let answer = ask(&server, json!({})).await;
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
