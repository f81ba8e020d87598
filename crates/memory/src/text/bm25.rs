//! BM25 as sparse vectors. A document has a weight for each term, a query has terms, and the engine
//! multiplies by the inverse document frequency in the collection (`modifier: idf` in both
//! engines).
//!
//! A term's dimension is a 32-bit hash of it, so two terms can share one: a collection of 10,000
//! distinct terms has such a pair with a chance of about 1 in 86, one of 100,000 has about one
//! pair. A shared dimension can raise the rank of an unrelated interaction, but hides none.

use std::collections::BTreeMap;

use super::stem::Stems;
use super::words::each_word;

/// How soon repeats of a term stop counting, and how much the length of a document matters. These
/// are the usual values.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The engine knows document frequencies but not lengths, so the average length, in words, is
/// fixed.
const AVERAGE_WORDS: f32 = 128.0;
/// Terms of a query past this number are left out.
const MAX_QUERY_TERMS: usize = 256;

/// Stop words. They are left out of a query, unless it has no other words.
const STOP_WORDS: &str = "\
    a an and are as at be by can did do does for from had has have how i in is it its me my of on or our please \
    that the this to was we were what when where which who why with you your а без бы был была было быть в вас \
    во вот вы где да для до его если есть еще же за и из или их к как когда кто ли мне мы на надо нам не нет но \
    о об он она они от по почему при с со так то тоже ты у уже что чтобы это я або але був була було бути від де \
    є з зі й коли ми ні про та ти це чи чому щоб що як які із";

/// Distinct dimensions in ascending order, each with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseVector {
    pub indices: Vec<u32>,
    pub values: Vec<f32>,
}

impl SparseVector {
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    fn from_weights(weights: BTreeMap<u32, f32>) -> Self {
        let (indices, values) = weights.into_iter().unzip();
        Self { indices, values }
    }
}

/// The term weights of a document.
pub fn document(text: &str) -> SparseVector {
    let stems = Stems::new();
    let mut frequencies: BTreeMap<u32, f32> = BTreeMap::new();
    let mut words = 0.0;
    each_word(text, |word| {
        words += 1.0;
        for term in stems.of(word) {
            *frequencies.entry(dimension(&term)).or_default() += 1.0;
        }
    });
    let length = K1 * (1.0 - B + B * words / AVERAGE_WORDS);
    for frequency in frequencies.values_mut() {
        *frequency = *frequency * (K1 + 1.0) / (*frequency + length);
    }
    SparseVector::from_weights(frequencies)
}

/// The terms of a query. A word counts once, however many stems it has.
pub fn query(text: &str) -> SparseVector {
    let telling = query_weights(text, |word| {
        STOP_WORDS.split(' ').all(|stop_word| stop_word != word)
    });
    SparseVector::from_weights(if telling.is_empty() {
        query_weights(text, |_| true)
    } else {
        telling
    })
}

fn query_weights(text: &str, is_asked: impl Fn(&str) -> bool) -> BTreeMap<u32, f32> {
    let stems = Stems::new();
    let mut weights: BTreeMap<u32, f32> = BTreeMap::new();
    each_word(text, |word| {
        if !is_asked(word) || weights.len() >= MAX_QUERY_TERMS {
            return;
        }
        let terms = stems.of(word);
        let share = 1.0 / terms.len() as f32;
        for term in terms {
            let weight = weights.entry(dimension(&term)).or_default();
            *weight = weight.max(share);
        }
    });
    weights
}

/// FNV-1a over 64 bits, folded to 32: stable across machines and versions, unlike the standard
/// library's hash.
fn dimension(term: &str) -> u32 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = term.bytes().fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    (hash >> 32) as u32 ^ hash as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(asked: &str, said: &str) -> f32 {
        let (asked, said) = (query(asked), document(said));
        let value = |index| {
            said.indices
                .binary_search(index)
                .map_or(0.0, |at| said.values[at])
        };
        asked
            .indices
            .iter()
            .zip(&asked.values)
            .map(|(index, weight)| weight * value(index))
            .sum()
    }

    #[test]
    fn a_repeat_counts_less_and_a_longer_text_less() {
        let once = score("parser", "the parser failed");
        assert!(once > 0.0);
        let twice = score("parser", "the parser parser failed");
        assert!(twice > once && twice < 2.0 * once);
        assert!(
            score(
                "parser",
                &format!("the parser failed {}", "and so on ".repeat(100))
            ) < once
        );
        assert_eq!(score("lexer", "the parser failed"), 0.0);
    }

    #[test]
    fn stop_words_are_asked_for_only_alone() {
        assert_eq!(query("how did we fix the parser"), query("fix parser"));
        assert!(!query("what is this").is_empty());
        assert!(score("the", "the parser") > 0.0);
    }

    #[test]
    fn vectors_are_sorted_distinct_and_bounded() {
        let text: String = (0..10_000).map(|n| format!("word{n} ")).collect();
        let asked = query(&text);
        assert!(asked.indices.len() <= MAX_QUERY_TERMS + 3);
        for vector in [asked, document(&text)] {
            assert!(vector.indices.is_sorted_by(|left, right| left < right));
            assert_eq!(vector.indices.len(), vector.values.len());
        }
        assert!(document("… !?").is_empty());
    }

    #[test]
    fn dimensions_never_change() {
        for (term, wanted) in [
            ("", 0x4fd0_bfc1),
            ("parser", 0xd6df_e942),
            ("помилк", 0x64b3_5189),
        ] {
            assert_eq!(dimension(term), wanted);
        }
    }
}
