//! Server-sent events: a reader's items as frames, with heartbeats.

use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use codelab_protocol::{Chunk, ChunkBody, Done, ErrorCode, ErrorData, Gap};
use codelab_runtime::{Item, Reader, now};
use futures_util::stream;
use serde::Serialize;

const HEARTBEAT: Duration = Duration::from_secs(15);
/// Frames are joined up to this size, so that a burst is one write.
const MAX_WRITE_BYTES: usize = 64 * 1024;

/// Streams what the reader shows until it ends.
pub(crate) fn response(reader: Reader) -> Response {
    let frames = stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        let mut frames = String::new();
        let more = match tokio::time::timeout(HEARTBEAT, reader.next()).await {
            Err(_) => {
                frames.push_str(": heartbeat\n\n");
                true
            }
            Ok(Ok(Some(item))) => {
                write_item(&mut frames, &item);
                while frames.len() < MAX_WRITE_BYTES {
                    let Some(item) = reader.ready() else { break };
                    write_item(&mut frames, &item);
                }
                true
            }
            Ok(Ok(None)) => return None,
            Ok(Err(error)) => {
                tracing::error!(%error, "a stream could not be read on");
                write_read_error(&mut frames);
                false
            }
        };
        Some((Ok::<_, Infallible>(Bytes::from(frames)), more.then_some(reader)))
    });
    let mut response = Body::from_stream(frames).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn write_item(frames: &mut String, item: &Item) {
    match item {
        Item::Event(event) => {
            let name = if event.kind == "error" { "error" } else { "message" };
            write_frame(frames, Some(event.seq), name, &event.body);
        }
        Item::Delta(delta) => write_chunk(frames, None, "message", ChunkBody::AssistantDelta(delta.clone())),
        Item::Gap { from, to } => {
            write_chunk(frames, Some(*to), "message", ChunkBody::Gap(Gap { from: *from, to: *to }));
        }
        Item::Settled(status) => write_json(frames, None, "done", &Done { status: *status }),
    }
}

fn write_read_error(frames: &mut String) {
    let error = ErrorData {
        message: "The events could not be read; come back with Last-Event-ID".to_owned(),
        error_code: ErrorCode::DbReadError,
        details: Default::default(),
    };
    write_chunk(frames, None, "error", ChunkBody::Error(error));
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

/// `data` is JSON on one line, so it needs no splitting.
fn write_frame(frames: &mut String, id: Option<u64>, name: &str, data: &str) {
    if let Some(id) = id {
        // Writing to a string cannot fail.
        let _ = writeln!(frames, "id: {id}");
    }
    let _ = write!(frames, "event: {name}\ndata: {data}\n\n");
}
