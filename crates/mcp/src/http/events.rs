//! The events of an answer that is a stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use codelab_transport::{BodyReader, EventTooLong, SseFields, SseParser};
use futures_util::stream::{self, BoxStream, StreamExt};
use hyper::body::Incoming;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;

use crate::failure::LastWords;
use crate::values;

struct Events {
    body: BodyReader,
    parser: SseParser,
    ready: VecDeque<Sse>,
    is_over: bool,
    last_words: Arc<LastWords>,
}

/// Fails at an event that is larger than the limit, or after a long silence.
pub fn stream(
    body: Incoming,
    max_event_bytes: usize,
    silence: Duration,
    last_words: Arc<LastWords>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let events = Events {
        body: BodyReader::new(body, silence),
        parser: SseParser::new(max_event_bytes),
        ready: VecDeque::new(),
        is_over: false,
        last_words,
    };
    stream::unfold(events, |mut events| async move {
        let next = events.next().await?;
        Some((next, events))
    })
    .boxed()
}

impl Events {
    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.is_over {
                return None;
            }
            let piece = match self.body.next().await {
                Ok(Some(piece)) => piece,
                Ok(None) => {
                    self.is_over = true;
                    return None;
                }
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(SseError::Body(Box::new(error))));
                }
            };
            let ready = &mut self.ready;
            let mut fault = None;
            let read = self.parser.push(&piece, |fields| {
                fault = fault.take().or_else(|| values::fault(fields.data));
                if fault.is_none() {
                    ready.push_back(event(fields));
                }
                Ok::<(), EventTooLong>(())
            });
            if let Some(fault) = fault {
                self.is_over = true;
                self.last_words.blame(fault.clone());
                return Some(Err(SseError::Body(fault.into())));
            }
            if let Err(error) = read {
                self.is_over = true;
                // A new stream would bring the same event again.
                let max = error.max_bytes;
                self.last_words
                    .blame(format!("it sent a message of more than {max} bytes"));
                return Some(Err(SseError::Body(Box::new(error))));
            }
        }
    }
}

fn event(fields: SseFields<'_>) -> Sse {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Sse {
        event: fields.event.map(text),
        data: Some(text(fields.data)),
        id: fields.id.map(text),
        retry: fields.retry_ms,
    }
}
