//! The engine as its users see it: scripts with their transcripts, prompts, and a simulator that
//! breaks everything it can.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says its seed"
)]

mod it {
    mod brought;
    mod chat;
    mod kit;
    mod named;
    mod prompts;
    mod recall;
    mod results;
    mod scripts;
    mod simulation;
    mod space;
}
