//! Makes text from models, tools and files safe to show: whatever would command the terminal or
//! hide from the reader's eyes is replaced by something that can be seen. What a person decides
//! about goes through the stricter `codelab_policy::visible` first, which also shows spaces that
//! are none; in prose those belong to the language.

use std::borrow::Cow;
use std::fmt::Write as _;

const TAB: &str = "    ";
/// U+2400 is the picture of U+0000, and the others follow in order.
const CONTROL_PICTURES: u32 = 0x2400;
const DELETE_PICTURE: char = '\u{2421}';

/// Replaces every character that would act on the terminal instead of being seen. That includes
/// line breaks, so a caller with several lines splits them first.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\t' => out.push_str(TAB),
            '\0'..='\u{1f}' => out.extend(char::from_u32(CONTROL_PICTURES + u32::from(character))),
            '\u{7f}' => out.push(DELETE_PICTURE),
            _ if acts(character) => {
                // Writing into a string cannot fail.
                let _ = write!(out, "<U+{:04X}>", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// Whether a character commands the terminal, reorders what is around it, or cannot be seen. The
/// joiners U+200C and U+200D are left alone: scripts and emoji need them.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180e}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_is_left() {
        for (given, shown) in [
            (
                "plain ascii, кирилиця, 日本語 👩‍👩‍👧",
                "plain ascii, кирилиця, 日本語 👩‍👩‍👧",
            ),
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("a\tb", "a    b"),
            ("one\rtwo", "one␍two"),
            ("\u{9b}2J", "<U+009B>2J"),
            ("del\u{7f}", "del␡"),
            ("user\u{202e}txt.exe", "user<U+202E>txt.exe"),
            ("if a\u{200b}dmin", "if a<U+200B>dmin"),
            ("\u{2066}x\u{2069}", "<U+2066>x<U+2069>"),
            ("\u{e0041}", "<U+E0041>"),
        ] {
            assert_eq!(visible(given), shown, "{given:?}");
        }
        let every = (0..=0x10_ffff)
            .filter_map(char::from_u32)
            .collect::<String>();
        assert!(!visible(&every).chars().any(acts));
    }
}
