//! The `codelab` binary: parses the command line, runs one command, says in one line why it could
//! not.

mod commands;
mod import;
mod logs;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use commands::{
    agents, audit, backup, chat, completions, config, doctor, exec, health, login_link, memory,
    serve, token, work,
};

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
    /// Talk to your agents in this terminal
    Chat(chat::Chat),
    /// Run the tool calls of a project in a folder of this machine
    Work(work::Work),
    /// Do one task and end, for scripts
    Exec(exec::Exec),
    /// Check that everything CodeLab needs works, and say what to do where it does not
    #[command(after_help = doctor::EXIT_CODES)]
    Doctor(doctor::Doctor),
    /// Look at the settings
    #[command(subcommand)]
    Config(config::Config),
    /// Print a token for a user of this server
    Token(token::Token),
    /// Print a link that logs a user in on the web page, once, within ten minutes
    LoginLink(login_link::LoginLink),
    /// Work with the agents of a project
    #[command(subcommand)]
    Agents(agents::Agents),
    /// Work with what agents remember
    #[command(subcommand)]
    Memory(memory::Memory),
    /// Look into the audit log
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Say whether the server of the data folder is ready; the exit code is 0 if it is
    Health(health::Health),
    /// Copy the embedded database into one file, also while the server runs
    Backup(backup::Backup),
    /// Put a backup in the place of the embedded database, while the server is stopped
    Restore(backup::Restore),
    /// Print completions for a shell, to be kept where it looks for them
    Completions(completions::Completions),
    /// Print the manual page, of one command if it is named
    #[command(hide = true)]
    Man(completions::Man),
    /// Run one command behind the sandbox; started by this program itself
    #[command(hide = true)]
    SandboxExec,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve(command) => command.run(),
        Command::Chat(command) => command.run(),
        Command::Work(command) => command.run(),
        Command::Exec(command) => command.run(),
        Command::SandboxExec => Ok(codelab_workspace::sandbox_exec()),
        Command::Doctor(command) => command.run(),
        Command::Config(command) => command.run(),
        Command::Completions(command) => command.run(Cli::command()),
        Command::Man(command) => command.run(Cli::command()),
        Command::Token(command) => command.run(),
        Command::LoginLink(command) => command.run(),
        Command::Agents(command) => command.run(),
        Command::Memory(command) => command.run(),
        Command::Audit(command) => command.run(),
        Command::Health(command) => command.run(),
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
