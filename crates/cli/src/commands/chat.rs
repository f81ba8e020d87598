//! `codelab chat`: talk to your agents in a terminal, with their tools in a folder of yours.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use codelab_protocol::SessionId;
use codelab_terminal::ui::{self, UiOptions};
use codelab_toolrunner::{ServedCalls, ToolRunner};
use codelab_workspace::{Launcher, Workspace, WorkspaceOptions};
use tokio::sync::mpsc;

use super::connection::{ServerConnection, ServerTarget, WhenMissing};
use super::tool_runner::{MAX_QUESTIONS, SANDBOX_EXEC, ToolRunnerFlags};
use crate::logs;

const LOG_FILE: &str = "chat.log";

#[derive(Args)]
pub struct ChatCommand {
    /// The folder your agents work in; they cannot change anything outside of it
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// Continue this session
    #[arg(long, value_name = "ID", value_parser = session_id)]
    session: Option<SessionId>,
    #[command(flatten)]
    tool_runner: ToolRunnerFlags,
    #[command(flatten)]
    target: ServerTarget,
}

impl ChatCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        // Logs go to a file, because the screen shows the session.
        let _logs = logs::start_in_file(&self.target.data_dir()?.join(LOG_FILE))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let code = runtime.block_on(async {
            let mut connection = self.target.connect(WhenMissing::Start).await?;
            let server = connection.server.take();
            let result = self.talk(connection, server.is_some()).await;
            if let Some(server) = server {
                server.stop().await;
            }
            result.map(|()| ExitCode::SUCCESS)
        });
        // Only a blocking read of the next line is left, and it cannot be cancelled.
        runtime.shutdown_background();
        code
    }

    async fn talk(
        mut self,
        connection: ServerConnection,
        is_own_server: bool,
    ) -> anyhow::Result<()> {
        if let (Some(session), None) = (&self.session, self.tool_runner.project) {
            self.tool_runner.project = Some(
                connection
                    .client
                    .project_session(session)
                    .await?
                    .session
                    .project_id,
            );
        }
        let (ask, questions) = mpsc::channel(MAX_QUESTIONS);
        let tool_runner = self
            .tool_runner
            .start(&connection, self.workspace, ServedCalls::Named, Some(ask))
            .await?;
        let data_dir = connection.data_dir.clone();
        let options = WorkspaceOptions {
            data_dir: Some(data_dir.clone()),
            ..WorkspaceOptions::new(Launcher::current([SANDBOX_EXEC])?)
        };
        let preview = Workspace::open(tool_runner.workspace(), options)?;
        let welcome = welcome(&connection, &tool_runner, is_own_server).await;
        let client = connection.client.clone();
        Ok(ui::run(UiOptions {
            client,
            tool_runner,
            questions,
            preview,
            session: self.session,
            data_dir,
            welcome,
            language: connection.language,
        })
        .await?)
    }
}

/// The server, the folder, the sandbox and the model, in a few lines.
async fn welcome(
    connection: &ServerConnection,
    tool_runner: &ToolRunner,
    is_own_server: bool,
) -> Vec<String> {
    let server = if is_own_server {
        "a server inside this program"
    } else {
        &connection.url
    };
    let wall = match tool_runner.sandbox() {
        "none" => "no sandbox: every command needs an approval".to_owned(),
        sandbox => format!("commands run in the sandbox {sandbox}"),
    };
    let mut lines = vec![
        format!("CodeLab {} · {server}", env!("CARGO_PKG_VERSION")),
        format!("{} · {wall}", tool_runner.workspace().display()),
    ];
    if let Ok(health) = connection.client.health().await
        && let Some(detail) = health
            .checks
            .get("model")
            .and_then(|check| check.detail.clone())
    {
        lines.push(format!("model: {detail}"));
    }
    lines
}

fn session_id(text: &str) -> Result<SessionId, String> {
    SessionId::parse(text).map_err(|error| error.to_string())
}
