//! What CodeLab survives: the real server as a process of its own, killed, stopped, starved of
//! disk, left by its readers and callers, and started again on the same data.
//!
//! Each test says in plain steps what happened and what a user must find afterwards. PostgreSQL
//! takes part when `CODELAB_TEST_POSTGRES_URL` names a server.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it measured and what it skips"
)]

mod aborted;
mod audit;
mod chat;
mod commands;
mod connections;
mod disk;
mod doctor;
mod health;
mod kills;
mod lab;
mod logs;
mod plans;
mod private;
mod process;
mod stalled;
mod stopping;
mod suspended;
mod workflows;
