//! Server-sent events: a reader's items as frames, with heartbeats.

mod user;

use std::convert::Infallible;
use std::fmt::{Display, Write};
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use codelab_protocol::{
    AssistantDelta, Chunk, ChunkBody, Done, ErrorCode, ErrorData, Gap, MessageDelta, SessionEvent,
    SessionEventBody, SessionId, TurnError,
};
use codelab_runtime::{
    AnswerDelta, AnswerPart, ChatNews, ChatReader, Reader, ReaderItem, StreamSlot, now,
};
use futures_util::stream::{self, Stream};
use serde::Serialize;
use tokio::time::{Instant, Sleep};

pub(crate) use self::user::user_response;

use crate::error::{ApiError, log_refusal};

/// Frames are joined up to this size, so that many small frames need one write.
const MAX_WRITE_BYTES: usize = 64 * 1024;

const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);
const FRAME_END: &str = "\n\n";
/// A frame without its data: the number, the name, the ends of lines.
const MAX_HEAD_BYTES: usize = 128;
const READ_ERROR: &str = "The events could not be read; reconnect with Last-Event-ID";
const STORED_LATER: &str = "reconnect with Last-Event-ID";

/// Streams what the reader of a runtime session shows until it ends.
pub(crate) fn response(reader: Reader) -> Response {
    let reader = reader.in_pieces();
    event_stream(frames(
        SessionSource {
            reader,
            dialect: Dialect::Chunks,
        },
        HEARTBEAT_EVERY,
        None,
    ))
}

/// Streams what the reader of a project's session shows until it ends. `slot` is one of its
/// user's streams.
pub(crate) fn session_response(reader: Reader, session: SessionId, slot: StreamSlot) -> Response {
    let reader = reader.in_pieces();
    event_stream(frames(
        SessionSource {
            reader,
            dialect: Dialect::Session(session),
        },
        HEARTBEAT_EVERY,
        Some(slot),
    ))
}

/// Streams the global Chat until the server stops or the reader goes away. A program has no slot.
pub(crate) fn global_chat_response(reader: ChatReader, slot: Option<StreamSlot>) -> Response {
    event_stream(frames(reader, HEARTBEAT_EVERY, slot))
}

/// What a stream shows.
trait Source: Send + 'static {
    /// Waits for what comes next, then writes it. Giving up the wait loses nothing.
    fn write_next(&mut self, frames: &mut String) -> impl Future<Output = Wrote> + Send;
}

/// What a source wrote.
enum Wrote {
    /// Whole frames.
    Frames,
    /// A part of a large event. Only its other parts may follow, until `Frames`.
    Part,
    /// A last frame that belongs to no event, such as an error.
    LastWord,
    /// Nothing, and nothing will follow.
    Nothing,
}

/// The state of a stream.
struct Streaming<S> {
    source: S,
    heartbeat: Heartbeat,
    /// A large event has begun and not ended.
    is_within: bool,
    _slot: Option<StreamSlot>,
}

/// The frames of a source, with a heartbeat when nothing comes for a while.
fn frames<S: Source>(
    source: S,
    heartbeat_every: Duration,
    slot: Option<StreamSlot>,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let heartbeat = Heartbeat::new(heartbeat_every);
    let streaming = Streaming {
        source,
        heartbeat,
        is_within: false,
        _slot: slot,
    };
    stream::unfold(Some(streaming), |streaming| async move {
        let mut streaming = streaming?;
        let Streaming {
            source,
            heartbeat,
            is_within,
            ..
        } = &mut streaming;
        let mut frames = String::new();
        let wrote = heartbeat.unless(source.write_next(&mut frames)).await;
        let more = match wrote {
            None => {
                // A heartbeat within a large event would become part of its data. The next piece
                // shows as well that the stream is alive.
                if !*is_within {
                    frames.push_str(Heartbeat::FRAME);
                }
                true
            }
            Some(Wrote::Frames) => {
                *is_within = false;
                true
            }
            Some(Wrote::Part) => {
                *is_within = true;
                true
            }
            // A reader drops an event that has no end, and reads it again after reconnecting.
            Some(Wrote::LastWord) if *is_within => return None,
            Some(Wrote::LastWord) => false,
            Some(Wrote::Nothing) => return None,
        };
        Some((Ok(Bytes::from(frames)), more.then_some(streaming)))
    })
}

/// One timer for a whole stream. Resetting it is cheaper than a new timer for each token.
struct Heartbeat {
    timer: Pin<Box<Sleep>>,
    every: Duration,
}

impl Heartbeat {
    const FRAME: &str = ": heartbeat\n\n";

    fn new(every: Duration) -> Self {
        Self {
            timer: Box::pin(tokio::time::sleep(every)),
            every,
        }
    }

    /// The result of `next`, or `None` when a heartbeat is due.
    async fn unless<T>(&mut self, next: impl Future<Output = T>) -> Option<T> {
        let next = tokio::select! {
            biased;
            next = next => Some(next),
            () = self.timer.as_mut() => None,
        };
        self.timer.as_mut().reset(Instant::now() + self.every);
        next
    }
}

