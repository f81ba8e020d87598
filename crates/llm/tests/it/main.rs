//! The model client against a scripted server over real HTTP.

mod answers;
mod failures;
mod harness;
mod honesty;
mod providers;
mod requests;
