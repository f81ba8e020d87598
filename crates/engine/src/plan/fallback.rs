//! Which agent takes a request whole when there is no usable plan: by keywords in English, Russian
//! and Ukrainian.

use crate::{Agent, Team};

/// Stems, so that word forms count as well, except after `=`; the first row with the most hits
/// wins.
const ROWS: [(&str, &str); 4] = [
    (
        "agent_coder",
        "code coding bug error crash fix implement function refactor compil test debug \
         код ошибк исправ реализ функци рефактор компил тест отлад \
         помилк виправ реаліз функці компіл налагод",
    ),
    (
        "agent_writer",
        "write document readme text design article changelog translat \
         напиш документ текст дизайн стать перевед перевод опиш опис \
         статт переклад",
    ),
    (
        "agent_analyzer",
        "analy review compar measur metric performance audit \
         анализ проанализ сравн измер метрик аудит \
         аналіз проаналіз порівн вимір",
    ),
    (
        "agent_researcher",
        "=what =why =how =where =who =when explain find research ? \
         =что =почему =как =где =кто =когда объясн найди исслед \
         =що =чому =як =де =хто =коли поясн знайди дослід",
    ),
];

/// The agent for a request, else the project's first one.
pub(crate) fn agent<'a>(team: &'a Team, request: &str) -> Option<&'a Agent> {
    let request = request.to_lowercase();
    let words: Vec<&str> = request
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let occurs = |stem: &&str| match stem.strip_prefix('=') {
        Some(whole) => words.contains(&whole),
        None if *stem == "?" => request.trim_end().ends_with('?'),
        None => words.iter().any(|word| word.starts_with(stem)),
    };
    let mut best: Option<(&str, usize)> = None;
    for (name, stems) in ROWS {
        let count = stems.split_whitespace().filter(occurs).count();
        if count > best.map_or(0, |(_, most)| most) {
            best = Some((name, count));
        }
    }
    best.and_then(|(name, _)| team.resolve(name))
        .or_else(|| team.specialists().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AgentMode;

    fn starter_pack() -> Team {
        let names = [
            "agent_coder",
            "agent_analyzer",
            "agent_writer",
            "agent_researcher",
        ];
        let agent = |name| {
            Agent::parse(&format!(
                "---\nname: {name}\ndescription: d\ntools: []\n---\np"
            ))
            .unwrap()
        };
        Team::of_project(names.map(agent).into())
    }

    #[test]
    fn a_request_goes_to_the_agent_its_words_are_about() {
        let cases = [
            ("coder", "Fix the error in this function"),
            ("coder", "write a function that sorts"),
            ("coder", "Исправь ошибку в тестах"),
            ("coder", "напиши код сортировки"),
            ("coder", "Виправ помилку у функції"),
            ("coder", "реалізуй кеш"),
            ("writer", "Write an article about our design"),
            ("writer", "translation of the README"),
            ("writer", "Напиши документацию"),
            ("writer", "Переведи текст"),
            ("writer", "Напиши статтю"),
            ("writer", "переклади цей текст"),
            ("analyzer", "Analyse the performance"),
            ("analyzer", "compare both metrics"),
            ("analyzer", "Проанализируй метрики"),
            ("analyzer", "Сравни два подхода"),
            ("analyzer", "проаналізуй вимірювання"),
            ("researcher", "Where is the config read?"),
            ("researcher", "explain this"),
            ("researcher", "Почему он так делает?"),
            ("researcher", "Найди все вызовы"),
            ("researcher", "Чому так?"),
            ("researcher", "поясни, як це працює"),
            ("coder", "hello"),
            ("coder", "showhow somewhat"),
            ("coder", ""),
        ];
        let team = starter_pack();
        for (expected, request) in cases {
            let found = agent(&team, request).unwrap().name.as_str().to_owned();
            assert_eq!(found, format!("agent_{expected}"), "{request}");
        }
    }

    #[test]
    fn a_team_without_the_starter_pack_still_has_a_first_agent() {
        let team = Team::built_in(AgentMode::Multi).unwrap();
        assert_eq!(
            agent(&team, "fix the error in this function")
                .unwrap()
                .name
                .as_str(),
            "coder"
        );
        assert_eq!(
            agent(&team, "напиши текст документации")
                .unwrap()
                .name
                .as_str(),
            "coder"
        );
        assert!(agent(&Team::of_project(Vec::new()), "anything").is_none());
    }
}
