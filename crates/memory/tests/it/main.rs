//! Memory as its callers meet it: one contract for every engine, and what only one of them can
//! show.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skipped engine must be seen")]

mod bed;
mod contract;
mod embedded_files;
mod meaning;
mod model;
mod quality;
mod standin;
mod unreachable_server;
