//! Splits a text into lower-case words. Knows scripts and identifiers, not languages.

use unicode_normalization::UnicodeNormalization;

/// Longer words (hashes, encoded data) are cut here.
const MAX_WORD_CHARS: usize = 64;
/// Combining marks that are left after composition, such as the stress mark of Ukrainian and
/// Russian texts.
const COMBINING_MARKS: std::ops::RangeInclusive<char> = '\u{300}'..='\u{36f}';

/// Passes on the words of `text` in order.
///
/// `_` separates words. A word in camel case is passed on whole and then in parts, so that
/// `PostgreSQL` is found by "postgresql" and `readConfig` by "config". Any kind of apostrophe
/// inside a Cyrillic word becomes `'`.
pub fn each_word(text: &str, mut take: impl FnMut(&str)) {
    let mut word = String::new();
    let mut chars = text
        .nfkc()
        .filter(|c| !COMBINING_MARKS.contains(c))
        .peekable();
    while let Some(c) = chars.next() {
        let next_is_letter = chars.peek().is_some_and(|next| next.is_alphabetic());
        // This comes first, because one kind of apostrophe is a letter in Unicode.
        if is_apostrophe(c) && next_is_letter && word.ends_with(char::is_alphabetic) {
            word.push('\'');
        } else if c.is_alphanumeric() && !is_apostrophe(c) {
            word.push(c);
        } else {
            finish(&mut word, &mut take);
        }
    }
    finish(&mut word, &mut take);
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | 'ʼ' | '‘' | '`')
}

fn finish(word: &mut String, take: &mut impl FnMut(&str)) {
    if word.is_empty() {
        return;
    }
    take(&lower(word));
    let parts = camel_parts(word);
    if parts.len() > 1 {
        for part in parts {
            take(&lower(part));
        }
    }
    word.clear();
}

fn lower(word: &str) -> String {
    word.chars()
        .flat_map(char::to_lowercase)
        .take(MAX_WORD_CHARS)
        .collect()
}

/// `HTTPServer` is HTTP and Server, `readFile2` is read and File2.
fn camel_parts(word: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for i in 1..chars.len() {
        let ((_, before), (at, c)) = (chars[i - 1], chars[i]);
        let next_is_lower = chars
            .get(i + 1)
            .is_some_and(|(_, next)| next.is_lowercase());
        if c.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && next_is_lower)) {
            parts.push(&word[start..at]);
            start = at;
        }
    }
    parts.push(&word[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_and_lowered() {
        for (text, wanted) in [
            ("", ""),
            ("  !?… -- ", ""),
            ("Hello, world!", "hello world"),
            ("read_file(path)", "read file path"),
            (
                "readConfig PostgreSQL",
                "readconfig read config postgresql postgre sql",
            ),
            ("HTTPServer2", "httpserver2 http server2"),
            ("ALL CAPS utf8 404", "all caps utf8 404"),
            ("об’єкт обʼєкт об'єкт об`єкт", "об'єкт об'єкт об'єкт об'єкт"),
            ("'quoted' user's", "quoted user's"),
            ("Йогурт ї", "йогурт ї"),
            ("замо́к", "замок"),
            ("src/main.rs:12", "src main rs 12"),
            ("ｆｕｌｌ", "full"),
        ] {
            let mut words = Vec::new();
            each_word(text, |word| words.push(word.to_owned()));
            assert_eq!(words.join(" "), wanted, "{text:?}");
        }
    }

    #[test]
    fn a_word_without_end_is_cut() {
        let mut words = Vec::new();
        each_word(&"ж".repeat(100_000), |word| words.push(word.to_owned()));
        assert_eq!(words, ["ж".repeat(MAX_WORD_CHARS)]);
    }
}
