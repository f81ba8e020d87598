//! Markdown with front matter: our own fields, and those that Claude Code's subagents have.

use anyhow::{Context, bail};
use codelab_protocol::{CreateAgent, Tool};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Definition, agent_name, allowed, push_once};

/// What both kinds know. Fields beyond these are kept to be named.
#[derive(Deserialize)]
struct FrontMatter {
    name: String,
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    max_tokens: Option<u32>,
    /// A list, or names with commas between them.
    #[serde(default, alias = "allowed_tools")]
    tools: Option<Tools>,
    #[serde(default)]
    file_restrictions: Option<Vec<String>>,
    #[serde(default)]
    concurrency_limit: Option<u32>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Tools {
    List(Vec<String>),
    Line(String),
}

/// Names of Claude's models that mean nothing to other servers.
const MODEL_ALIASES: [&str; 4] = ["inherit", "sonnet", "opus", "haiku"];

/// What an agent without a list of tools may use.
const EVERYTHING: [Tool; 8] = [
    Tool::ReadFile,
    Tool::WriteFile,
    Tool::ListFiles,
    Tool::SearchInCode,
    Tool::CreateDirectory,
    Tool::ExecuteCommand,
    Tool::AttemptCompletion,
    Tool::AskFollowupQuestion,
];

pub fn read(text: &str) -> anyhow::Result<Definition> {
    let (matter, prompt) =
        split(text).context("the front matter must stand between two lines of ---")?;
    let matter: FrontMatter = serde_saphyr::from_str(&matter).context("front matter")?;
    let name = agent_name(&matter.name);
    if name.is_empty() {
        bail!(
            "front matter: name {:?} has no letters or digits that a name can have",
            matter.name
        );
    }
    let mut notes: Vec<String> = matter
        .others
        .keys()
        .map(|field| format!("the field {field} has no counterpart and was left out"))
        .collect();
    let model = matter.model.filter(|model| {
        let is_alias = MODEL_ALIASES.contains(&model.as_str());
        if is_alias {
            notes.push(format!(
                "the model {model} is not known here; the server's default model is used"
            ));
        }
        !is_alias
    });
    let allowed_tools = matter
        .tools
        .map(|given| tools(given, &mut notes))
        .transpose()?;
    let agent = CreateAgent {
        name,
        role: matter.role,
        description: matter.description,
        model,
        fallback_models: None,
        temperature: matter.temperature,
        max_tokens: matter.max_tokens,
        system_prompt: Some(prompt.trim().to_owned()),
        // Where a subagent names no tools it has all of them.
        allowed_tools: Some(allowed(
            allowed_tools.unwrap_or_else(|| EVERYTHING.to_vec()),
        )),
        file_restrictions: matter.file_restrictions,
        concurrency_limit: matter.concurrency_limit,
    };
    Ok(Definition { agent, notes })
}

fn tools(given: Tools, notes: &mut Vec<String>) -> anyhow::Result<Vec<Tool>> {
    let names = match given {
        Tools::List(names) => names,
        Tools::Line(line) => line.split(',').map(|name| name.trim().to_owned()).collect(),
    };
    let mut tools = Vec::new();
    for name in names.iter().filter(|name| !name.is_empty()) {
        // `Bash(git:*)` limits a tool in a way we have no words for.
        let (plain, limit) = name
            .split_once('(')
            .map_or((name.as_str(), None), |(tool, rest)| (tool, Some(rest)));
        match ours(plain.trim()) {
            Some(more) => push_once(&mut tools, &more),
            None if !is_foreign(plain) => bail!("front matter: there is no tool {name}"),
            None => notes.push(format!(
                "the tool {name} has no counterpart and was left out"
            )),
        }
        if limit.is_some() {
            notes.push(format!("the limit in {name} has no counterpart; commands ask a person by this server's rules"));
        }
    }
    if !names.iter().any(|name| own(name).is_some()) {
        push_once(
            &mut tools,
            &[Tool::AttemptCompletion, Tool::AskFollowupQuestion],
        );
    }
    Ok(tools)
}

/// Claude Code's tools are written `WebFetch`, those of its MCP servers `mcp__server__tool`. Other
/// names are mistakes.
fn is_foreign(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) || name.starts_with("mcp__")
}

