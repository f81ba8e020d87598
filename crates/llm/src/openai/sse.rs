//! Server-sent events from bytes, incrementally: bytes in, the data of whole events out. No I/O, no
//! JSON.

use memchr::memchr2;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One line or one event grew past the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLong;

/// Decodes an event stream that arrives in pieces cut anywhere. Only `data` matters; other fields
/// are skipped.
#[derive(Debug)]
pub struct SseDecoder {
    /// A line whose end has not arrived.
    line: Vec<u8>,
    /// The data lines of the current event, joined by line feeds.
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a carriage return, so a line feed that follows belongs to it.
    after_cr: bool,
    first_line: bool,
    max_event_bytes: usize,
}

impl SseDecoder {
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            first_line: true,
            max_event_bytes,
        }
    }

    /// Takes the next bytes and gives the data of every event they complete.
    pub fn push<E: From<EventTooLong>>(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(&[u8]) -> Result<(), E>,
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

    /// The stream is over. An event whose closing blank line is missing still counts; many servers
    /// forget it.
    pub fn finish<E: From<EventTooLong>>(
        &mut self,
        mut on_event: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.end_line(&[], &mut on_event)?;
        self.dispatch(&mut on_event)
    }

    fn hold(&mut self, part: &[u8]) -> Result<(), EventTooLong> {
        if self.line.len() + part.len() > self.max_event_bytes {
            return Err(EventTooLong);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line<E: From<EventTooLong>>(
        &mut self,
        tail: &[u8],
        on_event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.line.is_empty() {
            return self.take_line(tail, on_event);
        }
        self.hold(tail)?;
        let mut line = std::mem::take(&mut self.line);
        let taken = self.take_line(&line, on_event);
        line.clear();
        self.line = line;
        taken
    }

    fn take_line<E: From<EventTooLong>>(
        &mut self,
        mut line: &[u8],
        on_event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(on_event);
        }
        let Some(value) = line.strip_prefix(b"data") else {
            return Ok(());
        };
        let value = match value {
            [] => value,
            [b':', b' ', value @ ..] | [b':', value @ ..] => value,
            _ => return Ok(()),
        };
        if self.data.len() + value.len() > self.max_event_bytes {
            return Err(EventTooLong.into());
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn dispatch<E>(&mut self, on_event: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if !std::mem::take(&mut self.has_data) {
            return Ok(());
        }
        let outcome = on_event(&self.data);
        self.data.clear();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<String>, EventTooLong> {
        let mut decoder = SseDecoder::new(64);
        let mut events = Vec::new();
        let mut take = |data: &[u8]| {
            events.push(String::from_utf8_lossy(data).into_owned());
            Ok::<(), EventTooLong>(())
        };
        for piece in pieces {
            decoder.push(piece, &mut take)?;
        }
        decoder.finish(&mut take)?;
        Ok(events)
    }

    const CASES: &[(&str, &[&str])] = &[
        ("data: a\n\ndata: b\n\n", &["a", "b"]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
        ("data: a\r\rdata: b\r\r", &["a", "b"]),
        ("data:a\n\ndata:  b\n\n", &["a", " b"]),
        ("data: a\ndata: b\n\n", &["a\nb"]),
        ("data: a\r\ndata\r\ndata: b\r\n\r\n", &["a\n\nb"]),
        (
            ": comment\n\n:\n\nevent: x\nid: 7\nretry: 1\ndata: a\n\n",
            &["a"],
        ),
        ("\u{feff}data: a\n\n", &["a"]),
        ("\n\n\ndata: a\n\n\n\n", &["a"]),
        ("data: без конца", &["без конца"]),
        ("data: a\n", &["a"]),
        ("database: a\n\ndat: b\n\n", &[]),
        ("data: 😀é\n\ndata: \n\n", &["😀é", ""]),
        ("", &[]),
    ];

    #[test]
    fn events_come_out_the_same_however_the_bytes_are_cut() {
        for (stream, wanted) in CASES {
            let bytes = stream.as_bytes();
            assert_eq!(decode([bytes]).unwrap(), *wanted, "{stream:?} whole");
            assert_eq!(
                decode(bytes.chunks(1)).unwrap(),
                *wanted,
                "{stream:?} byte by byte"
            );
            for cut in 0..=bytes.len() {
                let (left, right) = bytes.split_at(cut);
                assert_eq!(
                    decode([left, right]).unwrap(),
                    *wanted,
                    "{stream:?} cut at {cut}"
                );
                assert_eq!(
                    decode([left, &[], right]).unwrap(),
                    *wanted,
                    "{stream:?} cut at {cut}, empty piece"
                );
            }
        }
    }

    #[test]
    fn long_lines_and_long_events_are_refused() {
        let line = format!("data: {}", "x".repeat(100));
        let event = "data: 0123456789\n".repeat(10);
        let comment = format!(":{}", "x".repeat(100));
        for stream in [line, event, comment] {
            assert_eq!(
                decode(stream.as_bytes().chunks(7)),
                Err(EventTooLong),
                "{stream}"
            );
        }
        let many = "data: 0123456789\n\n".repeat(100);
        assert_eq!(decode([many.as_bytes()]).unwrap().len(), 100);
    }
}
