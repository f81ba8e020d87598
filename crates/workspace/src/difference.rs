//! Two contents of a file, line by line, as people and models read it. Bounded, and with nothing
//! hidden.

use std::time::Duration;

use codelab_policy::visible;
use similar::TextDiff;

use crate::text::{Encoding, decode, is_binary};

const CONTEXT_LINES: usize = 3;
/// A difference that is not minimal is better than one that is awaited.
const DEADLINE: Duration = Duration::from_millis(300);

/// A difference, or why there is none to show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Difference {
    pub text: String,
    pub is_truncated: bool,
    pub note: Option<&'static str>,
}

/// A unified diff with these names for the two sides.
pub(crate) fn between(old: (&str, &[u8]), new: (&str, &[u8]), max_bytes: usize) -> Difference {
    let (Some(old_text), Some(new_text)) = (as_text(old.1), as_text(new.1)) else {
        return Difference {
            note: Some("it is not text, so no difference can be shown"),
            ..Difference::default()
        };
    };
    if old.1 != new.1 && old_text.replace('\r', "") == new_text.replace('\r', "") {
        return Difference {
            note: Some("only its line ends or its encoding change"),
            ..Difference::default()
        };
    }
    let diff = TextDiff::configure()
        .timeout(DEADLINE)
        .diff_lines(&old_text, &new_text);
    let unified = diff
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .header(old.0, new.0)
        .to_string();
    bounded(&unified, max_bytes)
}

/// A content as it is, where there is nothing to compare it with.
pub(crate) fn excerpt(bytes: &[u8], max_bytes: usize) -> Difference {
    match as_text(bytes) {
        Some(text) => bounded(&text, max_bytes),
        None => Difference {
            note: Some("it is not text, so it cannot be shown"),
            ..Difference::default()
        },
    }
}

/// Absent for what is not text.
pub(crate) fn as_text(bytes: &[u8]) -> Option<String> {
    if is_binary(bytes) {
        return None;
    }
    match decode(bytes) {
        (_, Encoding::Unknown) => None,
        (text, _) => Some(text),
    }
}

/// Whole lines, as long as they fit.
fn bounded(text: &str, max_bytes: usize) -> Difference {
    let mut shown = Difference::default();
    for line in text.split_inclusive('\n') {
        let (body, end) = match line.strip_suffix('\n') {
            Some(body) => (body, "\n"),
            None => (line, ""),
        };
        let body = visible(body.strip_suffix('\r').unwrap_or(body));
        if shown.text.len() + body.len() + end.len() > max_bytes {
            let mut room = max_bytes.saturating_sub(shown.text.len());
            // A first line that is too long by itself is better cut than left out.
            if shown.text.is_empty() {
                while !body.is_char_boundary(room) {
                    room -= 1;
                }
                shown.text.push_str(&body[..room]);
            }
            shown.is_truncated = true;
            return shown;
        }
        shown.text.push_str(&body);
        shown.text.push_str(end);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_line_shows_is_said() {
        let old = b"a\nb\n";
        for new in [&b"a\r\nb\r\n"[..], b"\xef\xbb\xbfa\nb\n", b"a\r\nb\n"] {
            let shown = between(("old", old), ("new", new), 1000);
            let note = shown.note.unwrap_or_default();
            assert!(note.contains("line ends"), "{new:?}: {shown:?}");
        }
        assert_eq!(between(("old", old), ("new", b"a\nc\n"), 1000).note, None);
        assert_eq!(between(("old", old), ("new", old), 1000).note, None);
    }

    #[test]
    fn a_difference_is_whole_lines_within_the_bound() {
        let old = "a\nb\nc\n".repeat(100);
        let new = old.replace('b', "x");
        for max_bytes in [0, 1, 10, 100, 1000, 100_000] {
            let shown = between(("old", old.as_bytes()), ("new", new.as_bytes()), max_bytes);
            assert!(shown.text.len() <= max_bytes, "{max_bytes}");
            assert_eq!(shown.is_truncated, max_bytes < 100_000, "{max_bytes}");
        }
        let shown = between(("old", b"a\n"), ("new", b"a\nb\xe2\x80\xae\n"), 1000);
        assert!(shown.text.contains("+b"), "{}", shown.text);
        assert!(!shown.text.contains('\u{202e}'), "{}", shown.text);
    }

    #[test]
    fn what_is_not_text_is_said() {
        for bytes in [&b"a\0b"[..], b"\xff\x00\xfe\xfd"] {
            assert!(between(("a", bytes), ("b", b"x"), 100).note.is_some());
            assert!(excerpt(bytes, 100).note.is_some());
        }
        assert_eq!(excerpt(b"one\ntwo\n", 5).text, "one\n");
    }
}
