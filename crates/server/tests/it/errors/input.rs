//! Bad input: what is wrong is said, with its code, and nothing happens.

use codelab_testkit::{Reply, TestServer};
use serde_json::{Value, json};

use crate::openapi::{WayIn, routes};
use crate::raw::{Answer, Request};

const STREAM: &str = "/agent/message/stream";

async fn post(server: &TestServer, target: &str, body: impl Into<Vec<u8>>) -> Answer {
    Request::with_key(server, "POST", target)
        .json(body)
        .send(server)
        .await
}

fn decide(given: Value) -> Value {
    json!({"session_id": "s", "message_type": "hitl_decision", "tool_call_id": "c", "hitl_decision": given})
}

#[tokio::test]
async fn a_word_outside_of_its_set_is_refused_with_what_is_allowed() {
    let server = TestServer::start().await;
    for (body, code, detail) in [
        (
            json!({"session_id": "s", "message_type": "shout"}),
            "INVALID_MESSAGE_TYPE",
            "message_type must be user_message, tool_result, switch_agent or hitl_decision, not shout",
        ),
        (
            decide(json!({"decision": "maybe"})),
            "INVALID_DECISION",
            "decision must be APPROVE, EDIT or REJECT, not maybe",
        ),
    ] {
        let answer = post(&server, STREAM, body.to_string()).await;
        assert_eq!(answer.refusal(), (422, code.to_owned()));
        assert_eq!(answer.json()["detail"], detail);
    }
    assert_untouched(&server).await;
}

/// Nothing was made and nobody was asked.
async fn assert_untouched(server: &TestServer) {
    let sessions = Request::with_key(server, "GET", "/sessions")
        .send(server)
        .await
        .json();
    assert_eq!(sessions["total"], 0, "{sessions}");
    assert_eq!(server.model.request_count(), 0);
}

#[tokio::test]
async fn a_body_that_is_no_json_is_refused() {
    let server = TestServer::start().await;
    let bodies: [&[u8]; 16] = [
        b"",
        b" ",
        b"{",
        b"{\"session_id\": \"s\", \"message\": \"x\"",
        b"{\"session_id\": \"s\", \"message\": \"x\"} trailing",
        b"{\"session_id\": \"s\", \"message\": \"x\",}",
        b"{'session_id': 's'}",
        b"null",
        b"[]",
        b"\"text\"",
        b"42",
        b"session_id=s&message=x",
        b"\xff\xfe\xfd",
        b"{\"session_id\": \"\xc3\x28\"}",
        b"{\"session_id\": \"\\ud800\"}",
        b"\xef\xbb\xbf{\"session_id\": \"s\"}",
    ];
    for target in [STREAM, "/sessions"] {
        for body in bodies {
            let answer = post(&server, target, body).await;
            let shown = String::from_utf8_lossy(body);
            assert_eq!(
                answer.refusal(),
                (422, "VALIDATION_ERROR".to_owned()),
                "{target} {shown}"
            );
        }
    }
    assert_untouched(&server).await;
}

/// JSON is UTF-8, also where nobody reads it.
#[tokio::test]
async fn invalid_utf_8_is_refused_anywhere_in_a_body() {
    let server = TestServer::start().await;
    let around: [(&[u8], &[u8]); 4] = [
        (b"{\"session_id\": \"s\", \"message\": \"", b"\"}"),
        (
            b"{\"session_id\": \"s\", \"message\": \"x\", \"unknown\": \"",
            b"\"}",
        ),
        (b"{\"session_id\": \"s\", \"message\": \"x\", \"", b"\": 1}"),
        (
            b"{\"session_id\": \"s\", \"message\": \"x\", \"context\": {\"timezone\": \"",
            b"\"}}",
        ),
    ];
    for target in [STREAM, "/sessions"] {
        for (before, after) in around {
            for invalid in [
                &b"\xc3\x28"[..],
                b"\xff",
                b"\xed\xa0\x80",
                b"\xf8\x88\x80\x80\x80",
                b"\xc0\x80",
            ] {
                let answer = post(&server, target, [before, invalid, after].concat()).await;
                let shown = String::from_utf8_lossy(before);
                assert_eq!(
                    answer.status,
                    422,
                    "{target} {shown} {invalid:x?}: {}",
                    answer.text()
                );
            }
        }
    }
    assert_untouched(&server).await;
}

