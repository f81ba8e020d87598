//! Roo Code's `.roomodes`: YAML or JSON with a list of modes.

use anyhow::{Context, bail};
use codelab_protocol::{CreateAgent, Tool};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Definition, agent_name, allowed, push_once};

const MAX_MODES: usize = 100;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    custom_modes: Vec<Mode>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mode {
    slug: String,
    #[serde(default)]
    name: Option<String>,
    role_definition: String,
    #[serde(default)]
    when_to_use: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    custom_instructions: Option<String>,
    #[serde(default)]
    groups: Vec<Group>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// `edit`, or `[edit, {fileRegex, description}]`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Group {
    Plain(String),
    Limited(String, Limit),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Limit {
    #[serde(default)]
    file_regex: Option<String>,
}

/// YAML is read for JSON as well, which is a part of it.
pub fn read(text: &str) -> anyhow::Result<Vec<Definition>> {
    let file: File =
        serde_saphyr::from_str(text).context("this is no list of customModes in YAML or JSON")?;
    if file.custom_modes.len() > MAX_MODES {
        bail!("more than {MAX_MODES} modes");
    }
    file.custom_modes.into_iter().map(definition).collect()
}

fn definition(mode: Mode) -> anyhow::Result<Definition> {
    let name = agent_name(&mode.slug);
    if name.is_empty() {
        bail!(
            "slug {:?} has no letters or digits that a name can have",
            mode.slug
        );
    }
    let mut notes: Vec<String> = mode
        .others
        .keys()
        .filter(|field| field.as_str() != "source")
        .map(|field| format!("the field {field} has no counterpart and was left out"))
        .collect();
    let (mut tools, mut restrictions, mut may_edit_anything) = (Vec::new(), Vec::new(), false);
    for group in mode.groups {
        let (group, limit) = match group {
            Group::Plain(group) => (group, None),
            Group::Limited(group, limit) => (group, limit.file_regex),
        };
        match (group.as_str(), limit) {
            ("read", None) => push_once(
                &mut tools,
                &[Tool::ReadFile, Tool::ListFiles, Tool::SearchInCode],
            ),
            ("edit", limit) => {
                push_once(&mut tools, &[Tool::WriteFile, Tool::CreateDirectory]);
                may_edit_anything |= limit.is_none();
                restrictions.extend(limit);
            }
            ("command", None) => push_once(&mut tools, &[Tool::ExecuteCommand]),
            // A limit that cannot be kept must not become no limit at all.
            ("read" | "command", Some(_)) => {
                notes.push(format!(
                    "the group {group} with a file limit has no counterpart and was left out"
                ));
            }
            _ => notes.push(format!(
                "the group {group} has no counterpart and was left out"
            )),
        }
    }
    push_once(
        &mut tools,
        &[Tool::AttemptCompletion, Tool::AskFollowupQuestion],
    );
    let prompt = [Some(mode.role_definition), mode.custom_instructions];
    let prompt: Vec<String> = prompt
        .into_iter()
        .flatten()
        .map(|part| part.trim().to_owned())
        .collect();
    let agent = CreateAgent {
        name,
        role: mode.name,
        description: mode.description.or(mode.when_to_use),
        system_prompt: Some(prompt.join("\n\n")),
        allowed_tools: Some(allowed(tools)),
        file_restrictions: (!may_edit_anything && !restrictions.is_empty()).then_some(restrictions),
        ..CreateAgent::default()
    };
    Ok(Definition { agent, notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = r#"
customModes:
  - slug: docs-writer
    name: 📝 Documentation Writer
    roleDefinition: |-
      You write documentation.
    whenToUse: For docs
    customInstructions: Be brief.
    groups:
      - read
      - - edit
        - fileRegex: \.(md|mdx)$
          description: Markdown only
      - browser
      - mcp
    source: project
  - slug: runner
    name: Runner
    roleDefinition: You run things.
    groups: [read, edit, command]
    iconName: codicon-x
"#;

    const JSON: &str = r#"{"customModes": [{"slug": "t", "name": "T", "roleDefinition": "You test.",
        "groups": ["read", ["edit", {"fileRegex": "_test\\.py$"}], ["command", {"fileRegex": "x"}]]}]}"#;

    #[test]
    fn modes_in_yaml() {
        let modes = read(YAML).unwrap();
        let writer = &modes[0].agent;
        assert_eq!(
            (writer.name.as_str(), writer.description.as_deref()),
            ("docs_writer", Some("For docs"))
        );
        assert_eq!(
            writer.system_prompt.as_deref(),
            Some("You write documentation.\n\nBe brief.")
        );
        assert_eq!(
            writer.file_restrictions.as_deref(),
            Some(&[r"\.(md|mdx)$".to_owned()][..])
        );
        let tools = writer.allowed_tools.as_ref().unwrap();
        assert!(
            tools.contains(&Tool::WriteFile.into())
                && !tools.contains(&Tool::ExecuteCommand.into()),
            "{tools:?}"
        );
        assert_eq!(modes[0].notes.len(), 2, "{:?}", modes[0].notes);
        let runner = &modes[1].agent;
        assert!(
            runner
                .allowed_tools
                .as_ref()
                .unwrap()
                .contains(&Tool::ExecuteCommand.into())
        );
        assert_eq!(runner.file_restrictions, None);
        assert_eq!(
            modes[1].notes,
            ["the field iconName has no counterpart and was left out"]
        );
    }

    #[test]
    fn modes_in_json() {
        let modes = read(JSON).unwrap();
        let agent = &modes[0].agent;
        assert_eq!(
            agent.file_restrictions.as_deref(),
            Some(&[r"_test\.py$".to_owned()][..])
        );
        assert!(
            !agent
                .allowed_tools
                .as_ref()
                .unwrap()
                .contains(&Tool::ExecuteCommand.into())
        );
        assert!(
            modes[0].notes[0].contains("command"),
            "{:?}",
            modes[0].notes
        );
    }

    #[test]
    fn what_is_no_roomodes_file_is_refused() {
        for text in [
            "",
            "customModes: 3",
            "{}",
            "customModes: [{slug: '!', roleDefinition: x}]",
            "customModes: [{slug: a}]",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
