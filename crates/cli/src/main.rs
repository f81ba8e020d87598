//! The `codelab` binary: parses the command line, runs one command, says in one line why it could
//! not.

mod commands;
mod import;
mod logs;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use commands::{
    agents, audit, backup, chat, cluster, completions, config, doctor, exec, health, login_link,
    mcp, memory, serve, token, trust, work,
};

/// A turn makes many small blocks, and often another thread frees them; see ADR 20.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A self-hosted runtime where a team of AI agents works on your code.
#[derive(Parser)]
#[command(version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the server
    Serve(serve::ServeCommand),
    /// Talk to your agents in this terminal
    Chat(chat::ChatCommand),
    /// Run the tool calls of a project in a folder of this machine
    Work(work::WorkCommand),
    /// Do one task and end, for scripts
    Exec(exec::ExecCommand),
    /// Look at what a folder brings for CodeLab, such as .mcp.json, and trust it
    Trust(trust::TrustCommand),
    /// Work with MCP servers, whose tools your agents can use
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// Check that everything CodeLab needs works, and say what to do where it does not
    #[command(after_help = doctor::EXIT_CODES)]
    Doctor(doctor::DoctorCommand),
    /// Look at the settings
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print a token for a user of this server
    Token(token::TokenCommand),
    /// Print a link that logs a user in on the web page, once, within ten minutes
    LoginLink(login_link::LoginLinkCommand),
    /// Work with the agents of a project
    #[command(subcommand)]
    Agents(agents::AgentsCommand),
    /// Work with what agents remember
    #[command(subcommand)]
    Memory(memory::MemoryCommand),
    /// Look into the audit log
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Work with the servers of an installation
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Say whether the server of the data folder is ready; the exit code is 0 if it is
    Health(health::HealthCommand),
    /// Copy the embedded database into one file, also while the server runs
    Backup(backup::BackupCommand),
    /// Replace the embedded database with a backup, while the server is stopped
    Restore(backup::RestoreCommand),
    /// Print completions for a shell, to be kept where it looks for them
    Completions(completions::CompletionsCommand),
    /// Print the manual page, of one command if it is named
    #[command(hide = true)]
    Man(completions::ManCommand),
    /// Run one command behind the sandbox; started by this program itself
    #[command(hide = true)]
    SandboxExec,
    /// Own the processes of one MCP server; started by this program itself
    #[command(hide = true)]
    McpExec(McpExecCommand),
}

#[derive(clap::Args)]
struct McpExecCommand {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<std::ffi::OsString>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve(command) => command.run(),
        Command::Chat(command) => command.run(),
        Command::Work(command) => command.run(),
        Command::Exec(command) => command.run(),
        Command::Trust(command) => command.run(),
        Command::Mcp(command) => command.run(),
        Command::SandboxExec => Ok(codelab_workspace::sandbox_exec()),
        Command::McpExec(command) => Ok(codelab_mcp::supervise(command.arguments)),
        Command::Doctor(command) => command.run(),
        Command::Config(command) => command.run(),
        Command::Completions(command) => command.run(Cli::command()),
        Command::Man(command) => command.run(Cli::command()),
        Command::Token(command) => command.run(),
        Command::LoginLink(command) => command.run(),
        Command::Agents(command) => command.run(),
        Command::Memory(command) => command.run(),
        Command::Audit(command) => command.run(),
        Command::Cluster(command) => command.run(),
        Command::Health(command) => command.run(),
        Command::Backup(command) => command.run(),
        Command::Restore(command) => command.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            commands::print_error(&error);
            ExitCode::FAILURE
        }
    }
}
