//! The client for servers that speak the OpenAI chat format.
//!
//! `wire` is what is sent, `sse`, `chunk` and `answer` turn received bytes into an answer without
//! any I/O, `patience` bounds the waiting, `transport` owns the connections, `failure` words what
//! went wrong, and `client` joins them.

mod answer;
mod chunk;
mod client;
mod deadline;
mod failure;
mod shape;
mod sse;
mod tool_calls;
mod transport;
mod wire;

pub use client::{OpenAiModel, ServerClock, Trial};