/// One session's events.
struct SessionSource {
    reader: Reader,
    dialect: Dialect,
}

/// How a session's events are written.
enum Dialect {
    Chunks,
    Session(SessionId),
}

impl Source for SessionSource {
    async fn write_next(&mut self, frames: &mut String) -> Wrote {
        let Self { reader, dialect } = self;
        match reader.next().await {
            Ok(Some(item)) => {
                let wrote = Wrote::of(&item);
                dialect.write_item(frames, item);
                while frames.len() < MAX_WRITE_BYTES {
                    let Some(item) = reader.ready() else { break };
                    dialect.write_item(frames, item);
                }
                wrote
            }
            Ok(None) => Wrote::Nothing,
            Err(error) => {
                log_refusal(&error);
                dialect.write_error(frames, READ_ERROR.to_owned(), ErrorCode::DbReadError);
                Wrote::LastWord
            }
        }
    }
}

impl Source for ChatReader {
    async fn write_next(&mut self, frames: &mut String) -> Wrote {
        let messages = match self.next().await {
            Some(ChatNews::Messages(messages)) => messages,
            Some(ChatNews::Delta(delta)) => {
                write_json(frames, None::<u64>, "delta", &delta);
                return Wrote::Frames;
            }
            None => return Wrote::Nothing,
        };
        for message in messages {
            write_json(
                frames,
                u64::try_from(message.id.get()).ok(),
                "message",
                &message,
            );
        }
        Wrote::Frames
    }
}

impl Wrote {
    fn of(item: &ReaderItem) -> Self {
        match item {
            ReaderItem::LargeBegins { .. } | ReaderItem::LargePiece(_) => Self::Part,
            ReaderItem::Event(_)
            | ReaderItem::Delta(_)
            | ReaderItem::Progress(_)
            | ReaderItem::Settled(_)
            | ReaderItem::Gap { .. }
            | ReaderItem::StartOver { .. }
            | ReaderItem::NotStored(_)
            | ReaderItem::LargeEnds => Self::Frames,
        }
    }
}

fn event_stream(
    frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let mut response = Body::from_stream(frames).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Dialect {
    fn write_item(&self, frames: &mut String, item: ReaderItem) {
        match item {
            ReaderItem::Event(event) => {
                write_frame(frames, Some(event.seq), self.name(&event.kind), &event.body);
            }
            ReaderItem::Delta(delta) => self.write_delta(frames, delta),
            ReaderItem::Progress(progress) => {
                // Only projects have tools that tell how far they are.
                if let Self::Session(session) = self {
                    let body = SessionEventBody::ToolProgress(progress);
                    write_session_event(frames, session, None, body);
                }
            }
            ReaderItem::Gap { from, to } => self.write_gap(frames, to, Gap { from, to }),
            // Its id is the start: a reader that is cut here comes back to the same log.
            ReaderItem::StartOver { from, to } => self.write_gap(frames, 0, Gap { from, to }),
            ReaderItem::Settled(status) => {
                write_json(frames, None::<u64>, "done", &Done { status })
            }
            ReaderItem::NotStored(error) => {
                let error = ApiError::outcome_not_stored(error, None);
                self.write_error(
                    frames,
                    format!("{}; {STORED_LATER}", error.message()),
                    error.code(),
                );
            }
            ReaderItem::LargeBegins { seq, kind } => {
                begin_frame(frames, Some(seq), self.name(&kind));
            }
            ReaderItem::LargePiece(piece) => frames.push_str(&piece),
            ReaderItem::LargeEnds => frames.push_str(FRAME_END),
        }
    }

    /// The name of an event's frame. The runtime API only tells errors from everything else.
    fn name<'a>(&self, kind: &'a str) -> &'a str {
        match self {
            Self::Chunks if kind == "error" => "error",
            Self::Chunks => "message",
            Self::Session(_) => kind,
        }
    }

    fn write_delta(&self, frames: &mut String, delta: AnswerDelta) {
        let AnswerDelta {
            part,
            content,
            agent,
            message_id,
            attempt,
            offset,
            origin,
        } = delta;
        match self {
            Self::Chunks => {
                let delta = AssistantDelta {
                    content,
                    agent,
                    message_id,
                    attempt,
                    offset,
                };
                let body = match part {
                    AnswerPart::Reasoning => ChunkBody::ReasoningDelta(delta),
                    AnswerPart::Text => ChunkBody::AssistantDelta(delta),
                };
                write_chunk(frames, None, "message", body);
            }
            Self::Session(session) => {
                let delta = MessageDelta {
                    content,
                    agent,
                    message_id,
                    attempt,
                    offset,
                    origin,
                };
                let body = match part {
                    AnswerPart::Reasoning => SessionEventBody::ReasoningDelta(delta),
                    AnswerPart::Text => SessionEventBody::MessageDelta(delta),
                };
                write_session_event(frames, session, None, body);
            }
        }
    }

    fn write_gap(&self, frames: &mut String, id: u64, gap: Gap) {
        let id = Some(id);
        match self {
            Self::Chunks => write_chunk(frames, id, "message", ChunkBody::Gap(gap)),
            Self::Session(session) => {
                write_session_event(frames, session, id, SessionEventBody::Gap(gap));
            }
        }
    }

    /// An error that is not an event of the session, so it has no number.
    fn write_error(&self, frames: &mut String, message: String, error_code: ErrorCode) {
        let error = ErrorData {
            message,
            error_code,
            details: Default::default(),
        };
        match self {
            Self::Chunks => write_chunk(frames, None, "error", ChunkBody::Error(error)),
            Self::Session(session) => {
                let error = TurnError {
                    error,
                    origin: Default::default(),
                };
                write_session_event(frames, session, None, SessionEventBody::Error(error));
            }
        }
    }
}

