//! Cuts texts into words for the search over sessions, and shows where they were found.
//!
//! Both databases get the same words, separated by spaces, and match them as they are. So both find
//! the same sessions, whatever their own parsers make of paths, numbers and alphabets. Each word is
//! stored with its user's number before it: a search reads only the user's own part of the index.

use std::collections::BTreeSet;
use std::ops::Range;

use codelab_protocol::UserId;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Characters of a text that are searched. Later ones are not found.
const MAX_TEXT_CHARS: usize = 65_536;
/// What is read of a message for them. SQLite's `SUBSTR` ends at NUL, so there the whole text is
/// read. PostgreSQL stores NUL as two characters.
macro_rules! searched_text {
    (sqlite) => {
        "content"
    };
    (postgres) => {
        "SUBSTR(content, 1, 131072)"
    };
}
pub(crate) use searched_text;
/// Bytes of all words of a text. PostgreSQL can hold twice as much in a `tsvector` (1 MiB).
const MAX_WORDS_BYTES: usize = 512 * 1024;
/// Only this many characters of a word are indexed.
const MAX_WORD_CHARS: usize = 64;

const SNIPPET_CHARS: usize = 160;
/// Characters of a snippet before the first word that was found.
const LEAD_CHARS: usize = 40;
/// Places in a text that are compared for the best snippet.
const MAX_PLACES: usize = 1_000;

/// What a user searches for: every word must begin a word of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchWords(Vec<String>);

impl SearchWords {
    /// Maximum number of words of one search.
    pub const MAX: usize = 16;

    /// `None` if there are more than [`Self::MAX`] different words.
    pub fn parse(text: &str) -> Option<Self> {
        let mut found = Vec::new();
        for (_, word) in words(text) {
            if !found.contains(&word) {
                found.push(word);
            }
        }
        (found.len() <= Self::MAX).then_some(Self(found))
    }

    /// Without words nothing is found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// A JSON array with a query of FTS5 for each word. A word has no character that could end its
    /// quotes.
    pub(crate) fn sqlite(&self, user: UserId) -> String {
        let queries = self.0.iter().map(|word| format!("\"{user}:{word}\"*"));
        serde_json::Value::from_iter(queries).to_string()
    }

    /// A `tsquery` for each word, separated by spaces. A word has no character that could end its
    /// quotes.
    pub(crate) fn postgres(&self, user: UserId) -> String {
        let queries: Vec<_> = self
            .0
            .iter()
            .map(|word| format!("'{user}:{word}':*"))
            .collect();
        queries.join(" ")
    }

    /// The part of a text that has most of the words, on one line.
    pub(crate) fn snippet(&self, text: &str) -> String {
        let text = searched(text);
        let begin = self.best_place(text).map_or(0, |found| {
            let before = text[..found].char_indices().rev();
            before
                .take(LEAD_CHARS)
                .last()
                .map_or(found, |(lead, _)| word_begin(text, lead, found))
        });
        let end = text[begin..]
            .char_indices()
            .nth(SNIPPET_CHARS)
            .map_or(text.len(), |(at, _)| begin + at);
        let mut line = text[begin..end]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        if !text[..begin].trim().is_empty() {
            line.insert(0, '…');
        }
        if !text[end..].trim().is_empty() {
            line.push('…');
        }
        line
    }

    /// Where a snippet should show its first word.
    fn best_place(&self, text: &str) -> Option<usize> {
        let places = words(text)
            .map(|(place, word)| (place.start, self.begins(&word)))
            .filter(|(_, which)| *which != 0)
            .take(MAX_PLACES);
        let mut before = (0, 0);
        let found: Vec<FoundWord> = places
            .map(|(at, which)| {
                let chars = before.1 + text[before.0..at].chars().count();
                before = (at, chars);
                FoundWord { at, chars, which }
            })
            .collect();
        let different = |first: usize| {
            let end = found[first].chars + SNIPPET_CHARS - LEAD_CHARS;
            let near = found[first..].iter().take_while(|place| place.chars < end);
            near.fold(0, |all, place| all | place.which).count_ones()
        };
        // The first of the best.
        let best = (0..found.len())
            .rev()
            .max_by_key(|first| different(*first))?;
        Some(found[best].at)
    }

    /// A bit for each word of the search that begins this one.
    fn begins(&self, word: &str) -> u32 {
        let bits = self.0.iter().enumerate();
        bits.filter(|(_, wanted)| word.starts_with(wanted.as_str()))
            .fold(0, |all, (bit, _)| all | 1 << bit)
    }
}

/// Where a word of the search is in a text.
struct FoundWord {
    at: usize,
    /// Characters before it.
    chars: usize,
    /// A bit for each word of the search that is there.
    which: u32,
}

/// A snippet does not begin within a word if it can help it.
fn word_begin(text: &str, lead: usize, found: usize) -> usize {
    let next = text[lead..found]
        .char_indices()
        .find(|(_, c)| c.is_whitespace());
    match next {
        _ if lead == 0 => 0,
        Some((at, space)) => lead + at + space.len_utf8(),
        None => lead,
    }
}

/// The different words of a text, as they are stored.
pub(crate) fn stored_words(user: UserId, text: &str) -> String {
    let different: BTreeSet<String> = words(searched(text)).map(|(_, word)| word).collect();
    let mut stored = String::new();
    for word in different {
        let separator = if stored.is_empty() { "" } else { " " };
        let next = format!("{separator}{user}:{word}");
        if stored.len() + next.len() > MAX_WORDS_BYTES {
            break;
        }
        stored.push_str(&next);
    }
    stored
}

