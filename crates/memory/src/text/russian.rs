//! Russian: the Snowball stem of a word, and the root that a verb shares with nouns derived from
//! it.
//!
//! The Snowball stemmer maps the forms of one word to one stem. But a question often uses another
//! word than the text: `обновил` (updated) and `обновление` (the update), `загрузил` and
//! `загрузка`. So both stems are returned. An equal word then still counts for more than a related
//! one.

use rust_stemmers::Stemmer;

/// Endings of nouns that name an action. The longest match is removed.
const ACTION: &str = "\
    ениями ениях ениям ением ение ения ению ении ений аниями аниях аниям анием ание ания анию ании аний";

/// Suffixes between the root and the ending of an imperfective verb, or of a noun derived from it.
/// The longest match is removed.
const THEME: &str = "ирова ова ева ыва ива иров ов ев ыв ив а я";

/// Suffixes of nouns that name an action by `-ка`, with the vowel that their genitive plural puts
/// in.
const NOUN: &str = "йк ек ок к";

/// The minimum length of a stem. It is one letter shorter if the ending is unambiguous.
const MIN_ROOT: usize = 4;
const MIN_ACTION_ROOT: usize = 3;

/// The stems of a lower-case Russian word with ё written as е.
pub fn stems(snowball: &Stemmer, word: &str) -> Vec<String> {
    // A noun such as запись, which would lose the -сь of a reflexive verb.
    let word = if word.ends_with("пись") {
        word.trim_end_matches('ь')
    } else {
        word
    };
    let stem = snowball.stem(word).into_owned();
    let root = root(word, &stem);
    if root == stem {
        vec![stem]
    } else {
        vec![stem, root]
    }
}

fn root(word: &str, stem: &str) -> String {
    let action = strip(word, ACTION, MIN_ACTION_ROOT);
    let is_verbal = action.is_some() || stem.ends_with(['а', 'я']);
    let mut root = action.unwrap_or(stem);
    root = strip(root, if is_verbal { THEME } else { NOUN }, MIN_ROOT).unwrap_or(root);
    // обновл(ение) and обнов(ить).
    match root.strip_suffix('л') {
        Some(shorter)
            if shorter.ends_with(['б', 'п', 'в', 'м', 'ф'])
                && shorter.chars().count() >= MIN_ROOT =>
        {
            shorter.to_owned()
        }
        _ => root.to_owned(),
    }
}

fn strip<'a>(word: &'a str, endings: &str, min_root: usize) -> Option<&'a str> {
    let stripped = endings
        .split(' ')
        .filter_map(|ending| word.strip_suffix(ending));
    stripped
        .filter(|root| root.chars().count() >= min_root)
        .min_by_key(|root| root.len())
}
