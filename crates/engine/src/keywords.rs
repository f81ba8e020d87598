//! The words that tell which specialist a message is for, in English, Russian and Ukrainian at
//! once.
//!
//! Most keywords are stems: a word counts when it starts with the stem and goes on with an ending
//! that its language knows. Pure data; `routing` counts and decides.

/// The keywords of one agent, by how a word may go on after them.
pub struct Keywords {
    /// Whole words.
    exact: &'static str,
    /// Stems with English inflections.
    english: &'static str,
    /// Short Russian and Ukrainian nouns with case endings only, because many other words begin
    /// like them.
    nouns: &'static str,
    /// Russian and Ukrainian stems with any ending.
    cyrillic: &'static str,
}

const ENGLISH_ENDINGS: &str =
    "s es e ed d ing er ers or ors ation ations ion ions ment ments al able ten y ies is";
const NOUN_ENDINGS: &str = "а у ы и е і о ом ем ов ів ам ах ами ою ой";
const MAX_ENDING_CHARS: usize = 9;

impl Keywords {
    /// How many of the keywords occur.
    pub fn count(&self, words: &[&str]) -> usize {
        let count = |stems: &str, ending: fn(&str) -> bool| {
            let occurs = |stem: &&str| {
                words
                    .iter()
                    .any(|word| word.strip_prefix(*stem).is_some_and(ending))
            };
            stems.split_whitespace().filter(occurs).count()
        };
        count(self.exact, str::is_empty)
            + count(self.english, |rest| among(rest, ENGLISH_ENDINGS))
            + count(self.nouns, |rest| among(rest, NOUN_ENDINGS))
            + count(self.cyrillic, |rest| {
                rest.chars().count() <= MAX_ENDING_CHARS && rest.chars().all(is_cyrillic)
            })
    }
}

fn among(rest: &str, endings: &str) -> bool {
    rest.is_empty() || endings.split_whitespace().any(|ending| ending == rest)
}

fn is_cyrillic(letter: char) -> bool {
    matches!(letter, 'а'..='я' | 'ё' | 'і' | 'ї' | 'є' | 'ґ' | '\'')
}

pub const CODER: Keywords = Keywords {
    exact: "class classes fix fixes fixed fixing add adds added adding programming",
    english: "writ creat implement cod function modif refactor renam delet remov updat generat rewrit program script \
              develop chang optimiz optimis",
    nouns: "код класс клас",
    cyrillic: "напиш напис созда реализ функци функці исправ измени измене рефактор добав удали переимен обнов перепиш \
               сгенерир закодир допиш модифиц оптимиз метод створ реаліз імплемент виправ зміни додай додат видал \
               перейменув перейменуй онов згенер модифік оптиміз розроб разработай почини полагод скрипт",
};

pub const ARCHITECT: Keywords = Keywords {
    exact: "plan plans planning planned architecture architectural specification specifications spec structure structures \
            structuring roadmap",
    english: "design architect document specif diagram blueprint",
    nouns: "план схем",
    cyrillic: "спроектир проектир запроектир дизайн спланир заплани планиров архитектур документ задокумент специфик \
               диаграмм структур спроєкт спроект проєкт сплану плануван архітектур специфік діаграм",
};

pub const DEBUG: Keywords = Keywords {
    exact: "debugging bug bugs issue issues traceback stacktrace broken fails failed failing failure",
    english: "debug error problem investigat analyz analys troubleshoot exception crash diagnos",
    nouns: "баг",
    cyrillic: "ошиб отлад отлаж проблем исследу проанализ анализ диагност сбой сбои сломал падает упал исключени \
               неисправн вылета крэш помил налагод дослід проаналіз аналіз діагност збій збої зламал падає впав впал \
               виняток винятк несправн",
};

pub const ASK: Keywords = Keywords {
    exact: "what how why when where which who explanation tell meaning что как почему зачем когда где какой какая какие какое \
            сколько кто означает що як чому навіщо коли де який яка які яке скільки хто означає",
    english: "explain describ question",
    nouns: "",
    cyrillic: "объясн расскаж опиши вопрос поясни розкаж розпов запитан питання",
};

/// Words that open a question.
pub const QUESTION_WORDS: &str = "what how why when where which who is are does do can could should что как почему зачем когда \
    где какой какая какие какое сколько кто можно що як чому навіщо коли де який яка які яке скільки хто чи можна";

/// Ends of identifiers such as `NameError`.
pub const ERROR_SUFFIXES: &[&str] = &["error", "exception", "errors", "exceptions"];
