//! One event stream: every kind of event is understood, and a stream that was cut says so.

use codelab_client::{ClientError, ClientLimits, EventData, EventStream, StreamEvent};
use codelab_protocol::{AgentStreamRequest, Chunk, ChunkBody, Done, SessionId, TurnStatus};
use serde_json::{Value, json};

use crate::scripted::{Answer, Server, open_stream, plain, whole_stream};

const DONE: &[u8] = b"event: done\ndata: {\"status\":\"completed\"}\n\n";
const ONE: &[u8] =
    b"id: 1\nevent: message\ndata: {\"type\":\"completion\",\"data\":{\"status\":\"success\",\
    \"message\":\"\",\"agent\":\"coder\"},\"timestamp\":\"2026-01-13T20:00:00.000Z\"}\n\n";

fn session() -> SessionId {
    SessionId::parse("s1").unwrap()
}

fn user_message() -> AgentStreamRequest {
    serde_json::from_value(json!({"session_id": "s1", "message": "hi"})).unwrap()
}

/// One of each chunk type, as the server writes them.
fn chunks() -> Vec<Value> {
    let time = "2026-01-13T20:00:00.000Z";
    let digest = "ab".repeat(32);
    let data = [
        (
            "assistant_message",
            json!({"content": "Привет 🦀\n", "agent": "coder", "message_id": "m1", "timestamp": time,
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cached_tokens": 0, "reasoning_tokens": 0, "cost_usd": 0.5},
            "warnings": ["another model"]}),
        ),
        (
            "assistant_delta",
            json!({"content": "a", "agent": "coder", "message_id": "m1", "attempt": 1, "offset": 0}),
        ),
        (
            "tool_call",
            json!({"tool_call": {"call_id": "c1", "name": "execute_command", "arguments": {"command": "rm -r x",
            "timeout_seconds": 18446744073709551615u64}}, "requires_approval": true, "reason": "deletes",
            "digest": digest, "parts": [{"text": "rm -r x", "reason": "deletes"}], "expires_at": time, "agent": "coder",
            "user_id": 7}),
        ),
        (
            "tool_call",
            json!({"tool_call": {"call_id": "c1", "name": "read_file", "arguments": {"path": "a"}},
            "requires_approval": false, "approved": true, "digest": digest, "agent": "coder"}),
        ),
        (
            "tool_result",
            json!({"call_id": "c2", "tool_name": "calculator", "result": {"z": 1, "a": [1.5, null, -1]}}),
        ),
        (
            "switch_agent",
            json!({"from_agent": "orchestrator", "to_agent": "coder", "reason": "code",
            "confidence": "high", "timestamp": time}),
        ),
        (
            "question",
            json!({"call_id": "c3", "question": "Which?", "options": ["a", "b"], "agent": "ask"}),
        ),
        (
            "error",
            json!({"message": "no", "error_code": "LLM_ERROR", "details": {"status": 500}}),
        ),
        (
            "completion",
            json!({"status": "success", "message": "", "agent": "coder"}),
        ),
    ];
    data.into_iter()
        .map(|(kind, data)| json!({"type": kind, "data": data, "timestamp": time}))
        .collect()
}

async fn collect(
    stream: Result<EventStream, ClientError>,
) -> Result<Vec<StreamEvent>, ClientError> {
    stream?.collect().await
}

