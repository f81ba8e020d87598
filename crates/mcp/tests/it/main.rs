//! MCP servers that behave well and badly, on pipes and over HTTP.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it skips"
)]

mod addresses;
mod calls;
mod hostile;
mod http;
mod lab;
mod leaks;
mod real;
