//! Server-sent events: a reader's items as frames, with heartbeats.

use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use codelab_protocol::{
    AssistantDelta, ChatError, ChatEvent, ChatEventBody, Chunk, ChunkBody, Done, ErrorCode, ErrorData, Gap,
    MessageDelta, SessionId,
};
use codelab_runtime::{ChatReader, Delta, Item, Reader, StreamPlace, UserReader, now};
use futures_util::stream;
use serde::Serialize;
use tokio::time::{Instant, Sleep};

use crate::error::{ApiError, log_refusal};

/// Frames are joined up to this size, so that a burst is one write.
const MAX_WRITE_BYTES: usize = 64 * 1024;

const FRAME_END: &str = "\n\n";
/// A frame without its data: the number, the name, the ends of lines.
const MAX_HEAD_BYTES: usize = 128;
const READ_ERROR: &str = "The events could not be read; come back with Last-Event-ID";
const STORED_LATER: &str = "it is tried again: come back with Last-Event-ID";

/// Streams what the reader of a runtime session shows until it ends.
pub(crate) fn response(reader: Reader) -> Response {
    stream_response(reader, Dialect::Chunks, None)
}

/// Streams what the reader of a project's session shows until it ends. The place is one of its user's streams.
pub(crate) fn chat_response(reader: Reader, session: SessionId, place: StreamPlace) -> Response {
    stream_response(reader, Dialect::Chat(session), Some(place))
}

/// Streams all of a user's sessions until the reader falls behind or goes away.
pub(crate) fn user_response(reader: UserReader, place: StreamPlace) -> Response {
    let reading = (reader, Heartbeat::new(), place);
    let frames = stream::unfold(reading, |(mut reader, mut heartbeat, place)| async move {
        let mut frames = String::new();
        match heartbeat.unless(reader.next()).await {
            None => frames.push_str(Heartbeat::FRAME),
            Some(Ok(Some(item))) => write_event(&mut frames, item),
            Some(Ok(None)) => return None,
            Some(Err(error)) => {
                log_refusal(&error);
                return None;
            }
        }
        Some((Ok::<_, Infallible>(Bytes::from(frames)), (reader, heartbeat, place)))
    });
    event_stream(Body::from_stream(frames))
}

/// Streams the global Chat until the server stops or the reader goes away. Programs have no place.
pub(crate) fn global_chat_response(reader: ChatReader, place: Option<StreamPlace>) -> Response {
    let reading = (reader, Heartbeat::new(), place);
    let frames = stream::unfold(reading, |(mut reader, mut heartbeat, place)| async move {
        let mut frames = String::new();
        match heartbeat.unless(reader.next()).await {
            None => frames.push_str(Heartbeat::FRAME),
            Some(Some(messages)) => {
                for message in messages {
                    write_json(&mut frames, u64::try_from(message.id.get()).ok(), "message", &message);
                }
            }
            Some(None) => return None,
        }
        Some((Ok::<_, Infallible>(Bytes::from(frames)), (reader, heartbeat, place)))
    });
    event_stream(Body::from_stream(frames))
}

/// One timer for a whole stream: moving it costs less than a new one for each token.
struct Heartbeat(Pin<Box<Sleep>>);

impl Heartbeat {
    const EVERY: Duration = Duration::from_secs(15);
    const FRAME: &str = ": heartbeat\n\n";

    fn new() -> Self {
        Self(Box::pin(tokio::time::sleep(Self::EVERY)))
    }

    /// What comes next, or nothing when it is time to show a sign of life.
    async fn unless<T>(&mut self, next: impl Future<Output = T>) -> Option<T> {
        let next = tokio::select! {
            biased;
            next = next => Some(next),
            () = self.0.as_mut() => None,
        };
        self.0.as_mut().reset(Instant::now() + Self::EVERY);
        next
    }
}

/// How a session's events are written.
enum Dialect {
    Chunks,
    Chat(SessionId),
}

/// A session's stream on its way.
struct Streaming {
    reader: Reader,
    dialect: Dialect,
    heartbeat: Heartbeat,
    /// A large event has begun and not ended: nothing else may be written between its pieces.
    is_within: bool,
    _place: Option<StreamPlace>,
}

fn stream_response(reader: Reader, dialect: Dialect, place: Option<StreamPlace>) -> Response {
    let reader = reader.in_pieces();
    let streaming = Streaming { reader, dialect, heartbeat: Heartbeat::new(), is_within: false, _place: place };
    let frames = stream::unfold(Some(streaming), |streaming| async move {
        let mut streaming = streaming?;
        let Streaming { reader, dialect, heartbeat, is_within, .. } = &mut streaming;
        let mut frames = String::new();
        let more = match heartbeat.unless(reader.next()).await {
            None => {
                // A comment within a large event would become part of its data; its next piece is a sign of life.
                if !*is_within {
                    frames.push_str(Heartbeat::FRAME);
                }
                true
            }
            Some(Ok(Some(item))) => {
                *is_within = matches!(item, Item::LargeBegins { .. } | Item::LargePiece(_));
                dialect.write_item(&mut frames, item);
                while frames.len() < MAX_WRITE_BYTES {
                    let Some(item) = reader.ready() else { break };
                    dialect.write_item(&mut frames, item);
                }
                true
            }
            Some(Ok(None)) => return None,
            Some(Err(error)) => {
                log_refusal(&error);
                if *is_within {
                    // Readers drop an event without an end, and come back for it.
                    return None;
                }
                dialect.write_error(&mut frames, READ_ERROR.to_owned(), ErrorCode::DbReadError);
                false
            }
        };
        Some((Ok::<_, Infallible>(Bytes::from(frames)), more.then_some(streaming)))
    });
    event_stream(Body::from_stream(frames))
}

