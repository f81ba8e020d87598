//! The workspace on real files, with real processes in real sandboxes.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it skips"
)]

mod bounds;
mod brought;
mod commands;
mod files;
mod finding;
mod guarded;
mod journal;
mod lab;
mod layers;
mod overlapping;
mod paths;
mod planted;
mod probe;
mod races;
mod readings;
mod remembers;
mod rewind;
mod rewind_crash;
mod walls;
