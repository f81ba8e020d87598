//! The tools an agent can call: their names and where they run. Their arguments, and what the model
//! is told of them, are in the modules below.

mod allowed;
mod arguments;
mod called;
mod spec;

use serde::{Deserialize, Serialize};

pub use allowed::AllowedTool;
pub use arguments::{
    ExecuteCommand, FileEdit, InvalidArguments, ListFiles, ReadFile, SearchInCode, SwitchMode,
    ToolArguments, WriteFile, check_named,
};
pub use called::{CalledTool, McpCall};

/// Where a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolSide {
    /// In the user's workspace.
    Client,
    Server,
}

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    ReadFile,
    WriteFile,
    ListFiles,
    SearchInCode,
    CreateDirectory,
    ExecuteCommand,
    AttemptCompletion,
    AskFollowupQuestion,
    SwitchMode,
    Echo,
    Calculator,
    /// Finds tools of MCP servers, where they are too many to be offered one by one.
    SearchTools,
    /// Gives the text of a skill that the workspace brings.
    UseSkill,
    /// Takes back what calls wrote. People call it by a rewind; no agent can be offered it.
    RewindFiles,
}

/// One simple command of a shell line, as shown to the person who decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CommandPart {
    pub text: String,
    /// Why this part asks; absent when it would pass by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

impl Tool {
    /// Those that agents can be offered, and models can call.
    pub const ALL: [Self; 13] = [
        Self::ReadFile,
        Self::WriteFile,
        Self::ListFiles,
        Self::SearchInCode,
        Self::CreateDirectory,
        Self::ExecuteCommand,
        Self::AttemptCompletion,
        Self::AskFollowupQuestion,
        Self::SwitchMode,
        Self::Echo,
        Self::Calculator,
        Self::SearchTools,
        Self::UseSkill,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
            Self::ListFiles => "list_files",
            Self::SearchInCode => "search_in_code",
            Self::CreateDirectory => "create_directory",
            Self::ExecuteCommand => "execute_command",
            Self::AttemptCompletion => "attempt_completion",
            Self::AskFollowupQuestion => "ask_followup_question",
            Self::SwitchMode => "switch_mode",
            Self::Echo => "echo",
            Self::Calculator => "calculator",
            Self::SearchTools => "search_tools",
            Self::UseSkill => "use_skill",
            Self::RewindFiles => "rewind_files",
        }
    }

    /// A tool that models can call.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    /// A tool that a client can be asked to run.
    pub fn of_call(name: &str) -> Option<Self> {
        Self::parse(name)
            .or_else(|| (name == Self::RewindFiles.as_str()).then_some(Self::RewindFiles))
    }

    pub fn side(self) -> ToolSide {
        match self {
            Self::ReadFile
            | Self::WriteFile
            | Self::ListFiles
            | Self::SearchInCode
            | Self::CreateDirectory
            | Self::ExecuteCommand
            | Self::RewindFiles => ToolSide::Client,
            Self::AttemptCompletion
            | Self::AskFollowupQuestion
            | Self::SwitchMode
            | Self::Echo
            | Self::Calculator
            | Self::SearchTools
            | Self::UseSkill => ToolSide::Server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_found_by_its_name() {
        for tool in Tool::ALL {
            assert_eq!(Tool::parse(tool.as_str()), Some(tool));
            assert_eq!(serde_json::to_value(tool).unwrap(), tool.as_str());
            assert_eq!(tool.spec().name, tool.as_str());
        }
    }

    #[test]
    fn models_cannot_call_what_only_people_ask_for() {
        let name = Tool::RewindFiles.as_str();
        assert_eq!(Tool::parse(name), None);
        assert!(name.parse::<AllowedTool>().is_err());
        assert_eq!(Tool::of_call(name), Some(Tool::RewindFiles));
    }
}