#[tokio::test]
async fn a_missing_field_is_named() {
    let server = TestServer::start().await;
    let cases = [
        (json!({}), "session_id"),
        (json!({"message": "x"}), "session_id"),
        (json!({"session_id": "s"}), "message"),
        (json!({"session_id": "s", "message": null}), "message"),
        (json!({"session_id": "s", "message": ""}), "message"),
        (json!({"session_id": "s", "message": "   "}), "message"),
        (json!({"session_id": "s", "message": "\n\r\n\t"}), "message"),
        (
            json!({"session_id": "s", "message": "\u{a0}\u{2003}"}),
            "message",
        ),
        (
            json!({"session_id": "s", "message_type": "user_message"}),
            "message",
        ),
        (
            json!({"session_id": "s", "message_type": "tool_result", "tool_result": "x"}),
            "tool_call_id",
        ),
        (
            json!({"session_id": "s", "message_type": "tool_result", "tool_call_id": "c"}),
            "tool_result",
        ),
        (
            json!({"session_id": "s", "message_type": "switch_agent", "message": "coder"}),
            "agent_type",
        ),
        (
            json!({"session_id": "s", "message_type": "hitl_decision", "hitl_decision": {"decision": "APPROVE"}}),
            "tool_call_id",
        ),
        (
            json!({"session_id": "s", "message_type": "hitl_decision", "tool_call_id": "c"}),
            "hitl_decision",
        ),
        (decide(json!({})), "decision"),
        (decide(json!({"decision": null})), "decision"),
        (decide(json!({"decision": "EDIT"})), "modified_args"),
        (
            decide(json!({"decision": "edit", "modified_args": null})),
            "modified_args",
        ),
    ];
    for (body, field) in cases {
        let answer = post(&server, STREAM, body.to_string()).await;
        assert_eq!(
            answer.refusal(),
            (422, "MISSING_REQUIRED_FIELD".to_owned()),
            "{body}"
        );
        assert_eq!(answer.json()["details"]["field"], field, "{body}");
    }
    let answer = post(&server, "/sessions", "{}").await;
    assert_eq!(answer.refusal(), (422, "MISSING_REQUIRED_FIELD".to_owned()));
    assert_eq!(answer.json()["details"]["field"], "session_id");
    assert_untouched(&server).await;
}

#[tokio::test]
async fn a_wrong_value_is_refused_with_its_code() {
    let server = TestServer::start().await;
    let long = "x".repeat(129);
    let say = |session: Value| json!({"session_id": session, "message": "x"});
    let typed = |kind: Value| json!({"session_id": "s", "message": "x", "message_type": kind});
    let about = |context: Value| json!({"session_id": "s", "message": "x", "context": context});
    let invalid = (422, "VALIDATION_ERROR");
    let cases = [
        (say(json!("")), invalid),
        (say(json!(" ")), invalid),
        (say(json!("a b")), invalid),
        (say(json!("a/b")), invalid),
        (say(json!("a\n")), invalid),
        (say(json!("a\0")), invalid),
        (say(json!("é")), invalid),
        (say(json!("a%2fb")), invalid),
        (say(json!("'; DROP TABLE sessions; --")), invalid),
        (say(json!(long)), invalid),
        (say(json!(5)), invalid),
        (say(json!(null)), invalid),
        (say(json!(["s"])), invalid),
        (say(json!({"id": "s"})), invalid),
        (typed(json!("")), (422, "INVALID_MESSAGE_TYPE")),
        (typed(json!("USER_MESSAGE")), (422, "INVALID_MESSAGE_TYPE")),
        (typed(json!("user_message ")), (422, "INVALID_MESSAGE_TYPE")),
        (typed(json!("message")), (422, "INVALID_MESSAGE_TYPE")),
        (
            typed(json!("x".repeat(100_000))),
            (422, "INVALID_MESSAGE_TYPE"),
        ),
        (typed(json!(1)), invalid),
        (json!({"session_id": "s", "message": 5}), invalid),
        (json!({"session_id": "s", "message": ["x"]}), invalid),
        (
            json!({"session_id": "s", "message": "x", "agent_type": 5}),
            invalid,
        ),
        (
            json!({"session_id": "s", "message": "x", "agent_type": ""}),
            (404, "AGENT_NOT_FOUND"),
        ),
        (
            json!({"session_id": "s", "message": "x", "agent_type": "universal"}),
            (404, "AGENT_NOT_FOUND"),
        ),
        (
            json!({"session_id": "s", "message": "x", "client_message_id": "a b"}),
            invalid,
        ),
        (
            json!({"session_id": "s", "message": "x", "client_message_id": ""}),
            invalid,
        ),
        (about(json!("me")), invalid),
        (about(json!({"user_id": -1})), invalid),
        (about(json!({"user_id": 0})), invalid),
        (about(json!({"user_id": "1"})), invalid),
        (about(json!({"user_id": 1e30})), invalid),
        (
            json!({"session_id": "s", "message_type": "tool_result", "tool_call_id": "a b", "tool_result": 1}),
            invalid,
        ),
        (decide(json!("APPROVE")), invalid),
        (decide(json!({"decision": true})), invalid),
        (decide(json!({"decision": ""})), (422, "INVALID_DECISION")),
        (
            decide(json!({"decision": "APPROVE "})),
            (422, "INVALID_DECISION"),
        ),
        (
            decide(json!({"decision": "yes"})),
            (422, "INVALID_DECISION"),
        ),
        (
            decide(json!({"decision": "EDIT", "modified_args": "{}"})),
            (422, "INVALID_DECISION"),
        ),
        (
            decide(json!({"decision": "APPROVE", "modified_args": {"path": "b"}})),
            (422, "INVALID_DECISION"),
        ),
        (
            decide(json!({"decision": "APPROVE", "remember": "yes"})),
            invalid,
        ),
        (decide(json!({"decision": "APPROVE", "digest": 5})), invalid),
    ];
    for (body, (status, code)) in cases {
        let answer = post(&server, STREAM, body.to_string()).await;
        let shown: String = body.to_string().chars().take(200).collect();
        assert_eq!(
            answer.refusal(),
            (status, code.to_owned()),
            "{shown}: {}",
            answer.text()
        );
        assert!(
            answer.body.len() < 1000,
            "an answer does not echo what it refuses: {shown}"
        );
    }
    let twice = r#"{"session_id": "s", "session_id": "t", "message": "x"}"#;
    assert_eq!(
        post(&server, STREAM, twice).await.refusal(),
        (422, "VALIDATION_ERROR".to_owned())
    );
    for bad in [
        json!({"session_id": "a b"}),
        json!({"session_id": "s", "system_prompt": 5}),
    ] {
        assert_eq!(
            post(&server, "/sessions", bad.to_string()).await.refusal(),
            (422, "VALIDATION_ERROR".to_owned())
        );
    }
    assert_untouched(&server).await;
}

