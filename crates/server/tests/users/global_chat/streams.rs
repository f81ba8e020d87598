//! Following the Chat: the newest, then all new; after a cut, after a restart.

use std::collections::VecDeque;
use std::time::Duration;

use codelab_testkit::{INTERNAL_KEY, SseDecoder, SseEvent, TestServer, skipped_through_another};
use serde_json::{Value, json};

use super::Room;

const DEADLINE: Duration = Duration::from_secs(20);
const MAX_EVENT_BYTES: usize = 1024 * 1024;

pub struct Stream {
    response: reqwest::Response,
    decoder: SseDecoder,
    ready: VecDeque<SseEvent>,
}

impl Stream {
    pub async fn open(server: &TestServer, query: &str, last_event_id: Option<i64>) -> Self {
        let mut request = reqwest::Client::new()
            .get(format!("{}/chat/stream{query}", server.url))
            .header("x-internal-auth", INTERNAL_KEY);
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-store"),
            ("x-accel-buffering", "no"),
        ] {
            assert_eq!(response.headers()[name], value);
        }
        Self {
            response,
            decoder: SseDecoder::new(MAX_EVENT_BYTES),
            ready: VecDeque::new(),
        }
    }

    /// None at the end.
    pub async fn next_event(&mut self) -> Option<SseEvent> {
        while self.ready.is_empty() {
            let chunk = tokio::time::timeout(DEADLINE, self.response.chunk())
                .await
                .expect("something comes in time");
            self.decoder
                .push(&chunk.unwrap()?, &mut self.ready)
                .unwrap();
        }
        self.ready.pop_front()
    }

    /// The text of the next message; none at the end.
    async fn next(&mut self) -> Option<String> {
        let event = loop {
            let event = self.next_event().await?;
            if event.event != "delta" {
                break event;
            }
        };
        let message: Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!(
            (event.event.as_str(), event.id),
            ("message", Some(message["id"].to_string()))
        );
        Some(message["text"].as_str().unwrap().to_owned())
    }

    async fn take(&mut self, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..count {
            texts.push(self.next().await.expect("the stream goes on"));
        }
        texts
    }
}

#[tokio::test]
async fn a_reader_gets_the_newest_then_all_new() {
    let room = Room::new().await;
    let mut ids = Vec::new();
    for text in ["1", "2", "3"] {
        ids.push(room.tell("ci", text, &[]).await);
    }
    let mut all = Stream::open(&room.server, "", None).await;
    let mut newest = Stream::open(&room.server, "?limit=1", None).await;
    let mut resumed = Stream::open(&room.server, "", Some(ids[0])).await;
    let mut after = Stream::open(&room.server, &format!("?after={}", ids[1]), None).await;
    let mut header_wins = Stream::open(&room.server, "?after=1", Some(ids[2])).await;
    room.tell("ci", "4", &[]).await;
    assert_eq!(all.take(4).await, ["1", "2", "3", "4"]);
    assert_eq!(newest.take(2).await, ["3", "4"]);
    assert_eq!(resumed.take(3).await, ["2", "3", "4"]);
    assert_eq!(after.take(2).await, ["3", "4"]);
    assert_eq!(header_wins.take(1).await, ["4"]);
    room.program
        .ask_with("GET", "/chat/stream", None, &[("last-event-id", "x")])
        .await
        .refused(422, "VALIDATION_ERROR");
    room.program
        .get("/chat/stream?limit=0")
        .await
        .refused(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn many_readers_miss_nothing_and_see_nothing_twice() {
    const READERS: usize = 20;
    const MESSAGES: usize = 200;
    let room = Room::new().await;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(Stream::open(&room.server, "", None).await);
    }
    let expected: Vec<String> = (0..MESSAGES).map(|number| number.to_string()).collect();
    let reading: Vec<_> = readers
        .into_iter()
        .map(|mut reader| tokio::spawn(async move { reader.take(MESSAGES).await }))
        .collect();
    for text in &expected {
        room.tell("ci", text, &[]).await;
    }
    for reader in reading {
        assert_eq!(reader.await.unwrap(), expected);
    }
}

#[tokio::test]
async fn an_open_page_goes_on_after_a_restart() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let mut room = Room::new().await;
    let before = room.tell("ci", "before", &[]).await;
    let mut reader = Stream::open(&room.server, "", None).await;
    assert_eq!(reader.next().await.as_deref(), Some("before"));
    room.server.stop().await;
    // As if the clock had been far ahead before it was set right.
    let database = rusqlite::Connection::open(room.server.data_dir().join("codelab.db")).unwrap();
    let ahead =
        "UPDATE counters SET value = value + 1000000000000 WHERE name = 'chat_ids' RETURNING value";
    let reserved: i64 = database.query_row(ahead, [], |row| row.get(0)).unwrap();
    drop(database);
    room.server.restart().await;
    assert_eq!(reader.next().await, None, "the stream ends with the server");
    let room = Room {
        user: crate::kit::Person::user(&room.server, 7),
        ..renewed(room)
    };
    assert_eq!(
        room.history().await.len(),
        0,
        "the Chat lives with the server"
    );
    let after = room.tell("ci", "after", &[]).await;
    assert!(after > before, "{before} {after}");
    assert_eq!(after, reserved + 1, "ids never go back");
    let mut resumed = Stream::open(&room.server, "", Some(before)).await;
    assert_eq!(resumed.next().await.as_deref(), Some("after"));
    // Nobody can have this one: such a reader begins like a new one.
    let mut lost = Stream::open(&room.server, "", Some(after + 1_000)).await;
    assert_eq!(lost.next().await.as_deref(), Some("after"));
    let newer = room
        .user
        .get(&format!("/chat/history?after={before}"))
        .await
        .expect(200);
    assert_eq!(newer[0]["text"], json!("after"));
}

fn renewed(room: Room) -> Room {
    let header = Some(("x-internal-auth", INTERNAL_KEY.to_owned()));
    let program = crate::kit::Person::with(&room.server, header);
    Room { program, ..room }
}
