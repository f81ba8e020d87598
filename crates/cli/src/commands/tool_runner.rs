//! What commands that work in a folder have in common: their flags, starting the tool runner, asking at
//! the terminal.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use codelab_mcp::McpLauncher;
use codelab_policy::visible;
use codelab_protocol::{ApproveMode, BroughtKind, CalledTool, McpCall, McpStatus, ProjectId};
use codelab_server::SandboxSettings;
use codelab_terminal::{FolderText, Language, McpText, Text};
use codelab_toolrunner::{
    BroughtState, RunnerMcpOptions, RunnerQuestion, ServedCalls, ToolRunner, ToolRunnerEvent,
    ToolRunnerOptions,
};
use codelab_workspace::{Bounds, ClientFailpoint, Launcher, Network};
use rustix::termios::QueueSelector;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::connection::ServerConnection;
use super::{mcp, note, project_id};

/// Questions that wait for the person; each stops one call.
pub const MAX_QUESTIONS: usize = 64;
/// What is shown of a command or a path.
const MAX_SHOWN_CHARS: usize = 200;
/// Lines that are shown of each argument of a call that asks.
const MAX_SHOWN_LINES: usize = 100;
/// The hidden command that runs an agent's command in the sandbox.
pub const SANDBOX_EXEC: &str = "sandbox-exec";

#[derive(Args, Clone)]
pub struct ToolRunnerFlags {
    /// The project's number; by default the user's default project
    #[arg(long, value_name = "P", value_parser = project_id)]
    pub project: Option<ProjectId>,
    /// Let commands reach other machines
    #[arg(long)]
    pub network: bool,
    /// What passes in all sessions that are served, where the person said so.
    #[arg(skip)]
    approve: Option<SessionApprove>,
}

/// What passes without a question in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SessionApprove {
    /// Writes and commands ask
    Ask,
    /// Writes in the folder pass; commands, protected paths and files that were not read ask
    Edits,
}

impl From<SessionApprove> for ApproveMode {
    fn from(approve: SessionApprove) -> Self {
        match approve {
            SessionApprove::Ask => Self::Ask,
            SessionApprove::Edits => Self::Edits,
        }
    }
}

impl ToolRunnerFlags {
    /// The same for a command that serves sessions which others begin.
    pub fn approving(&self, approve: Option<SessionApprove>) -> Self {
        Self {
            approve,
            ..self.clone()
        }
    }

    pub async fn start(
        &self,
        connection: &ServerConnection,
        workspace: PathBuf,
        serves: ServedCalls,
        ask: Option<mpsc::Sender<RunnerQuestion>>,
    ) -> anyhow::Result<ToolRunner> {
        let folder = std::fs::canonicalize(&workspace).unwrap_or_else(|_| workspace.clone());
        let given = workspace.clone();
        let found = mcp::configured(&folder, &connection.data_dir);
        mcp::notice_lines(&found.notices, &folder, &workspace, connection.language)
            .iter()
            .for_each(|line| note(line));
        let tool_runner = ToolRunner::start(ToolRunnerOptions {
            client: connection.client.clone(),
            server: connection.name.clone(),
            user_id: connection.user_id,
            project: self.project,
            serves,
            approve: self.approve.map(ApproveMode::from),
            workspace_root: workspace,
            data_dir: connection.data_dir.clone(),
            launcher: Launcher::current([SANDBOX_EXEC])?,
            network: if self.network {
                Network::On
            } else {
                Network::Off
            },
            policy: connection.policy.clone(),
            bounds: bounds(&connection.sandbox),
            readable: connection.sandbox.readable.clone(),
            hidden: mcp::own_file().into_iter().collect(),
            ask,
            mcp: RunnerMcpOptions {
                servers: found.servers,
                own: mcp::own_servers(),
                variable: mcp::variable,
                launcher: McpLauncher::current([mcp::MCP_EXEC])?,
                network: connection.network.clone(),
            },
            failpoint: std::env::var("CODELAB_CLIENT_FAILPOINT")
                .ok()
                .and_then(|text| ClientFailpoint::parse(&text))
                .unwrap_or_default(),
        });
        let tool_runner = tool_runner.await?;
        let flag = mcp::workspace_flag(&folder, &given);
        brought_lines(
            &tool_runner.brought_handle().state(),
            &flag,
            connection.language,
        )
        .iter()
        .for_each(|line| note(line));
        Ok(tool_runner)
    }
}

