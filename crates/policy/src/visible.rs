//! Makes hidden characters visible. Everything a person is asked about goes through here, so that
//! what is shown cannot differ from what would run.

/// The text with control, bidirectional, zero-width and other invisible characters written as
/// `\u{…}`. Newline and tab stay as they are.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Whether [`visible`] would change the text.
pub(crate) fn has_hidden(text: &str) -> bool {
    text.chars().any(is_hidden)
}

/// A character that shows nothing, moves its neighbours, or looks like a plain space.
pub(crate) fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' | ' '..='~' => false,
        _ if character.is_control() || character.is_whitespace() => true,
        _ => INVISIBLE
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&character)),
    }
}

/// Invisible characters besides control characters and white space, which the standard library
/// knows.
const INVISIBLE: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),        // soft hyphen
    ('\u{34f}', '\u{34f}'),      // combining grapheme joiner
    ('\u{600}', '\u{605}'),      // Arabic number signs
    ('\u{61c}', '\u{61c}'),      // Arabic letter mark
    ('\u{6dd}', '\u{6dd}'),      // Arabic end of ayah
    ('\u{70f}', '\u{70f}'),      // Syriac abbreviation mark
    ('\u{890}', '\u{891}'),      // Arabic pound marks
    ('\u{8e2}', '\u{8e2}'),      // Arabic disputed end of ayah
    ('\u{115f}', '\u{1160}'),    // Hangul fillers
    ('\u{17b4}', '\u{17b5}'),    // Khmer inherent vowels
    ('\u{180b}', '\u{180f}'),    // Mongolian variation selectors
    ('\u{200b}', '\u{200f}'),    // zero-width, direction marks
    ('\u{202a}', '\u{202e}'),    // bidirectional embeddings and overrides
    ('\u{2060}', '\u{206f}'),    // word joiner, isolates, deprecated formats
    ('\u{2800}', '\u{2800}'),    // blank Braille pattern
    ('\u{3164}', '\u{3164}'),    // Hangul filler
    ('\u{e000}', '\u{f8ff}'),    // private use
    ('\u{fdd0}', '\u{fdef}'),    // noncharacters
    ('\u{fe00}', '\u{fe0f}'),    // variation selectors
    ('\u{feff}', '\u{feff}'),    // byte order mark
    ('\u{ffa0}', '\u{ffa0}'),    // half-width Hangul filler
    ('\u{fff0}', '\u{fffb}'),    // specials
    ('\u{fffe}', '\u{ffff}'),    // noncharacters
    ('\u{110bd}', '\u{110bd}'),  // Kaithi number sign
    ('\u{110cd}', '\u{110cd}'),  // Kaithi number sign above
    ('\u{13430}', '\u{1343f}'),  // hieroglyph format controls
    ('\u{1bca0}', '\u{1bca3}'),  // shorthand format controls
    ('\u{1d159}', '\u{1d159}'),  // null notehead
    ('\u{1d173}', '\u{1d17a}'),  // musical format controls
    ('\u{e0000}', '\u{e0fff}'),  // tags, variation selectors supplement
    ('\u{f0000}', '\u{10ffff}'), // private use planes
];
