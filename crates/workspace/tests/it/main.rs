//! The workspace on real files, with real processes behind real walls.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking and says what it skips")]

mod commands;
mod files;
mod finding;
mod journal;
mod lab;
mod paths;
mod races;
mod walls;