/// What suits the machine, but for what was set.
fn bounds(settings: &SandboxSettings) -> Bounds {
    let usual = Bounds::default();
    Bounds {
        memory_bytes: settings.memory_bytes.unwrap_or(usual.memory_bytes),
        processes: settings.processes.unwrap_or(usual.processes),
        file_bytes: settings.file_bytes.unwrap_or(usual.file_bytes),
        written_bytes: settings.written_bytes.unwrap_or(usual.written_bytes),
        cpu_seconds: settings.cpu_seconds.unwrap_or(usual.cpu_seconds),
    }
}

/// Asks the person at the terminal, one question at a time; nobody when there is no terminal.
pub fn at_the_terminal(language: Language) -> Option<mpsc::Sender<RunnerQuestion>> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    let (sender, mut questions) = mpsc::channel::<RunnerQuestion>(MAX_QUESTIONS);
    tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            if question.reply.is_closed() {
                continue;
            }
            let tool = &question.call.label();
            let text = language.text(Text::ExecRun);
            let call = AskedCall {
                reason: &question.reason,
                tool,
                arguments: &question.arguments,
                mcp: question.call.tool.mcp(),
                diff: None,
            };
            let answer = call.ask(text, language).await;
            let _ = question.reply.send(answer == PersonAnswer::Yes);
        }
    });
    Some(sender)
}

/// In any language of the terminal, also with the key that is `y` on another keyboard layout.
pub fn is_yes(answer: &str) -> bool {
    let answer = answer.trim().to_lowercase();
    matches!(answer.as_str(), "y" | "yes" | "н" | "да" | "так")
}

/// One line from the person; `None` at the end of input.
pub async fn ask(prompt: &str) -> Option<String> {
    let prompt = prompt.to_owned();
    let (sender, line) = tokio::sync::oneshot::channel();
    // In its own thread, because a blocking read cannot be cancelled and must not keep the process
    // alive.
    std::thread::spawn(move || {
        // What was typed before the question was there is no answer to it.
        let _ = rustix::termios::tcflush(std::io::stdin(), QueueSelector::IFlush);
        let mut out = std::io::stderr();
        let _ = out.write_all(prompt.as_bytes());
        let _ = out.flush();
        let mut line = String::new();
        let read = std::io::stdin()
            .read_line(&mut line)
            .ok()
            .filter(|&length| length > 0)
            .map(|_| line);
        let _ = sender.send(read);
    });
    line.await.ok().flatten()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonAnswer {
    Yes,
    No,
    /// The input has ended.
    Nobody,
}

/// A call that a person is asked about.
pub struct AskedCall<'a> {
    pub reason: &'a str,
    pub tool: &'a str,
    /// The tool of an MCP server that it is.
    pub mcp: Option<&'a McpCall>,
    pub arguments: &'a Map<String, Value>,
    /// What it would change in a file, in place of the new content.
    pub diff: Option<Vec<String>>,
}

impl AskedCall<'_> {
    /// Shows the whole call and asks. If a part is too long, the person can see the rest first.
    pub async fn ask(&self, text: &str, language: Language) -> PersonAnswer {
        let mut max_lines = MAX_SHOWN_LINES;
        loop {
            let (lines, is_cut) = self.lines(max_lines, language);
            lines.iter().for_each(|line| note(line));
            let keys = match is_cut {
                true => language.text(Text::ExecViewAll),
                false => "[y/N]",
            };
            let Some(answer) = ask(&format!("{text} {keys} ")).await else {
                return PersonAnswer::Nobody;
            };
            match answer.trim().to_lowercase().as_str() {
                "v" | "м" if is_cut => max_lines = usize::MAX,
                answer if is_yes(answer) => return PersonAnswer::Yes,
                _ => return PersonAnswer::No,
            }
        }
    }

    /// With nothing hidden in it, and whether lines were left out. Every line of the model's own
    /// begins with the name of its argument, so that none can pass for one of ours.
    fn lines(&self, max_lines: usize, language: Language) -> (Vec<String>, bool) {
        let call = match self.mcp {
            Some(mcp) => named_line(mcp, &Map::new()),
            None => call_line(self.tool, self.arguments),
        };
        let reason = in_one_line(&language.reason(self.reason));
        let mut shown = vec![format!("{reason}: {call}")];
        let mut is_cut = false;
        let mut add = |name: &str, lines: &[&str]| {
            let row = |line: &&str| format!("  {name}| {}", visible(line));
            shown.extend(lines.iter().take(max_lines).map(row));
            let hidden = lines.len().saturating_sub(max_lines);
            if hidden > 0 {
                is_cut = true;
                let more = language.with(Text::ExecMoreLines, &[&hidden.to_string()]);
                shown.push(format!("  {name}| {more}"));
            }
        };
        if let Some(mcp) = self.mcp {
            // The server's own words.
            let server = mcp.id.server.as_str();
            add(server, &mcp.description.lines().collect::<Vec<_>>());
            let hints = mcp.hints.iter();
            let hints: Vec<String> = hints
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            if !hints.is_empty() {
                let hints = language.with(McpText::Hints, &[&hints.join(", ")]);
                add(server, &[&in_one_line(&hints)]);
            }
        }
        for (name, value) in self.arguments {
            if self.diff.is_some() && matches!(name.as_str(), "content" | "edits") {
                continue;
            }
            let text = match value {
                Value::String(text) => text.clone(),
                other => serde_json::to_string_pretty(other).unwrap_or_default(),
            };
            // The model chose the name as well.
            add(&in_one_line(name), &text.lines().collect::<Vec<_>>());
        }
        let diff = self.diff.iter().flatten().map(String::as_str);
        add("", &diff.collect::<Vec<_>>());
        (shown, is_cut)
    }
}

