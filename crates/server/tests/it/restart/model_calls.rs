//! The server stops while a model works: the call is finished or made again, and one answer
//! results.

use codelab_protocol::{Message, Role, TurnStatus};
use codelab_testkit::{
    Asked, EventData, EventStream, Gate, Reply, SeenEvents, TestServer, is_classification, message,
    message_to, skipped_through_another,
};

/// Reads until the stopping server ends the stream.
async fn until_stopped(stream: &mut EventStream) -> SeenEvents {
    let mut seen = SeenEvents { events: Vec::new() };
    while let Some(Ok(event)) = stream.next().await {
        seen.events.push(event);
    }
    seen
}

/// Waits until the stopping server takes no more connections.
async fn stops_listening(url: &str) {
    let addr = url.strip_prefix("http://").unwrap();
    while tokio::net::TcpStream::connect(addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

async fn answers(server: &TestServer, session: &str) -> Vec<String> {
    let history: Vec<Message> = server.history(session).await;
    history
        .into_iter()
        .filter(|message| message.role == Role::Assistant)
        .map(|message| message.content)
        .collect()
}

#[tokio::test]
async fn a_call_that_ends_while_the_server_stops_is_kept_and_not_repeated() {
    if skipped_through_another("it waits until the owner listens no more") {
        return;
    }
    let mut server = TestServer::start().await;
    let gate = Gate::new();
    server.model.reply(Reply::text("Just in time.").hold(&gate));
    let mut stream = server.open(&message_to("coder", "grace", "talk")).await;
    gate.reached().await;
    let url = server.url.clone();
    let ending = async {
        stops_listening(&url).await;
        gate.open();
        until_stopped(&mut stream).await
    };
    let ((), shown) = tokio::join!(server.restart(), ending);
    assert_eq!(
        shown.story(),
        [
            "switch_agent coder",
            "assistant_message coder",
            "completion"
        ]
    );
    assert_eq!(
        shown.status(),
        TurnStatus::Completed,
        "the stream of a turn that finishes in time ends with its end"
    );
    let mut events = server.follow("grace", 1).await;
    let rest = SeenEvents::until_done(&mut events).await;
    assert_eq!(
        (rest.story(), rest.ids()),
        (
            vec![
                "assistant_message coder".to_owned(),
                "completion".to_owned()
            ],
            vec![2, 3]
        )
    );
    assert_eq!(answers(&server, "grace").await, ["Just in time."]);
    assert_eq!(server.model.request_count(), 1);
}

#[tokio::test]
async fn a_turn_goes_on_by_itself_from_the_step_that_was_next() {
    if skipped_through_another("it waits until the owner listens no more") {
        return;
    }
    let mut server = TestServer::start().await;
    let gate = Gate::new();
    let verdict = r#"{"agent": "debug", "confidence": "high", "reason": "an error"}"#;
    server
        .model
        .on(is_classification, Reply::text(verdict).hold(&gate));
    server.model.reply(Reply::text("Found it."));
    server.model.reply(Reply::text("And the next."));
    let mut stream = server.open(&message("step", "It fails")).await;
    let mut waiting = server.open(&message_to("coder", "step", "and then?")).await;
    gate.reached().await;
    let url = server.url.clone();
    let ending = async {
        stops_listening(&url).await;
        gate.open();
        until_stopped(&mut stream).await;
        until_stopped(&mut waiting).await;
    };
    tokio::join!(server.restart(), ending);
    let mut events = server.follow("step", 0).await;
    let first = SeenEvents::until_done(&mut events).await;
    let expected = [
        "switch_agent debug",
        "assistant_message debug",
        "switch_agent orchestrator",
        "completion",
    ];
    assert_eq!(
        (first.story(), first.status()),
        (expected.map(str::to_owned).to_vec(), TurnStatus::Completed)
    );
    let second = SeenEvents::until_done(&mut events).await;
    assert_eq!(second.answer().content, "And the next.");
    assert_eq!(
        answers(&server, "step").await,
        ["Found it.", "And the next."]
    );
    let classified = server
        .model
        .requests()
        .iter()
        .filter(|request| request.is_classification())
        .count();
    assert_eq!(
        (classified, server.steps().len()),
        (1, 2),
        "what was decided before the stop is not asked again"
    );
}

#[tokio::test]
async fn a_call_that_hangs_is_made_again_and_replaces_what_was_shown() {
    let mut server = TestServer::start().await;
    server
        .model
        .reply(Reply::text("Half an answer that never ends.").hang_after_deltas(3));
    let mut stream = server.open(&message_to("coder", "hang", "talk")).await;
    let half = SeenEvents::until(&mut stream, |event| shows(event, "Half ")).await;
    let (message_id, attempt) = (
        half.deltas()[0].message_id.clone(),
        half.deltas()[0].attempt,
    );

    let gate = Gate::new();
    server
        .model
        .reply(Reply::text("A whole answer.").hold_after_deltas(3, &gate));
    server.restart().await;
    gate.reached().await;
    let mut events = server.follow("hang", 1).await;
    let again = SeenEvents::until(&mut events, |event| shows(event, "A ")).await;
    let delta = again.deltas()[0];
    assert_eq!((&delta.message_id, delta.offset), (&message_id, 0));
    assert!(
        delta.attempt > attempt,
        "a higher attempt replaces what was shown: {delta:?}"
    );
    gate.open();
    let done = SeenEvents::until_done(&mut events).await;
    assert_eq!(done.story(), ["assistant_message coder", "completion"]);
    assert_eq!(
        (done.answer().content.as_str(), &done.answer().message_id),
        ("A whole answer.", &message_id)
    );
    assert_eq!(
        answers(&server, "hang").await,
        ["A whole answer."],
        "exactly one, and no part of the first"
    );
    assert_eq!(server.model.request_count(), 2);
    let requests = server.model.requests();
    assert_eq!(
        requests[0].body["messages"], requests[1].body["messages"],
        "the same was asked"
    );
}

fn shows(event: &codelab_testkit::StreamEvent, text: &str) -> bool {
    use codelab_protocol::ChunkBody::AssistantDelta;
    matches!(&event.data, EventData::Chunk(chunk) if matches!(&chunk.body, AssistantDelta(d) if d.content.starts_with(text)))
}
