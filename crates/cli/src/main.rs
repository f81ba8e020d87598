//! The `codelab` binary: parses the command line, runs one command, says in one line why it could not.

mod commands;
mod import;
mod logs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{agents, audit, backup, login_link, serve, token};

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
    Serve(serve::Serve),
    /// Print a token for a user of this server
    Token(token::Token),
    /// Print a link that logs a user in on the web page, once, within ten minutes
    LoginLink(login_link::LoginLink),
    /// Work with the agents of a project
    #[command(subcommand)]
    Agents(agents::Agents),
    /// Look into the audit log
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Copy the embedded database into one file, also while the server runs
    Backup(backup::Backup),
    /// Put a backup in the place of the embedded database, while the server is stopped
    Restore(backup::Restore),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve(command) => command.run(),
        Command::Token(command) => command.run(),
        Command::LoginLink(command) => command.run(),
        Command::Agents(command) => command.run(),
        Command::Audit(command) => command.run(),
        Command::Backup(command) => command.run(),
        Command::Restore(command) => command.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            commands::complain(&error);
            ExitCode::FAILURE
        }
    }
}