fn own(name: &str) -> Option<Tool> {
    Tool::ALL.into_iter().find(|tool| tool.as_str() == name)
}

/// Our tools for a tool's name, ours or Claude's.
fn ours(name: &str) -> Option<Vec<Tool>> {
    if let Some(tool) = own(name) {
        return Some(vec![tool]);
    }
    Some(match name {
        "*" => EVERYTHING.to_vec(),
        "Read" | "NotebookRead" => vec![Tool::ReadFile],
        "Write" => vec![Tool::WriteFile, Tool::CreateDirectory],
        "Edit" | "MultiEdit" | "NotebookEdit" => vec![Tool::WriteFile],
        "Glob" | "LS" => vec![Tool::ListFiles],
        "Grep" => vec![Tool::SearchInCode],
        "Bash" => vec![Tool::ExecuteCommand],
        "AskUserQuestion" => vec![Tool::AskFollowupQuestion],
        _ => return None,
    })
}

/// Our own files have plain line ends; those of other programs may come from Windows.
fn split(text: &str) -> Option<(String, String)> {
    let mut text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    text.push('\n');
    let rest = text.strip_prefix("---\n")?;
    let end = rest.find("\n---\n")?;
    Some((rest.get(..end)?.to_owned(), rest.get(end + 5..)?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_format_is_taken_as_it_is() {
        let text = "---\nname: agent_reviewer\nrole: reviewer\ndescription: Reads\nmodel: gpt-4\ntemperature: 0.3\n\
                    max_tokens: 100\ntools: [read_file, echo]\nfile_restrictions: ['\\.md$']\nconcurrency_limit: 2\n\
                    ---\nYou review.\n";
        let Definition { agent, notes } = read(text).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(
            (agent.name.as_str(), agent.role.as_deref()),
            ("agent_reviewer", Some("reviewer"))
        );
        assert_eq!(
            (agent.temperature, agent.max_tokens, agent.concurrency_limit),
            (Some(0.3), Some(100), Some(2))
        );
        let expected = allowed(vec![Tool::ReadFile, Tool::Echo]);
        assert_eq!(agent.allowed_tools.unwrap(), expected);
        assert_eq!(agent.file_restrictions.unwrap(), [r"\.md$"]);
        assert_eq!(agent.system_prompt.as_deref(), Some("You review."));
    }

    #[test]
    fn a_subagent_of_claude_code_is_mapped() {
        let text = "---\r\nname: code-reviewer\r\ndescription: Reviews code\r\ntools: Read, Grep, Bash(git:*), WebFetch\r\n\
                    model: sonnet\r\ncolor: blue\r\n---\r\n\r\nYou review code.\r\n";
        let Definition { agent, notes } = read(text).unwrap();
        assert_eq!((agent.name.as_str(), agent.model), ("code_reviewer", None));
        let expected = vec![
            Tool::ReadFile,
            Tool::SearchInCode,
            Tool::ExecuteCommand,
            Tool::AttemptCompletion,
            Tool::AskFollowupQuestion,
        ];
        assert_eq!(agent.allowed_tools.unwrap(), allowed(expected));
        for part in ["color", "sonnet", "WebFetch", "Bash(git:*)"] {
            assert_eq!(
                notes.iter().filter(|note| note.contains(part)).count(),
                1,
                "{part}: {notes:?}"
            );
        }
        let all = read("---\nname: other\ndescription: x\n---\nprompt")
            .unwrap()
            .agent
            .allowed_tools
            .unwrap();
        assert_eq!(all, allowed(EVERYTHING.to_vec()));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (text, part) in [
            ("no front matter", "between two lines"),
            ("---\ndescription: x\n---\np", "name"),
            ("---\nname: '!!'\n---\np", "no letters"),
            ("---\nname: [\n---\np", "front matter"),
            (
                "---\nname: a\ntools: [read_file, fly]\n---\np",
                "no tool fly",
            ),
            ("---\nname: a\ntools: 3\n---\np", "front matter"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(part), "{text:?} gave {error}");
        }
    }
}
