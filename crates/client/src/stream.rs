//! One open event stream, read to its end. It never reconnects; see `resume` for that.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use codelab_protocol::{Chunk, Done};
use http::Response;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::chain;
use crate::http::invalid;
use crate::logged::LoggedEvent;
use crate::sse::{SseDecoder, SseEvent};
use crate::{ClientError, ClientLimits};

/// One event as the server sent it; `E` is [`Chunk`] in the runtime realm and `ChatEvent` in a
/// user's projects.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEvent<E = Chunk> {
    /// The event's number in the session's log; an ephemeral event (a delta) has none, nor has one
    /// of the stream of all sessions.
    pub id: Option<u64>,
    /// `message` or `error` for a chunk, the type of a chat event, or `done`; others are passed on.
    pub event: String,
    pub data: EventData<E>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum EventData<E = Chunk> {
    Chunk(E),
    Done(Done),
    /// JSON of a kind this client does not know, such as a `gap`.
    Other(Value),
}

/// Where a stream may end without having been cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The first `done` is the end.
    FirstDone,
    /// After a `done`; more events may follow one.
    AfterDone,
    Anywhere,
}

/// How long the closing bytes behind `done` are awaited, so that the connection can be used again.
const DRAIN_TIMEOUT_MS: u64 = 200;
const EVENT_STREAM: &str = "text/event-stream";

pub struct EventStream<E = Chunk> {
    body: Incoming,
    decoder: SseDecoder,
    /// Decoded and not yet taken; bounded by what one read of the connection holds.
    ready: VecDeque<SseEvent>,
    closing: StreamEnd,
    phase: Phase,
    idle_timeout_ms: u64,
    last_heard: Instant,
    /// Set by the first byte of the body, a heartbeat included.
    heard: bool,
    kind: PhantomData<fn() -> E>,
}

enum Phase {
    Reading {
        after_done: bool,
    },
    /// The body is over or broken, and what was decoded before that is still to be taken.
    Closed(Result<(), ClientError>),
    /// The last event was taken, but the end of the body was not read yet.
    Draining,
    Over,
}

impl<E: LoggedEvent> EventStream<E> {
    pub(crate) fn new(
        response: Response<Incoming>,
        closing: StreamEnd,
        limits: &ClientLimits,
    ) -> Result<Self, ClientError> {
        let kind = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if !kind.starts_with(EVENT_STREAM) {
            return Err(invalid(format!(
                "the answer is not an event stream but {kind:?}"
            )));
        }
        Ok(Self {
            body: response.into_body(),
            decoder: SseDecoder::new(limits.event_bytes),
            ready: VecDeque::new(),
            closing,
            phase: Phase::Reading { after_done: false },
            idle_timeout_ms: limits.idle_timeout_ms,
            last_heard: Instant::now(),
            heard: false,
            kind: PhantomData,
        })
    }

    /// The next event; `None` after the proper end. After an error there is nothing more. Dropping
    /// the future loses nothing, so it may stand in a `select!`.
    pub async fn next(&mut self) -> Option<Result<StreamEvent<E>, ClientError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(self.take(event));
            }
            match self.phase {
                Phase::Reading { after_done } => self.read(after_done).await,
                Phase::Closed(_) => {
                    let Phase::Closed(end) = std::mem::replace(&mut self.phase, Phase::Over) else {
                        return None;
                    };
                    return end.err().map(Err);
                }
                Phase::Draining => {
                    let whole = async { while let Some(Ok(_)) = self.body.frame().await {} };
                    // A server that keeps the stream open after `done` costs the connection, not
                    // the caller's time.
                    let _ = timeout(Duration::from_millis(DRAIN_TIMEOUT_MS), whole).await;
                    self.phase = Phase::Over;
                }
                Phase::Over => return None,
            }
        }
    }

    /// Every event up to the end.
    pub async fn collect(mut self) -> Result<Vec<StreamEvent<E>>, ClientError> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event?);
        }
        Ok(events)
    }

    /// Whether the server sent anything on this stream, a heartbeat included.
    pub(crate) fn heard(&self) -> bool {
        self.heard
    }

    async fn read(&mut self, after_done: bool) {
        let silent_at = self.last_heard + Duration::from_millis(self.idle_timeout_ms);
        let end = match timeout_at(silent_at, self.body.frame()).await {
            Ok(Some(Ok(frame))) => {
                self.last_heard = Instant::now();
                let Ok(data) = frame.into_data() else { return };
                self.heard = true;
                match self.decoder.push(&data, &mut self.ready) {
                    Ok(()) => return,
                    Err(error) => Err(invalid(error.to_string())),
                }
            }
            Ok(Some(Err(error))) => Err(ClientError::Cut(chain(&error))),
            Ok(None) if after_done || self.closing == StreamEnd::Anywhere => Ok(()),
            Ok(None) => Err(ClientError::Cut("the stream ended without done".into())),
            Err(_) => Err(ClientError::Timeout {
                after_ms: self.idle_timeout_ms,
            }),
        };
        self.phase = Phase::Closed(end);
    }

    fn take(&mut self, event: SseEvent) -> Result<StreamEvent<E>, ClientError> {
        let event = match parse(event) {
            Ok(event) => event,
            Err(error) => {
                self.ready.clear();
                self.phase = Phase::Over;
                return Err(error);
            }
        };
        let done = matches!(event.data, EventData::Done(_));
        if done && self.closing == StreamEnd::FirstDone {
            self.ready.clear();
            self.phase = Phase::Draining;
        } else if let Phase::Reading { after_done } = &mut self.phase {
            *after_done = done;
        }
        Ok(event)
    }
}

impl<E> fmt::Debug for EventStream<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("closing", &self.closing)
            .finish_non_exhaustive()
    }
}

fn parse<E: LoggedEvent>(event: SseEvent) -> Result<StreamEvent<E>, ClientError> {
    let SseEvent { id, event, data } = event;
    let id = match id {
        Some(text) => {
            let number = text
                .parse()
                .map_err(|_| invalid(format!("the event id {text:?} is not a number")))?;
            Some(number)
        }
        None => None,
    };
    let known = match event.as_str() {
        "done" => serde_json::from_str(&data).map(EventData::Done),
        _ => serde_json::from_str(&data).map(EventData::Chunk),
    };
    // A newer server may send kinds this client does not know; they are passed on as JSON.
    let data = known
        .or_else(|_| serde_json::from_str(&data).map(EventData::Other))
        .map_err(|error| invalid(format!("the data of an event is not JSON: {error}")))?;
    Ok(StreamEvent { id, event, data })
}
