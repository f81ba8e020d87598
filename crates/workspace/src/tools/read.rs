//! `read_file`: a text file or some of its lines, within a limit, decoded; or a whole image.

use std::io::{self, BufRead, BufReader, Read, Seek};

use cap_std::fs::File;
use codelab_protocol::{MAX_IMAGE_BYTES, NewAttachment, ReadFile, image_type};
use serde_json::{Value, json};

use crate::error::{PathAction, ToolRefusal};
use crate::options::WorkspaceLimits;
use crate::root::Root;
use crate::seen::{MAX_HASHED_BYTES, Present, ReadingAgent, Readings};
use crate::text::{Encoding, SNIFFED_BYTES, decode, encode, is_binary, whole_characters};

/// A range far into a large file is looked for this far.
const MAX_SCANNED_BYTES: u64 = 1024 * 1024 * 1024;

pub(crate) fn read_file(
    root: &Root,
    readings: &Readings,
    limits: &WorkspaceLimits,
    call: &ReadFile,
    reader: Option<&ReadingAgent>,
) -> Result<Value, ToolRefusal> {
    let refused = |error| ToolRefusal::from_io(&call.path, PathAction::Read, error);
    let place = root.existing(&call.path, PathAction::Read)?;
    let mut file = place.open_file(&call.path)?;
    let size = file.metadata().map_err(refused)?.len();
    let head = head(&mut file).map_err(refused)?;
    // A text can begin with the name of a format.
    let is_text = !is_binary(&head) && std::str::from_utf8(whole_characters(&head)).is_ok();
    if let Some(media_type) = image_type(&head).filter(|_| !is_text) {
        let (bytes, image) = image(&mut file, call, size, media_type)?;
        readings.remember(reader, &place.real, &Present::of_bytes(&bytes));
        return Ok(image);
    }
    if is_binary(&head) {
        return Err(ToolRefusal::Binary(call.path.clone()));
    }
    let part = if size <= MAX_HASHED_BYTES {
        let mut bytes = Vec::new();
        file.take(MAX_HASHED_BYTES)
            .read_to_end(&mut bytes)
            .map_err(refused)?;
        let present = Present::of_bytes(&bytes);
        // Lines are looked for in UTF-8, whatever the file has.
        let (whole, encoding) = match decode(&bytes) {
            (_, Encoding::Unknown) => (bytes, Encoding::Unknown),
            (text, encoding) => (encode(&text, Encoding::Utf8), encoding),
        };
        let lines = lines(&mut whole.as_slice(), call, limits.read_bytes).map_err(refused)?;
        lines.map(|part| (part, encoding, present))
    } else {
        let present = Present::of_file(&mut file).map_err(refused)?;
        let mut reader = BufReader::new(file.take(MAX_SCANNED_BYTES));
        let lines = lines(&mut reader, call, limits.read_bytes).map_err(refused)?;
        lines.map(|part| (part, Encoding::sniff(&head), present))
    };
    let (part, encoding, present) = part.map_err(|lines| ToolRefusal::PastTheEnd {
        path: call.path.clone(),
        lines,
    })?;
    // All of the file, also where only some lines are shown.
    readings.remember(reader, &place.real, &present);
    Ok(result(&part, encoding, size))
}

