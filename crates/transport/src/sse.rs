//! Parses server-sent events incrementally: bytes go in, whole events come out. No I/O, no JSON.

use memchr::memchr2;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Buffers keep this much memory between events. A buffer that grew further is shrunk, so that one
/// large event does not cost memory for as long as the stream is open.
const KEPT_BYTES: usize = 64 * 1024;

/// One event is larger than the limit of the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {max_bytes} bytes")]
pub struct EventTooLong {
    pub max_bytes: usize,
}

/// The fields of one complete event. The text is not checked for UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseFields<'a> {
    /// The `id` that this event carried itself. It is not inherited from earlier events.
    pub id: Option<&'a [u8]>,
    /// The name of the event. `None` means `message`, as the format says.
    pub event: Option<&'a [u8]>,
    /// The `data` lines, joined by line feeds.
    pub data: &'a [u8],
    /// The pause before a new connection that the server asked for since the event before, in
    /// milliseconds.
    pub retry_ms: Option<u64>,
}

/// Parses an event stream that arrives in pieces, which may be cut anywhere.
#[derive(Debug)]
pub struct SseParser {
    max_event_bytes: usize,
    /// A line whose end has not arrived. It never holds a line end.
    line: Vec<u8>,
    id: Option<Vec<u8>>,
    event: Option<Vec<u8>>,
    data: Vec<u8>,
    has_data: bool,
    retry_ms: Option<u64>,
    /// The last byte was a carriage return, so a line feed that follows belongs to it.
    after_cr: bool,
    first_line: bool,
}