#[tokio::test]
async fn every_chunk_type_survives_the_wire() {
    let mut wire = String::from(": beat\n\n");
    for (number, chunk) in chunks().iter().enumerate() {
        let (kind, text) = (chunk["type"].as_str().unwrap(), chunk.to_string());
        let parsed: Chunk = serde_json::from_str(&text).unwrap();
        assert_eq!(
            serde_json::to_string(&parsed).unwrap(),
            text,
            "what is read is written back the same"
        );
        assert_eq!(parsed.body.kind(), kind);
        if kind != "assistant_delta" {
            wire += &format!("id: {}\n", number + 1);
        }
        let event = if kind == "error" { "error" } else { "message" };
        wire += &format!("event: {event}\ndata: {text}\n\n: beat\n\n");
    }
    wire += "event: done\ndata: {\"status\":\"awaiting_approval\"}\n\n";

    for part_bytes in [1, 10, wire.len()] {
        let parts: Vec<&[u8]> = wire.as_bytes().chunks(part_bytes).collect();
        let server = Server::always(whole_stream(&parts)).await;
        let events = server
            .client()
            .send(&user_message())
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        for ((event, chunk), number) in events.iter().zip(chunks()).zip(1u64..) {
            let EventData::Chunk(parsed) = &event.data else {
                panic!("{event:?}")
            };
            assert_eq!(serde_json::to_value(parsed).unwrap(), chunk);
            let is_delta = matches!(parsed.body, ChunkBody::AssistantDelta(_));
            assert_eq!(event.id, (!is_delta).then_some(number));
            assert_eq!(
                event.event == "error",
                matches!(parsed.body, ChunkBody::Error(_))
            );
        }
        let done = EventData::Done(Done {
            status: TurnStatus::AwaitingApproval,
        });
        assert_eq!(
            events.last(),
            Some(&StreamEvent {
                id: None,
                event: "done".into(),
                data: done
            })
        );
        assert_eq!(events.len(), chunks().len() + 1);
    }
}

#[tokio::test]
async fn requests_for_streams_say_what_is_wanted() {
    let server = Server::always(whole_stream(&[DONE])).await;
    let client = server.client();
    collect(client.send(&user_message()).await).await.unwrap();
    collect(client.events(&session(), None, true).await)
        .await
        .unwrap();
    collect(client.events(&session(), Some(41), true).await)
        .await
        .unwrap();
    collect(client.events(&session(), Some(0), false).await)
        .await
        .unwrap();
    let seen: Vec<(String, Option<String>)> = server
        .requests()
        .iter()
        .map(|request| {
            (
                request.line.clone(),
                request.header("last-event-id").map(str::to_owned),
            )
        })
        .collect();
    let expected = [
        ("POST /agent/message/stream", None),
        ("GET /sessions/s1/events", None),
        ("GET /sessions/s1/events", Some("41")),
        ("GET /sessions/s1/events?follow=false", Some("0")),
    ];
    assert_eq!(
        seen,
        expected.map(|(line, id)| (line.to_owned(), id.map(str::to_owned)))
    );
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("accept") == Some("text/event-stream"))
    );
    assert_eq!(
        server.requests()[0].body,
        r#"{"session_id":"s1","message":"hi"}"#
    );
    assert_eq!(
        server.connections(),
        1,
        "a stream read to its end leaves its connection for the next"
    );
}

#[tokio::test]
async fn a_stream_that_ends_early_is_cut_and_what_came_is_kept() {
    type Open = fn(
        &codelab_client::Client,
    )
        -> std::pin::Pin<Box<dyn Future<Output = Result<EventStream, ClientError>>>>;
    let send: Open = |client| {
        let client = client.clone();
        Box::pin(async move { client.send(&user_message()).await })
    };
    let follow: Open = |client| {
        let client = client.clone();
        Box::pin(async move { client.events(&session(), None, true).await })
    };
    let stored: Open = |client| {
        let client = client.clone();
        Box::pin(async move { client.events(&session(), None, false).await })
    };
    let half = &ONE[..ONE.len() / 2];
    // Whether the end is proper, and how many events come before it.
    let cases: Vec<(Open, Answer, usize, bool)> = vec![
        (send, Answer::Cut(open_stream(&[ONE])), 1, false),
        (send, Answer::Cut(whole_stream(&[ONE])), 1, false),
        (send, Answer::Cut(whole_stream(&[ONE, half])), 1, false),
        (send, Answer::Cut(open_stream(&[])), 0, false),
        (send, Answer::Cut(whole_stream(&[ONE, DONE])), 2, true),
        (send, Answer::Cut(open_stream(&[ONE, DONE])), 2, true),
        (send, Answer::Hold(open_stream(&[ONE, DONE])), 2, true),
        (send, Answer::Cut(whole_stream(&[DONE, ONE])), 1, true),
        (follow, Answer::Cut(whole_stream(&[ONE])), 1, false),
        (follow, Answer::Cut(whole_stream(&[DONE, ONE])), 2, false),
        (follow, Answer::Cut(open_stream(&[ONE, DONE])), 2, false),
        (
            follow,
            Answer::Cut(whole_stream(&[ONE, DONE, b": beat\n\n"])),
            2,
            true,
        ),
        (stored, Answer::Cut(whole_stream(&[ONE])), 1, true),
        (stored, Answer::Cut(whole_stream(&[])), 0, true),
        (stored, Answer::Cut(open_stream(&[ONE])), 1, false),
    ];
    for (case, (open, answer, count, proper)) in cases.into_iter().enumerate() {
        let mut answers = vec![answer];
        let server = Server::start(move |_| answers.pop().unwrap()).await;
        let mut stream = open(&server.client()).await.unwrap();
        for _ in 0..count {
            stream.next().await.unwrap().unwrap();
        }
        match stream.next().await {
            None => assert!(proper, "case {case}"),
            Some(Err(ClientError::Cut(_))) => assert!(!proper, "case {case}"),
            other => panic!("case {case}: {other:?}"),
        }
        assert!(
            stream.next().await.is_none(),
            "case {case}: nothing follows the end"
        );
    }
}

