//! `codelab chat`: one session in a terminal.
//!
//! `state` (what is shown), `prompt` (what a key means) and `render` (how it looks) are pure and know
//! no terminal. `talk` is the loop that feeds them. Only `screen` writes to the terminal.

mod allowed;
mod approve;
mod block;
mod brought;
mod command;
mod compact;
mod complete;
mod custom;
mod decide;
mod diff;
mod edit;
mod editor;
mod export;
mod files;
mod fork;
mod highlight;
mod history;
mod kept;
mod keys;
mod lines;
mod markdown;
mod mention;
mod paste;
mod picker;
mod places;
mod plan;
mod preview;
mod prompt;
mod remembered;
mod render;
mod requests;
mod rewind;
mod screen;
mod sessions;
mod shell;
mod state;
mod surface;
mod talk;
mod text;
mod transcript;
mod visible;

use std::io::IsTerminal as _;

use codelab_client::{Client, ClientError};
use codelab_protocol::{ApproveMode, SessionId};
use codelab_toolrunner::{RunnerQuestion, ToolRunner};
use codelab_workspace::Workspace;
use tokio::sync::mpsc;

use crate::Language;

pub use places::WorkPlace;
pub use preview::{WriteShown, write_preview};

pub struct UiOptions {
    pub client: Client,
    pub tool_runner: ToolRunner,
    /// What the tool runner asks at this machine.
    pub questions: mpsc::Receiver<RunnerQuestion>,
    /// The same folder, for previews. Reading through it does not count as read by the model.
    pub preview: Workspace,
    pub start: StartWith,
    /// The folder, and where its sessions and the input history are remembered.
    pub place: WorkPlace,
    /// The flags that lead another command to the same server, each after a space.
    pub flags: String,
    /// The same for the folder; empty for the one that the person is in.
    pub folder_flag: String,
    /// What passes without a question, where the person said so.
    pub approve: Option<ApproveMode>,
    /// The server ends with this program.
    pub is_own_server: bool,
    /// The first lines on the screen.
    pub welcome: Vec<String>,
    /// The language of texts and errors.
    pub language: Language,
}

/// Which session a chat begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartWith {
    /// The first message starts a new session.
    New,
    Session(SessionId),
    /// The person chooses from a list.
    Choice,
}

/// How a chat ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatEnd {
    Left,
    /// The lines of a script have ended, and something still waits for a decision.
    Undecided,
}

#[derive(Debug, thiserror::Error)]
pub enum UiError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the terminal: {0}")]
    Terminal(#[from] std::io::Error),
}

/// A text for standard error, broken between words where that is a terminal.
pub fn wrapped(text: &str) -> Vec<String> {
    let is_terminal = std::io::stderr().is_terminal();
    let width = match is_terminal {
        true => screen::Screen::size().0,
        false => usize::MAX,
    };
    let rows = text::fitting(&text::TextLine::plain(text), width);
    rows.iter().map(text::TextLine::to_text).collect()
}

/// Whether there is a terminal to draw on and to read keys from.
pub fn has_screen() -> bool {
    surface::has_screen()
}

/// Runs until the person leaves. Then it stops the tool runner.
pub async fn run(options: UiOptions) -> Result<ChatEnd, UiError> {
    talk::Talk::run(options).await
}
