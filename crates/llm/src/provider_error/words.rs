//! Makes a provider's words safe to show: no keys, no control characters, not too long.

use crate::secret::Secret;

/// A longer message is cut.
pub const MAX_MESSAGE_CHARS: usize = 500;
/// How keys of well-known providers begin. Providers repeat a wrong key in their messages.
const KEY_STARTS: &[&str] = &[
    "sk-", "sk_", "pk-", "rk-", "gsk_", "xai-", "hf_", "nvapi-", "key-", "AIza", "eyJ",
];
/// A shorter word that begins like a key is an ordinary word.
const MIN_KEY_CHARS: usize = 12;
const REDACTED: &str = "[secret]";

/// `None` when nothing is left to show.
pub fn shown(message: &str, secret: Option<&Secret>) -> Option<String> {
    let message = match secret {
        Some(secret) => secret.redact(message),
        None => message.to_owned(),
    };
    let words: Vec<String> = message
        .split_whitespace()
        // The limit counts characters, so no more words than that can be shown.
        .take(MAX_MESSAGE_CHARS)
        .map(|word| visible(&without_key(word)))
        .collect();
    let mut shown = words.join(" ");
    if shown.chars().count() > MAX_MESSAGE_CHARS {
        shown = shown.chars().take(MAX_MESSAGE_CHARS - 1).collect();
        shown.push('…');
    }
    (!shown.is_empty()).then_some(shown)
}

/// The message of an answer that is not JSON. A page of a gateway says nothing to people.
pub fn of_plain_text(body: &str) -> String {
    let body = body.trim();
    if body.starts_with('<') {
        String::new()
    } else {
        body.to_owned()
    }
}

/// Replaces what looks like a key, together with the mask that some providers put into it.
fn without_key(word: &str) -> String {
    let mut rest = word;
    let mut out = String::new();
    while let Some(at) = key_start(rest) {
        let (before, key) = rest.split_at(at);
        let end = key
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.')))
            .unwrap_or(key.len());
        out.push_str(before);
        if key[..end].chars().count() < MIN_KEY_CHARS {
            out.push_str(&key[..end]);
        } else {
            out.push_str(REDACTED);
        }
        rest = &key[end..];
    }
    out + rest
}

/// Where a key begins: at the start of the word or after a character that keys do not have.
fn key_start(word: &str) -> Option<usize> {
    let is_inside = |at: usize| {
        word[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    KEY_STARTS
        .iter()
        .flat_map(|start| word.match_indices(start))
        .map(|(at, _)| at)
        .filter(|at| !is_inside(*at))
        .min()
}

/// Control characters, and those that change the direction of text, become visible.
fn visible(word: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        if is_hidden(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}
