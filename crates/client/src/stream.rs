//! One open event stream, read to its end. It never reconnects; `resume` does that.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use codelab_protocol::{Chunk, Done};
use codelab_transport::BodyReader;
use http::Response;
use http::header::CONTENT_TYPE;
use hyper::body::Incoming;
use serde_json::Value;

use crate::http::invalid;
use crate::logged::LoggedEvent;
use crate::sse::{SseDecoder, SseEvent};
use crate::{ClientError, ClientLimits};

/// One event as the server sent it. `E` is [`Chunk`] for a runtime session and `SessionEvent` for a
/// session of a project.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEvent<E = Chunk> {
    /// The event's number in the session's log. Ephemeral events (deltas) have none, and the ids of
    /// the stream of all sessions are no numbers: see [`EventStream::last_id`].
    pub id: Option<u64>,
    /// `message` or `error` for a chunk, the type of a chat event, or `done`. Unknown names are
    /// passed on.
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

/// Where a stream may end without counting as cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// At the first `done`.
    FirstDone,
    /// After any `done`; more events may follow a `done`.
    AfterDone,
    Anywhere,
}

/// How long to wait for the end of the body after `done`, so that the connection can be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
const EVENT_STREAM: &str = "text/event-stream";

pub struct EventStream<E = Chunk> {
    body: BodyReader,
    decoder: SseDecoder,
    /// Decoded but not yet returned. Bounded by what one read of the connection holds.
    ready: VecDeque<SseEvent>,
    closing: StreamEnd,
    phase: Phase,
    /// Set by the first byte of the body. A heartbeat counts.
    heard: bool,
    /// The ids are texts without a meaning.
    has_opaque_ids: bool,
    last_id: Option<String>,
    kind: PhantomData<fn() -> E>,
}

enum Phase {
    Reading {
        after_done: bool,
    },
    /// The body has ended or is broken. Events decoded before that are still returned.
    Closed(Result<(), ClientError>),
    /// The last event was returned, but the end of the body was not read yet.
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
            body: BodyReader::new(
                response.into_body(),
                Duration::from_millis(limits.idle_timeout_ms),
            ),
            decoder: SseDecoder::new(limits.event_bytes),
            ready: VecDeque::new(),
            closing,
            phase: Phase::Reading { after_done: false },
            heard: false,
            has_opaque_ids: false,
            last_id: None,
            kind: PhantomData,
        })
    }

    pub(crate) fn with_opaque_ids(self) -> Self {
        Self {
            has_opaque_ids: true,
            ..self
        }
    }

    /// The id of the last event that was returned, to come back after it.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The next event, or `None` after the proper end. Nothing follows an error. Dropping the
    /// future loses no event, so it can be used in `select!`.
    pub async fn next(&mut self) -> Option<Result<StreamEvent<E>, ClientError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(self.accept(event));
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
                    self.body.drain(DRAIN_TIMEOUT).await;
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

    /// Whether the server sent anything on this stream. A heartbeat counts.
    pub(crate) fn heard(&self) -> bool {
        self.heard
    }

    async fn read(&mut self, after_done: bool) {
        let end = match self.body.next().await {
            Ok(Some(data)) => {
                self.heard = true;
                match self.decoder.push(&data, &mut self.ready) {
                    Ok(()) => return,
                    Err(error) => Err(invalid(error.to_string())),
                }
            }
            Ok(None) if after_done || self.closing == StreamEnd::Anywhere => Ok(()),
            Ok(None) => Err(ClientError::Cut("the stream ended without done".into())),
            Err(error) => Err(error.into()),
        };
        self.phase = Phase::Closed(end);
    }

    fn accept(&mut self, mut event: SseEvent) -> Result<StreamEvent<E>, ClientError> {
        if let Some(id) = &event.id {
            self.last_id = Some(id.clone());
        }
        if self.has_opaque_ids {
            event.id = None;
        }
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
