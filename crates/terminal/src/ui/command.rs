//! Slash commands.

use crate::Text;

/// What a line beginning with a slash asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlashCommand {
    Help,
    Agents,
    /// Whom messages go to; nobody by name: they are planned.
    Switch(Option<String>),
    /// The list, or another session to go on with.
    Sessions(Option<String>),
    /// The newest plan, or what one of its tasks came to.
    Plan(Option<String>),
    /// Runs what failed in the newest plan again.
    Retry,
    /// The models to choose from, or the one for this session (`-`: each agent's own).
    Model(Option<String>),
    Cost,
    Cancel,
    New,
    Quit,
    Unknown(String),
}

pub const HELP: [(&str, Text); 12] = [
    ("/help", Text::HelpHelp),
    ("/agents", Text::HelpAgents),
    ("/switch [AGENT]", Text::HelpSwitch),
    ("/sessions [ID]", Text::HelpSessions),
    ("/plan [TASK]", Text::HelpPlan),
    ("/retry", Text::HelpRetry),
    ("/model [NAME]", Text::HelpModel),
    ("/cost", Text::HelpCost),
    ("/cancel", Text::HelpCancel),
    ("/new", Text::HelpNew),
    ("/quit", Text::HelpQuit),
    ("keys", Text::HelpKeys),
];

impl SlashCommand {
    /// `None` for an ordinary message. A path is one too: commands are a slash and letters.
    pub fn parse(line: &str) -> Option<Self> {
        let rest = line.trim().strip_prefix('/')?;
        let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphabetic()) {
            return None;
        }
        let argument = Some(argument.trim().to_owned()).filter(|argument| !argument.is_empty());
        Some(match name.to_ascii_lowercase().as_str() {
            "help" => Self::Help,
            "agents" => Self::Agents,
            "switch" => Self::Switch(argument),
            "sessions" => Self::Sessions(argument),
            "plan" => Self::Plan(argument),
            "retry" => Self::Retry,
            "model" => Self::Model(argument),
            "cost" => Self::Cost,
            "cancel" => Self::Cancel,
            "new" => Self::New,
            "quit" | "exit" => Self::Quit,
            _ => Self::Unknown(name.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_messages() {
        for (line, expected) in [
            ("/help", Some(SlashCommand::Help)),
            (
                "  /Switch  coder ",
                Some(SlashCommand::Switch(Some("coder".to_owned()))),
            ),
            ("/switch", Some(SlashCommand::Switch(None))),
            (
                "/plan tests",
                Some(SlashCommand::Plan(Some("tests".to_owned()))),
            ),
            ("/exit", Some(SlashCommand::Quit)),
            (
                "/model claude/sonnet",
                Some(SlashCommand::Model(Some("claude/sonnet".to_owned()))),
            ),
            (
                "/frobnicate",
                Some(SlashCommand::Unknown("frobnicate".to_owned())),
            ),
            ("/etc/hosts is wrong", None),
            ("/", None),
            ("what does /help do", None),
        ] {
            assert_eq!(SlashCommand::parse(line), expected, "{line}");
        }
    }
}
