//! What users meet over real HTTP: tokens, logins, projects and their agents.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agents;
mod isolation;
mod keys;
mod kit;
mod login;
mod projects;
mod routes;
mod tokens;