#[tokio::test]
async fn a_body_that_is_not_declared_as_json_is_refused() {
    let server = TestServer::start().await;
    let body = r#"{"session_id": "s", "message": "x"}"#;
    for route in routes()
        .into_iter()
        .filter(|route| route.takes_body && route.way_in == WayIn::InternalKey)
    {
        for content_type in [
            None,
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data; boundary=x"),
            Some("text/plain; application/json"),
            Some("application/jsonp"),
            Some(""),
        ] {
            let mut request = Request::with_key(&server, &route.method, &route.path).body(body);
            request
                .headers
                .extend(content_type.map(|value| ("Content-Type".to_owned(), value.to_owned())));
            let answer = request.send(&server).await;
            assert_eq!(
                answer.refusal(),
                (422, "VALIDATION_ERROR".to_owned()),
                "{} {content_type:?}",
                route.path
            );
        }
    }
    assert_untouched(&server).await;
    server.model.route_to("ask");
    server.model.reply(Reply::text("Hello"));
    let declared = Request::with_key(&server, "POST", STREAM)
        .with("Content-Type", "Application/JSON; charset=utf-8");
    assert_eq!(declared.body(body).send(&server).await.status, 200);
}

#[tokio::test]
async fn a_wrong_query_or_header_is_refused() {
    let server = TestServer::start().await;
    assert_eq!(
        post(&server, "/sessions", r#"{"session_id": "s"}"#)
            .await
            .status,
        201
    );
    let huge = "9".repeat(30);
    let huge = huge.as_str();
    let queries = [
        ("GET", format!("/sessions?limit={huge}")),
        ("GET", "/sessions?limit=0".to_owned()),
        ("GET", "/sessions?limit=1001".to_owned()),
        ("GET", "/sessions?limit=-1".to_owned()),
        ("GET", "/sessions?limit=ten".to_owned()),
        ("GET", "/sessions?limit=".to_owned()),
        ("GET", "/sessions?limit=1&limit=2".to_owned()),
        ("GET", "/sessions?offset=-1".to_owned()),
        ("GET", "/sessions?offset=18446744073709551615".to_owned()),
        ("GET", "/sessions/s/events?follow=false&after=-1".to_owned()),
        ("GET", "/sessions/s/events?follow=false&after=x".to_owned()),
        (
            "GET",
            format!("/sessions/s/events?follow=false&after={huge}"),
        ),
        ("GET", "/sessions/s/events?follow=maybe".to_owned()),
        ("DELETE", "/sessions/s?hard=maybe".to_owned()),
        ("POST", "/sessions/s/cancel?queue=explode".to_owned()),
    ];
    for (method, target) in queries {
        let answer = Request::with_key(&server, method, &target)
            .send(&server)
            .await;
        assert_eq!(
            answer.refusal(),
            (422, "VALIDATION_ERROR".to_owned()),
            "{method} {target}"
        );
    }
    for id in ["x", "-1", "1.5", "", huge] {
        let request = Request::with_key(&server, "GET", "/sessions/s/events?follow=false")
            .with("Last-Event-ID", id);
        assert_eq!(
            request.send(&server).await.refusal(),
            (422, "VALIDATION_ERROR".to_owned()),
            "Last-Event-ID {id}"
        );
    }
    let still = Request::with_key(&server, "GET", "/sessions/s/history")
        .send(&server)
        .await;
    assert_eq!(still.status, 200);
}

/// A number past the end is not wrong: a reader may come back before anything new has happened.
#[tokio::test]
async fn events_past_the_end_are_an_empty_stream() {
    let server = TestServer::start().await;
    assert_eq!(
        post(&server, "/sessions", r#"{"session_id": "s"}"#)
            .await
            .status,
        201
    );
    for after in ["0", "7", "9223372036854775807", "18446744073709551615"] {
        let target = format!("/sessions/s/events?follow=false&after={after}");
        let answer = Request::with_key(&server, "GET", &target)
            .send(&server)
            .await;
        assert_eq!(answer.status, 200, "{after}: {}", answer.text());
        assert!(
            !answer.text().contains("event: error"),
            "{after}: {}",
            answer.text()
        );
    }
}

#[tokio::test]
async fn a_path_that_cannot_name_a_session_names_none() {
    let server = TestServer::start().await;
    let long = "x".repeat(129);
    for route in routes()
        .into_iter()
        .filter(|route| route.path.contains("{session_id}"))
    {
        for id in [
            "nobody",
            "a%20b",
            "a%2fb",
            "%00",
            "%ff",
            "..%2f..",
            "a'b",
            "%E2%80%AE",
            long.as_str(),
        ] {
            let request = route.request(&server, id);
            let answer = request.send(&server).await;
            assert_eq!(
                answer.refusal(),
                (404, "SESSION_NOT_FOUND".to_owned()),
                "{} {}",
                route.method,
                request.target
            );
        }
    }
    assert_untouched(&server).await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_one_at_the_limit_is_read() {
    const DEFAULT: usize = 8_388_608;
    for (setting, limit) in [(Some("1000"), 1000), (None, DEFAULT)] {
        let settings: Vec<(&str, &str)> = setting
            .iter()
            .map(|value| ("CODELAB_LIMITS__BODY_BYTES", *value))
            .collect();
        let server = TestServer::with(&settings).await;
        for route in routes()
            .into_iter()
            .filter(|route| route.takes_body && route.way_in == WayIn::InternalKey)
        {
            for (bytes, expected) in [
                (limit, (422, "VALIDATION_ERROR")),
                (limit + 1, (413, "PAYLOAD_TOO_LARGE")),
                (limit * 2, (413, "PAYLOAD_TOO_LARGE")),
            ] {
                let answer = post(&server, &route.path, vec![b' '; bytes]).await;
                assert_eq!(
                    answer.refusal(),
                    (expected.0, expected.1.to_owned()),
                    "{} {bytes} of {limit}",
                    route.path
                );
                if expected.0 == 413 {
                    assert_eq!(answer.json()["details"]["limit_bytes"], limit);
                }
            }
        }
        assert_untouched(&server).await;
    }
}

/// An ordinary client, which first writes all it has, sees the answer and not a broken connection.
#[tokio::test]
async fn an_ordinary_client_sees_why_its_body_is_refused() {
    let server = TestServer::start().await;
    let json = [("content-type", "application/json")];
    for _ in 0..5 {
        let answer = server
            .client
            .raw(
                codelab_testkit::Method::POST,
                STREAM,
                &json,
                vec![b' '; 9 << 20],
            )
            .await;
        assert_eq!(answer.unwrap().status, 413);
    }
}

/// Text may hold anything that JSON can, and comes back as it was.
#[tokio::test]
async fn unusual_text_is_kept_as_it_is() {
    let server = TestServer::start().await;
    server.model.route_to("ask");
    for (index, text) in [
        "a\u{0}b",
        "\u{202e}evil\u{202c}",
        "\u{feff}bom",
        "😀\u{200d}",
        "line\r\nline\n\ndata: {}\n\n",
        "\u{1b}[31m",
    ]
    .into_iter()
    .enumerate()
    {
        let session = format!("s{index}");
        server.model.reply(Reply::text(format!("You said {text}")));
        let seen = server.say(&session, text).await;
        assert_eq!(seen.streamed_text(), format!("You said {text}"), "{text:?}");
        let id = codelab_protocol::SessionId::parse(&session).unwrap();
        let history = server.client.history(&id).await.unwrap().messages;
        assert_eq!(history[0].content, text);
        assert_eq!(history[1].content, format!("You said {text}"));
    }
}
