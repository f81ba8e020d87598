//! Slash commands.

use std::fmt;

use crate::texts::{CommandText, FolderText, MemoryText};

use super::custom;

/// What a line beginning with a slash asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlashCommand {
    Help,
    Agents,
    /// Whom messages go to; nobody by name: they are planned.
    Switch(Option<String>),
    /// The list, or another session to go on with: its number in the list or its id.
    Sessions(Option<String>),
    /// The newest plan, or what one of its tasks came to.
    Plan(Option<String>),
    /// Runs the turn that failed or was stopped again.
    Retry,
    /// Gives what waits its full time again.
    Renew,
    /// The models to choose from, or the one for this session (`-`: each agent's own).
    Model(Option<String>),
    /// What was allowed for the rest of the session, or the number of one to take back.
    Allowed(Option<String>),
    /// What passes without a question: `ask` or `edits`.
    Approve(Option<String>),
    /// Says this to the agents that work now.
    Steer(Option<String>),
    /// Goes on in a new session with the history so far.
    Fork(Option<String>),
    /// Sums the history up.
    Compact,
    /// The messages to go back to, one of them, or `undo`.
    Rewind(Option<String>),
    /// Takes the last rewind back.
    Redo,
    Cost,
    /// What the agents of the project remember.
    Memory(Option<String>),
    /// What the folder brings and waits for the person's trust.
    Trust,
    /// What models are told of the folder.
    Instructions,
    /// Lets an agent write the folder's first instructions, or improve them.
    Init(Option<String>),
    Diff,
    Export,
    Cancel,
    New,
    Quit,
    /// One of the person's own, with the words behind it, or none.
    Other(String, Option<String>),
}

pub const HELP: [(&str, CommandText); 25] = [
    ("/help", CommandText::HelpHelp),
    ("/agents", CommandText::HelpAgents),
    ("/switch [AGENT]", CommandText::HelpSwitch),
    ("/sessions [N]", CommandText::HelpSessions),
    ("/plan [TASK]", CommandText::HelpPlan),
    ("/retry", CommandText::HelpRetry),
    ("/renew", CommandText::HelpRenew),
    ("/model [NAME]", CommandText::HelpModel),
    ("/allowed [-N]", CommandText::HelpAllowed),
    ("/approve [MODE]", CommandText::HelpApprove),
    ("/steer TEXT", CommandText::HelpSteer),
    ("/fork [N]", CommandText::HelpFork),
    ("/compact", CommandText::HelpCompact),
    ("/rewind [N]", CommandText::HelpRewind),
    ("/redo", CommandText::HelpRedo),
    ("/cost", CommandText::HelpCost),
    ("/diff", CommandText::HelpDiff),
    ("/export", CommandText::HelpExport),
    ("/cancel", CommandText::HelpCancel),
    ("/new", CommandText::HelpNew),
    ("/quit", CommandText::HelpQuit),
    ("@FILE", CommandText::HelpFile),
    ("!COMMAND", CommandText::HelpShell),
    ("y e n a v", CommandText::HelpDecide),
    ("keys", CommandText::HelpKeys),
];

/// The same for what the folder brings.
pub const BROUGHT_HELP: [(&str, FolderText); 3] = [
    ("/trust", FolderText::HelpTrust),
    ("/instructions", FolderText::HelpInstructions),
    ("/init", FolderText::HelpInit),
];

/// The same for what agents remember.
pub const MEMORY_HELP: (&str, MemoryText) = ("/memory [AGENT]", MemoryText::HelpMemory);

/// The names of the commands, for completion.
pub fn names() -> impl Iterator<Item = &'static str> {
    let name = |usage: &'static str| usage.strip_prefix('/')?.split(' ').next();
    let usages = HELP.into_iter().map(|(usage, _)| usage);
    let usages = usages.chain(BROUGHT_HELP.into_iter().map(|(usage, _)| usage));
    usages.chain([MEMORY_HELP.0]).filter_map(name)
}

