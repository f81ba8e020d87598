//! The client for servers that speak the OpenAI chat format.
//!
//! `wire` builds requests. `chunk` and `answer` turn received bytes into an answer, without I/O.
//! `deadline` limits waiting, `failure` describes what went wrong, and `client` connects the parts.

mod answer;
mod chunk;
mod client;
mod deadline;
mod failure;
mod shape;
mod tool_calls;
mod wire;

pub use client::{OpenAiModel, ServerClock, Trial};
