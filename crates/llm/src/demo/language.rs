//! Which of the three languages a text is written in, by its letters.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    English,
    Russian,
    Ukrainian,
}

impl Language {
    /// Cyrillic where most letters are; Ukrainian by the letters that Russian lacks.
    pub fn of(text: &str) -> Self {
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        let cyrillic = text.chars().filter(|c| ('\u{400}'..='\u{4ff}').contains(c)).count();
        if cyrillic == 0 || cyrillic * 2 < letters {
            Self::English
        } else if text.chars().any(|c| "іїєґІЇЄҐ".contains(c)) {
            Self::Ukrainian
        } else {
            Self::Russian
        }
    }
}
