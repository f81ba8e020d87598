//! `codelab work`, `serve --workspace`, `exec` and `sandbox-exec` as a person starts them: real
//! processes, real files, real walls.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it skips"
)]

mod bounds;
mod exec;
mod faults;
mod https;
mod instructions;
mod lab;
mod mcp;
mod pretender;
mod refusals;
mod rewinds;
mod safe_writes;
mod serve;
mod walls;
