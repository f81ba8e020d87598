//! Event streams, read as a client reads them.

use std::collections::VecDeque;
use std::time::Duration;

use codelab_testkit::{SseDecoder, SseEvent};
use serde_json::Value;

/// A test that waits longer than this for an event is wrong.
const DEADLINE: Duration = Duration::from_secs(40);
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: Option<u64>,
    /// The id in a stream whose ids are no numbers.
    pub cursor: Option<String>,
    pub kind: String,
    /// The event's own data, without what is around it.
    pub data: Value,
    /// Everything, as it came.
    pub whole: Value,
}

pub struct Stream {
    response: reqwest::Response,
    decoder: SseDecoder,
    ready: VecDeque<SseEvent>,
}

/// What a stream showed, in order.
#[derive(Debug, Clone)]
pub struct Seen(pub Vec<Event>);

impl Stream {
    pub async fn of(response: reqwest::Response) -> Self {
        let status = response.status().as_u16();
        if status != 200 {
            panic!("no stream but {status}: {}", response.text().await.unwrap());
        }
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        assert_eq!(header("content-type"), "text/event-stream");
        assert_eq!(
            (header("cache-control"), header("x-accel-buffering")),
            ("no-store", "no")
        );
        Self {
            response,
            decoder: SseDecoder::new(MAX_EVENT_BYTES),
            ready: VecDeque::new(),
        }
    }

    /// The next event; none at the end.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(read(&event));
            }
            let chunk = tokio::time::timeout(DEADLINE, self.response.chunk())
                .await
                .expect("something comes in time");
            let bytes = chunk.expect("the stream can be read")?;
            self.decoder.push(&bytes, &mut self.ready).unwrap();
        }
    }

    /// The next bytes, as they came.
    pub async fn bytes(&mut self) -> String {
        let chunk = self.response.chunk().await.expect("the stream can be read");
        String::from_utf8(chunk.expect("the stream goes on").to_vec()).unwrap()
    }

    pub async fn all(mut self) -> Seen {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        Seen(events)
    }

    /// Reads on to an event of this type that fits.
    pub async fn until(&mut self, kind: &str, fits: impl Fn(&Value) -> bool) -> Event {
        let mut passed = Vec::new();
        loop {
            let Some(event) = self.next().await else {
                panic!("no fitting {kind}, only {passed:?}")
            };
            if event.kind == kind && fits(&event.data) {
                return event;
            }
            passed.push(event.kind);
        }
    }

    /// Everything up to the next `done`, that included.
    pub async fn until_done(&mut self) -> Seen {
        let mut events = Vec::new();
        loop {
            let event = self.next().await.expect("the stream goes on");
            let done = event.kind == "done";
            events.push(event);
            if done {
                return Seen(events);
            }
        }
    }
}

impl Seen {
    /// The stored events' types, in order, without what is left out.
    pub fn kinds(&self) -> Vec<&str> {
        self.0
            .iter()
            .filter(|event| event.id.is_some())
            .map(|event| event.kind.as_str())
            .collect()
    }

    /// How the turn stood when the stream ended.
    #[track_caller]
    pub fn status(&self) -> &str {
        let last = self.0.last().expect("the stream is not empty");
        assert_eq!(last.kind, "done", "{:?}", self.kinds());
        last.whole["status"].as_str().unwrap()
    }

    /// What every `done` said.
    pub fn statuses(&self) -> Vec<&str> {
        let done = self.0.iter().filter(|event| event.kind == "done");
        done.filter_map(|event| event.whole["status"].as_str())
            .collect()
    }

    pub fn all(&self, kind: &str) -> Vec<&Value> {
        self.0
            .iter()
            .filter(|event| event.kind == kind)
            .map(|event| &event.data)
            .collect()
    }

    /// The data of the one event of this type.
    #[track_caller]
    pub fn one(&self, kind: &str) -> &Value {
        match self.all(kind).as_slice() {
            [only] => only,
            others => panic!(
                "{} events of type {kind} in {:?}",
                others.len(),
                self.kinds()
            ),
        }
    }

    /// The index of the first event of this type that fits.
    #[track_caller]
    pub fn index(&self, kind: &str, fits: impl Fn(&Value) -> bool) -> usize {
        let found = self
            .0
            .iter()
            .position(|event| event.kind == kind && fits(&event.data));
        found.unwrap_or_else(|| panic!("no fitting {kind} in {:?}", self.kinds()))
    }

    pub fn ids(&self) -> Vec<u64> {
        self.0.iter().filter_map(|event| event.id).collect()
    }
}

fn read(event: &SseEvent) -> Event {
    let whole: Value = serde_json::from_str(&event.data).expect("an event is JSON");
    let is_number = |id: &&String| id.bytes().all(|byte| byte.is_ascii_digit());
    let number = event.id.as_ref().filter(is_number);
    let id = number.map(|id| id.parse().expect("an id is a number"));
    let cursor = event.id.clone().filter(|_| id.is_none());
    let data = whole.get("data").cloned().unwrap_or(Value::Null);
    if event.event != "done" {
        assert_eq!(whole["type"], event.event.as_str(), "{whole}");
        assert_eq!(
            whole["seq"].as_u64(),
            id.or(whole["seq"].as_u64()),
            "{whole}"
        );
        assert!(
            whole["session_id"].is_string() && whole["timestamp"].is_string(),
            "{whole}"
        );
    }
    Event {
        id,
        cursor,
        kind: event.event.clone(),
        data,
        whole,
    }
}