impl SlashCommand {
    /// `None` for an ordinary message. A path is one too: commands are a slash and a name.
    pub fn parse(line: &str) -> Option<Self> {
        let rest = line.trim().strip_prefix('/')?;
        let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if !custom::is_name(name) {
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
            "renew" => Self::Renew,
            "model" => Self::Model(argument),
            "allowed" => Self::Allowed(argument),
            "approve" => Self::Approve(argument),
            "steer" => Self::Steer(argument),
            "fork" => Self::Fork(argument),
            "compact" => Self::Compact,
            "rewind" => Self::Rewind(argument),
            "redo" => Self::Redo,
            "cost" => Self::Cost,
            "memory" => Self::Memory(argument),
            "trust" => Self::Trust,
            "instructions" => Self::Instructions,
            "init" => Self::Init(argument),
            "diff" => Self::Diff,
            "export" => Self::Export,
            "cancel" => Self::Cancel,
            "new" => Self::New,
            "quit" | "exit" => Self::Quit,
            _ => Self::Other(name.to_owned(), argument),
        })
    }
}

/// As it is typed.
impl fmt::Display for SlashCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, argument) = match self {
            Self::Help => ("help", None),
            Self::Agents => ("agents", None),
            Self::Switch(agent) => ("switch", agent.as_ref()),
            Self::Sessions(session) => ("sessions", session.as_ref()),
            Self::Plan(task) => ("plan", task.as_ref()),
            Self::Retry => ("retry", None),
            Self::Renew => ("renew", None),
            Self::Model(model) => ("model", model.as_ref()),
            Self::Allowed(number) => ("allowed", number.as_ref()),
            Self::Approve(mode) => ("approve", mode.as_ref()),
            Self::Steer(text) => ("steer", text.as_ref()),
            Self::Fork(number) => ("fork", number.as_ref()),
            Self::Compact => ("compact", None),
            Self::Rewind(words) => ("rewind", words.as_ref()),
            Self::Redo => ("redo", None),
            Self::Cost => ("cost", None),
            Self::Memory(words) => ("memory", words.as_ref()),
            Self::Trust => ("trust", None),
            Self::Instructions => ("instructions", None),
            Self::Init(argument) => ("init", argument.as_ref()),
            Self::Diff => ("diff", None),
            Self::Export => ("export", None),
            Self::Cancel => ("cancel", None),
            Self::New => ("new", None),
            Self::Quit => ("quit", None),
            Self::Other(name, words) => (name.as_str(), words.as_ref()),
        };
        write!(f, "/{name}")?;
        match argument {
            Some(argument) => write!(f, " {argument}"),
            None => Ok(()),
        }
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
            (
                "/allowed -2",
                Some(SlashCommand::Allowed(Some("-2".to_owned()))),
            ),
            (
                "/approve edits",
                Some(SlashCommand::Approve(Some("edits".to_owned()))),
            ),
            ("/compact", Some(SlashCommand::Compact)),
            ("/fork", Some(SlashCommand::Fork(None))),
            (
                "/steer use tabs\nand no spaces",
                Some(SlashCommand::Steer(Some(
                    "use tabs\nand no spaces".to_owned(),
                ))),
            ),
            ("/exit", Some(SlashCommand::Quit)),
            (
                "/memory forget coder",
                Some(SlashCommand::Memory(Some("forget coder".to_owned()))),
            ),
            ("/trust", Some(SlashCommand::Trust)),
            (
                "/init improve",
                Some(SlashCommand::Init(Some("improve".to_owned()))),
            ),
            (
                "/model claude/sonnet",
                Some(SlashCommand::Model(Some("claude/sonnet".to_owned()))),
            ),
            (
                "/frobnicate",
                Some(SlashCommand::Other("frobnicate".to_owned(), None)),
            ),
            (
                "/fix-all a.rs b.rs",
                Some(SlashCommand::Other(
                    "fix-all".to_owned(),
                    Some("a.rs b.rs".to_owned()),
                )),
            ),
            ("/etc/hosts is wrong", None),
            ("/", None),
            ("what does /help do", None),
        ] {
            let command = SlashCommand::parse(line);
            assert_eq!(command, expected, "{line}");
            let again = command.as_ref().map(SlashCommand::to_string);
            assert_eq!(again.and_then(|text| SlashCommand::parse(&text)), expected);
        }
    }
}