fn searched(text: &str) -> &str {
    text.char_indices()
        .nth(MAX_TEXT_CHARS)
        .map_or(text, |(end, _)| &text[..end])
}

fn words(text: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let begin = rest + text[rest..].find(is_in_word)?;
        let length = text[begin..]
            .find(|c| !is_in_word(c))
            .unwrap_or(text.len() - begin);
        rest = begin + length;
        Some((begin..rest, folded(&text[begin..rest])))
    })
    .filter(|(_, word)| !word.is_empty())
}

fn is_in_word(character: char) -> bool {
    character.is_alphanumeric() || is_combining_mark(character)
}

/// Without differences of case and of encoding. Upper case comes between, so that letters with two
/// small forms are the same, as in Greek.
fn folded(word: &str) -> String {
    if word.is_ascii() {
        let end = word.len().min(MAX_WORD_CHARS);
        return word[..end].to_ascii_lowercase();
    }
    let large = word.nfkc().flat_map(char::to_uppercase);
    large
        .flat_map(char::to_lowercase)
        .nfc()
        .filter(|c| is_in_word(*c))
        .take(MAX_WORD_CHARS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> UserId {
        UserId::new(7).unwrap()
    }

    #[test]
    fn words_are_cut_and_folded() {
        for (text, expected) in [
            ("", ""),
            ("?!  …", ""),
            ("Hello, HELLO world", "7:hello 7:world"),
            (
                "src/main.rs:12 my_name",
                "7:12 7:main 7:my 7:name 7:rs 7:src",
            ),
            (
                "a-b@c.io 1e5 0x1F 3.14",
                "7:0x1f 7:14 7:1e5 7:3 7:a 7:b 7:c 7:io",
            ),
            ("Їжак П'ЯТЬ п’ять", "7:п 7:ять 7:їжак"),
            ("ΣΊΣΥΦΟΣ σίσυφος", "7:σίσυφοσ"),
            ("straße STRASSE", "7:strasse"),
            ("и\u{306} Й", "7:й"),
            ("ﬁle", "7:file"),
            ("a\0b '\"*:\\ (NEAR)", "7:a 7:b 7:near"),
        ] {
            assert_eq!(stored_words(user(), text), expected, "{text}");
        }
        assert_eq!(
            stored_words(user(), &"x".repeat(100)),
            format!("7:{}", "x".repeat(64))
        );
    }

    #[test]
    fn a_text_has_limits() {
        let late = format!("{}late", "- ".repeat(MAX_TEXT_CHARS / 2));
        assert_eq!(stored_words(user(), &late), "");
        assert!(searched_text!(postgres).contains(&(2 * MAX_TEXT_CHARS).to_string()));
        let many: String = ('\u{20000}'..)
            .take(40_000)
            .flat_map(|c| [c, ' '])
            .collect();
        let stored = stored_words(UserId::new(i64::MAX).unwrap(), &many).len();
        assert!((MAX_WORDS_BYTES - 64..=MAX_WORDS_BYTES).contains(&stored));
        let words = |count: usize| (0..count).map(|n| format!("w{n} ")).collect::<String>();
        assert!(SearchWords::parse(&words(16)).is_some());
        assert!(SearchWords::parse(&words(16).repeat(2)).is_some());
        assert_eq!(SearchWords::parse(&words(17)), None);
    }

    /// What `unicode61` makes of a word must be the word itself. Otherwise PostgreSQL, which
    /// changes nothing, would find something else.
    #[test]
    fn sqlite_changes_no_word() {
        let connection = crate::store::query_plan::empty();
        connection
            .execute_batch("CREATE VIRTUAL TABLE vocabulary USING fts5vocab (session_search, row)")
            .unwrap();
        let all: BTreeSet<String> = (0..=0x10FFFF_u32)
            .filter_map(char::from_u32)
            .flat_map(|c| {
                stored_words(user(), &format!("a{c}z {c}"))
                    .split(' ')
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .filter(|word| !word.is_empty())
            .collect();
        let text = all.iter().cloned().collect::<Vec<_>>().join(" ");
        connection
            .execute(
                "INSERT INTO session_texts (session_key, ord, words) VALUES (1, 1, $1)",
                [text],
            )
            .unwrap();
        let mut terms = connection.prepare("SELECT term FROM vocabulary").unwrap();
        let terms: BTreeSet<String> = terms
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let changed: Vec<_> = all.symmetric_difference(&terms).take(20).collect();
        assert_eq!(changed, Vec::<&String>::new());
    }

    #[test]
    fn a_snippet_shows_where_the_words_are() {
        let far = "filler ".repeat(40);
        for (search, text, expected) in [
            ("fix", "please\n\n  fix it", "please fix it"),
            ("ПРИ", "скажи привет", "скажи привет"),
            ("none", "a short text", "a short text"),
        ] {
            let words = SearchWords::parse(search).unwrap();
            assert_eq!(words.snippet(text), expected, "{search}");
        }
        let words = SearchWords::parse("alpha beta").unwrap();
        let text = format!("{far}alpha {far}one alpha and beta {far}");
        let shown = words.snippet(&text);
        assert!(
            shown.starts_with("…filler") && shown.ends_with('…'),
            "{shown}"
        );
        assert!(shown.contains("one alpha and beta filler"), "{shown}");
        assert!(shown.chars().count() <= SNIPPET_CHARS + 2, "{shown}");
        // The distance counts characters, not bytes.
        let words = SearchWords::parse("альфа бета").unwrap();
        let text = format!("{far}альфа {far}альфа {} бета", "ы".repeat(90));
        let shown = words.snippet(&text);
        assert!(shown.ends_with("ы бета"), "{shown}");
    }
}
