//! Event streams: their form on the wire, numbers without gaps, and readers that come, go, stall
//! and come back.

mod drops;

use codelab_protocol::{Chunk, ChunkBody, CreateSession, TurnStatus};
use codelab_testkit::{
    EventData, EventStream, Gate, Method, Reply, SeenEvents, StreamEvent, TestServer, id, message,
    message_to,
};
use serde_json::{Value, json};

/// A session with a turn that was suspended twice: approval, result, answer.
async fn written(server: &TestServer, session: &str) -> Vec<SeenEvents> {
    let asked = asked(server, session).await;
    let approved = server.approve(session, &asked.call_id()).await;
    server.model.reply(Reply::text("Written to a.py."));
    let done = server.result(session, &asked.call_id(), json!("ok")).await;
    vec![asked, approved, done]
}

async fn asked(server: &TestServer, session: &str) -> SeenEvents {
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "a.py", "content": "x"}),
    ));
    server.say_to(session, "coder", "write").await
}

fn stored(seen: &SeenEvents) -> Vec<&StreamEvent> {
    seen.events
        .iter()
        .filter(|event| event.id.is_some())
        .collect()
}

fn has_text(seen: &StreamEvent, text: &str) -> bool {
    matches!(&seen.data, EventData::Chunk(chunk) if serde_json::to_string(chunk).unwrap().contains(text))
}

/// Reads until this much of the answer was streamed.
async fn read_text(stream: &mut EventStream, text: &str) -> SeenEvents {
    let mut seen = SeenEvents { events: Vec::new() };
    while seen.streamed_text() != text {
        let next = SeenEvents::until_delta(stream).await;
        seen.events.extend(next.events);
        assert!(
            text.starts_with(&seen.streamed_text()),
            "{:?}",
            seen.deltas()
        );
    }
    seen
}

