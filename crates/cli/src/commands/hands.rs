//! What commands that work in a folder have in common: their flags, starting the hands, asking at the terminal.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use codelab_policy::visible;
use codelab_protocol::ProjectId;
use codelab_server::SandboxSettings;
use codelab_terminal::{Hands, HandsEvent, HandsOptions, Question, Serves};
use codelab_workspace::{Bounds, Launcher, Network};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::connection::Connection;
use super::{note, project_id};

/// Questions that wait for the person; each stops one call.
pub const MAX_QUESTIONS: usize = 64;
/// What is shown of a command or a path.
const MAX_SHOWN_CHARS: usize = 200;
/// Lines that are shown of each argument of a call that asks.
const MAX_SHOWN_LINES: usize = 100;
/// The hidden command that runs what an agent asked for behind the sandbox.
pub const SANDBOX_EXEC: &str = "sandbox-exec";

#[derive(Args, Clone)]
pub struct HandsFlags {
    /// The project's number; by default the user's default project
    #[arg(long, value_name = "P", value_parser = project_id)]
    pub project: Option<ProjectId>,
    /// Let commands reach other machines
    #[arg(long)]
    pub network: bool,
}

impl HandsFlags {
    pub async fn start(
        &self,
        connection: &Connection,
        workspace: PathBuf,
        serves: Serves,
        ask: Option<mpsc::Sender<Question>>,
    ) -> anyhow::Result<Hands> {
        let hands = Hands::start(HandsOptions {
            client: connection.client.clone(),
            server: connection.name.clone(),
            user_id: connection.user_id,
            project: self.project,
            serves,
            workspace_root: workspace,
            data_dir: connection.data_dir.clone(),
            launcher: Launcher::current([SANDBOX_EXEC])?,
            network: if self.network { Network::On } else { Network::Off },
            policy: connection.policy.clone(),
            bounds: bounds(&connection.sandbox),
            readable: connection.sandbox.readable.clone(),
            ask,
        });
        Ok(hands.await?)
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
pub fn at_the_terminal() -> Option<mpsc::Sender<Question>> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    let (sender, mut questions) = mpsc::channel::<Question>(MAX_QUESTIONS);
    tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            if question.reply.is_closed() {
                continue;
            }
            show_call(&question.reason, question.call.tool.as_str(), &question.arguments);
            let is_granted = confirm("Run it?").await;
            let _ = question.reply.send(is_granted);
        }
    });
    Some(sender)
}

/// Yes only for a clear yes.
pub async fn confirm(text: &str) -> bool {
    let answer = ask(&format!("{text} [y/N] ")).await.unwrap_or_default();
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// One line from the person; `None` at the end of input.
pub async fn ask(prompt: &str) -> Option<String> {
    let prompt = prompt.to_owned();
    let (sender, line) = tokio::sync::oneshot::channel();
    // A thread of its own: nobody can take a waiting read back, and the process must end all the same.
    std::thread::spawn(move || {
        let mut out = std::io::stderr();
        let _ = out.write_all(prompt.as_bytes());
        let _ = out.flush();
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line).ok().filter(|&length| length > 0).map(|_| line);
        let _ = sender.send(read);
    });
    line.await.ok().flatten()
}

/// Everything a person says yes to, with nothing hidden in it.
pub fn show_call(reason: &str, tool: &str, arguments: &Map<String, Value>) {
    note(&format!("{}: {}", visible(reason), call_line(tool, arguments)));
    for (name, value) in arguments {
        // The model chose the name as well.
        let name = visible(name).replace('\n', " ");
        let text = match value {
            Value::String(text) => text.clone(),
            other => serde_json::to_string_pretty(other).unwrap_or_default(),
        };
        let lines: Vec<&str> = text.lines().collect();
        for line in lines.iter().take(MAX_SHOWN_LINES) {
            note(&format!("  {name}| {}", visible(line)));
        }
        if lines.len() > MAX_SHOWN_LINES {
            note(&format!("  {name}| … {} more lines", lines.len() - MAX_SHOWN_LINES));
        }
    }
}

/// A line for the person, if the event is worth one.
pub fn line_of(event: &HandsEvent) -> String {
    match event {
        HandsEvent::Started { call, arguments } => call_line(call.tool.as_str(), arguments),
        HandsEvent::Finished { call, success: true, .. } => format!("{} done", call.tool.as_str()),
        HandsEvent::Finished { call, error, .. } => {
            format!("{} failed: {}", call.tool.as_str(), visible(error.as_deref().unwrap_or("see its result")))
        }
        HandsEvent::Refused { call, reason } => format!("{} not run: {}", call.tool.as_str(), visible(reason)),
        HandsEvent::Closed { call } => format!("{} was withdrawn", call.tool.as_str()),
        HandsEvent::Unknown { call } => format!(
            "{} was running when codelab ended before: its outcome is unknown, it is not run again",
            call.tool.as_str()
        ),
        HandsEvent::Disconnected { reason } => format!("lost the server, trying again: {}", visible(reason)),
        HandsEvent::Reconnected => "the server is back".to_owned(),
        HandsEvent::Ended { reason } => format!("the server refuses: {}", visible(reason)),
    }
}

/// A call in one line, with nothing hidden in it.
pub fn call_line(tool: &str, arguments: &Map<String, Value>) -> String {
    let told = ["command", "path", "query"].iter().find_map(|name| arguments.get(*name)).and_then(Value::as_str);
    let told = visible(told.unwrap_or_default());
    let cut: String = told.chars().take(MAX_SHOWN_CHARS).collect();
    let more = if cut.len() < told.len() { "…" } else { "" };
    format!("{tool} {cut}{more}").trim_end().to_owned()
}
