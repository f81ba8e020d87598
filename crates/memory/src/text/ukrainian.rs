//! A light stemmer for Ukrainian. It maps the forms of one word to one stem, which need not be a
//! word.
//!
//! Endings alone do not tell a plural noun from an infinitive (`запити` requests, `купити` to buy),
//! so a word may have two readings, and both are returned. Sound changes within a paradigm are
//! undone the same way for every form: fleeting vowels (рядок, рядка), і for о (рік, року),
//! softened consonants (вимога, вимозі).

/// Endings of nouns and adjectives. The longest match is removed.
const NOMINAL: &str = "\
    уваннями уваннях уванням ування уванню уванні увань аннями аннях анням ання анню анні ань еннями еннях енням \
    ення енню енні остями остях остям остей істю ості ість ього ьому ями ами ими іми ого ому ові еві єві ою ею \
    єю ої ах ях ам ям ом ем єм ів їв ий ій ей их іх им ім а я о е є у ю и і ї ь й";

/// Endings that can also belong to a noun's stem (`режим`). They are removed from every form until
/// none is left.
const NOMINAL_AGAIN: &str = "\
    ах ях ам ям ом ем єм ів їв ий ій ей их іх им ім";

/// Endings of verbs, their participles, and `ень` of nouns made from them (виправлень), which
/// others end in too (рівень).
const VERBAL: &str = "\
    ень уваного уваний увана увано увані увати ували увала увало ував уємо уєте ують уєш ую ує еного еному еними \
    ений ених еним еної еною ену ена ено ені аного аному аними аний аних аним аної аною ану ана ано ані аємо \
    аєте ають аєш ає аю яємо яєте яють яєш яє яю ати яти ити іти ути али ала ало яли яла яло или ила ило іли іла \
    іло имо емо ємо ите ете єте иш еш єш ить їть ять уть ють ав яв ив ів";

const REFLEXIVE: [&str; 2] = ["ся", "сь"];
const VOWELS: &str = "аеєиіїоуюя";
/// The minimum length of a stem. It is one letter longer if a longer ending is removed.
const MIN_STEM: usize = 2;

/// The stems of a lower-case Ukrainian word without apostrophes and with ґ written as г.
pub fn stems(word: &str) -> Vec<String> {
    let word = REFLEXIVE
        .iter()
        .find_map(|ending| without(word, ending))
        .unwrap_or(word);
    let mut nominal = strip(word, NOMINAL).unwrap_or(word);
    while let Some(shorter) = strip(nominal, NOMINAL_AGAIN) {
        nominal = shorter;
    }
    let mut stems = vec![level(nominal)];
    if let Some(verbal) = strip(word, VERBAL).map(level)
        && !stems.contains(&verbal)
    {
        stems.push(verbal);
    }
    stems
}

fn strip<'a>(word: &'a str, endings: &str) -> Option<&'a str> {
    endings
        .split(' ')
        .filter_map(|ending| without(word, ending))
        .min_by_key(|stem| stem.len())
}

fn without<'a>(word: &'a str, ending: &str) -> Option<&'a str> {
    let stem = word.strip_suffix(ending)?;
    let long_ending = usize::from(ending.chars().count() > 1);
    (stem.chars().count() >= MIN_STEM + long_ending && stem.contains(is_vowel)).then_some(stem)
}

fn is_vowel(c: char) -> bool {
    VOWELS.contains(c)
}

/// Undoes sound changes at the end of a stem. The result need not be correct, only equal for all
/// forms.
fn level(stem: &str) -> String {
    let mut letters: Vec<char> = stem.chars().collect();
    while letters.len() > MIN_STEM && matches!(letters.last(), Some('і' | 'и' | 'ь' | 'й' | '\''))
    {
        letters.pop();
    }
    letters.dedup_by(|right, left| right == left && !is_vowel(*right));
    drop_epenthetic_l(&mut letters);
    drop_fleeting_vowel(&mut letters);
    if let Some(last_vowel) = letters.iter().rposition(|&c| is_vowel(c))
        && last_vowel + 1 < letters.len()
        && letters[last_vowel] == 'і'
    {
        letters[last_vowel] = 'о';
    }
    if let Some(last) = letters.last_mut() {
        *last = match *last {
            'ц' => 'к',
            'з' => 'г',
            'с' => 'х',
            other => other,
        };
    }
    letters.into_iter().collect()
}

/// виправл(ю) and виправ(ити).
fn drop_epenthetic_l(letters: &mut Vec<char>) {
    if let [start @ .., labial, 'л'] = letters.as_slice()
        && start.len() > 1
        && matches!(labial, 'б' | 'п' | 'в' | 'м' | 'ф')
    {
        letters.pop();
    }
}

/// рядок and рядк(а), вікон and вікн(о), рівень and рівн(я), кінець and кінц(я).
fn drop_fleeting_vowel(letters: &mut Vec<char>) {
    if let [start @ .., before, 'о' | 'е', 'к' | 'ц' | 'н'] = letters.as_slice()
        && !start.is_empty()
        && !is_vowel(*before)
    {
        letters.remove(letters.len() - 2);
    }
}