/// An image whole, in the form in which messages carry files.
fn image(
    file: &mut File,
    call: &ReadFile,
    size: u64,
    media_type: &str,
) -> Result<(Vec<u8>, Value), ToolRefusal> {
    let too_large = |size| ToolRefusal::ImageTooLarge {
        path: call.path.clone(),
        size,
        max_bytes: MAX_IMAGE_BYTES,
    };
    if size > MAX_IMAGE_BYTES {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    file.take(MAX_IMAGE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ToolRefusal::from_io(&call.path, PathAction::Read, error))?;
    // It can grow while it is read.
    if bytes.len() as u64 > MAX_IMAGE_BYTES {
        return Err(too_large(bytes.len() as u64));
    }
    let name = call.path.rsplit('/').next().unwrap_or(&call.path);
    let image = NewAttachment::new(name, media_type, &bytes);
    let result = json!({"success": true, "image": image, "size": bytes.len()});
    Ok((bytes, result))
}

struct Part {
    bytes: Vec<u8>,
    is_truncated: bool,
}

fn result(part: &Part, encoding: Encoding, size: u64) -> Value {
    let (content, decoded) = decode(&part.bytes);
    let mut result = json!({"success": true, "content": content, "size": size});
    if part.is_truncated {
        result["truncated"] = json!(true);
    }
    let encoding = if decoded == Encoding::Unknown {
        decoded
    } else {
        encoding
    };
    if let Some(name) = encoding.name() {
        result["encoding"] = json!(name);
    }
    result
}

fn head(file: &mut File) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    Read::by_ref(file)
        .take(SNIFFED_BYTES as u64)
        .read_to_end(&mut head)?;
    file.rewind()?;
    Ok(head)
}

/// The wanted lines as they are, line ends included; or how many lines there are, when the first
/// wanted one is past them. A line of any length costs no more memory than the limit.
fn lines(
    reader: &mut impl BufRead,
    call: &ReadFile,
    max_bytes: usize,
) -> io::Result<Result<Part, u64>> {
    let first = call.start_line.unwrap_or(1);
    let last = call.end_line.unwrap_or(u64::MAX);
    let mut part = Part {
        bytes: Vec::new(),
        is_truncated: false,
    };
    let (mut line, mut is_line_start) = (1, true);
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            let count = if is_line_start { line - 1 } else { line };
            return Ok(if first > count.max(1) {
                Err(count)
            } else {
                Ok(part)
            });
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let piece = &buffer[..end.map_or(buffer.len(), |at| at + 1)];
        let used = piece.len();
        if line >= first {
            let room = max_bytes - part.bytes.len();
            part.bytes.extend_from_slice(&piece[..used.min(room)]);
            if used > room {
                part.is_truncated = true;
                let whole = whole_characters(&part.bytes).len();
                part.bytes.truncate(whole);
                return Ok(Ok(part));
            }
        }
        reader.consume(used);
        is_line_start = end.is_some();
        if is_line_start {
            if line >= last {
                return Ok(Ok(part));
            }
            line += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_inclusive_and_bounded() {
        let text = "one\ntwo\nthree";
        for (start, end, max_bytes, expected) in [
            (None, None, 100, Ok(("one\ntwo\nthree", false))),
            (Some(2), None, 100, Ok(("two\nthree", false))),
            (Some(2), Some(2), 100, Ok(("two\n", false))),
            (None, Some(1), 100, Ok(("one\n", false))),
            (Some(3), Some(9), 100, Ok(("three", false))),
            (Some(4), None, 100, Err(3)),
            (None, None, 5, Ok(("one\nt", true))),
            (None, None, 13, Ok(("one\ntwo\nthree", false))),
        ] {
            for capacity in [1, 2, 3, 64] {
                let mut reader = BufReader::with_capacity(capacity, text.as_bytes());
                let call = ReadFile {
                    path: "a".to_owned(),
                    start_line: start,
                    end_line: end,
                };
                let found = lines(&mut reader, &call, max_bytes).unwrap();
                let found =
                    found.map(|part| (String::from_utf8(part.bytes).unwrap(), part.is_truncated));
                let expected = expected.map(|(text, is_truncated)| (text.to_owned(), is_truncated));
                assert_eq!(
                    found, expected,
                    "{start:?}-{end:?} of {max_bytes}, {capacity} at a time"
                );
            }
        }
    }

    #[test]
    fn an_empty_file_has_an_empty_first_line() {
        let call = |start_line| ReadFile {
            path: "a".to_owned(),
            start_line,
            end_line: None,
        };
        assert!(lines(&mut [].as_slice(), &call(None), 10).unwrap().is_ok());
        assert!(
            lines(&mut [].as_slice(), &call(Some(1)), 10)
                .unwrap()
                .is_ok()
        );
        assert_eq!(
            lines(&mut [].as_slice(), &call(Some(2)), 10).unwrap().err(),
            Some(0)
        );
    }
}