impl SseParser {
    /// `max_event_bytes` limits one event with all its fields, and so also each of its lines.
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            line: Vec::new(),
            id: None,
            event: None,
            data: Vec::new(),
            has_data: false,
            retry_ms: None,
            after_cr: false,
            first_line: true,
        }
    }

    /// Reads the next bytes and calls `on_event` for each event that they complete. The parser
    /// must not be used after an error.
    pub fn push<E: From<EventTooLong>>(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(SseFields<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(first) = bytes.first() else {
            return Ok(());
        };
        let mut rest = if self.after_cr && *first == b'\n' {
            &bytes[1..]
        } else {
            bytes
        };
        self.after_cr = false;
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let (line, ended) = rest.split_at(end);
            rest = match ended {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
            self.end_line(line, &mut on_event)?;
        }
        self.hold(rest).map_err(E::from)
    }

    /// Ends the stream. An event without its closing blank line still counts, because many model
    /// servers leave that line out. Callers for whom such an event is incomplete do not call this.
    pub fn finish<E: From<EventTooLong>>(
        &mut self,
        mut on_event: impl FnMut(SseFields<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.end_line(&[], &mut on_event)?;
        self.dispatch(&mut on_event)
    }

    fn check_size(&self, more: usize) -> Result<(), EventTooLong> {
        let length = |text: &Option<Vec<u8>>| text.as_ref().map_or(0, Vec::len);
        let held = self.line.len() + length(&self.id) + length(&self.event) + self.data.len();
        if held + more > self.max_event_bytes {
            return Err(EventTooLong {
                max_bytes: self.max_event_bytes,
            });
        }
        Ok(())
    }

    fn hold(&mut self, part: &[u8]) -> Result<(), EventTooLong> {
        self.check_size(part.len())?;
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line<E: From<EventTooLong>>(
        &mut self,
        tail: &[u8],
        on_event: &mut impl FnMut(SseFields<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.line.is_empty() {
            self.check_size(tail.len())?;
            return self.read_line(tail, on_event);
        }
        self.hold(tail)?;
        let mut line = std::mem::take(&mut self.line);
        let outcome = self.read_line(&line, on_event);
        empty(&mut line);
        self.line = line;
        outcome
    }

    fn read_line<E: From<EventTooLong>>(
        &mut self,
        mut line: &[u8],
        on_event: &mut impl FnMut(SseFields<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(on_event);
        }
        let (field, value) = split_field(line);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.event = (!value.is_empty()).then(|| value.to_vec()),
            b"id" if !value.contains(&0) => self.id = Some(value.to_vec()),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(value).ok();
                self.retry_ms = digits.and_then(|digits| digits.parse().ok());
            }
            // A comment has an empty field name and serves as a heartbeat.
            _ => {}
        }
        Ok(())
    }

    fn dispatch<E>(
        &mut self,
        on_event: &mut impl FnMut(SseFields<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (id, event) = (self.id.take(), self.event.take());
        if !std::mem::take(&mut self.has_data) {
            return Ok(());
        }
        let outcome = on_event(SseFields {
            id: id.as_deref(),
            event: event.as_deref(),
            data: &self.data,
            retry_ms: self.retry_ms.take(),
        });
        empty(&mut self.data);
        outcome
    }
}

/// The name and the value of `name: value`. One space after the colon does not count.
fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    // Nearly every line of a model's answer is a data line.
    if let Some(value) = line.strip_prefix(b"data:") {
        return (b"data", value.strip_prefix(b" ").unwrap_or(value));
    }
    match memchr::memchr(b':', line) {
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
        None => (line, &[]),
    }
}

fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES {
        buffer.shrink_to(KEPT_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BYTES: usize = 200;

    /// Id, name and data.
    type Decoded = (Option<String>, Option<String>, String);

    fn event(id: Option<&str>, name: Option<&str>, data: &str) -> Decoded {
        (
            id.map(str::to_owned),
            name.map(str::to_owned),
            data.to_owned(),
        )
    }

    fn data(texts: &[&str]) -> Vec<Decoded> {
        texts.iter().map(|text| event(None, None, text)).collect()
    }

    fn decode<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
        finish: bool,
    ) -> (Vec<Decoded>, Result<(), EventTooLong>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut parser = SseParser::new(MAX_BYTES);
        let mut events = Vec::new();
        let mut collect = |event: SseFields<'_>| {
            events.push((event.id.map(text), event.event.map(text), text(event.data)));
            Ok(())
        };
        let mut result = pieces
            .into_iter()
            .try_for_each(|piece| parser.push(piece, &mut collect));
        if finish && result.is_ok() {
            result = parser.finish(&mut collect);
        }
        (events, result)
    }

    fn cases() -> Vec<(&'static str, Vec<Decoded>)> {
        let numbered = |id, text| event(Some(id), None, text);
        vec![
            ("", data(&[])),
            ("data: a\n\n", data(&["a"])),
            ("data: a\n\ndata: b\n\n", data(&["a", "b"])),
            (
                "data: a\r\n\r\ndata: b\r\rdata: c\n\n",
                data(&["a", "b", "c"]),
            ),
            ("data: a\r\ndata: b\rdata: c\n\n", data(&["a\nb\nc"])),
            ("data: a\r\ndata\r\ndata: b\r\n\r\n", data(&["a\n\nb"])),
            ("data\n\ndata\ndata\n\n", data(&["", "\n"])),
            ("data:a\n\ndata:  b\n\n", data(&["a", " b"])),
            ("\n\n\ndata: a\n\n\n\n", data(&["a"])),
            (
                "id: 7\nevent: error\ndata: {\"x\":1}\n\n",
                vec![event(Some("7"), Some("error"), "{\"x\":1}")],
            ),
            (
                "id: 7\ndata: a\n\ndata: b\n\n",
                vec![numbered("7", "a"), event(None, None, "b")],
            ),
            (
                ": beat\n\n:\n\nid: 3\n\nevent: gap\n\ndata: a\n\n",
                data(&["a"]),
            ),
            (
                "retry: 10\nnonsense\nfoo: bar\nevent:\ndata: a: b\n\n",
                data(&["a: b"]),
            ),
            ("database: a\n\ndat: b\n\n", data(&[])),
            ("\u{feff}data: é\n\n\u{feff}data: no\n\n", data(&["é"])),
            ("id: a\0b\ndata: привет 🦀\n\n", data(&["привет 🦀"])),
            ("data: 😀é\n\ndata: \n\n", data(&["😀é", ""])),
        ]
    }

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        for (text, expected) in cases() {
            let bytes = text.as_bytes();
            let good = (expected, Ok(()));
            for finish in [false, true] {
                assert_eq!(decode([bytes], finish), good, "{text:?}");
                assert_eq!(decode(bytes.chunks(1), finish), good, "{text:?} by bytes");
            }
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                    let found = decode(parts, false);
                    assert_eq!(found, good, "{text:?} cut at {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn an_unclosed_event_counts_only_for_those_who_finish_the_stream() {
        for (stream, expected) in [
            ("data: без конца", "без конца"),
            ("data: a\n", "a"),
            ("data: a\ndata: b", "a\nb"),
        ] {
            for cut in 0..=stream.len() {
                let (left, right) = stream.as_bytes().split_at(cut);
                assert_eq!(decode([left, right], true), (data(&[expected]), Ok(())));
                assert_eq!(decode([left, right], false), (vec![], Ok(())));
            }
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
                let (events, result) = decode(text.as_bytes().chunks(size), false);
                assert_eq!(events, data(&["kept"]));
                let max_bytes = MAX_BYTES;
                assert_eq!(result, Err(EventTooLong { max_bytes }), "{size}");
            }
        }
    }

    #[test]
    fn a_pause_before_a_new_connection_comes_with_the_next_event() {
        let mut found = Vec::new();
        let text = "retry: 500\n\ndata: a\n\nretry: 1x\ndata: b\n\nretry:7\ndata\n\n";
        let mut parser = SseParser::new(MAX_BYTES);
        parser
            .push(text.as_bytes(), |event| {
                found.push(event.retry_ms);
                Ok::<(), EventTooLong>(())
            })
            .unwrap();
        assert_eq!(found, [Some(500), None, Some(7)]);
    }

    #[test]
    fn a_long_stream_of_small_events_stays_within_the_limit() {
        let text = "id: 1\ndata: 0123456789\n\n: beat\n\n".repeat(1_000);
        let (events, result) = decode(text.as_bytes().chunks(13), false);
        assert_eq!((events.len(), result), (1_000, Ok(())));
    }
}
