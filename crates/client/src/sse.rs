//! An incremental decoder of server-sent events: bytes in, whole events out. No I/O, and no meaning
//! beyond the format.

use std::collections::VecDeque;

/// One dispatched event. `id` is only what this event itself carried; it is not inherited from
/// earlier ones, because an event without an id is an ephemeral one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    pub id: Option<String>,
    /// `message` unless named.
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

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
const DEFAULT_EVENT: &str = "message";
const KEPT_LINE_BYTES: usize = 1024;

/// Takes a stream cut anywhere. An event that is not closed by a blank line is never dispatched.
#[derive(Debug)]
pub struct SseDecoder {
    max_bytes: usize,
    /// The unfinished line. Invariant: it holds no line end, and with the fields below never
    /// exceeds `max_bytes`.
    line: Vec<u8>,
    /// The last byte was CR: an LF that follows belongs to the same line end.
    after_cr: bool,
    first_line: bool,
    id: Option<String>,
    event: Option<String>,
    data: Option<String>,
}

impl SseDecoder {
    /// `max_bytes` bounds one event with all its fields, and so each line of it.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            id: None,
            event: None,
            data: None,
        }
    }

    /// Appends the events that `bytes` completes to `out`. After an error the decoder is of no more
    /// use; what was complete before the error is in `out`.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut VecDeque<SseEvent>) -> Result<(), SseError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes
                .iter()
                .position(|&byte| byte == b'\n' || byte == b'\r')
            else {
                self.check_size(bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.after_cr = bytes[end] == b'\r';
            self.check_size(end)?;
            if self.line.is_empty() {
                self.take_line(&bytes[..end], out)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                self.take_line(&line, out)?;
                // The buffer is kept for the next split line unless it grew far beyond a usual one.
                line.clear();
                line.shrink_to(KEPT_LINE_BYTES);
                self.line = line;
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    fn check_size(&self, more: usize) -> Result<(), SseError> {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let held = self.line.len() + length(&self.id) + length(&self.event) + length(&self.data);
        if held + more > self.max_bytes {
            return Err(SseError::TooLarge {
                max_bytes: self.max_bytes,
            });
        }
        Ok(())
    }

    fn take_line(&mut self, mut line: &[u8], out: &mut VecDeque<SseEvent>) -> Result<(), SseError> {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        let line = std::str::from_utf8(line).map_err(|_| SseError::NotUtf8)?;
        if line.is_empty() {
            self.dispatch(out);
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => self.event = (!value.is_empty()).then(|| value.to_owned()),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // Comments (an empty field name) are heartbeats; `retry` and unknown fields are not
            // used.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, out: &mut VecDeque<SseEvent>) {
        let (id, event, data) = (self.id.take(), self.event.take(), self.data.take());
        if let Some(data) = data {
            let event = event.unwrap_or_else(|| DEFAULT_EVENT.to_owned());
            out.push_back(SseEvent { id, event, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BYTES: usize = 200;

    fn event(id: Option<&str>, event: &str, data: &str) -> SseEvent {
        SseEvent {
            id: id.map(str::to_owned),
            event: event.to_owned(),
            data: data.to_owned(),
        }
    }

    fn decode(parts: &[&[u8]]) -> (Vec<SseEvent>, Result<(), SseError>) {
        let (mut decoder, mut out) = (SseDecoder::new(MAX_BYTES), VecDeque::new());
        let result = parts
            .iter()
            .try_for_each(|part| decoder.push(part, &mut out));
        (out.into(), result)
    }

    fn cases() -> Vec<(&'static str, Vec<SseEvent>)> {
        vec![
            ("", vec![]),
            ("data: a\n\n", vec![event(None, "message", "a")]),
            ("data: a\n", vec![]),
            (
                "id: 7\nevent: error\ndata: {\"x\":1}\n\n",
                vec![event(Some("7"), "error", "{\"x\":1}")],
            ),
            (
                "id: 7\ndata: a\n\ndata: b\n\n",
                vec![
                    event(Some("7"), "message", "a"),
                    event(None, "message", "b"),
                ],
            ),
            (
                "data: a\r\n\r\ndata: b\r\rdata: c\n\n",
                ["a", "b", "c"]
                    .map(|data| event(None, "message", data))
                    .into(),
            ),
            (
                "data: a\r\ndata: b\rdata: c\n\n",
                vec![event(None, "message", "a\nb\nc")],
            ),
            (
                "data\n\ndata\ndata\n\n",
                vec![event(None, "message", ""), event(None, "message", "\n")],
            ),
            (
                "data:a\n\ndata:  b\n\n",
                vec![event(None, "message", "a"), event(None, "message", " b")],
            ),
            (
                ": beat\n\n:\n\nid: 3\n\nevent: gap\n\ndata: a\n\n",
                vec![event(None, "message", "a")],
            ),
            (
                "retry: 10\nnonsense\nfoo: bar\nevent:\ndata: a: b\n\n",
                vec![event(None, "message", "a: b")],
            ),
            (
                "\u{feff}data: é\n\n\u{feff}data: no\n\n",
                vec![event(None, "message", "é")],
            ),
            (
                "id: a\0b\ndata: привет 🦀\n\n",
                vec![event(None, "message", "привет 🦀")],
            ),
        ]
    }

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        for (text, expected) in cases() {
            let bytes = text.as_bytes();
            assert_eq!(decode(&[bytes]), (expected.clone(), Ok(())), "{text:?}");
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                    assert_eq!(
                        decode(&parts),
                        (expected.clone(), Ok(())),
                        "{text:?} cut at {first} and {second}"
                    );
                }
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(decode(&single), (expected, Ok(())), "{text:?} byte by byte");
        }
    }

    #[test]
    fn an_event_beyond_the_limit_is_refused_and_earlier_ones_are_kept() {
        let line = format!("data: {}\n", "x".repeat(MAX_BYTES));
        let many = "data: 0123456789\n".repeat(MAX_BYTES / 10);
        let unfinished = ":".repeat(MAX_BYTES + 1);
        let id = format!(
            "id: {}\ndata: {}\n",
            "1".repeat(MAX_BYTES / 2),
            "x".repeat(MAX_BYTES / 2)
        );
        for huge in [line, many, unfinished, id] {
            let text = format!("data: kept\n\n{huge}");
            for size in [1, 7, text.len()] {
                let parts: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
                let (events, result) = decode(&parts);
                assert_eq!(events, [event(None, "message", "kept")]);
                assert_eq!(
                    result,
                    Err(SseError::TooLarge {
                        max_bytes: MAX_BYTES
                    })
                );
            }
        }
    }

    #[test]
    fn a_long_stream_of_small_events_stays_within_the_limit() {
        let text = "id: 1\ndata: 0123456789\n\n: beat\n\n".repeat(1_000);
        let (events, result) = decode(&text.as_bytes().chunks(13).collect::<Vec<_>>());
        assert_eq!((events.len(), result), (1_000, Ok(())));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        assert_eq!(
            decode(&[b"data: a\n\ndata: \xff\n\n"]),
            (vec![event(None, "message", "a")], Err(SseError::NotUtf8))
        );
    }
}
