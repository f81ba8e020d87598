//! The placeholders a prompt template may use.

use regex::Regex;

/// Written `{{name}}` in a template.
pub const PLACEHOLDERS: [&str; 5] = ["messageHistory", "userId", "currentTime", "timezone", "householdId"];

/// Names that a template uses and that mean nothing, each once, in the order they appear.
pub fn unknown_placeholders(template: &str) -> Vec<String> {
    // The pattern is fixed; a test uses it.
    #[allow(clippy::unwrap_used)]
    let pattern = Regex::new(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.-]{0,63})\s*\}\}").unwrap();
    let mut unknown: Vec<String> = Vec::new();
    for found in pattern.captures_iter(template) {
        let name = &found[1];
        if !PLACEHOLDERS.contains(&name) && !unknown.iter().any(|seen| seen == name) {
            unknown.push(name.to_owned());
        }
    }
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_found_once_each() {
        for (template, expected) in [
            ("", vec![]),
            ("{{messageHistory}} {{userId}} {{currentTime}} {{timezone}} {{householdId}}", vec![]),
            ("{{ messageHistory }}", vec![]),
            ("{{user}} and {{user}} then {{messagehistory}}", vec!["user", "messagehistory"]),
            ("{user} {{ }} {{1}} { {x} } {{a b}}", vec![]),
            ("{{{{deep}}}}", vec!["deep"]),
        ] {
            assert_eq!(unknown_placeholders(template), expected, "{template}");
        }
    }
}
