//! One file per command.

pub mod agents;
pub mod audit;
pub mod backup;
pub mod chat;
pub mod cluster;
pub mod completions;
pub mod config;
pub mod connection;
pub mod doctor;
pub mod exec;
pub mod health;
pub mod login_link;
pub mod mcp;
pub mod memory;
pub mod serve;
pub mod token;
pub mod tool_runner;
pub mod trust;
pub mod work;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use codelab_client::ClientError;
use codelab_policy::visible;
use codelab_protocol::{ProjectId, Timestamp, UserId};
use codelab_server::{
    Explained, Flags, Identity, JwtAlgorithm, ModelHint, Secrets, Settings, sign_token,
};
use codelab_terminal::ui::{self, UiError};
use codelab_terminal::{Language, Text};
use codelab_toolrunner::ToolRunnerError;
use rustix::fs::Mode;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Where the server's settings and data are; the same for every command.
#[derive(Args, Clone)]
pub struct ServerPaths {
    /// Settings file; by default codelab.toml in the data folder
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder for the database and the secrets [env: CODELAB_DATA_DIR] [default:
    /// ~/.local/share/codelab]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

impl ServerPaths {
    pub fn settings(&self, addr: Option<String>) -> anyhow::Result<Settings> {
        Ok(self.explain_with(addr).settings?)
    }

    /// The settings with where each comes from, wrong or not.
    pub fn explain(&self) -> Explained {
        self.explain_with(None)
    }

    fn explain_with(&self, addr: Option<String>) -> Explained {
        let flags = Flags {
            config: self.config.clone(),
            addr,
            data_dir: self.data_dir.clone(),
        };
        // Variables that are not text cannot be settings.
        let environment = std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        Settings::explain(flags, environment)
    }
}

/// A token for a server of this machine, signed with its secret.
pub fn local_token(
    settings: &Settings,
    identity: &Identity,
    seconds: u64,
) -> anyhow::Result<String> {
    if settings.jwt.algorithm != JwtAlgorithm::Hs256 {
        let algorithm = settings.jwt.algorithm.as_str();
        bail!("auth.jwt_algorithm is {algorithm}: tokens come from whoever has the private key");
    }
    let secret = Secrets::jwt_secret_beside(settings)?;
    Ok(sign_token(identity, &secret, now(), seconds)?)
}

pub fn project_id(text: &str) -> Result<ProjectId, &'static str> {
    ProjectId::parse(text).ok_or("must be a project's number")
}

pub fn user_id(text: &str) -> Result<UserId, &'static str> {
    UserId::parse(text).ok_or("must be a user's number")
}

/// What tells this process to stop, from the moment this was made.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// What comes of this, unless a signal comes first.
    pub async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.next() => None,
        }
    }
}

/// A name that nobody else has.
pub fn random_name(prefix: &str) -> anyhow::Result<String> {
    Ok(format!(
        "{prefix}-{:016x}{:016x}",
        getrandom::u64()?,
        getrandom::u64()?
    ))
}

pub fn now() -> Timestamp {
    std::time::SystemTime::now().into()
}

/// From now on files that this process makes are its owner's alone, also those that libraries make.
/// Not for a process that runs tools: their files are a person's, with the person's own umask.
pub fn make_private_files() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Why the demonstration answers a person who wanted a model, and what to type before the command.
pub fn hint_lines(hint: &ModelHint, command: &str) -> [String; 2] {
    let why = format!("{} The demonstration answers until then.", hint.why);
    [
        why,
        format!("To use the model, type: {} {command}", hint.variables),
    ]
}

/// Of an error, what a person is shown.
const MAX_ERROR_CHARACTERS: usize = 2000;

/// Prints why a command failed. What a server answered is explained in the person's language; the
/// details below it, with all causes, are in one line.
pub fn print_error(error: &anyhow::Error) {
    let setting = std::env::var("CODELAB_LOCALE").ok();
    let language = Language::choose(setting.as_deref(), |name| std::env::var(name).ok());
    let details = shortened(&causes(error).replace('\n', " "));
    let meaning = client_error(error)
        .and_then(|error| language.error(error.error_code(), Language::status(error)));
    match meaning {
        Some(meaning) => {
            note_wrapped(&format!("codelab: {meaning}"));
            note_wrapped(&language.with(Text::ExecDetails, &[&details]));
        }
        None => note_wrapped(&format!("codelab: {details}")),
    }
}

/// The error and what caused it. Some errors name their cause themselves; it is told once.
fn causes(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        match told.is_empty() {
            true => told = cause,
            false if told.ends_with(&cause) => {}
            false => told = format!("{told}: {cause}"),
        }
    }
    told
}

fn note_wrapped(text: &str) {
    ui::wrapped(&visible(text)).iter().for_each(|row| note(row));
}

/// The failed request that caused this error.
fn client_error(error: &anyhow::Error) -> Option<&ClientError> {
    error.chain().find_map(|cause| {
        if let Some(ToolRunnerError::Client(error)) = cause.downcast_ref() {
            return Some(error);
        }
        if let Some(UiError::Client(error)) = cause.downcast_ref() {
            return Some(error);
        }
        cause.downcast_ref()
    })
}

/// A server may answer with anything, of any length.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_ERROR_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Prints progress on standard error; results go to standard output. A closed pipe is ignored. What
/// would command the terminal is shown instead.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", visible(text));
}

/// Prints a result on standard output. A closed pipe is ignored: a server runs on without a reader.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let cause = std::io::Error::other("no such folder");
        let doubled = anyhow::Error::new(cause).context("cannot open it: no such folder");
        assert_eq!(causes(&doubled), "cannot open it: no such folder");
        let single: anyhow::Result<()> = Err(anyhow::anyhow!("refused"));
        let single = single.context("the server").unwrap_err();
        assert_eq!(causes(&single), "the server: refused");
    }
}
