//! What tools are called with, checked per tool.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Tool;
use crate::{AgentName, RewindFiles};

/// Arguments that passed validation.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolArguments {
    ReadFile(ReadFile),
    WriteFile(WriteFile),
    ListFiles(ListFiles),
    SearchInCode(SearchInCode),
    CreateDirectory {
        path: String,
    },
    ExecuteCommand(ExecuteCommand),
    AttemptCompletion {
        result: String,
    },
    AskFollowupQuestion {
        question: String,
        options: Vec<String>,
    },
    SwitchMode(SwitchMode),
    Echo {
        text: String,
    },
    Calculator {
        expression: String,
    },
    SearchTools {
        query: String,
    },
    UseSkill {
        name: String,
    },
    RewindFiles(RewindFiles),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadFile {
    pub path: String,
    #[serde(default)]
    pub start_line: Option<u64>,
    #[serde(default)]
    pub end_line: Option<u64>,
}

/// Exactly one of `content` and `edits` is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteFile {
    pub path: String,
    #[serde(default)]
    pub content: Option<String>,
    #[serde(default)]
    pub edits: Option<Vec<FileEdit>>,
    #[serde(default)]
    pub create_dirs: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileEdit {
    pub old: String,
    pub new: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListFiles {
    pub path: String,
    #[serde(default)]
    pub recursive: bool,
    #[serde(default)]
    pub pattern: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchInCode {
    pub query: String,
    #[serde(default)]
    pub path: Option<String>,
    #[serde(default)]
    pub pattern: Option<String>,
    #[serde(default)]
    pub regex: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecuteCommand {
    pub command: String,
    #[serde(default)]
    pub cwd: Option<String>,
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SwitchMode {
    pub agent: AgentName,
    #[serde(default)]
    pub reason: String,
}

/// Why arguments were refused; the text is for the model and the person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidArguments(pub String);

impl Tool {
    /// Checks a call's arguments. Unknown extra arguments are tolerated; models add them.
    pub fn check(self, arguments: &Map<String, Value>) -> Result<ToolArguments, InvalidArguments> {
        check_named(arguments)?;
        let checked = match self {
            Self::ReadFile => ToolArguments::ReadFile(parse(arguments)?),
            Self::WriteFile => ToolArguments::WriteFile(parse(arguments)?),
            Self::ListFiles => ToolArguments::ListFiles(parse(arguments)?),
            Self::SearchInCode => ToolArguments::SearchInCode(parse(arguments)?),
            Self::CreateDirectory => ToolArguments::CreateDirectory {
                path: parse::<PathOnly>(arguments)?.path,
            },
            Self::ExecuteCommand => ToolArguments::ExecuteCommand(parse(arguments)?),
            Self::AttemptCompletion => ToolArguments::AttemptCompletion {
                result: parse::<ResultOnly>(arguments)?.result,
            },
            Self::AskFollowupQuestion => {
                let asked: Asked = parse(arguments)?;
                ToolArguments::AskFollowupQuestion {
                    question: asked.question,
                    options: asked.options,
                }
            }
            Self::SwitchMode => ToolArguments::SwitchMode(parse(arguments)?),
            Self::Echo => ToolArguments::Echo {
                text: parse::<TextOnly>(arguments)?.text,
            },
            Self::Calculator => ToolArguments::Calculator {
                expression: parse::<ExpressionOnly>(arguments)?.expression,
            },
            Self::SearchTools => ToolArguments::SearchTools {
                query: parse::<QueryOnly>(arguments)?.query,
            },
            Self::UseSkill => ToolArguments::UseSkill {
                name: parse::<NameOnly>(arguments)?.name,
            },
            Self::RewindFiles => ToolArguments::RewindFiles(parse(arguments)?),
        };
        checked.validate()?;
        Ok(checked)
    }
}

impl ToolArguments {
    /// The path a call writes to, where it writes a file.
    pub fn written_path(&self) -> Option<&str> {
        match self {
            Self::WriteFile(write) => Some(&write.path),
            Self::ReadFile(_)
            | Self::ListFiles(_)
            | Self::SearchInCode(_)
            | Self::CreateDirectory { .. }
            | Self::ExecuteCommand(_)
            | Self::AttemptCompletion { .. }
            | Self::AskFollowupQuestion { .. }
            | Self::SwitchMode(_)
            | Self::Echo { .. }
            | Self::Calculator { .. }
            | Self::SearchTools { .. }
            | Self::UseSkill { .. }
            | Self::RewindFiles(_) => None,
        }
    }

    fn validate(&self) -> Result<(), InvalidArguments> {
        match self {
            Self::ReadFile(read) => {
                path_given(&read.path)?;
                if read.start_line == Some(0) || read.end_line == Some(0) {
                    return invalid("line numbers start at 1");
                }
                match (read.start_line, read.end_line) {
                    (Some(start), Some(end)) if start > end => {
                        invalid("start_line is after end_line")
                    }
                    _ => Ok(()),
                }
            }
            Self::WriteFile(write) => {
                path_given(&write.path)?;
                match (&write.content, &write.edits) {
                    (Some(_), None) => Ok(()),
                    (None, Some(edits)) if edits.is_empty() => invalid("edits is empty"),
                    (None, Some(edits)) if edits.iter().any(|edit| edit.old.is_empty()) => {
                        invalid("an edit's old text is empty")
                    }
                    (None, Some(_)) => Ok(()),
                    (Some(_), Some(_)) => invalid("give content or edits, not both"),
                    (None, None) => invalid("missing content (or edits)"),
                }
            }
            Self::ListFiles(list) => path_given(&list.path),
            Self::CreateDirectory { path } => path_given(path),
            Self::SearchInCode(search) if search.query.is_empty() => invalid("query is empty"),
            Self::ExecuteCommand(run) if run.command.trim().is_empty() => {
                invalid("command is empty")
            }
            Self::ExecuteCommand(run) if run.timeout_seconds == Some(0) => {
                invalid("timeout_seconds must be above 0")
            }
            Self::AskFollowupQuestion { question, .. } if question.trim().is_empty() => {
                invalid("question is empty")
            }
            Self::Calculator { expression } if expression.trim().is_empty() => {
                invalid("expression is empty")
            }
            Self::SearchTools { query } if query.trim().is_empty() => invalid("query is empty"),
            Self::UseSkill { name } if name.trim().is_empty() => invalid("name is empty"),
            Self::SearchInCode(_)
            | Self::ExecuteCommand(_)
            | Self::AttemptCompletion { .. }
            | Self::AskFollowupQuestion { .. }
            | Self::SwitchMode(_)
            | Self::Echo { .. }
            | Self::Calculator { .. }
            | Self::SearchTools { .. }
            | Self::UseSkill { .. }
            | Self::RewindFiles(_) => Ok(()),
        }
    }
}

#[derive(Deserialize)]
struct NameOnly {
    name: String,
}

#[derive(Deserialize)]
struct PathOnly {
    path: String,
}

#[derive(Deserialize)]
struct ResultOnly {
    result: String,
}

#[derive(Deserialize)]
struct Asked {
    question: String,
    #[serde(default)]
    options: Vec<String>,
}

#[derive(Deserialize)]
struct TextOnly {
    text: String,
}

#[derive(Deserialize)]
struct ExpressionOnly {
    expression: String,
}

#[derive(Deserialize)]
struct QueryOnly {
    query: String,
}

/// What the arguments of every tool must fulfil. It is all that is checked of an MCP server's tool:
/// the server knows its own schema.
pub fn check_named(arguments: &Map<String, Value>) -> Result<(), InvalidArguments> {
    match arguments.values().all(has_exact_numbers) {
        true => Ok(()),
        false => invalid("a whole number is too large to be shown exactly"),
    }
}

fn parse<T: serde::de::DeserializeOwned>(
    arguments: &Map<String, Value>,
) -> Result<T, InvalidArguments> {
    // Absent and null mean the same to most models.
    let given: Map<String, Value> = arguments
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    serde_json::from_value(Value::Object(given))
        .map_err(|error| InvalidArguments(error.to_string()))
}

/// Canonical JSON writes numbers as doubles, so beyond 2^53 two different calls could share a
/// digest.
fn has_exact_numbers(value: &Value) -> bool {
    const EXACT: u64 = 1 << 53;
    match value {
        Value::Number(number) if number.is_f64() => true,
        Value::Number(number) => number
            .as_i64()
            .map(i64::unsigned_abs)
            .or(number.as_u64())
            .is_some_and(|n| n <= EXACT),
        Value::Array(items) => items.iter().all(has_exact_numbers),
        Value::Object(map) => map.values().all(has_exact_numbers),
        _ => true,
    }
}

fn path_given(path: &str) -> Result<(), InvalidArguments> {
    if path.trim().is_empty() {
        return invalid("path is empty");
    }
    if path.contains('\0') {
        return invalid("path contains a NUL character");
    }
    Ok(())
}

fn invalid(message: &str) -> Result<(), InvalidArguments> {
    Err(InvalidArguments(message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked_per_tool() {
        let cases: &[(Tool, &str, Result<(), &str>)] = &[
            (Tool::ReadFile, r#"{"path":"a"}"#, Ok(())),
            (
                Tool::ReadFile,
                r#"{"path":"a","start_line":3,"end_line":2}"#,
                Err("start_line is after"),
            ),
            (Tool::ReadFile, r#"{"path":"a","start_line":null}"#, Ok(())),
            (Tool::ReadFile, r#"{"path":"  "}"#, Err("path is empty")),
            (Tool::ReadFile, r#"{"path":"a\u0000b"}"#, Err("NUL")),
            (Tool::ReadFile, r"{}", Err("missing field `path`")),
            (Tool::WriteFile, r#"{"path":"a","content":""}"#, Ok(())),
            (Tool::WriteFile, r#"{"path":"a"}"#, Err("missing content")),
            (
                Tool::WriteFile,
                r#"{"path":"a","content":"x","edits":[]}"#,
                Err("not both"),
            ),
            (
                Tool::WriteFile,
                r#"{"path":"a","edits":[]}"#,
                Err("edits is empty"),
            ),
            (
                Tool::WriteFile,
                r#"{"path":"a","edits":[{"old":"","new":"b"}]}"#,
                Err("old text is empty"),
            ),
            (
                Tool::WriteFile,
                r#"{"path":"a","edits":[{"old":"a","new":"b"}]}"#,
                Ok(()),
            ),
            (
                Tool::ExecuteCommand,
                r#"{"command":" "}"#,
                Err("command is empty"),
            ),
            (
                Tool::ExecuteCommand,
                r#"{"command":["ls"]}"#,
                Err("invalid type"),
            ),
            (
                Tool::ReadFile,
                r#"{"path":"a","start_line":9007199254740993}"#,
                Err("too large to be shown exactly"),
            ),
            (
                Tool::SwitchMode,
                r#"{"agent":"no such/agent"}"#,
                Err("agent must be"),
            ),
            (
                Tool::AskFollowupQuestion,
                r#"{"question":"Which?","options":["a"]}"#,
                Ok(()),
            ),
        ];
        for (tool, arguments, expected) in cases {
            let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap();
            match (tool.check(&arguments), expected) {
                (Ok(_), Ok(())) => {}
                (Err(error), Err(part)) if error.0.contains(part) => {}
                (got, _) => panic!("{tool:?} {arguments:?}: {got:?}, expected {expected:?}"),
            }
        }
    }
}