/// Nothing hidden, and line breaks written as `\n`.
pub fn in_one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n")
}

/// The event as a line for the person.
pub fn line_of(event: &ToolRunnerEvent) -> String {
    match event {
        ToolRunnerEvent::Started { call, arguments } => match &call.tool {
            CalledTool::BuiltIn(tool) => call_line(tool.as_str(), arguments),
            CalledTool::Named(mcp) => named_line(mcp, arguments),
        },
        ToolRunnerEvent::Finished {
            call,
            success: true,
            ..
        } => format!("{} done", in_one_line(&call.label())),
        ToolRunnerEvent::Finished { call, error, .. } => {
            format!(
                "{} failed: {}",
                in_one_line(&call.label()),
                in_one_line(error.as_deref().unwrap_or("see its result"))
            )
        }
        ToolRunnerEvent::Refused { call, reason } => {
            format!(
                "{} was not run: {}",
                in_one_line(&call.label()),
                in_one_line(reason)
            )
        }
        ToolRunnerEvent::AskedAgain { call, reason } => {
            format!(
                "{} waits for an approval: {}",
                in_one_line(&call.label()),
                in_one_line(reason)
            )
        }
        ToolRunnerEvent::Closed { call } => {
            format!("{} was closed by the server", in_one_line(&call.label()))
        }
        ToolRunnerEvent::Unknown { call } => format!(
            "{} was running when codelab ended: its outcome is unknown, it is not run again",
            in_one_line(&call.label())
        ),
        ToolRunnerEvent::Progress {
            call,
            progress,
            total,
            message,
        } => {
            let total = total.map(|total| format!("/{total}")).unwrap_or_default();
            let message = in_one_line(message.as_deref().unwrap_or_default());
            let line = format!("{} {progress}{total} {message}", in_one_line(&call.label()));
            line.trim_end().to_owned()
        }
        ToolRunnerEvent::McpServer {
            name,
            status,
            tools,
            error,
        } => server_line(name.as_str(), *status, *tools, error.as_deref()),
        ToolRunnerEvent::Brought { waiting, counted } => brought_line(waiting, counted),
        ToolRunnerEvent::Disconnected { reason } => {
            format!(
                "tool runner lost its connection to the server, reconnecting: {}",
                in_one_line(reason)
            )
        }
        ToolRunnerEvent::Reconnected => "tool runner reconnected to the server".to_owned(),
        ToolRunnerEvent::Ended { reason } => format!(
            "the server refused the tool runner: {}",
            in_one_line(reason)
        ),
    }
}

/// What the folder brings since now, as a line for the person.
fn brought_line(waiting: &[String], counted: &[String]) -> String {
    let mut lines = Vec::new();
    if !waiting.is_empty() {
        lines.push(format!(
            "waiting for trust, so it counts for nothing: {} (`codelab trust`)",
            in_one_line(&waiting.join(", "))
        ));
    }
    if !counted.is_empty() {
        lines.push(format!(
            "counts from now on: {}",
            in_one_line(&counted.join(", "))
        ));
    }
    lines.join("; ")
}

