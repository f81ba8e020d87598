//! Puts values into an agent's prompt, in one pass: what a value holds is never looked at again.

use crate::placeholders::{PLACEHOLDERS, TemplatePart, parts};

/// A prompt with its values, and what it asked for in vain.
pub(super) struct Expanded {
    pub text: String,
    /// Known placeholders without a value.
    pub missing: Vec<&'static str>,
    pub unknown: Vec<String>,
}

pub(super) fn uses(template: &str, name: &str) -> bool {
    parts(template).contains(&TemplatePart::Placeholder(name))
}

/// A placeholder without a value becomes empty.
pub(super) fn expand(template: &str, value: impl Fn(&str) -> Option<String>) -> Expanded {
    let mut expanded = Expanded {
        text: String::new(),
        missing: Vec::new(),
        unknown: Vec::new(),
    };
    for part in parts(template) {
        match part {
            TemplatePart::Text(text) => expanded.text.push_str(text),
            TemplatePart::Placeholder(name) => {
                match PLACEHOLDERS.iter().find(|known| **known == name) {
                    Some(known) => match value(known) {
                        Some(value) => expanded.text.push_str(&value),
                        None => note(&mut expanded.missing, known),
                    },
                    None => note(&mut expanded.unknown, name.to_owned()),
                }
            }
        }
    }
    expanded
}

fn note<T: PartialEq>(noted: &mut Vec<T>, name: T) {
    if !noted.contains(&name) {
        noted.push(name);
    }
}
