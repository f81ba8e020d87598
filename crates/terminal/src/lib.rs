//! The person's side of the command line: the chat in a terminal, and the hands that run tool calls
//! in a workspace.
//!
//! It talks to a server through `codelab-client` alone, and never knows whether that server is in
//! the same process.

pub mod chat;
mod hands;
mod repeat;

pub use hands::{CallInfo, Hands, HandsError, HandsEvent, HandsOptions, Question, Serves};
pub use repeat::{PATIENT, repeated};