fn write_session_event(
    frames: &mut String,
    session: &SessionId,
    seq: Option<u64>,
    body: SessionEventBody,
) {
    let name = body.kind();
    write_json(frames, seq, name, &session_event(session, seq, body));
}

fn session_event(session: &SessionId, seq: Option<u64>, body: SessionEventBody) -> SessionEvent {
    SessionEvent {
        body,
        session_id: session.clone(),
        seq,
        timestamp: now(),
    }
}

fn write_chunk(frames: &mut String, id: Option<u64>, name: &str, body: ChunkBody) {
    write_json(
        frames,
        id,
        name,
        &Chunk {
            body,
            timestamp: now(),
        },
    );
}

fn write_json(frames: &mut String, id: Option<impl Display>, name: &str, data: &impl Serialize) {
    match serde_json::to_string(data) {
        Ok(data) => write_frame(frames, id, name, &data),
        Err(error) => tracing::error!(%error, "serializing an event failed, it is not sent"),
    }
}

/// `data` is JSON on one line, so it needs no splitting.
fn write_frame(frames: &mut String, id: Option<impl Display>, name: &str, data: &str) {
    // Reserves exactly once. Growing by doubling would reserve more, and a stalled reader keeps it
    // all.
    frames.reserve(data.len() + MAX_HEAD_BYTES);
    begin_frame(frames, id, name);
    frames.push_str(data);
    frames.push_str(FRAME_END);
}

fn begin_frame(frames: &mut String, id: Option<impl Display>, name: &str) {
    if let Some(id) = id {
        // Writing to a string cannot fail.
        let _ = writeln!(frames, "id: {id}");
    }
    let _ = write!(frames, "event: {name}\ndata: ");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::StreamExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    /// Gives one item each time the test allows it.
    struct Allowed {
        items: std::vec::IntoIter<ReaderItem>,
        allowed: Arc<Semaphore>,
    }

    impl Source for Allowed {
        async fn write_next(&mut self, frames: &mut String) -> Wrote {
            self.allowed.acquire().await.expect("open").forget();
            let Some(item) = self.items.next() else {
                return Wrote::Nothing;
            };
            let wrote = Wrote::of(&item);
            Dialect::Chunks.write_item(frames, item);
            wrote
        }
    }

    #[tokio::test]
    async fn no_heartbeat_stands_within_a_large_event() {
        let piece = |text: &str| ReaderItem::LargePiece(text.to_owned());
        let begins = ReaderItem::LargeBegins {
            seq: 1,
            kind: "tool_result".into(),
        };
        let items = vec![begins, piece("{\"a\":"), piece("1}"), ReaderItem::LargeEnds];
        let count = items.len();
        let allowed = Arc::new(Semaphore::new(0));
        let source = Allowed {
            items: items.into_iter(),
            allowed: Arc::clone(&allowed),
        };
        let mut stream = Box::pin(frames(source, Duration::from_millis(5), None));
        let mut shown = String::new();
        for _ in 0..=count {
            // At least one heartbeat is due before each item, and after the last.
            let waited = stream
                .next()
                .await
                .expect("it goes on")
                .expect("infallible");
            shown.push_str(std::str::from_utf8(&waited).expect("text"));
            allowed.add_permits(1);
            while allowed.available_permits() > 0 {
                let Some(next) = stream.next().await else {
                    break;
                };
                shown.push_str(std::str::from_utf8(&next.expect("infallible")).expect("text"));
            }
        }
        let events: Vec<&str> = shown
            .split("\n\n")
            .filter(|event| *event != ": heartbeat")
            .collect();
        assert_eq!(
            events,
            ["id: 1\nevent: message\ndata: {\"a\":1}", ""],
            "{shown}"
        );
        assert!(
            shown.starts_with(Heartbeat::FRAME) && shown.ends_with(Heartbeat::FRAME),
            "{shown}"
        );
    }
}
