//! `codelab work`: runs the tool calls of a project in a folder, for people who talk to their
//! agents elsewhere.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use codelab_protocol::AttachedClient;
use codelab_toolrunner::{ServedCalls, ToolRunner, ToolRunnerEvent};

use super::connection::{ServerTarget, WhenMissing};
use super::tool_runner::{SessionApprove, ToolRunnerFlags, at_the_terminal, in_one_line, line_of};
use super::{StopSignals, note, say};
use crate::logs;

#[derive(Args)]
pub struct WorkCommand {
    /// The folder in which tool calls run; nothing outside of it is touched
    #[arg(long, value_name = "DIR")]
    workspace: PathBuf,
    /// What passes without a question in the project's sessions from now on; without it each
    /// session keeps what was chosen for it
    #[arg(long, value_enum, value_name = "WHEN")]
    approve: Option<SessionApprove>,
    #[command(flatten)]
    tool_runner: ToolRunnerFlags,
    #[command(flatten)]
    target: ServerTarget,
}

impl WorkCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let _logs = logs::start_quiet()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let mut signals = StopSignals::new()?;
            let Some(started) = signals.unless(self.start()).await else {
                return Ok(ExitCode::SUCCESS);
            };
            let mut tool_runner = started?;
            let code = loop {
                tokio::select! {
                    event = tool_runner.next() => {
                        note(&line_of(&event));
                        if matches!(event, ToolRunnerEvent::Ended { .. }) {
                            break ExitCode::FAILURE;
                        }
                    }
                    () = signals.next() => break ExitCode::SUCCESS,
                }
            };
            tool_runner.stop().await;
            Ok(code)
        })
    }

    async fn start(self) -> anyhow::Result<ToolRunner> {
        let connection = self.target.connect(WhenMissing::Complain).await?;
        let tool_runner = self
            .tool_runner
            .approving(self.approve)
            .start(
                &connection,
                self.workspace,
                ServedCalls::Project,
                at_the_terminal(connection.language),
            )
            .await?;
        announcement(&tool_runner, &connection.url)
            .iter()
            .for_each(|line| say(line));
        // Who else is there is only told: without an answer, work begins all the same.
        if let Ok(clients) = connection.client.clients(tool_runner.project()).await {
            others(&tool_runner, &clients)
                .iter()
                .for_each(|line| say(line));
        }
        Ok(tool_runner)
    }
}

/// The folder, the project and the sandbox in which tool calls run.
pub fn announcement(tool_runner: &ToolRunner, url: &str) -> Vec<String> {
    let mut lines = vec![format!(
        "working in {} for project {} of {url}",
        tool_runner.workspace().display(),
        tool_runner.project()
    )];
    match tool_runner.sandbox() {
        "none" => {
            lines.push("sandbox: none, so every command needs an approval".to_owned());
            lines.extend(
                tool_runner
                    .sandbox_refused()
                    .iter()
                    .map(|reason| format!("         {}", reason.replace('\n', " "))),
            );
        }
        sandbox => lines.push(format!("sandbox: {sandbox}")),
    }
    if rustix::process::geteuid().is_root() {
        lines.extend(AS_ROOT.map(str::to_owned));
    }
    lines
}

/// The other folders in which the project's tool calls run, and what that means.
fn others(tool_runner: &ToolRunner, clients: &[AttachedClient]) -> Vec<String> {
    let is_other =
        |client: &&AttachedClient| client.present && client.client_id != *tool_runner.client_id();
    let mut lines: Vec<String> = clients
        .iter()
        .filter(is_other)
        .map(|client| {
            let folder = in_one_line(&client.workspace);
            format!("another tool runner of this project works in {folder}")
        })
        .collect();
    if !lines.is_empty() {
        lines.push(
            "         a session stays with the tool runner that runs its first call, so it can be \
             either folder; --project P keeps folders apart"
                .to_owned(),
        );
    }
    lines
}

const AS_ROOT: [&str; 2] = [
    "         codelab runs as root: commands lose every privilege, but own root's files in the workspace,",
    "         and a kernel bug could expose the whole machine; an ordinary user is safer",
];
