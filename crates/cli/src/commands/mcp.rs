//! `codelab mcp`: the MCP servers of this machine, and what a project thinks of their tools.

mod accept;
mod add;
mod list;
mod test;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use codelab_protocol::McpServerName;
use codelab_terminal::{Language, McpText};
use codelab_toolrunner::{ConfiguredServers, McpNotice, OwnConfig, TrustStore};

use super::connection::quoted;
use super::tool_runner::in_one_line;
use super::{note, say};

pub use list::status_text;

/// The hidden command that owns the processes of an MCP server.
pub const MCP_EXEC: &str = "mcp-exec";

#[derive(Subcommand)]
pub enum McpCommand {
    /// List the MCP servers of this machine and of the project
    List(list::ListServers),
    /// Add a server to your own configuration
    Add(add::AddServer),
    /// Remove a server from your own configuration
    Remove(RemoveServer),
    /// Start a server and list its tools
    Test(test::TriedServer),
    /// Accept the changed definitions of a server's tools
    Accept(accept::AcceptTools),
}

#[derive(Args)]
pub struct RemoveServer {
    /// The server's name
    #[arg(value_name = "NAME", value_parser = server_name)]
    name: McpServerName,
}

impl McpCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Add(add) => add.run(),
            Self::Remove(remove) => remove.run(),
            Self::List(list) => blocking(list.run()),
            Self::Test(test) => blocking(test.run()),
            Self::Accept(accept) => blocking(accept.run()),
        }
    }
}

impl RemoveServer {
    fn run(self) -> anyhow::Result<ExitCode> {
        let own = own_config()?;
        let file = own.path().display().to_string();
        if own.remove(self.name.as_str()).map_err(anyhow::Error::msg)? {
            say(&format!("{} is removed from {file}", self.name));
            Ok(ExitCode::SUCCESS)
        } else {
            note(&format!("{file} has no server {}", self.name));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn blocking(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

pub fn server_name(text: &str) -> Result<McpServerName, String> {
    McpServerName::parse(text).map_err(|error| error.to_string())
}

/// A variable of this process's environment.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn own_config() -> anyhow::Result<OwnConfig> {
    OwnConfig::find(variable).context("there is no home folder: set HOME or XDG_CONFIG_HOME")
}

/// The person's own servers; none without a home folder.
pub fn own_servers() -> Option<OwnConfig> {
    OwnConfig::find(variable)
}

/// The file of the person's own servers. Tools must not read it, because it can hold secrets.
pub fn own_file() -> Option<PathBuf> {
    own_servers().map(|own| own.path().to_owned())
}

/// The servers that a tool runner in this folder starts. `workspace` is its real path.
pub fn configured(workspace: &Path, data_dir: &Path) -> ConfiguredServers {
    let own = own_servers();
    let trust = TrustStore::new(data_dir);
    ConfiguredServers::read(own.as_ref(), workspace, &trust, variable)
}

/// The flag that leads `codelab trust` to the folder, after a space; nothing for the one that the
/// person is in.
pub fn workspace_flag(workspace: &Path, given: &Path) -> String {
    match given == Path::new(".") {
        true => String::new(),
        false => format!(" --workspace {}", quoted(&workspace.to_string_lossy())),
    }
}

/// What a person should know before the servers start, one line each.
pub fn notice_lines(
    notices: &[McpNotice],
    workspace: &Path,
    given: &Path,
    language: Language,
) -> Vec<String> {
    let flag = workspace_flag(workspace, given);
    let line = |notice: &McpNotice| match notice {
        McpNotice::Untrusted { path } => language.with(McpText::Untrusted, &[path, &flag]),
        McpNotice::Changed { path } => language.with(McpText::Changed, &[path, &flag]),
        McpNotice::Unusable { reason } => language.with(McpText::Unusable, &[&in_one_line(reason)]),
        McpNotice::Overridden { name } => language.with(McpText::Overridden, &[name.as_str()]),
        McpNotice::Ignored { file, what } => {
            language.with(McpText::Ignored, &[&in_one_line(file), &in_one_line(what)])
        }
    };
    notices.iter().map(line).collect()
}