#[tokio::test]
async fn the_frames_are_server_sent_events_with_numbers_and_a_closing_done() {
    let server = TestServer::start().await;
    server.model.reply(Reply::tool_call("fly", json!({})));
    server.model.reply(Reply::text("I cannot fly."));
    server.say_to("wire", "coder", "fly").await;
    let answer = server
        .client
        .raw(Method::GET, "/sessions/wire/events?follow=false", &[], "")
        .await
        .unwrap();
    let header = |name: &str| {
        answer
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    assert!(
        header("content-type").starts_with("text/event-stream"),
        "{}",
        header("content-type")
    );
    assert_eq!(
        (header("cache-control"), header("x-accel-buffering")),
        ("no-store", "no")
    );

    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let mut frames: Vec<Vec<(&str, &str)>> = text
        .split_terminator("\n\n")
        .map(|frame| {
            frame
                .lines()
                .map(|line| line.split_once(": ").unwrap())
                .collect()
        })
        .collect();
    assert_eq!(
        frames.pop().unwrap(),
        [("event", "done"), ("data", r#"{"status":"completed"}"#)]
    );
    let types = ["switch_agent", "error", "assistant_message", "completion"];
    assert_eq!(frames.len(), types.len());
    for (number, (frame, kind)) in frames.iter().zip(types).enumerate() {
        let [("id", number_shown), ("event", event), ("data", data)] = frame.as_slice() else {
            panic!("{frame:?}")
        };
        assert_eq!(*number_shown, (number + 1).to_string());
        assert_eq!(*event, if kind == "error" { "error" } else { "message" });
        let data: Value = serde_json::from_str(data).unwrap();
        let mut keys: Vec<&String> = data.as_object().unwrap().keys().collect();
        keys.sort();
        assert_eq!(keys, ["data", "timestamp", "type"]);
        assert_eq!(data["type"], kind);
    }
}

#[tokio::test]
async fn what_the_streams_of_a_turn_showed_is_what_the_log_holds() {
    let server = TestServer::start().await;
    let streams = written(&server, "log").await;
    let log = server.log("log").await;
    let shown: Vec<&StreamEvent> = streams.iter().flat_map(stored).collect();
    assert_eq!(shown, stored(&log));
    assert_eq!(log.ids(), [1, 2, 3, 4, 5]);
    use TurnStatus::{AwaitingApproval, AwaitingToolResult, Completed};
    assert_eq!(
        log.statuses(),
        [AwaitingApproval, AwaitingToolResult, Completed]
    );
    assert!(log.deltas().is_empty(), "tokens are not stored");
}

#[tokio::test]
async fn the_log_can_be_read_from_any_number() {
    let server = TestServer::start().await;
    written(&server, "places").await;
    let all = server.log("places").await;
    let path = "/sessions/places/events?follow=false";
    for after in 0..=5_u64 {
        let by_header = server
            .client
            .events(&id("places"), Some(after), false)
            .await
            .unwrap();
        let by_header = SeenEvents::all(by_header).await;
        let expected: Vec<u64> = (after + 1..=5).collect();
        assert_eq!(by_header.ids(), expected, "after {after}");
        let header = after.to_string();
        let headers = [("last-event-id", header.as_str())];
        let raw = server
            .client
            .raw(Method::GET, path, &headers, "")
            .await
            .unwrap()
            .body;
        let by_query = server
            .client
            .raw(Method::GET, &format!("{path}&after={after}"), &[], "")
            .await
            .unwrap()
            .body;
        assert_eq!(raw, by_query, "after {after}");
        let tail = all
            .events
            .iter()
            .skip_while(|event| event.id.is_none_or(|number| number <= after));
        assert_eq!(
            stored(&by_header),
            tail.filter(|event| event.id.is_some()).collect::<Vec<_>>()
        );
    }
}

/// A purged session that was made anew, or a restored backup: what the reader knows is another log.
#[tokio::test]
async fn a_number_past_the_end_is_a_gap_and_then_the_log_from_its_start() {
    let server = TestServer::start().await;
    written(&server, "anew").await;
    server
        .client
        .delete_session(&id("anew"), true)
        .await
        .unwrap();
    server.model.reply(Reply::text("Hello again."));
    server.say_to("anew", "coder", "hello").await;
    let all = server.log("anew").await;
    let last = *all.ids().last().unwrap();
    assert!(last < 5, "the new log is shorter");
    let path = "/sessions/anew/events?follow=false";
    for after in [last + 1, 5, u64::MAX] {
        let seen = SeenEvents::all(
            server
                .client
                .events(&id("anew"), Some(after), false)
                .await
                .unwrap(),
        )
        .await;
        let (gap, rest) = seen.events.split_first().unwrap();
        let EventData::Chunk(Chunk {
            body: ChunkBody::Gap(gap_data),
            ..
        }) = &gap.data
        else {
            panic!("{gap:?}")
        };
        assert_eq!(
            (gap.id, gap_data.from, gap_data.to),
            (Some(0), last + 1, after)
        );
        assert_eq!(rest, all.events);
        let by_query = server
            .client
            .raw(Method::GET, &format!("{path}&after={after}"), &[], "")
            .await
            .unwrap()
            .body;
        assert!(
            String::from_utf8(by_query.to_vec())
                .unwrap()
                .contains(r#""type":"gap""#),
            "after {after}"
        );
    }

    // A session without events has nothing to follow the gap but what comes.
    let empty = CreateSession {
        session_id: id("empty"),
        system_prompt: None,
    };
    server.client.create_session(&empty).await.unwrap();
    let mut follower = server.follow("empty", 3).await;
    let gap = follower.next().await.unwrap().unwrap();
    assert!(has_text(&gap, r#""from":1,"to":3"#), "{gap:?}");
    server.model.reply(Reply::text("Now."));
    server.say_to("empty", "coder", "speak").await;
    let seen = SeenEvents::until_done(&mut follower).await;
    assert_eq!(
        seen.ids(),
        (1..=seen.ids().len() as u64).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_reader_that_follows_sees_the_past_and_what_comes() {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Hi there."));
    let first = server.say_to("follow", "coder", "hello").await;
    let mut from_start = server.follow("follow", 0).await;
    let mut from_now = server.follow("follow", 3).await;
    let past = SeenEvents::until_done(&mut from_start).await;
    assert_eq!(
        (past.ids(), past.status()),
        (first.ids(), TurnStatus::Completed)
    );
    for turn in 0..3 {
        let said = server.say("follow", "and?").await;
        for reader in [&mut from_start, &mut from_now] {
            let seen = SeenEvents::until_done(reader).await;
            assert_eq!(stored(&seen), stored(&said), "turn {turn}");
            assert_eq!(seen.status(), TurnStatus::Completed);
        }
    }
}

#[tokio::test]
async fn a_reader_that_comes_back_to_the_end_is_told_again_how_the_turn_stands() {
    let server = TestServer::start().await;
    for seen in written(&server, "settled")
        .await
        .iter()
        .skip(2)
        .chain(&[asked(&server, "waiting").await])
    {
        let session = if seen.status() == TurnStatus::Completed {
            "settled"
        } else {
            "waiting"
        };
        let mut back = server.follow(session, *seen.ids().last().unwrap()).await;
        let told = SeenEvents::until(&mut back, |_| true).await;
        assert_eq!(
            (told.status(), told.ids()),
            (seen.status(), vec![]),
            "{session}"
        );
    }
}

#[tokio::test]
async fn many_readers_see_the_same() {
    let server = TestServer::start().await;
    server
        .model
        .default_reply(Reply::text("Hi there, all of you."));
    server.say_to("many", "coder", "hello").await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        readers.push(server.follow("many", 3).await);
    }
    let said = server.say("many", "again").await;
    for reader in &mut readers {
        let seen = SeenEvents::until_done(reader).await;
        assert_eq!(stored(&seen), stored(&said));
    }
}

#[tokio::test]
async fn tokens_come_without_numbers_and_add_up_to_the_answer() {
    let server = TestServer::start().await;
    let text = "Это ответ по словам, word by word, 一字一字.";
    let gate = Gate::new();
    // Everything is said, but the answer is not finished: no token is overtaken by the whole.
    let words = text.split(' ').count();
    server
        .model
        .reply(Reply::text(text).hold_after_deltas(1 + words, &gate));
    let mut stream = server.open(&message_to("coder", "tokens", "talk")).await;
    let mut seen = read_text(&mut stream, text).await;
    gate.open();
    seen.events.extend(SeenEvents::all(stream).await.events);
    let answer = seen.answer();
    assert_eq!(answer.content, text);
    let mut offset = 0;
    for delta in seen.deltas() {
        assert_eq!(
            (&delta.message_id, delta.agent.as_str()),
            (&answer.message_id, "coder")
        );
        assert_eq!((delta.offset, delta.attempt), (offset, 0));
        offset += delta.content.len() as u64;
    }
    let is_delta = |event: &&StreamEvent| has_text(event, "assistant_delta");
    assert!(
        seen.events
            .iter()
            .filter(is_delta)
            .all(|event| event.id.is_none() && event.event == "message")
    );
    let kept = server.history("tokens").await.pop().unwrap();
    assert_eq!(kept.message_id, answer.message_id);
}

#[tokio::test]
async fn a_reader_that_joins_mid_answer_first_gets_the_text_so_far() {
    let server = TestServer::start().await;
    let gate = Gate::new();
    server
        .model
        .reply(Reply::text("один два три четыре").hold_after_deltas(3, &gate));
    let mut first = server.open(&message_to("coder", "joining", "count")).await;
    read_text(&mut first, "один два ").await;
    let mut joined = server.follow("joining", 0).await;
    let so_far = SeenEvents::until_delta(&mut joined).await;
    assert_eq!(so_far.story(), ["switch_agent coder"]);
    let delta = so_far.deltas()[0];
    assert_eq!((delta.offset, delta.content.as_str()), (0, "один два "));

    gate.open();
    let rest = SeenEvents::until_done(&mut joined).await;
    assert!(
        "три четыре".starts_with(&rest.streamed_text()),
        "{:?}",
        rest.deltas()
    );
    assert!(
        rest.deltas()
            .first()
            .is_none_or(|delta| delta.offset == "один два ".len() as u64)
    );
    assert_eq!(rest.story(), ["assistant_message coder", "completion"]);
    let end = SeenEvents::all(first).await;
    assert_eq!(end.answer(), rest.answer());
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_stop_the_turn_and_misses_nothing() {
    let server = TestServer::start().await;
    let gate = Gate::new();
    server.model.route_to("coder");
    server
        .model
        .reply(Reply::tool_call("echo", json!({"text": "one"})));
    server
        .model
        .reply(Reply::text("Slowly spoken words.").hold_after_deltas(2, &gate));
    let mut stream = server.open(&message("away", "talk")).await;
    let seen = SeenEvents::until_delta(&mut stream).await;
    assert_eq!(seen.story(), ["switch_agent coder", "tool_result echo"]);
    drop(stream);

    let mut back = server.follow("away", *seen.ids().last().unwrap()).await;
    let so_far = SeenEvents::until_delta(&mut back).await;
    assert_eq!(
        (
            so_far.deltas()[0].offset,
            so_far.deltas()[0].content.as_str()
        ),
        (0, "Slowly ")
    );
    drop(back);
    gate.open();
    let mut back = server.follow("away", 2).await;
    let rest = SeenEvents::until_done(&mut back).await;
    assert_eq!(rest.ids(), [3, 4, 5]);
    assert_eq!(
        rest.story(),
        [
            "assistant_message coder",
            "switch_agent orchestrator",
            "completion"
        ]
    );
    assert_eq!(rest.answer().content, "Slowly spoken words.");
    assert_eq!(server.model.request_count(), 3);
}
