//! Which specialist takes a message: the model's word where it has one, keywords where it has not.

use codelab_protocol::AgentName;
use serde_json::Value;

use crate::Team;
use crate::keywords::{ARCHITECT, ASK, CODER, DEBUG, ERROR_SUFFIXES, QUESTION_WORDS};

#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    pub agent: AgentName,
    pub confidence: &'static str,
    pub reason: String,
}

/// Longer reasons of the model are cut.
const MAX_REASON_CHARS: usize = 300;

/// `answer` is what the model said, if it said anything.
pub(crate) fn decide(team: &Team, message: &str, answer: Option<&str>) -> Route {
    answer
        .and_then(|answer| parse_classification(team, answer))
        .unwrap_or_else(|| keyword_route(team, message))
}

/// JSON first, then a search for `"agent": "…"`; the agent must be a registered specialist.
pub fn parse_classification(team: &Team, answer: &str) -> Option<Route> {
    if let Some(value) = find_object(answer) {
        let agent = specialist(team, value.get("agent")?.as_str()?)?;
        let reason = value
            .get("reason")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let confidence = confidence(value.get("confidence").and_then(Value::as_str));
        return Some(Route {
            agent,
            confidence,
            reason: shown_reason(reason),
        });
    }
    let agent = specialist(team, find_agent(answer)?)?;
    Some(Route {
        agent,
        confidence: "medium",
        reason: shown_reason(""),
    })
}

/// Counts keywords per agent. Ties: debug; then ask if it is a question; then architect; then
/// coder. No match: coder.
pub fn keyword_route(team: &Team, message: &str) -> Route {
    let text = message.to_lowercase().replace(['’', 'ʼ'], "'");
    let words: Vec<&str> = text
        .split(|c: char| !(c.is_alphanumeric() || c == '\''))
        .filter(|word| !word.is_empty())
        .collect();
    let named_error = words.iter().any(|w| {
        ERROR_SUFFIXES
            .iter()
            .any(|s| w.len() > s.len() && w.ends_with(s))
    });
    let opens = |word: &&str| {
        QUESTION_WORDS
            .split_whitespace()
            .any(|question| question == *word)
    };
    let question = words.first().is_some_and(opens) || text.trim_end().ends_with('?');
    let debug = DEBUG.count(&words) + usize::from(named_error);
    let (ask, architect, coder) = (
        ASK.count(&words),
        ARCHITECT.count(&words),
        CODER.count(&words),
    );
    let best = debug.max(ask).max(architect).max(coder);
    let name = match best {
        0 => "coder",
        _ if debug == best => "debug",
        _ if ask == best && question => "ask",
        _ if architect == best => "architect",
        _ if coder == best => "coder",
        _ => "ask",
    };
    let reason = if best == 0 {
        "no keyword matched"
    } else {
        "matched by keywords"
    };
    let agent = specialist(team, name)
        .or_else(|| team.specialists().next().map(|agent| agent.name.clone()));
    Route {
        agent: agent.unwrap_or_else(crate::orchestrator),
        confidence: "low",
        reason: reason.to_owned(),
    }
}

fn specialist(team: &Team, name: &str) -> Option<AgentName> {
    let name = AgentName::parse(&name.trim().to_lowercase()).ok()?;
    team.is_specialist(&name).then_some(name)
}

/// The first `{…}` that is a JSON object with an `agent`.
fn find_object(answer: &str) -> Option<Value> {
    let candidate = |start: usize| {
        let text = answer.get(start..)?;
        let value = serde_json::Deserializer::from_str(text)
            .into_iter::<Value>()
            .next()?
            .ok()?;
        value.get("agent")?.is_string().then_some(value)
    };
    answer
        .match_indices('{')
        .take(MAX_CANDIDATES)
        .find_map(|(start, _)| candidate(start))
}

/// Places of an answer that are tried as JSON.
const MAX_CANDIDATES: usize = 16;

