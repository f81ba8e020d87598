//! Escapes the character NUL, which PostgreSQL's text type cannot hold.
//!
//! NUL is stored as `\x01 0`, and `\x01` itself as `\x01 1`. Both are rare, so almost every text is
//! stored unchanged.

use std::borrow::Cow;

const ESCAPE: char = '\u{1}';

pub(crate) fn encode(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte < 2) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => encoded.extend([ESCAPE, '0']),
            ESCAPE => encoded.extend([ESCAPE, '1']),
            other => encoded.push(other),
        }
    }
    Cow::Owned(encoded)
}

pub(crate) fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return Cow::Borrowed(text);
    }
    let mut decoded = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        decoded.push(match character {
            ESCAPE if characters.next() == Some('0') => '\0',
            other => other,
        });
    }
    Cow::Owned(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_and_none_is_stored_with_nul() {
        for text in [
            "",
            "plain",
            "\0",
            "\u{1}",
            "\u{1}0",
            "a\0\u{1}1\0b",
            "Привіт\0світ",
        ] {
            let encoded = encode(text);
            assert!(!encoded.contains('\0'), "{text:?}");
            assert_eq!(decode(&encoded), text, "{text:?}");
        }
        assert!(matches!(encode("plain"), Cow::Borrowed(_)));
    }
}
