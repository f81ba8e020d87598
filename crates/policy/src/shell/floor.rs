//! The patterns that ask whatever the parser makes of a line. They run on its raw text.

use regex::{Regex, RegexBuilder};

/// Each with the words a person sees.
const PATTERNS: &[(&str, &str)] = &[
    (r"\brm\b.*-rf", "rm -rf"),
    (r"\bsudo\b", "sudo"),
    (r"\bchmod\b", "chmod"),
    (r"\bchown\b", "chown"),
    (r">\s*/dev/", "redirect to /dev/"),
    (r"\|.*\bsh\b", "pipe to sh"),
];

/// The one device that swallows what it is given.
const NULL_DEVICE: &str = r">\s*/dev/null($|[\s;&|)])";

#[derive(Debug, Clone)]
pub(crate) struct Floor {
    /// Absent if one of the built-in patterns does not compile: then everything asks.
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

    /// What the line matches, in words.
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
