//! Why a server is not usable, in words for people. A server's own words are bounded, and their
//! control characters made visible.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::Redaction;

/// What is kept of a server's standard error.
const KEPT_ERROR_BYTES: usize = 4 * 1024;
/// What is shown of it.
const SHOWN_LINES: usize = 5;
const SHOWN_CHARS: usize = 600;

/// What a server said last, and what is wrong with what it said.
#[derive(Debug, Default)]
pub struct LastWords {
    redaction: Redaction,
    heard: Mutex<Heard>,
    /// The connection cannot go on.
    pub broken: CancellationToken,
}

#[derive(Debug, Default)]
struct Heard {
    errors: VecDeque<u8>,
    problem: Option<String>,
    challenge: Option<String>,
}

impl LastWords {
    pub fn new(redaction: Redaction) -> Self {
        Self {
            redaction,
            ..Self::default()
        }
    }

    /// What a server said, without the secrets that it was given.
    pub fn hide(&self, said: &str) -> String {
        self.redaction.hide(said)
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        // Nothing panics while it is held.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the standard error.
    pub fn hear(&self, bytes: &[u8]) {
        let mut heard = self.heard();
        let kept = &bytes[bytes.len().saturating_sub(KEPT_ERROR_BYTES)..];
        heard.errors.extend(kept);
        let excess = heard.errors.len().saturating_sub(KEPT_ERROR_BYTES);
        heard.errors.drain(..excess);
    }

    /// Why the connection was given up. The first reason counts.
    pub fn blame(&self, problem: String) {
        self.heard().problem.get_or_insert(problem);
        self.broken.cancel();
    }

    /// How an HTTP server said that it wants an authorization, or another one.
    pub fn hear_challenge(&self, challenge: &str) {
        self.heard().challenge = Some(challenge.to_owned());
    }

    pub fn challenge(&self) -> Option<String> {
        self.heard().challenge.clone()
    }

    /// A sentence with the reason and the last lines of error.
    pub fn explain(&self, otherwise: &str) -> String {
        let heard = self.heard();
        let reason = self.hide(heard.problem.as_deref().unwrap_or(otherwise));
        let errors: Vec<u8> = heard.errors.iter().copied().collect();
        let text = self.hide(&String::from_utf8_lossy(&errors));
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        if last.is_empty() {
            return visible(&reason, SHOWN_CHARS);
        }
        // The end of the last lines says more than their beginning.
        let skipped = last.chars().count().saturating_sub(SHOWN_CHARS);
        let last: String = last.chars().skip(skipped).collect();
        let reason = visible(&reason, SHOWN_CHARS);
        format!("{reason}; it said: {}", visible(&last, SHOWN_CHARS))
    }
}

/// At most so many characters, none of which can move a cursor or hide text. Line ends stay.
pub fn visible(text: &str, max_chars: usize) -> String {
    let mut result = String::with_capacity(text.len().min(max_chars * 4));
    for (index, c) in text.chars().enumerate() {
        if index >= max_chars {
            result.push('…');
            break;
        }
        match c {
            '\n' | '\t' => result.push(c),
            '\r' => {}
            '\u{0}'..='\u{1f}' => result.extend(char::from_u32(c as u32 + 0x2400)),
            c if c.is_control() || is_invisible(c) => result.push('\u{fffd}'),
            c => result.push(c),
        }
    }
    result
}

/// Characters that reorder or hide others.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept_and_shown() {
        let words = LastWords::default();
        for number in 0..10_000 {
            words.hear(format!("line {number}\n").as_bytes());
        }
        assert!(words.heard().errors.len() <= KEPT_ERROR_BYTES);
        let text = words.explain("it ended");
        assert!(text.starts_with("it ended; it said: line 9995\n"), "{text}");
        assert!(text.ends_with("line 9999"), "{text}");
        words.blame("first".to_owned());
        words.blame("second".to_owned());
        assert!(words.explain("it ended").starts_with("first; "));
    }

    #[test]
    fn nothing_shown_moves_the_cursor_or_hides_text() {
        let shown = visible("a\u{1b}[2J\u{7f}\u{9b}b\r\n\u{202e}c\u{3164}", 100);
        assert_eq!(shown, "a\u{241b}[2J\u{fffd}\u{fffd}b\n\u{fffd}c\u{fffd}");
        assert_eq!(visible("abcdef", 3), "abc…");
    }
}
