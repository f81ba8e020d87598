//! What users meet in the sessions of their projects, over real HTTP with a scripted model.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod all_sessions;
mod approvals;
mod attachments;
mod budgets;
mod compaction;
mod direct;
mod direct_turns;
mod ends;
mod erasure;
mod forks;
mod history;
mod instructions;
mod kit;
mod marks;
mod memory;
mod models;
mod modes;
mod orchestrated;
mod plans;
mod previews;
mod queue;
mod remembered;
mod repeats;
mod rewind;
mod search;
mod sessions;
mod steering;
mod stopping;
mod streams;
mod tasks;
mod tools;
mod waiting;
