//! Patterns that ask whatever the parser says. They run on the raw text of a line.

use regex::{Regex, RegexBuilder};

/// Each pattern, with the text that a person sees.
const PATTERNS: &[(&str, &str)] = &[
    (r"\brm\b.*-rf", "rm -rf"),
    (r"\bsudo\b", "sudo"),
    (r"\bchmod\b", "chmod"),
    (r"\bchown\b", "chown"),
    (r">\s*/dev/", "redirect to /dev/"),
    (r"\|.*\bsh\b", "pipe to sh"),
];

/// The one device that discards what is written to it.
const NULL_DEVICE: &str = r">\s*/dev/null($|[\s;&|)])";

#[derive(Debug, Clone)]
pub(crate) struct Floor {
    /// None if a built-in pattern does not compile. Then every line asks.
    built_in: Option<Vec<(Regex, &'static str)>>,
    null_device: Option<Regex>,
    extra: Vec<Regex>,
}

impl Default for Floor {
    fn default() -> Self {
        let built_in = PATTERNS
            .iter()
            .map(|(pattern, label)| Some((compile(pattern).ok()?, *label)))
            .collect();
        Self {
            built_in,
            null_device: compile(NULL_DEVICE).ok(),
            extra: Vec::new(),
        }
    }
}

impl Floor {
    pub fn add(&mut self, pattern: &str) -> Result<(), regex::Error> {
        self.extra.push(compile(pattern)?);
        Ok(())
    }

    /// The patterns that the line matches, as text for a person.
    pub fn matched(&self, command: &str) -> Option<String> {
        let (Some(built_in), Some(null_device)) = (&self.built_in, &self.null_device) else {
            return Some("the built-in patterns are not usable".to_owned());
        };
        let without_null = null_device.replace_all(command, " $1");
        if let Some((_, label)) = built_in
            .iter()
            .find(|(pattern, _)| pattern.is_match(&without_null))
        {
            return Some((*label).to_owned());
        }
        let extra = self
            .extra
            .iter()
            .find(|pattern| pattern.is_match(command))?;
        Some(format!("matches {extra}"))
    }
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).case_insensitive(true).build()
}
