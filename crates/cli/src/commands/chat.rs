//! `codelab chat`: talk to your agents in a terminal, with their tools in a folder of yours.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use codelab_protocol::{ApproveMode, SessionId};
use codelab_server::{STOP_GRACE, Server};
use codelab_terminal::ui::{self, ChatEnd, StartWith, UiOptions, WorkPlace};
use codelab_terminal::{CommandText, Language, MemoryText, Text};
use codelab_toolrunner::{ServedCalls, ToolRunner};
use codelab_workspace::{Launcher, Workspace, WorkspaceOptions};
use tokio::sync::mpsc;

use super::connection::{ServerConnection, ServerTarget, WhenMissing, quoted};
use super::note;
use super::tool_runner::{MAX_QUESTIONS, SANDBOX_EXEC, SessionApprove, ToolRunnerFlags};
use crate::logs;

/// The folder that the person is in.
const HERE: &str = ".";
const NOT_FOUND: u16 = 404;
const LOG_FILE: &str = "chat.log";
/// How long the end of the server may take without a word.
const SILENT_STOP: Duration = Duration::from_secs(1);
/// The exit code when the lines of a script have ended and something waits for a decision.
const UNDECIDED: u8 = 3;

/// Exit codes: 0 left · 1 failed · 3 the input ended while something waited for a decision
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 left, 1 failed, 2 wrong usage, 3 the input ended while something waited \
                  for a decision"
)]
pub struct ChatCommand {
    /// The folder your agents work in; they cannot change anything outside of it
    #[arg(long, value_name = "DIR", default_value = HERE)]
    workspace: PathBuf,
    /// Continue this session
    #[arg(long, value_name = "ID", value_parser = session_id)]
    session: Option<SessionId>,
    /// Continue the newest session of this folder
    #[arg(long = "continue", short = 'c', conflicts_with_all = ["session", "resume"])]
    newest: bool,
    /// Choose an earlier session from a list, or continue the one with this id
    #[arg(
        long,
        value_name = "ID",
        num_args = 0..=1,
        value_parser = session_id,
        conflicts_with = "session"
    )]
    resume: Option<Option<SessionId>>,
    /// What passes without a question in the session
    #[arg(long, value_enum, value_name = "WHEN")]
    approve: Option<SessionApprove>,
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
            let (server, language) = (connection.server.take(), connection.language);
            let result = self.talk(connection, server.is_some()).await;
            if let Some(server) = server {
                stop(server, language).await;
            }
            result.map(|end| match end {
                ChatEnd::Left => ExitCode::SUCCESS,
                ChatEnd::Undecided => ExitCode::from(UNDECIDED),
            })
        });
        // Only a blocking read of the next line is left, and it cannot be cancelled.
        runtime.shutdown_background();
        code
    }

    async fn talk(
        mut self,
        connection: ServerConnection,
        is_own_server: bool,
    ) -> anyhow::Result<ChatEnd> {
        let place = WorkPlace {
            data_dir: connection.data_dir.clone(),
            server: server_of(&connection),
            folder: std::fs::canonicalize(&self.workspace)
                .with_context(|| format!("the folder {}", self.workspace.display()))?,
        };
        let start = self.start(&connection, &place).await?;
        if let (StartWith::Session(session), None) = (&start, self.tool_runner.project) {
            let detail = connection.client.project_session(session).await?;
            self.tool_runner.project = Some(detail.session.project_id);
        }
        let (flags, folder_flag) = (self.target.flags(), self.folder_flag(&place));
        let (ask, questions) = mpsc::channel(MAX_QUESTIONS);
        let tool_runner = self
            .tool_runner
            .start(&connection, self.workspace, ServedCalls::Named, Some(ask))
            .await?;
        let options = WorkspaceOptions {
            data_dir: Some(place.data_dir.clone()),
            ..WorkspaceOptions::new(Launcher::current([SANDBOX_EXEC])?)
        };
        let preview = Workspace::open(tool_runner.workspace(), options)?;
        let mut welcome = welcome(&connection, &tool_runner, is_own_server).await;
        if place.has_others() {
            let told = connection.language.text(MemoryText::OtherFolders);
            welcome.push(told.to_owned());
        }
        let client = connection.client.clone();
        Ok(ui::run(UiOptions {
            client,
            tool_runner,
            questions,
            preview,
            start,
            place,
            flags,
            folder_flag,
            approve: self.approve.map(ApproveMode::from),
            is_own_server,
            welcome,
            language: connection.language,
        })
        .await?)
    }

    /// Which session to begin with. A session that was deleted is passed over.
    async fn start(
        &self,
        connection: &ServerConnection,
        place: &WorkPlace,
    ) -> anyhow::Result<StartWith> {
        if let Some(session) = self.session.clone().or(self.resume.clone().flatten()) {
            return Ok(StartWith::Session(session));
        }
        if self.resume.is_some() {
            if !ui::has_screen() {
                bail!(connection.language.text(Text::PickNeedsTerminal));
            }
            return Ok(StartWith::Choice);
        }
        if !self.newest {
            return Ok(StartWith::New);
        }
        for session in place.sessions() {
            match connection.client.project_session(&session).await {
                Ok(_) => return Ok(StartWith::Session(session)),
                Err(error) if error.status() == Some(NOT_FOUND) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let folder = place.folder.display().to_string();
        bail!(connection.language.with(Text::NoSessionHere, &[&folder]))
    }

    /// What leads another command to the same folder.
    fn folder_flag(&self, place: &WorkPlace) -> String {
        match self.workspace == Path::new(HERE) {
            true => String::new(),
            false => format!(" --workspace {}", quoted(&place.folder.to_string_lossy())),
        }
    }
}

/// Says what it waits for, unless that ends at once.
async fn stop(server: Server, language: Language) {
    let stopped = server.stop();
    tokio::pin!(stopped);
    tokio::select! {
        () = &mut stopped => return,
        () = tokio::time::sleep(SILENT_STOP) => {}
    }
    let most = STOP_GRACE.as_secs().to_string();
    note(&language.with(CommandText::StoppingServer, &[&most]));
    stopped.await;
}

/// The server and the user: sessions are one user's alone.
fn server_of(connection: &ServerConnection) -> String {
    match connection.user_id {
        Some(user) => format!("{} user {user}", connection.name),
        None => connection.name.clone(),
    }
}

/// The server, the folder, the sandbox and the model, in a few lines.
async fn welcome(
    connection: &ServerConnection,
    tool_runner: &ToolRunner,
    is_own_server: bool,
) -> Vec<String> {
    let language = connection.language;
    let server = match is_own_server {
        true => language.text(Text::OwnServer),
        false => &connection.url,
    };
    let wall = match tool_runner.sandbox() {
        "none" => language.text(Text::NoSandbox).to_owned(),
        sandbox => language.with(Text::InSandbox, &[sandbox]),
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
        lines.push(language.with(Text::ModelIs, &[&detail]));
    }
    lines
}

fn session_id(text: &str) -> Result<SessionId, String> {
    SessionId::parse(text).map_err(|error| error.to_string())
}
