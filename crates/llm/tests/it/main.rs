//! The model client against a scripted server over real HTTP.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod anthropic;
mod contract;
mod failures;
mod files;
mod harness;
mod honesty;
mod providers;
mod requests;