fn event_stream(body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Dialect {
    fn write_item(&self, frames: &mut String, item: Item) {
        match (self, item) {
            (Self::Chunks, Item::Event(event)) => {
                write_frame(frames, Some(event.seq), chunk_name(&event.kind), &event.body);
            }
            (Self::Chat(_), Item::Event(event)) => write_frame(frames, Some(event.seq), &event.kind, &event.body),
            (Self::Chunks, Item::Delta(delta)) => {
                let Delta { content, agent, message_id, attempt, offset, .. } = delta;
                let delta = AssistantDelta { content, agent, message_id, attempt, offset };
                write_chunk(frames, None, "message", ChunkBody::AssistantDelta(delta));
            }
            (Self::Chat(session), Item::Delta(delta)) => {
                let Delta { content, agent, message_id, attempt, offset, origin } = delta;
                let delta = MessageDelta { content, agent, message_id, attempt, offset, origin };
                write_chat(frames, session, None, ChatEventBody::MessageDelta(delta));
            }
            (Self::Chunks, Item::Gap { from, to }) => {
                write_chunk(frames, Some(to), "message", ChunkBody::Gap(Gap { from, to }));
            }
            (Self::Chat(session), Item::Gap { from, to }) => {
                write_chat(frames, session, Some(to), ChatEventBody::Gap(Gap { from, to }));
            }
            // Its id is the start: a reader that is cut here comes back to the same log.
            (Self::Chunks, Item::StartOver { from, to }) => {
                write_chunk(frames, Some(0), "message", ChunkBody::Gap(Gap { from, to }));
            }
            (Self::Chat(session), Item::StartOver { from, to }) => {
                write_chat(frames, session, Some(0), ChatEventBody::Gap(Gap { from, to }));
            }
            (_, Item::Settled(status)) => write_json(frames, None, "done", &Done { status }),
            (_, Item::NotStored(error)) => {
                let error = ApiError::not_stored(error);
                self.write_error(frames, format!("{}; {STORED_LATER}", error.message()), error.code());
            }
            (Self::Chunks, Item::LargeBegins { seq, kind }) => begin_frame(frames, Some(seq), chunk_name(&kind)),
            (Self::Chat(_), Item::LargeBegins { seq, kind }) => begin_frame(frames, Some(seq), &kind),
            (_, Item::LargePiece(piece)) => frames.push_str(&piece),
            (_, Item::LargeEnds) => frames.push_str(FRAME_END),
        }
    }

    /// An error that is no event of the session: it has no number.
    fn write_error(&self, frames: &mut String, message: String, error_code: ErrorCode) {
        let error = ErrorData { message, error_code, details: Default::default() };
        match self {
            Self::Chunks => write_chunk(frames, None, "error", ChunkBody::Error(error)),
            Self::Chat(session) => {
                let error = ChatError { error, origin: Default::default() };
                write_chat(frames, session, None, ChatEventBody::Error(error));
            }
        }
    }
}

/// The runtime API tells errors from everything else by the frame's name.
fn chunk_name(kind: &str) -> &'static str {
    if kind == "error" { "error" } else { "message" }
}

fn write_chat(frames: &mut String, session: &SessionId, seq: Option<u64>, body: ChatEventBody) {
    let name = body.kind();
    let event = ChatEvent { body, session_id: session.clone(), seq, timestamp: now() };
    write_json(frames, seq, name, &event);
}

fn write_chunk(frames: &mut String, id: Option<u64>, name: &str, body: ChunkBody) {
    write_json(frames, id, name, &Chunk { body, timestamp: now() });
}

fn write_json(frames: &mut String, id: Option<u64>, name: &str, data: &impl Serialize) {
    match serde_json::to_string(data) {
        Ok(data) => write_frame(frames, id, name, &data),
        Err(error) => tracing::error!(%error, "a frame could not be written"),
    }
}

/// An event of one of a user's sessions, without a number: those of several sessions would mix.
fn write_event(frames: &mut String, item: Item) {
    match item {
        Item::Event(event) => write_frame(frames, None, &event.kind, &event.body),
        Item::LargeBegins { kind, .. } => begin_frame(frames, None, &kind),
        Item::LargePiece(piece) => frames.push_str(&piece),
        Item::LargeEnds => frames.push_str(FRAME_END),
        // Only a single session's stream has these.
        Item::Delta(_) | Item::Settled(_) | Item::Gap { .. } | Item::StartOver { .. } | Item::NotStored(_) => {}
    }
}

/// `data` is JSON on one line, so it needs no splitting.
fn write_frame(frames: &mut String, id: Option<u64>, name: &str, data: &str) {
    // Once and not by doubling: a reader that stalls here holds what was reserved.
    frames.reserve(data.len() + MAX_HEAD_BYTES);
    begin_frame(frames, id, name);
    frames.push_str(data);
    frames.push_str(FRAME_END);
}

fn begin_frame(frames: &mut String, id: Option<u64>, name: &str) {
    if let Some(id) = id {
        // Writing to a string cannot fail.
        let _ = writeln!(frames, "id: {id}");
    }
    let _ = write!(frames, "event: {name}\ndata: ");
}
