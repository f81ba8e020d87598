//! What users meet over real HTTP: tokens, logins, projects, their agents and worker spaces.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agents;
mod global_chat;
mod isolation;
mod keys;
mod kit;
mod login;
mod mcp;
mod mcp_servers;
mod projects;
mod redis;
mod routes;
mod service;
mod shared;
mod shares;
mod spaces;
mod tokens;
