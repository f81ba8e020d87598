//! `codelab mcp list`: what is configured on this machine, and what a running server knows.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use codelab_mcp::ServerConfig;
use codelab_protocol::{
    McpPermission, McpPlace, McpServer, McpStatus, McpTool, McpToolState, ProjectId,
};
use codelab_terminal::Language;
use codelab_toolrunner::{ConfiguredServer, McpSource};

use super::super::agents::default_project;
use super::super::connection::{ServerTarget, WhenMissing};
use super::super::tool_runner::in_one_line;
use super::super::{note, project_id, say};
use super::{configured, notice_lines};

#[derive(Args)]
pub struct ListServers {
    /// The folder whose `.mcp.json` counts
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// The project's number; by default the user's default project
    #[arg(long, value_name = "P", value_parser = project_id)]
    project: Option<ProjectId>,
    #[command(flatten)]
    target: ServerTarget,
}

impl ListServers {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let folder = std::fs::canonicalize(&self.workspace)
            .with_context(|| format!("the folder {}", self.workspace.display()))?;
        let found = configured(&folder, &self.target.data_dir()?);
        notice_lines(&found.notices, &folder, &self.workspace, Language::En)
            .iter()
            .for_each(|line| note(line));
        match found.servers.as_slice() {
            [] => say("on this machine: none"),
            servers => {
                say("on this machine:");
                servers
                    .iter()
                    .for_each(|server| say(&configured_line(server)));
            }
        }
        // Without a server that runs, this machine's configuration is all there is to tell.
        let connection = match self.target.connect(WhenMissing::Complain).await {
            Ok(connection) => connection,
            Err(error) => {
                note(&format!("what a project knows is left out: {error:#}"));
                return Ok(ExitCode::SUCCESS);
            }
        };
        let project = match self.project {
            Some(project) => project,
            None => default_project(&connection.client).await?,
        };
        let servers = connection.client.mcp_servers(project).await?;
        match servers.as_slice() {
            [] => say(&format!("in project {project}: none")),
            servers => {
                say(&format!("in project {project}:"));
                let lines = servers.iter().flat_map(server_lines);
                lines.for_each(|line| say(&line));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The program without its arguments and variables, which can be secrets.
fn configured_line(server: &ConfiguredServer) -> String {
    let source = match server.source {
        McpSource::Own => "your own",
        McpSource::Workspace => "of this folder",
    };
    let what = match &server.config {
        Ok(ServerConfig::Stdio(stdio)) => {
            let hidden = match stdio.args.len() {
                0 => String::new(),
                count => format!(" (arguments, not shown: {count})"),
            };
            format!("starts {}{hidden}", in_one_line(&stdio.command))
        }
        Ok(ServerConfig::Http(http)) => {
            let url = http.url.split('?').next().unwrap_or_default();
            format!("at {}", in_one_line(url))
        }
        Err(reason) => format!("cannot be started: {}", in_one_line(reason)),
    };
    format!("  {} ({source}): {what}", server.name)
}

fn server_lines(server: &McpServer) -> Vec<String> {
    let place = match server.runs_at {
        McpPlace::Client => "at a tool runner",
        McpPlace::Server => "at the server",
    };
    let status = status_text(server.status);
    let error = server.error.as_deref().map(in_one_line);
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    let mut lines = vec![format!("  {} ({place}): {status}{error}", server.name)];
    lines.extend(server.tools.iter().map(|tool| tool_line(server, tool)));
    lines
}

pub fn status_text(status: McpStatus) -> &'static str {
    match status {
        McpStatus::Starting => "starting",
        McpStatus::Ready => "ready",
        McpStatus::Failed => "failed",
        McpStatus::Idle => "idle, the next call starts it",
        McpStatus::Unauthorized => "needs an authorization",
    }
}

fn tool_line(server: &McpServer, tool: &McpTool) -> String {
    let state = match tool.state {
        McpToolState::On => match tool.permission {
            McpPermission::Allow => "allowed without asking".to_owned(),
            McpPermission::Ask | McpPermission::Forbid => "asks".to_owned(),
        },
        McpToolState::Changed => format!(
            "off, because its definition changed; `codelab mcp accept {}` shows the difference",
            server.name
        ),
        McpToolState::Collides => "off, because another tool has the same name".to_owned(),
        McpToolState::Forbidden => "forbidden".to_owned(),
    };
    format!("    {}: {state}", in_one_line(&tool.definition.name))
}
