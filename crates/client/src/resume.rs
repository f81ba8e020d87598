//! A reader of a session's events that survives lost connections and restarts of the server.

mod deltas;

use std::fmt;
use std::time::Duration;

use codelab_protocol::{Chunk, SessionId, TurnStatus};
use tokio::time::{Instant, sleep_until};

use self::deltas::ShownDeltas;
use crate::logged::LoggedEvent;
use crate::{Backoff, Client, ClientError, EventData, EventStream, StreamEvent};

/// When a [`ResumingEvents`] is over by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowUntil {
    /// After the first `done`.
    Done,
    /// Never: `done` is passed on, and an ended stream is opened again.
    Dropped,
}

/// Yields each stored event once and in order, however often the stream is lost. Text of a delta
/// that was already yielded is cut off. Other events, such as `gap`, are passed on unchanged. If a
/// gap says that the log starts over, events come from the start again, with their own numbers.
pub struct ResumingEvents<E = Chunk> {
    client: Client,
    session: SessionId,
    until: FollowUntil,
    backoff: Backoff,
    link: Link<E>,
    /// The number of the last stored event that was yielded or skipped over at the start.
    last_id: Option<u64>,
    deltas: ShownDeltas,
    /// The status of a `done` with no stored event after it: the server says it again to a reader
    /// that comes back.
    last_done: Option<TurnStatus>,
    /// Streams in a row that brought nothing new; they set the wait.
    barren: u32,
    /// Streams in a row that failed before their first byte; they end the reader.
    failures: u32,
}

enum Link<E> {
    Closed {
        reopen_at: Option<Instant>,
    },
    Open {
        stream: Box<EventStream<E>>,
        fruitful: bool,
    },
    Over,
}

impl<E: LoggedEvent> ResumingEvents<E> {
    /// Nothing is sent before the first `next`. `after` as in [`Client::events`] and
    /// [`Client::chat_events`].
    pub fn new(client: Client, session: SessionId, after: Option<u64>, until: FollowUntil) -> Self {
        Self {
            client,
            session,
            until,
            backoff: Backoff::default(),
            link: Link::Closed { reopen_at: None },
            last_id: after,
            deltas: ShownDeltas::default(),
            last_done: None,
            barren: 0,
            failures: 0,
        }
    }

    pub fn with_backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// The number of the last stored event seen, to come back after it with another reader.
    pub fn last_id(&self) -> Option<u64> {
        self.last_id
    }

    /// The next event. An error is the end: the server refuses for good, or stayed away too long.
    /// Dropping the future loses nothing, so it may stand in a `select!`.
    pub async fn next(&mut self) -> Option<Result<StreamEvent<E>, ClientError>> {
        loop {
            let failure = match &mut self.link {
                Link::Over => return None,
                Link::Closed { reopen_at } => {
                    if let Some(at) = *reopen_at {
                        sleep_until(at).await;
                    }
                    match self.client.log(&self.session, self.last_id, true).await {
                        Ok(stream) => {
                            self.link = Link::Open {
                                stream: Box::new(stream),
                                fruitful: false,
                            };
                            continue;
                        }
                        Err(error) => Some(error),
                    }
                }
                Link::Open { stream, .. } => match stream.next().await {
                    Some(Ok(event)) => match self.admit(event) {
                        Some(event) => return Some(Ok(event)),
                        None => continue,
                    },
                    Some(Err(error)) => Some(error),
                    None => None,
                },
            };
            if let Some(error) = self.lost(failure) {
                return Some(Err(error));
            }
        }
    }

    /// What the caller has not seen of `event`, if anything.
    fn admit(&mut self, mut event: StreamEvent<E>) -> Option<StreamEvent<E>> {
        if let EventData::Done(done) = &event.data {
            // `done` is not of the log, whatever id it carries.
            if self.last_done.replace(done.status) == Some(done.status) {
                return None;
            }
            if self.until == FollowUntil::Done {
                self.link = Link::Over;
            }
        } else if self.starts_over(&event.data) {
            self.last_id = None;
            self.last_done = None;
            self.deltas = ShownDeltas::default();
        } else if let Some(id) = event.id {
            if self.last_id.is_some_and(|last| id <= last) {
                return None;
            }
            self.last_id = Some(id);
            self.last_done = None;
        }
        if let EventData::Chunk(chunk) = &mut event.data
            && !self.deltas.admit(chunk)
        {
            return None;
        }
        if let Link::Open { fruitful, .. } = &mut self.link {
            *fruitful = true;
        }
        Some(event)
    }

    /// Whether the server has another log than the one that was read so far.
    fn starts_over(&self, data: &EventData<E>) -> bool {
        let EventData::Chunk(chunk) = data else {
            return false;
        };
        chunk
            .gap()
            .zip(self.last_id)
            .is_some_and(|(gap, last)| gap.starts_over(last))
    }

    /// Plans the next try, or gives the error that ends the reader.
    fn lost(&mut self, failure: Option<ClientError>) -> Option<ClientError> {
        let (heard, fruitful) = match &self.link {
            Link::Open { stream, fruitful } => (stream.heard(), *fruitful),
            Link::Closed { .. } | Link::Over => (false, false),
        };
        self.failures = if heard { 0 } else { self.failures + 1 };
        self.barren = if fruitful {
            0
        } else {
            self.barren.saturating_add(1)
        };
        let mut delay = self.backoff.delay(self.barren);
        if let Some(error) = failure {
            if !error.is_passing() || self.failures >= self.backoff.attempts {
                self.link = Link::Over;
                return Some(error);
            }
            if let ClientError::Status {
                retry_after_seconds: Some(seconds),
                ..
            } = error
            {
                let asked_ms = seconds
                    .saturating_mul(1_000)
                    .min(self.backoff.max_retry_after_ms);
                delay = delay.max(Duration::from_millis(asked_ms));
            }
        }
        self.link = Link::Closed {
            reopen_at: Some(Instant::now() + delay),
        };
        None
    }
}

impl<E> fmt::Debug for ResumingEvents<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResumingEvents")
            .field("session", &self.session)
            .field("until", &self.until)
            .field("last_id", &self.last_id)
            .finish_non_exhaustive()
    }
}
