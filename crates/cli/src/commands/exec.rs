//! `codelab exec`: one task from a script, from the message to an exit code.

mod approve;
mod deadline;
mod run;
mod show;

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use codelab_client::ClientError;
use codelab_protocol::{
    ApproveMode, ChangeProjectSession, ClientMessageId, CreateProjectSession, ErrorCode, Patch,
    ProjectId, SendMessage, SessionId,
};
use codelab_terminal::Text;
use codelab_toolrunner::{ServedCalls, ToolRunner};
use codelab_workspace::{Launcher, Workspace, WorkspaceOptions};

use self::approve::Approver;
use self::deadline::ExecDeadline;
use self::run::{CANCELLED, Run, WRONG_USAGE};
use self::show::{EventPrinter, OutputFormat};
use super::connection::{ServerConnection, ServerTarget, WhenMissing};
use super::tool_runner::{SANDBOX_EXEC, ToolRunnerFlags};
use super::{note, random_name};
use crate::logs;

/// A task given on standard input.
const MAX_TASK_BYTES: u64 = 4 << 20;
/// How long the process waits at its end for tasks that were abandoned.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Exit codes: 0 done · 1 failed · 2 wrong usage · 3 something needed an approval that was not
/// given · 4 partly done · 130 cancelled
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 an approval was needed and not given, \
                        4 partly done, 130 cancelled"
)]
pub struct ExecCommand {
    /// The task; `-` reads it from standard input
    #[arg(value_name = "TASK")]
    task: String,
    /// The agent that gets the task; without one the task is planned
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Print every event as a line of JSON, and at the end a line of type `result`
    #[arg(long)]
    json: bool,
    /// What to do with tool calls, plans and budgets that need an approval
    #[arg(long, value_enum, value_name = "WHEN", default_value = "none")]
    approve: Approve,
    /// The folder in which tool calls run
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    #[command(flatten)]
    tool_runner: ToolRunnerFlags,
    #[command(flatten)]
    target: ServerTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Approve {
    /// Reject them
    None,
    /// Ask the person at the terminal
    Ask,
    /// Writes in the folder pass; ask the person at the terminal about the rest
    Edits,
    /// Approve all of them without asking
    All,
}

impl ExecCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let _logs = logs::start_quiet()?;
        // Before signals are handled, because a blocking read cannot be cancelled.
        let task = self.task()?;
        if task.trim().is_empty() {
            note("the task is empty");
            return Ok(ExitCode::from(WRONG_USAGE));
        }
        let message = SendMessage {
            content: Some(task),
            target_agent: self.agent.clone(),
            client_message_id: Some(ClientMessageId::parse(&random_name("exec")?)?),
            attachments: Vec::new(),
            delivery: Default::default(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let code = runtime.block_on(async {
            let mut connection = self.target.connect(WhenMissing::Start).await?;
            let mut deadline = ExecDeadline::new()?;
            let code = self.perform(&connection, &message, &mut deadline).await;
            if let Some(server) = connection.server.take() {
                deadline.wait_for(server.stop()).await;
            }
            code
        });
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        code
    }

    async fn perform(
        &self,
        connection: &ServerConnection,
        message: &SendMessage,
        deadline: &mut ExecDeadline,
    ) -> anyhow::Result<ExitCode> {
        let options = WorkspaceOptions {
            data_dir: Some(connection.data_dir.clone()),
            ..WorkspaceOptions::new(Launcher::current([SANDBOX_EXEC])?)
        };
        let preview = Workspace::open(&self.workspace, options)?;
        let approver = Approver::new(self.approve, connection.language, preview);
        let Some(begun) = deadline.unless(self.begin(connection, &approver)).await else {
            return Ok(ExitCode::from(CANCELLED));
        };
        let (tool_runner, session) = begun?;
        let show = EventPrinter {
            format: match self.json {
                true => OutputFormat::Json,
                false => OutputFormat::Text,
            },
            language: connection.language,
            asks: approver.asks(),
        };
        let project = tool_runner.project();
        let run = Run::new(
            connection.client.clone(),
            session,
            tool_runner,
            approver,
            show,
        );
        match run.finish(message, deadline).await {
            Err(error) if is_unknown_agent(&error) => {
                Err(self.with_agents(error, connection, project).await)
            }
            result => result,
        }
    }

    /// Names the agents to choose from, if the server says them.
    async fn with_agents(
        &self,
        error: anyhow::Error,
        connection: &ServerConnection,
        project: ProjectId,
    ) -> anyhow::Error {
        let (Some(wanted), Ok(agents)) =
            (&self.agent, connection.client.project_agents(project).await)
        else {
            return error;
        };
        // The short name is accepted as well.
        let short = |name: &'_ str| name.strip_prefix("agent_").unwrap_or(name).to_owned();
        let names = agents.iter().map(|agent| short(agent.name.as_str()));
        let names: Vec<String> = names.collect();
        let values = [wanted.as_str(), &names.join(", ")];
        anyhow!(connection.language.with(Text::NoSuchAgent, &values))
    }

    async fn begin(
        &self,
        connection: &ServerConnection,
        approver: &Approver,
    ) -> anyhow::Result<(ToolRunner, SessionId)> {
        let questions = Some(approver.questions());
        let tool_runner = self
            .tool_runner
            .start(
                connection,
                self.workspace.clone(),
                ServedCalls::Named,
                questions,
            )
            .await?;
        let body = CreateProjectSession {
            project_id: Some(tool_runner.project()),
            ..CreateProjectSession::default()
        };
        let session = connection
            .client
            .create_project_session(&body)
            .await?
            .session_id;
        if self.approve == Approve::Edits {
            let body = ChangeProjectSession {
                approve: Patch::Value(ApproveMode::Edits),
                ..ChangeProjectSession::default()
            };
            let client = &connection.client;
            client.change_project_session(&session, &body).await?;
        }
        tool_runner.serve(&session);
        Ok((tool_runner, session))
    }

    fn task(&self) -> anyhow::Result<String> {
        let mut text = self.task.clone();
        if text == "-" {
            text.clear();
            std::io::stdin()
                .take(MAX_TASK_BYTES)
                .read_to_string(&mut text)
                .context("standard input")?;
        }
        Ok(text)
    }
}

fn is_unknown_agent(error: &anyhow::Error) -> bool {
    let failed = error.downcast_ref::<ClientError>();
    failed.and_then(ClientError::error_code) == Some(ErrorCode::AgentNotFound)
}
