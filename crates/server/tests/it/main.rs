//! The server as its callers meet it: real HTTP, a real scripted model, real SSE.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod scenarios;
