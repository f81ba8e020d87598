//! Readers that lose their stream at random places, or take nothing for long, and still see
//! everything once.

use std::collections::HashMap;
use std::sync::Arc;

use codelab_protocol::{AssistantDelta, ChunkBody, MessageId};
use codelab_testkit::{EventData, EventStream, Reply, StreamEvent, TestServer};
use serde_json::json;

const DROPS: usize = 30;
const TURNS: usize = 30;

/// What a client keeps over its connections: the stored events, and the text it would show.
#[derive(Default)]
struct Kept {
    stored: Vec<StreamEvent>,
    /// Of this connection only: a new one starts a message at offset 0.
    texts: HashMap<MessageId, String>,
    answers: usize,
}

impl Kept {
    fn last_id(&self) -> u64 {
        self.stored.last().and_then(|event| event.id).unwrap_or(0)
    }

    fn take(&mut self, event: StreamEvent) {
        if let EventData::Chunk(chunk) = &event.data {
            match &chunk.body {
                ChunkBody::AssistantDelta(delta) => self.show(delta),
                ChunkBody::AssistantMessage(message) => {
                    self.answers += 1;
                    if let Some(shown) = self.texts.get(&message.message_id) {
                        assert!(
                            message.content.starts_with(shown),
                            "{shown:?} is not the start of {message:?}"
                        );
                    }
                }
                _ => {}
            }
        }
        if event.id.is_some() {
            assert_eq!(event.id, Some(self.last_id() + 1), "no gap and no repeat");
            self.stored.push(event);
        }
    }

    fn show(&mut self, delta: &AssistantDelta) {
        let text = self.texts.entry(delta.message_id.clone()).or_default();
        assert_eq!(
            delta.offset,
            text.len() as u64,
            "a delta starts where the text so far ends: {delta:?}"
        );
        text.push_str(&delta.content);
    }

    async fn read(&mut self, stream: &mut EventStream) {
        let event = stream
            .next()
            .await
            .expect("the stream goes on")
            .expect("the stream can be read");
        self.take(event);
    }
}

/// A small generator with a fixed start, so that a failure can be repeated.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_dropped_at_30_random_places_sees_everything_once() {
    let server = Arc::new(TestServer::start().await);
    server.switch("drops", "coder").await;
    for turn in 0..TURNS {
        server
            .model
            .reply(Reply::tool_call("echo", json!({"text": turn.to_string()})));
        server.model.reply(Reply::text(format!(
            "This is answer number {turn} of many words."
        )));
    }
    let talking = Arc::clone(&server);
    let talking = tokio::spawn(async move {
        for turn in 0..TURNS {
            talking.say("drops", &format!("turn {turn}")).await;
        }
    });

    let mut chance = Chance(0x5EED_C0DE);
    let mut kept = Kept::default();
    for _ in 0..DROPS {
        let mut stream = server.follow("drops", kept.last_id()).await;
        kept.texts.clear();
        for _ in 0..=chance.below(3) {
            kept.read(&mut stream).await;
        }
    }
    let mut stream = server.follow("drops", kept.last_id()).await;
    kept.texts.clear();
    // One switch at the start, then a tool result, an answer and a completion for each turn.
    while kept.stored.len() < 1 + 3 * TURNS {
        kept.read(&mut stream).await;
    }
    talking.await.unwrap();
    let log: Vec<StreamEvent> = server
        .log("drops")
        .await
        .events
        .into_iter()
        .filter(|e| e.id.is_some())
        .collect();
    assert_eq!((kept.stored.len(), kept.answers), (log.len(), TURNS));
    assert_eq!(kept.stored, log);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_for_long_still_gets_everything() {
    let server = TestServer::start().await;
    server.switch("slow", "coder").await;
    let mut slow = server.follow("slow", 0).await;
    let turns = 12;
    for turn in 0..turns {
        // Far more than the buffers on the way hold.
        server
            .model
            .reply(Reply::text(format!("{turn}:{}", "x".repeat(1_000_000))));
        server.say("slow", "talk").await;
    }
    let mut kept = Kept::default();
    let expected = 1 + 2 * turns;
    while kept.stored.len() < expected {
        match slow.next().await {
            Some(Ok(event)) => kept.take(event),
            // Cut for being slow: it comes back.
            Some(Err(_)) | None => {
                kept.texts.clear();
                slow = server.follow("slow", kept.last_id()).await;
            }
        }
    }
    assert_eq!(kept.answers, turns);
    let log: Vec<StreamEvent> = server
        .log("slow")
        .await
        .events
        .into_iter()
        .filter(|e| e.id.is_some())
        .collect();
    assert_eq!(kept.stored, log);
}
