//! The search terms of a word: its stems. The letters of the word tell its language.

use rust_stemmers::{Algorithm, Stemmer};

use super::{russian, ukrainian};

/// Stems English, Russian and Ukrainian words. Any other word is its own stem.
pub struct Stems {
    english: Stemmer,
    russian: Stemmer,
}

enum Language {
    English,
    Russian,
    Ukrainian,
    /// Cyrillic without a letter that only one of the two languages has. It is stemmed as both.
    RussianOrUkrainian,
    Other,
}

impl Stems {
    pub fn new() -> Self {
        Self {
            english: Stemmer::create(Algorithm::English),
            russian: Stemmer::create(Algorithm::Russian),
        }
    }

    /// One term or more, without repeats. `word` is lower-case.
    pub fn of(&self, word: &str) -> Vec<String> {
        let folded = || {
            word.chars()
                .filter(|&c| c != '\'')
                .map(fold)
                .collect::<String>()
        };
        match language(word) {
            Language::English => vec![self.english.stem(word).replace('\'', "")],
            Language::Russian => russian::stems(&self.russian, &folded()),
            Language::Ukrainian => ukrainian::stems(&folded()),
            Language::RussianOrUkrainian => {
                let folded = folded();
                let mut stems = ukrainian::stems(&folded);
                for stem in russian::stems(&self.russian, &folded) {
                    if !stems.contains(&stem) {
                        stems.push(stem);
                    }
                }
                stems
            }
            Language::Other => vec![word.replace('\'', "")],
        }
    }
}

fn fold(c: char) -> char {
    match c {
        'ё' => 'е',
        'ґ' => 'г',
        other => other,
    }
}

fn language(word: &str) -> Language {
    let letters = || word.chars().filter(|&c| c != '\'');
    if letters().all(|c| c.is_ascii_lowercase()) {
        return Language::English;
    }
    if !letters().all(|c| matches!(c, 'а'..='я' | 'ё' | 'і' | 'ї' | 'є' | 'ґ')) {
        return Language::Other;
    }
    if word.contains(['і', 'ї', 'є', 'ґ', '\'']) {
        Language::Ukrainian
    } else if word.contains(['ы', 'э', 'ъ', 'ё']) {
        Language::Russian
    } else {
        Language::RussianOrUkrainian
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(stems: &Stems, first: &str, second: &str) -> bool {
        let second = stems.of(second);
        stems.of(first).iter().any(|stem| second.contains(stem))
    }

    #[test]
    fn forms_of_a_word_meet() {
        let stems = Stems::new();
        for forms in [
            "parser parsers parser's",
            "fix fixed fixes fixing",
            "running runs run",
            "ошибка ошибки ошибке ошибкой ошибок ошибками",
            "файл файла файлы файлов файлами",
            "исправление исправления исправлений",
            "исправить исправил исправила исправили",
            "тест тесты тестов тестами",
            "пароль пароля пароли паролей",
            "ещё еще",
            "запись записи записей записями",
            "исправил исправление исправлять исправлен",
            "обновить обновляет обновления обновлено",
            "хранить храним хранение хранения",
            "решили решение решений",
            "копировать копировал копирование копирую",
            "списать списали списание списывать",
            "загрузить загрузил загрузка загрузок загрузку",
            "настроить настроил настройка настройки настроек",
            "проверить проверка проверяется проверок",
            "помилка помилки помилці помилок помилками помилкою",
            "файл файлу файли файлів файлами",
            "функція функції функцій функцією функціями",
            "запит запиту запити запитів запитами",
            "результат результату результати результатів",
            "рядок рядка рядки рядків рядком",
            "вікно вікна вікон вікнами",
            "рівень рівня рівні рівнів",
            "рік року роки років",
            "режим режиму режими режимів",
            "вимога вимоги вимозі вимог",
            "об'єкт об'єкта об'єкти об'єктів",
            "пароль пароля паролі паролів",
            "швидкий швидкого швидка швидкість швидкості",
            "виправити виправив виправила виправлено виправлення виправлень",
            "налаштування налаштувань налаштувати налаштував налаштую",
            "створити створив створено створена створення",
            "шукати шукав шукає шукаємо шукають",
            "підключитися підключився підключилась",
            "ґрунт грунту",
        ] {
            let forms: Vec<&str> = forms.split(' ').collect();
            for form in &forms[1..] {
                let stems_of = (stems.of(forms[0]), stems.of(form));
                assert!(
                    meet(&stems, forms[0], form),
                    "{} and {form}: {stems_of:?}",
                    forms[0]
                );
            }
        }
    }

    #[test]
    fn different_words_stay_apart() {
        let stems = Stems::new();
        for (first, second) in [
            ("parser", "server"),
            ("ошибка", "файл"),
            ("пароль", "порт"),
            ("помилка", "функція"),
            ("запит", "запис"),
            ("рядок", "рік"),
            ("сервер", "сервіс"),
            ("база", "бузина"),
            ("тест", "текст"),
            ("запись", "запрос"),
            ("загрузка", "выгрузка"),
            ("строка", "страница"),
            ("настройка", "постройка"),
            ("ветка", "ветер"),
        ] {
            assert!(
                !meet(&stems, first, second),
                "{first} and {second}: {:?} {:?}",
                stems.of(first),
                stems.of(second)
            );
        }
    }

    #[test]
    fn what_is_no_word_is_kept() {
        let stems = Stems::new();
        for word in ["404", "utf8", "sha256", "日本", "naïve"] {
            assert_eq!(stems.of(word), [word]);
        }
    }
}
