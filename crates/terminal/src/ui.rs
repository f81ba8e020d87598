//! `codelab chat`: one session in a terminal.
//!
//! `state` (what is shown), `prompt` (what a key means) and `render` (how it looks) are pure and know
//! no terminal. `talk` is the loop that feeds them. Only `screen` writes to the terminal.

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

use crate::Language;

pub struct UiOptions {
    pub client: Client,
    pub tool_runner: ToolRunner,
    /// What the tool runner asks at this machine.
    pub questions: mpsc::Receiver<RunnerQuestion>,
    /// The same folder, for previews. Reading through it does not count as read by the model.
    pub preview: Workspace,
    /// The session to continue; `None` starts a new one.
    pub session: Option<SessionId>,
    /// Where the input history is saved.
    pub data_dir: PathBuf,
    /// The first lines on the screen.
    pub welcome: Vec<String>,
    /// The language of texts and errors.
    pub language: Language,
}

#[derive(Debug, thiserror::Error)]
pub enum UiError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the terminal: {0}")]
    Terminal(#[from] std::io::Error),
}

/// Runs until the person leaves. Then it stops the tool runner.
pub async fn run(options: UiOptions) -> Result<(), UiError> {
    talk::Talk::run(options).await
}
