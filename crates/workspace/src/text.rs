//! Bytes as text: what is binary, which encoding a file has, and the way back when it is written.
//! Decodes what models and people meet in repositories; never guesses a legacy code page.

/// How a file's text is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf8Bom,
    Utf16Le,
    Utf16Be,
    /// Not valid in any of the above; shown with replacement characters.
    Unknown,
}

const UTF8_BOM: &[u8] = &[0xef, 0xbb, 0xbf];
const UTF16LE_BOM: &[u8] = &[0xff, 0xfe];
const UTF16BE_BOM: &[u8] = &[0xfe, 0xff];

/// How much of a file decides whether it is binary.
pub(crate) const SNIFFED_BYTES: usize = 8192;

impl Encoding {
    /// What the start of a file says.
    pub fn sniff(head: &[u8]) -> Self {
        if head.starts_with(UTF8_BOM) {
            Self::Utf8Bom
        } else if head.starts_with(UTF16LE_BOM) {
            Self::Utf16Le
        } else if head.starts_with(UTF16BE_BOM) {
            Self::Utf16Be
        } else {
            Self::Utf8
        }
    }

    /// For the result of a read; UTF-8 goes without saying.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Utf8 | Self::Utf8Bom => None,
            Self::Utf16Le => Some("utf-16le"),
            Self::Utf16Be => Some("utf-16be"),
            Self::Unknown => Some("unknown"),
        }
    }

    fn is_wide(self) -> bool {
        matches!(self, Self::Utf16Le | Self::Utf16Be)
    }
}

pub(crate) fn is_binary(head: &[u8]) -> bool {
    !Encoding::sniff(head).is_wide() && head.iter().take(SNIFFED_BYTES).any(|byte| *byte == 0)
}

pub(crate) fn decode(bytes: &[u8]) -> (String, Encoding) {
    let encoding = Encoding::sniff(bytes);
    let decoded = match encoding {
        Encoding::Utf8 => String::from_utf8(bytes.to_vec()).ok(),
        Encoding::Utf8Bom => String::from_utf8(bytes[UTF8_BOM.len()..].to_vec()).ok(),
        Encoding::Utf16Le => wide(bytes, u16::from_le_bytes),
        Encoding::Utf16Be => wide(bytes, u16::from_be_bytes),
        Encoding::Unknown => None,
    };
    match decoded {
        Some(text) => (text, encoding),
        None => (
            String::from_utf8_lossy(bytes).into_owned(),
            Encoding::Unknown,
        ),
    }
}

/// The bytes to store; what cannot be read back in its own encoding is stored as UTF-8.
pub(crate) fn encode(text: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Utf8 | Encoding::Unknown => text.as_bytes().to_vec(),
        Encoding::Utf8Bom => [UTF8_BOM, text.as_bytes()].concat(),
        Encoding::Utf16Le => UTF16LE_BOM
            .iter()
            .copied()
            .chain(text.encode_utf16().flat_map(u16::to_le_bytes))
            .collect(),
        Encoding::Utf16Be => UTF16BE_BOM
            .iter()
            .copied()
            .chain(text.encode_utf16().flat_map(u16::to_be_bytes))
            .collect(),
    }
}

/// Without the first bytes of a character whose rest was cut off.
pub(crate) fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Without the last bytes of a character whose start was cut off.
pub(crate) fn from_character(bytes: &[u8]) -> &[u8] {
    const MAX_CONTINUATION_BYTES: usize = 3;
    let skipped = bytes
        .iter()
        .take(MAX_CONTINUATION_BYTES)
        .take_while(|byte| **byte & 0xc0 == 0x80)
        .count();
    &bytes[skipped..]
}

/// The text cut to at most `max_bytes`, at a character.
pub(crate) fn shortened(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let end = (0..=max_bytes)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    &text[..end]
}

fn wide(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes[UTF16LE_BOM.len()..].as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    char::decode_utf16(pairs.iter().map(|pair| unit(*pair)))
        .collect::<Result<String, _>>()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_its_encoding() {
        let text = "Привіт, 世界 🦀\r\nline\n";
        for encoding in [
            Encoding::Utf8,
            Encoding::Utf8Bom,
            Encoding::Utf16Le,
            Encoding::Utf16Be,
        ] {
            let bytes = encode(text, encoding);
            assert_eq!(decode(&bytes), (text.to_owned(), encoding));
            assert!(!is_binary(&bytes), "{encoding:?}");
        }
    }

    #[test]
    fn what_is_no_text_is_said_to_be_so() {
        assert!(is_binary(b"\x7fELF\0\0"));
        assert!(is_binary(
            &[b"x".repeat(SNIFFED_BYTES - 1), vec![0]].concat()
        ));
        assert_eq!(decode(b"caf\xe9").1, Encoding::Unknown);
        assert_eq!(decode(b"\xff\xfea\0b").1, Encoding::Unknown);
    }

    #[test]
    fn cuts_never_split_a_character() {
        let bytes = "ж🦀".as_bytes();
        for end in 0..=bytes.len() {
            assert!(
                std::str::from_utf8(whole_characters(&bytes[..end])).is_ok(),
                "{end}"
            );
            assert!(
                std::str::from_utf8(from_character(&bytes[end..])).is_ok(),
                "{end}"
            );
            assert!(shortened("ж🦀", end).len() <= end);
        }
    }
}