/// The word after `agent:` in an answer that is almost JSON.
fn find_agent(answer: &str) -> Option<&str> {
    let quote = |c: char| matches!(c, '"' | '\'' | '`' | '*') || c.is_whitespace();
    answer.match_indices("agent").find_map(|(start, key)| {
        let rest = answer
            .get(start + key.len()..)?
            .trim_start_matches(quote)
            .strip_prefix([':', '='])?;
        let rest = rest.trim_start_matches(quote);
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        rest.get(..end).filter(|name| !name.is_empty())
    })
}

fn confidence(given: Option<&str>) -> &'static str {
    match given.map(str::to_lowercase).as_deref() {
        Some("high") => "high",
        Some("low") => "low",
        _ => "medium",
    }
}

fn shown_reason(reason: &str) -> String {
    let reason = reason.trim();
    if reason.is_empty() {
        return "chosen by classification".to_owned();
    }
    reason.chars().take(MAX_REASON_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AgentMode;

    #[test]
    fn messages_go_to_the_right_agent_without_a_model() {
        let team = Team::built_in(AgentMode::Multi).unwrap();
        let cases = [
            ("coder", "Создай функцию для сортировки массива чисел"),
            ("coder", "Добавь логирование во все функции API"),
            ("coder", "Write a function that sorts numbers"),
            ("coder", "please refactor this class"),
            ("coder", "Напиши класс для работы с очередью"),
            ("coder", "Створи функцію для сортування масиву"),
            ("coder", "Додай тести до модуля"),
            ("coder", "hello"),
            ("coder", ""),
            (
                "debug",
                "У меня ошибка: NameError: name 'config' is not defined",
            ),
            ("debug", "TypeError when I open the page"),
            ("debug", "Fix the bug"),
            ("debug", "Why does this error occur?"),
            ("debug", "У мене помилка під час запуску"),
            ("debug", "Investigate the crash of the server"),
            ("debug", "Отладь и найди проблему"),
            (
                "architect",
                "Спроектируй архитектуру для микросервиса аутентификации",
            ),
            ("architect", "Design the architecture of an auth service"),
            ("architect", "Спроєктуй архітектуру сервісу"),
            ("architect", "Нарисуй диаграмму структуры"),
            ("ask", "Как работает функция authenticate() в auth.py?"),
            ("ask", "How does the function authenticate() work?"),
            ("ask", "Як працює функція authenticate()?"),
            ("ask", "Explain closures"),
            ("ask", "Объясни, что такое замыкание"),
            ("ask", "Чому небо блакитне?"),
        ];
        for (agent, message) in cases {
            assert_eq!(
                keyword_route(&team, message).agent.as_str(),
                agent,
                "{message}"
            );
        }
    }

    #[test]
    fn stems_do_not_swallow_other_words() {
        let team = Team::built_in(AgentMode::Multi).unwrap();
        for message in ["however it was an address on a planet", "кодекс и планета"] {
            assert_eq!(
                keyword_route(&team, message).reason,
                "no keyword matched",
                "{message}"
            );
        }
    }

    #[test]
    fn the_models_answer_is_found_or_refused() {
        let team = Team::built_in(AgentMode::Multi).unwrap();
        let cases = [
            (
                r#"{"agent": "debug", "confidence": "high", "reason": "an error"}"#,
                Some(("debug", "high")),
            ),
            (
                "Sure!\n```json\n{\"agent\": \"ask\"}\n```",
                Some(("ask", "medium")),
            ),
            (
                r#"{"note": {}} then {"agent":"coder","confidence":"LOW"}"#,
                Some(("coder", "low")),
            ),
            (
                r#""agent": "architect", broken"#,
                Some(("architect", "medium")),
            ),
            ("agent: coder", Some(("coder", "medium"))),
            (r#"{"agent": "Coder"}"#, Some(("coder", "medium"))),
            (r#"{"agent": "orchestrator"}"#, None),
            (r#"{"agent": "universal"}"#, None),
            (r#"{"agent": "chef"}"#, None),
            (r#"{"agent": 7}"#, None),
            ("", None),
            ("I would pick the coder", None),
            (&"{".repeat(5000), None),
        ];
        for (answer, expected) in cases {
            let route = parse_classification(&team, answer);
            let got = route
                .as_ref()
                .map(|route| (route.agent.as_str(), route.confidence));
            assert_eq!(got, expected, "{answer}");
        }
    }
}