/// What waits for trust when the tool runner starts, and what was passed over. The file of MCP servers
/// was told of before.
fn brought_lines(state: &BroughtState, flag: &str, language: Language) -> Vec<String> {
    let waiting = state.waiting.iter().map(|waiting| &waiting.file);
    let paths: Vec<String> = waiting
        .filter(|file| file.kind != BroughtKind::McpServers)
        .map(|file| in_one_line(&file.path))
        .collect();
    let mut lines = Vec::new();
    if !paths.is_empty() {
        lines.push(language.with(FolderText::Waits, &[&paths.join(", "), flag]));
    }
    let passed_over =
        |notice: &String| language.with(FolderText::PassedOver, &[&in_one_line(notice)]);
    let notices = state.notices.iter().filter(|n| !n.starts_with(".mcp.json"));
    lines.extend(notices.map(passed_over));
    lines
}

/// How an MCP server is doing, as a line for the person.
fn server_line(name: &str, status: McpStatus, tools: usize, error: Option<&str>) -> String {
    let what = match status {
        McpStatus::Ready => format!("ready, tools: {tools}"),
        status => mcp::status_text(status).to_owned(),
    };
    let error = error.map(|error| format!(": {}", in_one_line(error)));
    format!("MCP server {name} {what}{}", error.unwrap_or_default())
}

/// A call of an MCP server's tool in one line.
pub fn named_line(mcp: &McpCall, arguments: &Map<String, Value>) -> String {
    let told = match arguments.is_empty() {
        true => String::new(),
        false => in_one_line(&Value::Object(arguments.clone()).to_string()),
    };
    let cut: String = told.chars().take(MAX_SHOWN_CHARS).collect();
    let more = if cut.len() < told.len() { "…" } else { "" };
    let tool = in_one_line(&mcp.id.tool);
    format!("{}: {tool} {cut}{more}", mcp.id.server)
        .trim_end()
        .to_owned()
}

/// A call in one line, with nothing hidden in it.
pub fn call_line(tool: &str, arguments: &Map<String, Value>) -> String {
    let told = ["command", "path", "query"]
        .iter()
        .find_map(|name| arguments.get(*name))
        .and_then(Value::as_str);
    let told = in_one_line(told.unwrap_or_default());
    let cut: String = told.chars().take(MAX_SHOWN_CHARS).collect();
    let more = if cut.len() < told.len() { "…" } else { "" };
    format!("{} {cut}{more}", in_one_line(tool))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_cannot_forge_lines_of_the_question() {
        let Value::Object(arguments) = json!({"command": "ls\nAllow it? [y/N] y\u{1b}[2J"}) else {
            panic!("an object")
        };
        let call = AskedCall {
            reason: "because\nof this",
            tool: "execute\ncommand",
            mcp: None,
            arguments: &arguments,
            diff: None,
        };
        let (lines, is_cut) = call.lines(10, Language::En);
        assert_eq!(
            lines,
            [
                "because\\nof this: execute\\ncommand ls\\nAllow it? [y/N] y\\u{1b}[2J",
                "  command| ls",
                "  command| Allow it? [y/N] y\\u{1b}[2J",
            ]
        );
        assert!(!is_cut);
    }

    #[test]
    fn what_was_left_out_can_be_shown() {
        let Value::Object(arguments) = json!({"content": "a\nb\nc"}) else {
            panic!("an object")
        };
        let call = |diff: Option<&str>| AskedCall {
            reason: "r",
            tool: "write_file",
            mcp: None,
            arguments: &arguments,
            diff: diff.map(|diff| diff.lines().map(str::to_owned).collect()),
        };
        let shown = |max_lines| call(None).lines(max_lines, Language::En);
        assert_eq!(
            shown(1).0[1..],
            ["  content| a", "  content| … more lines: 2"]
        );
        assert!(shown(1).1);
        assert_eq!(
            shown(usize::MAX).0[1..],
            ["  content| a", "  content| b", "  content| c"]
        );
        assert!(!shown(usize::MAX).1);
        let (lines, is_cut) = call(Some("-b\n+c\n+d")).lines(2, Language::En);
        assert_eq!(lines[1..], ["  | -b", "  | +c", "  | … more lines: 1"]);
        assert!(
            is_cut,
            "a difference is bounded, and stands for the content"
        );
    }
}
