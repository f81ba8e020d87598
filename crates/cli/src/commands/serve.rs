//! `codelab serve`: the server, until it is told to stop.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;

use anyhow::{Context, bail};
use clap::Args;
use codelab_protocol::UserId;
use codelab_server::Server;
use codelab_toolrunner::{ServedCalls, ToolRunner, ToolRunnerEvent};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::connection::{self, LocalServer};
use super::tool_runner::ToolRunnerFlags;
use super::{ServerPaths, StopSignals, hint_lines, make_private_files, say, work};
use crate::logs;

/// Where the system sets no limit.
pub const MAX_OPEN_FILES: u64 = 1 << 20;
pub const FEW_OPEN_FILES: u64 = 4096;

#[derive(Args)]
pub struct ServeCommand {
    /// Address to listen on [env: CODELAB_ADDR] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "IP:PORT")]
    addr: Option<String>,
    /// A folder in which the first user's tool calls run, as with `codelab work`
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    #[command(flatten)]
    tool_runner: ToolRunnerFlags,
    #[command(flatten)]
    paths: ServerPaths,
}

impl ServeCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.workspace.is_none()
            && (self.tool_runner.project.is_some() || self.tool_runner.network)
        {
            bail!("--project and --network are for tool calls: name a folder with --workspace");
        }
        let settings = self.paths.settings(self.addr.clone())?;
        let _logs = logs::start()?;
        // Tools that run here would inherit both, and make a person's files.
        if self.workspace.is_none() {
            raise_open_files();
            make_private_files();
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            // Before anybody can see that the server runs, and stop it.
            let mut signals = StopSignals::new()?;
            let server = Server::start(settings).await?;
            let said = Announcer::start();
            said.say(announcement(&server));
            said.say(login_announcement(&server).await);
            let worked = match signals.unless(self.start_tool_runner(&server, &said)).await {
                Some(Ok(tool_runner)) => {
                    work_until(tool_runner, signals).await;
                    Ok(())
                }
                Some(Err(error)) => Err(error),
                None => Ok(()),
            };
            tracing::info!("server is stopping");
            server.stop().await;
            worked.map(|()| ExitCode::SUCCESS)
        })
    }

    async fn start_tool_runner(
        &self,
        server: &Server,
        said: &Announcer,
    ) -> anyhow::Result<Option<ToolRunner>> {
        let Some(workspace) = &self.workspace else {
            return Ok(None);
        };
        let settings = self.paths.settings(self.addr.clone())?;
        let first = UserId::new(1).context("the first user has a number")?;
        let connection = connection::local(
            &settings,
            first,
            None,
            server.url(),
            LocalServer::InThisProcess,
        )?;
        // The server may not have a terminal, and its own lines are not for asking.
        let tool_runner = self
            .tool_runner
            .start(&connection, workspace.clone(), ServedCalls::Project, None)
            .await?;
        said.say(work::announcement(&tool_runner, &connection.url));
        Ok(Some(tool_runner))
    }
}

/// Every open stream is an open file, and the usual limit is for programs that have few.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some() && limit.current != limit.maximum {
        limit.current = limit.maximum.or(Some(MAX_OPEN_FILES));
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
    if let Some(limit) = getrlimit(Resource::Nofile)
        .current
        .filter(|limit| *limit < FEW_OPEN_FILES)
    {
        tracing::warn!(
            limit,
            "few files can be open at once, and each connection is one: raise it with 'ulimit -n'"
        );
    }
}

async fn work_until(tool_runner: Option<ToolRunner>, mut signals: StopSignals) {
    let Some(mut tool_runner) = tool_runner else {
        return signals.next().await;
    };
    loop {
        tokio::select! {
            event = tool_runner.next() => log(&event),
            () = signals.next() => break,
        }
    }
    tool_runner.stop().await;
}

/// Paths and commands are not logged, because a model wrote them.
fn log(event: &ToolRunnerEvent) {
    match event {
        ToolRunnerEvent::Started { call, .. } => {
            tracing::info!(session = %call.session_id, call = %call.call_id, tool = call.tool.name(), "tool call started");
        }
        ToolRunnerEvent::Finished { call, success, .. } => {
            tracing::info!(session = %call.session_id, call = %call.call_id, success, "tool call ended");
        }
        ToolRunnerEvent::Refused { call, .. }
        | ToolRunnerEvent::AskedAgain { call, .. }
        | ToolRunnerEvent::Closed { call } => {
            tracing::info!(session = %call.session_id, call = %call.call_id, "tool call not run");
        }
        ToolRunnerEvent::Unknown { call } => {
            tracing::warn!(session = %call.session_id, call = %call.call_id, "tool call outcome unknown");
        }
        ToolRunnerEvent::Progress { .. } => {}
        ToolRunnerEvent::McpServer {
            name,
            status,
            tools,
            error,
        } => match error {
            Some(error) => tracing::warn!(%name, ?status, error, "MCP server failed"),
            None => tracing::info!(%name, ?status, tools, "MCP server changed"),
        },
        ToolRunnerEvent::Brought { waiting, counted } => {
            tracing::info!(
                waiting = waiting.len(),
                counted = counted.len(),
                "the workspace brings something else now"
            );
        }
        ToolRunnerEvent::Disconnected { reason } => {
            tracing::warn!(
                reason,
                "tool runner lost its connection to the server, reconnecting"
            )
        }
        ToolRunnerEvent::Reconnected => tracing::info!("tool runner reconnected to the server"),
        ToolRunnerEvent::Ended { reason } => tracing::error!(
            reason,
            "tool runner refused by the server, no more tools are run"
        ),
    }
}

/// Writes lines for a person on a thread of its own. Where nobody reads them and the pipe is full,
/// only that thread waits: a server runs and stops all the same.
struct Announcer(mpsc::Sender<String>);

impl Announcer {
    fn start() -> Self {
        let (sender, lines) = mpsc::channel::<String>();
        std::thread::spawn(move || lines.into_iter().for_each(|line| say(&line)));
        Self(sender)
    }

    fn say(&self, lines: Vec<String>) {
        for line in lines {
            // The thread ends only with this.
            let _ = self.0.send(line);
        }
    }
}

fn announcement(server: &Server) -> Vec<String> {
    let mut lines = vec![
        format!(
            "CodeLab {} is at http://{}",
            env!("CARGO_PKG_VERSION"),
            server.addr
        ),
        format!("model: {}", server.model),
    ];
    match &server.model_hint {
        Some(hint) => lines.extend(
            hint_lines(hint, "codelab serve")
                .iter()
                .map(|line| format!("       {line}")),
        ),
        None if server.demo => {
            lines.push(
                "       set LLM_PROXY_URL (and LLM_MODEL, LLM_API_KEY) to connect a real one"
                    .to_owned(),
            );
        }
        None => {}
    }
    lines.push(match &server.secrets.internal_key_file {
        Some(path) => format!("internal key: in {}", path.display()),
        None => "internal key: as given by INTERNAL_API_KEY".to_owned(),
    });
    lines
}

/// The first user's way in. A server without it is still a server.
async fn login_announcement(server: &Server) -> Vec<String> {
    let Some(first) = UserId::new(1) else {
        return Vec::new();
    };
    match server.login_link(first).await {
        Ok(link) => vec![format!("log in: {link}")],
        Err(error) => {
            tracing::warn!(%error, "no login link could be made");
            Vec::new()
        }
    }
}
