//! `codelab chat`: one session in a terminal.
//!
//! What is known (`state`), what a key means (`prompt`) and how things look (`render`) are pure and
//! know no terminal; `talk` is the loop that feeds them, `screen` the only place that writes.

mod block;
mod command;
mod decide;
mod diff;
mod editor;
mod files;
mod history;
mod keys;
mod markdown;
mod plan;
mod prompt;
mod render;
mod requests;
mod screen;
mod state;
mod surface;
mod talk;
mod text;
mod visible;

use std::path::PathBuf;

use codelab_client::{Client, ClientError};
use codelab_protocol::SessionId;
use codelab_toolrunner::{RunnerQuestion, ToolRunner};
use codelab_workspace::Workspace;
use tokio::sync::mpsc;

pub struct UiOptions {
    pub client: Client,
    pub tool_runner: ToolRunner,
    /// What the hands ask at this machine.
    pub questions: mpsc::Receiver<RunnerQuestion>,
    /// The same folder once more, for looking at files without the model having read them.
    pub preview: Workspace,
    /// The session to go on with; a new one where absent.
    pub session: Option<SessionId>,
    /// Where what the person wrote is remembered.
    pub data_dir: PathBuf,
    /// What the person is told first.
    pub welcome: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum UiError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the terminal: {0}")]
    Terminal(#[from] std::io::Error),
}

/// Talks until the person leaves; the hands are stopped then.
pub async fn run(options: UiOptions) -> Result<(), UiError> {
    talk::Talk::run(options).await
}