#[tokio::test]
async fn what_is_not_known_is_passed_on_and_what_is_wrong_is_said() {
    let gap = b"id: 9\nevent: gap\ndata: {\"from\":2,\"to\":9}\n\n".as_slice();
    let newer =
        b"id: 10\ndata: {\"type\":\"newer\",\"data\":{},\"timestamp\":\"x\"}\n\n".as_slice();
    let server = Server::always(whole_stream(&[gap, newer, DONE])).await;
    let events = server
        .client()
        .send(&user_message())
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!((events[0].id, events[0].event.as_str()), (Some(9), "gap"));
    assert_eq!(
        events[0].data,
        EventData::Other(json!({"from": 2, "to": 9}))
    );
    assert!(matches!(&events[1].data, EventData::Other(data) if data["type"] == "newer"));

    let limits = ClientLimits {
        event_bytes: 100,
        ..ClientLimits::default()
    };
    let large = format!("data: \"{}\"\n\n", "x".repeat(100));
    for wrong in [
        b"data: {\n\n".as_slice(),
        b"id: x\ndata: {}\n\n",
        b"data: \"\xff\"\n\n",
        large.as_bytes(),
    ] {
        let server = Server::always(whole_stream(&[b"data: 1\n\n", wrong, DONE])).await;
        let mut stream = server
            .client_with(limits)
            .send(&user_message())
            .await
            .unwrap();
        assert_eq!(
            stream.next().await.unwrap().unwrap().data,
            EventData::Other(json!(1))
        );
        let result = stream.next().await;
        assert!(
            matches!(result, Some(Err(ClientError::Invalid(_)))),
            "{result:?}"
        );
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn a_stream_may_be_refused_or_be_something_else() {
    let body = r#"{"detail":"Unknown","error_code":"TOOL_CALL_NOT_FOUND","details":{}}"#;
    let server = Server::always(plain("404 Not Found", "", body)).await;
    let error = server.client().send(&user_message()).await.unwrap_err();
    assert_eq!(
        (error.status(), error.error_code().unwrap().as_str()),
        (Some(404), "TOOL_CALL_NOT_FOUND")
    );
    let server = Server::always(plain("200 OK", "content-type: text/html\r\n", "<html>")).await;
    assert!(matches!(
        server.client().send(&user_message()).await,
        Err(ClientError::Invalid(_))
    ));
}

#[tokio::test]
async fn silence_is_a_timeout_and_an_abandoned_wait_loses_nothing() {
    let limits = ClientLimits {
        idle_timeout_ms: 60,
        ..ClientLimits::default()
    };
    let server = Server::start(|_| Answer::Hold(open_stream(&[ONE, &DONE[..10]]))).await;
    let mut stream = server
        .client_with(limits)
        .send(&user_message())
        .await
        .unwrap();
    let mut seen = 0;
    let result = loop {
        // The caller gives up waiting again and again; neither events nor the time of silence are
        // forgotten.
        match tokio::time::timeout(std::time::Duration::from_millis(5), stream.next()).await {
            Err(_) => {}
            Ok(Some(Ok(_))) => seen += 1,
            Ok(end) => break end,
        }
    };
    assert_eq!(seen, 1);
    assert!(
        matches!(result, Some(Err(ClientError::Timeout { after_ms: 60 }))),
        "{result:?}"
    );
}
