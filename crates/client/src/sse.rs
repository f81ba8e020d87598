//! Server-sent events of a CodeLab server as owned text.

use std::collections::VecDeque;

use codelab_transport::{EventTooLong, SseFields, SseParser};

/// One complete event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The `id` that this event carried itself. An event without one is ephemeral.
    pub id: Option<String>,
    /// `message` unless the event is named.
    pub event: String,
    pub data: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("an event is larger than {max_bytes} bytes")]
    TooLarge { max_bytes: usize },
    #[error("the event stream is not UTF-8")]
    NotUtf8,
}

const DEFAULT_EVENT: &str = "message";

/// Decodes a stream that arrives in pieces. An event without its closing blank line is incomplete
/// and is dropped, because its reader comes back for it.
#[derive(Debug)]
pub struct SseDecoder(SseParser);

impl SseDecoder {
    /// `max_bytes` limits one event with all its fields.
    pub fn new(max_bytes: usize) -> Self {
        Self(SseParser::new(max_bytes))
    }

    /// Appends the events that `bytes` completes to `out`. After an error the decoder must not be
    /// used again; events that were complete before the error are in `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut VecDeque<SseEvent>) -> Result<(), SseError> {
        self.0.push(bytes, |fields| {
            out.push_back(SseEvent::read(fields)?);
            Ok(())
        })
    }
}

impl SseEvent {
    fn read(fields: SseFields<'_>) -> Result<Self, SseError> {
        let text = |bytes: &[u8]| {
            std::str::from_utf8(bytes)
                .map(str::to_owned)
                .map_err(|_| SseError::NotUtf8)
        };
        Ok(Self {
            id: fields.id.map(text).transpose()?,
            event: fields
                .event
                .map_or_else(|| Ok(DEFAULT_EVENT.to_owned()), text)?,
            data: text(fields.data)?,
        })
    }
}

impl From<EventTooLong> for SseError {
    fn from(error: EventTooLong) -> Self {
        Self::TooLarge {
            max_bytes: error.max_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BYTES: usize = 100;

    fn event(id: Option<&str>, event: &str, data: &str) -> SseEvent {
        SseEvent {
            id: id.map(str::to_owned),
            event: event.to_owned(),
            data: data.to_owned(),
        }
    }

    fn decode(bytes: &[u8]) -> (Vec<SseEvent>, Result<(), SseError>) {
        let (mut decoder, mut out) = (SseDecoder::new(MAX_BYTES), VecDeque::new());
        let result = decoder.push(bytes, &mut out);
        (out.into(), result)
    }

    #[test]
    fn events_become_text_and_an_unclosed_one_is_dropped() {
        assert_eq!(
            decode("id: 7\nevent: error\ndata: é\n\ndata: b\n\ndata: c\n".as_bytes()),
            (
                vec![event(Some("7"), "error", "é"), event(None, "message", "b")],
                Ok(())
            )
        );
    }

    #[test]
    fn bad_events_are_refused_and_earlier_ones_are_kept() {
        let kept = vec![event(None, "message", "a")];
        assert_eq!(
            decode(b"data: a\n\ndata: \xff\n\n"),
            (kept.clone(), Err(SseError::NotUtf8))
        );
        let long = format!("data: a\n\ndata: {}", "x".repeat(MAX_BYTES));
        let max_bytes = MAX_BYTES;
        assert_eq!(
            decode(long.as_bytes()),
            (kept, Err(SseError::TooLarge { max_bytes }))
        );
    }
}
