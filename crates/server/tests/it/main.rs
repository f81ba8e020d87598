//! The server as its callers meet it: real HTTP, a real scripted model, real SSE.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod abuse;
mod access;
mod approvals;
mod errors;
mod forwarding;
mod keep_alive;
mod lifecycle;
mod openapi;
mod queue;
mod raw;
mod restart;
mod results;
mod scenarios;
mod streams;
mod switching;
mod two_servers;
