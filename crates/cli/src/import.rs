//! Agent definitions of other programs, and our own, read into what the API takes.
//!
//! What has no counterpart here is left out and said in one line; a definition that cannot be read
//! is an error.

mod markdown;
mod roomodes;

use std::path::Path;

use codelab_protocol::{AllowedTool, ChangeAgent, CreateAgent, Patch, Tool};

/// One agent as it will be sent, and what was lost on the way.
#[derive(Debug)]
pub struct Definition {
    pub agent: CreateAgent,
    pub notes: Vec<String>,
}

/// The definitions in a file: one in a Markdown file, any number in a `.roomodes` file.
pub fn read(path: &Path, text: &str) -> anyhow::Result<Vec<Definition>> {
    let is_markdown = path
        .extension()
        .is_some_and(|ending| ending == "md" || ending == "markdown");
    if is_markdown {
        Ok(vec![markdown::read(text)?])
    } else {
        roomodes::read(text)
    }
}

impl Definition {
    /// The same definition for an agent that exists. What an agent can do without is cleared where
    /// the definition does not have it; the rest stays where it says nothing.
    pub fn as_change(&self) -> ChangeAgent {
        let agent = self.agent.clone();
        ChangeAgent {
            name: None,
            role: given(agent.role),
            description: given(agent.description),
            model: given(agent.model),
            fallback_models: given(agent.fallback_models),
            temperature: given_or_none(agent.temperature),
            max_tokens: given_or_none(agent.max_tokens),
            system_prompt: given(agent.system_prompt),
            allowed_tools: given(agent.allowed_tools),
            file_restrictions: given_or_none(agent.file_restrictions),
            concurrency_limit: given(agent.concurrency_limit),
        }
    }
}

fn given<T>(value: Option<T>) -> Patch<T> {
    value.map_or(Patch::Absent, Patch::Value)
}

fn given_or_none<T>(value: Option<T>) -> Patch<T> {
    value.map_or(Patch::Null, Patch::Value)
}

/// `Code-Reviewer` becomes `code_reviewer`; what cannot be part of a name is an underscore.
fn agent_name(text: &str) -> String {
    let lower = text.trim().to_lowercase();
    let mut name = String::new();
    for c in lower.chars() {
        let kept = if c.is_ascii_lowercase() || c.is_ascii_digit() {
            c
        } else {
            '_'
        };
        if kept != '_' || !name.ends_with('_') {
            name.push(kept);
        }
    }
    name.trim_matches('_').to_owned()
}

fn allowed(tools: Vec<Tool>) -> Vec<AllowedTool> {
    tools.into_iter().map(AllowedTool::from).collect()
}

fn push_once(tools: &mut Vec<Tool>, more: &[Tool]) {
    for tool in more {
        if !tools.contains(tool) {
            tools.push(*tool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_ours() {
        for (given, expected) in [
            ("code-reviewer", "code_reviewer"),
            ("  Docs Writer! ", "docs_writer"),
            ("agent_coder", "agent_coder"),
            ("a--b", "a_b"),
            ("тест", ""),
        ] {
            assert_eq!(agent_name(given), expected);
        }
    }
}
