//! `codelab mcp test`: starts one server as a tool runner would, lists its tools, and ends it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use codelab_mcp::{McpLauncher, ServerHandle, ServerState};
use codelab_protocol::{McpServerName, McpStatus, ToolDefinition, offered_name};
use codelab_terminal::Language;
use codelab_toolrunner::{Redaction, start_server};

use super::super::connection::ServerTarget;
use super::super::tool_runner::in_one_line;
use super::super::{note, say};
use super::{MCP_EXEC, configured, notice_lines, server_name};

/// How the text about a server begins that will be started again.
const STARTED_AGAIN: &str = "; it is started again in ";
/// Of a description, what is shown.
const MAX_DESCRIPTION_CHARS: usize = 100;

#[derive(Args)]
pub struct TriedServer {
    /// The server's name
    #[arg(value_name = "NAME", value_parser = server_name)]
    name: McpServerName,
    /// The folder in which the server starts, and whose `.mcp.json` counts
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    #[command(flatten)]
    target: ServerTarget,
}

impl TriedServer {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let folder = std::fs::canonicalize(&self.workspace)
            .with_context(|| format!("the folder {}", self.workspace.display()))?;
        let found = configured(&folder, &self.target.data_dir()?);
        let known = found.servers.iter().find(|server| server.name == self.name);
        let Some(server) = known else {
            notice_lines(&found.notices, &folder, &self.workspace, Language::En)
                .iter()
                .for_each(|line| note(line));
            let names: Vec<&str> = found.servers.iter().map(|s| s.name.as_str()).collect();
            bail!(
                "there is no MCP server {}; the servers are: {}",
                self.name,
                names.join(", ")
            );
        };
        let config = match &server.config {
            Ok(config) => config.clone(),
            Err(reason) => bail!("{} cannot be started: {reason}", self.name),
        };
        let redaction = Redaction::of(&config);
        let launcher = McpLauncher::current([MCP_EXEC])?;
        let network = self.target.network()?;
        let (name, source) = (&server.name, server.source);
        let handle = start_server(name, source, config, &launcher, &network, &folder);
        let state = settled(&handle).await;
        handle.stop().await;
        match state.status {
            McpStatus::Ready | McpStatus::Idle => {
                say(&format!(
                    "{} is ready, tools: {}",
                    self.name,
                    state.tools.len()
                ));
                let lines = state.tools.iter().map(|tool| tool_line(&self.name, tool));
                lines.for_each(|line| say(&line));
                Ok(ExitCode::SUCCESS)
            }
            McpStatus::Starting | McpStatus::Failed | McpStatus::Unauthorized => {
                let error = state.error.as_deref().unwrap_or("it did not answer");
                // This trial has ended it.
                let error = error.split(STARTED_AGAIN).next().unwrap_or(error);
                bail!(
                    "{}: {}",
                    self.name,
                    codelab_policy::visible(&redaction.hide(error))
                )
            }
        }
    }
}

/// The state after the handshake, which has its own deadline. The first failure counts.
async fn settled(handle: &ServerHandle) -> ServerState {
    let mut watch = handle.watch();
    let settled = watch
        .wait_for(|state| state.status != McpStatus::Starting)
        .await;
    match settled {
        Ok(state) => state.clone(),
        Err(_) => handle.watch().borrow().clone(),
    }
}

fn tool_line(server: &McpServerName, tool: &ToolDefinition) -> String {
    let description = in_one_line(&tool.description);
    let cut: String = description.chars().take(MAX_DESCRIPTION_CHARS).collect();
    let more = if cut.len() < description.len() {
        "…"
    } else {
        ""
    };
    let offered = offered_name(server, &tool.name);
    format!("  {} ({offered}): {cut}{more}", in_one_line(&tool.name))
}
