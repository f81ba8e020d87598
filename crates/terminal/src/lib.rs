//! The person's side of the command line: the chat in a terminal, and the hands that run tool calls
//! in a workspace.
//!
//! It talks to a server through `codelab-client` alone, and never knows whether that server is in
//! the same process.

mod repeat;
mod tool_runner;
pub mod ui;

pub use repeat::{PATIENT, repeated};
pub use tool_runner::{
    CallInfo, RunnerQuestion, ServedCalls, ToolRunner, ToolRunnerError, ToolRunnerEvent,
    ToolRunnerOptions,
};
