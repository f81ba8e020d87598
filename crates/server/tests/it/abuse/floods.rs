//! Too much of everything: a clear refusal, a living server, bounded memory.

use bytes::Bytes;
use codelab_testkit::{INTERNAL_KEY, Reply, TestServer};
use serde_json::json;

use super::{alone, block_on};
use crate::raw::{Request, authority, exchange};

const STREAM: &str = "/agent/message/stream";
const MIB: usize = 1 << 20;

/// Above what one body at the limit takes while it is read, far below what is sent.
const MAX_GROWTH_KIB: u64 = 96 * 1024;

/// A line of what the kernel knows about this process, such as `VmRSS` (now) or `VmHWM` (the most
/// ever).
fn memory_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn assert_alive(server: &TestServer) {
    let health = Request::new(server, "GET", "/health").send(server).await;
    assert_eq!(health.status, 200);
}

/// A head without its end.
fn head(server: &TestServer, target: &str, key: Option<&str>) -> String {
    let key = key
        .map(|key| format!("X-Internal-Auth: {key}\r\n"))
        .unwrap_or_default();
    let host = authority(server);
    format!(
        "POST {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n{key}"
    )
}

/// A body in pieces, whose length nobody says.
fn chunked(server: &TestServer, key: Option<&str>, bytes: usize) -> Vec<u8> {
    let mut request = format!(
        "{}Transfer-Encoding: chunked\r\n\r\n",
        head(server, STREAM, key)
    )
    .into_bytes();
    let piece = [
        format!("{:x}\r\n", 64 * 1024).into_bytes(),
        vec![b' '; 64 * 1024],
        b"\r\n".to_vec(),
    ]
    .concat();
    for _ in 0..bytes / (64 * 1024) {
        request.extend_from_slice(&piece);
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}

#[test]
fn large_bodies_cost_no_memory() {
    if alone("abuse::floods::large_bodies_cost_no_memory").is_some() {
        return;
    }
    block_on(async {
        let server = TestServer::start().await;
        let endless = Bytes::from(chunked(&server, Some(INTERNAL_KEY), 64 * MIB));
        let from_stranger = Bytes::from(chunked(&server, None, 64 * MIB));
        let before = memory_kib("VmRSS");
        for _ in 0..5 {
            let answer = exchange(&server, endless.clone()).await.unwrap();
            assert_eq!(answer.refusal(), (413, "PAYLOAD_TOO_LARGE".to_owned()));
        }
        let strangers = (0..50).map(|_| exchange(&server, from_stranger.clone()));
        for answer in futures_util::future::join_all(strangers).await {
            assert_eq!(answer.unwrap().status, 401);
        }
        let grown = memory_kib("VmHWM").saturating_sub(before);
        assert!(grown < MAX_GROWTH_KIB, "grew by {grown} KiB");
        assert_alive(&server).await;
    });
}

#[tokio::test]
async fn deep_json_is_refused() {
    let server = TestServer::start().await;
    const DEPTH: usize = 1_000_000;
    let opened = "[".repeat(DEPTH);
    let closed = format!("{opened}{}", "]".repeat(DEPTH));
    let objects = "{\"a\":".repeat(DEPTH);
    for body in [
        opened.clone(),
        closed.clone(),
        objects.clone(),
        format!(
            r#"{{"session_id": "s", "message_type": "tool_result", "tool_call_id": "c", "tool_result": {closed}}}"#
        ),
        format!(
            r#"{{"session_id": "s", "message_type": "hitl_decision", "tool_call_id": "c",
            "hitl_decision": {{"decision": "EDIT", "modified_args": {objects}"#
        ),
        format!(r#"{{"session_id": "s", "message": {closed}}}"#),
        format!(r#"{{"session_id": {objects}"#),
        format!(r#"{{"session_id": "s", "context": {closed}}}"#),
    ] {
        let answer = Request::with_key(&server, "POST", STREAM)
            .json(body.clone())
            .send(&server)
            .await;
        assert_eq!(
            answer.refusal(),
            (422, "VALIDATION_ERROR".to_owned()),
            "{body:.60}"
        );
    }
    // What nobody reads may be as deep as it likes.
    let ignored = format!(r#"{{"session_id": "s", "unknown": {closed}}}"#);
    assert_eq!(
        Request::with_key(&server, "POST", "/sessions")
            .json(ignored)
            .send(&server)
            .await
            .status,
        201
    );
    assert_alive(&server).await;
    assert_eq!(server.model.request_count(), 0);
}

#[tokio::test]
async fn too_many_or_too_long_headers_are_refused() {
    let server = TestServer::start().await;
    let key = Some(INTERNAL_KEY);
    let many = (0..10_000)
        .map(|n| format!("X-{n}: a\r\n"))
        .collect::<String>();
    let long = "a".repeat(MIB);
    let cases = [
        (
            "10,000 headers",
            format!("{}{many}\r\n", head(&server, STREAM, key)),
        ),
        (
            "10,000 headers of a stranger",
            format!("{}{many}\r\n", head(&server, STREAM, None)),
        ),
        (
            "a header of 1 MiB",
            format!("{}X-Long: {long}\r\n\r\n", head(&server, STREAM, key)),
        ),
        (
            "a header name of 1 MiB",
            format!("{}{long}: a\r\n\r\n", head(&server, STREAM, key)),
        ),
        (
            "a key of 1 MiB",
            format!("{}\r\n", head(&server, STREAM, Some(&long))),
        ),
        (
            "an address of 1 MiB",
            format!("{}\r\n", head(&server, &format!("/sessions/{long}"), key)),
        ),
        ("a line of 1 MiB", format!("{long}\r\n\r\n")),
    ];
    for (what, bytes) in cases {
        let answer = exchange(&server, bytes.into_bytes())
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(
            (400..500).contains(&answer.status),
            "{what}: {}",
            answer.status
        );
        assert_alive(&server).await;
    }
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    let server = TestServer::start().await;
    let host = authority(&server).to_owned();
    let key = format!("Host: {host}\r\nX-Internal-Auth: {INTERNAL_KEY}\r\nConnection: close\r\n");
    let json = "Content-Type: application/json\r\n";
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("no HTTP at all", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec()),
        ("no version", b"GET /\r\n\r\n".to_vec()),
        ("a space in a header name", format!("GET /sessions HTTP/1.1\r\nX y: 1\r\n{key}\r\n").into_bytes()),
        ("a NUL in a header", [format!("GET /sessions HTTP/1.1\r\n{key}X: ").as_bytes(), b"\0\r\n\r\n"].concat()),
        ("a raw byte in the address", [b"GET /sess\xffions HTTP/1.1\r\n", key.as_bytes(), b"\r\n"].concat()),
        (
            "a length and chunks",
            format!("POST {STREAM} HTTP/1.1\r\n{key}{json}Content-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\n{{}}xyz")
                .into_bytes(),
        ),
        (
            "two lengths",
            format!("POST {STREAM} HTTP/1.1\r\n{key}{json}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}x")
                .into_bytes(),
        ),
        ("a negative length", format!("POST {STREAM} HTTP/1.1\r\n{key}{json}Content-Length: -1\r\n\r\n").into_bytes()),
        (
            "a chunk of a bad size",
            format!("POST {STREAM} HTTP/1.1\r\n{key}{json}Transfer-Encoding: chunked\r\n\r\nzz\r\n").into_bytes(),
        ),
        (
            "a chunk of a huge size",
            format!("POST {STREAM} HTTP/1.1\r\n{key}{json}Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n")
                .into_bytes(),
        ),
    ];
    for (what, bytes) in cases {
        let answer = exchange(&server, bytes)
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(
            (400..500).contains(&answer.status),
            "{what}: {} {}",
            answer.status,
            answer.text()
        );
        assert_alive(&server).await;
    }
    assert_eq!(server.model.request_count(), 0);
}

/// A body that was smuggled behind another request is not answered as a request with a key.
#[tokio::test]
async fn a_refused_body_is_not_read_as_the_next_request() {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Hello"));
    let host = authority(&server);
    let inner = json!({"session_id": "smuggled", "message": "x"}).to_string();
    let smuggled = format!(
        "POST {STREAM} HTTP/1.1\r\nHost: {host}\r\nX-Internal-Auth: {INTERNAL_KEY}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{inner}",
        inner.len()
    );
    for (target, key) in [
        (STREAM, ""),
        ("/unknown", ""),
        ("/sessions", "X-Internal-Auth: wrong\r\n"),
    ] {
        let outer = format!(
            "POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             {key}Content-Length: {}\r\n\r\n",
            smuggled.len()
        );
        let last = format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = exchange(&server, format!("{outer}{smuggled}{last}").into_bytes())
            .await
            .unwrap();
        assert!(
            matches!(answer.status, 401 | 404),
            "{target}: {}",
            answer.status
        );
        let sessions = Request::with_key(&server, "GET", "/sessions")
            .send(&server)
            .await
            .json();
        assert_eq!(sessions["total"], 0, "{target}");
    }
    assert_eq!(server.model.request_count(), 0);
}

/// A tool result as large as a body may be is accepted, kept, and cut for the model.
#[tokio::test]
async fn a_large_tool_result_is_taken_and_cut_for_the_model() {
    let server = TestServer::start().await;
    server
        .model
        .reply(Reply::tool_call("read_file", json!({"path": "big.txt"})));
    let call = server.say_to("s", "coder", "read it").await.call_id();
    server.model.reply(Reply::text("That was long"));
    let text = "0123456789".repeat(7 * MIB / 10);
    let seen = server.result("s", &call, json!(text)).await;
    assert_eq!(seen.streamed_text(), "That was long");
    let sent = server
        .model
        .requests()
        .pop()
        .unwrap()
        .body
        .to_string()
        .len();
    assert!(sent < 200_000, "the model was sent {sent} bytes");
}
