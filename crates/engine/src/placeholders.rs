//! The placeholders a prompt template may use, and how they are found in it.

/// Written `{{name}}` in a template.
pub const PLACEHOLDERS: [&str; 5] = [
    MESSAGE_HISTORY,
    USER_ID,
    CURRENT_TIME,
    TIMEZONE,
    HOUSEHOLD_ID,
];

pub(crate) const MESSAGE_HISTORY: &str = "messageHistory";
pub(crate) const USER_ID: &str = "userId";
pub(crate) const CURRENT_TIME: &str = "currentTime";
pub(crate) const TIMEZONE: &str = "timezone";
pub(crate) const HOUSEHOLD_ID: &str = "householdId";

/// Longer names are text.
const MAX_NAME_BYTES: usize = 64;

/// A template is a sequence of these.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TemplatePart<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

/// Names that a template uses and that mean nothing, each once, in the order they appear.
pub fn unknown_placeholders(template: &str) -> Vec<String> {
    let mut unknown: Vec<String> = Vec::new();
    for part in parts(template) {
        if let TemplatePart::Placeholder(name) = part
            && !PLACEHOLDERS.contains(&name)
            && !unknown.iter().any(|seen| seen == name)
        {
            unknown.push(name.to_owned());
        }
    }
    unknown
}

/// Cuts a template into text and placeholders; together they are the whole of it.
pub(crate) fn parts(template: &str) -> Vec<TemplatePart<'_>> {
    let mut parts = Vec::new();
    let (mut text_from, mut at) = (0, 0);
    while let Some(found) = template[at..].find("{{") {
        let start = at + found;
        match placeholder(&template[start..]) {
            Some((name, length)) => {
                if text_from < start {
                    parts.push(TemplatePart::Text(&template[text_from..start]));
                }
                parts.push(TemplatePart::Placeholder(name));
                at = start + length;
                text_from = at;
            }
            // The next one may begin with the second of these two braces.
            None => at = start + 1,
        }
    }
    if text_from < template.len() {
        parts.push(TemplatePart::Text(&template[text_from..]));
    }
    parts
}

/// The name of the placeholder that `text` begins with, and how many bytes it takes.
fn placeholder(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("{{")?.trim_start();
    let name_bytes = inner
        .bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
        .count();
    let (name, rest) = inner.split_at(name_bytes);
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = rest.trim_start().strip_prefix("}}")?;
    (begins_well && name.len() <= MAX_NAME_BYTES).then(|| (name, text.len() - rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_found_once_each() {
        let long = format!("{{{{{}}}}}", "x".repeat(65));
        for (template, expected) in [
            ("", vec![]),
            (
                "{{messageHistory}} {{userId}} {{currentTime}} {{timezone}} {{householdId}}",
                vec![],
            ),
            ("{{ messageHistory }}", vec![]),
            (
                "{{user}} and {{user}} then {{messagehistory}}",
                vec!["user", "messagehistory"],
            ),
            ("{user} {{ }} {{1}} { {x} } {{a b}}", vec![]),
            ("{{{{deep}}}}", vec!["deep"]),
            ("{{{odd}}}", vec!["odd"]),
            ("{{open {{closed}} {{", vec!["closed"]),
            ("{{ім'я}} {{имя}}", vec![]),
            (long.as_str(), vec![]),
        ] {
            assert_eq!(unknown_placeholders(template), expected, "{template}");
        }
    }

    #[test]
    fn the_parts_are_the_whole_template() {
        use TemplatePart::{Placeholder, Text};
        for (template, expected) in [
            ("", vec![]),
            ("plain", vec![Text("plain")]),
            ("{{a}}", vec![Placeholder("a")]),
            (
                "x{{ a }}y{{b}}",
                vec![Text("x"), Placeholder("a"), Text("y"), Placeholder("b")],
            ),
            ("{{{{a}}}}", vec![Text("{{"), Placeholder("a"), Text("}}")]),
            (
                "é{{я}}{{a}}é",
                vec![Text("é{{я}}"), Placeholder("a"), Text("é")],
            ),
        ] {
            assert_eq!(parts(template), expected, "{template}");
        }
    }
}
