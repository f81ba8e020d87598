//! Guesses the language of a text from its letters.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DemoLanguage {
    English,
    Russian,
    Ukrainian,
}

/// Ukrainian words without a letter that Russian lacks.
const UKRAINIAN_WORDS: [&str; 6] = ["що", "щось", "мене", "дякую", "запитай", "спитай"];

impl DemoLanguage {
    /// A text is Cyrillic if most of its letters are. It is Ukrainian if it has letters or words
    /// that Russian lacks.
    pub fn of(text: &str) -> Self {
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        let cyrillic = text
            .chars()
            .filter(|c| ('\u{400}'..='\u{4ff}').contains(c))
            .count();
        if cyrillic == 0 || cyrillic * 2 < letters {
            Self::English
        } else if text.chars().any(|c| "іїєґІЇЄҐ".contains(c)) || has_ukrainian_word(text) {
            Self::Ukrainian
        } else {
            Self::Russian
        }
    }
}

fn has_ukrainian_word(text: &str) -> bool {
    let text = text.to_lowercase();
    text.split(|c: char| !c.is_alphabetic())
        .any(|word| UKRAINIAN_WORDS.contains(&word))
}
