//! The only crate that speaks HTTP to the outside: access, routes, streams, settings.
//!
//! It parses requests into proven types, asks the runtime, and writes answers. It decides nothing about a session.

mod access;
mod app;
mod body;
mod config;
mod error;
mod listen;
mod openapi;
mod routes;
mod secrets;
mod serve;
mod sse;

pub use config::{ConfigError, Flags, Settings};
pub use openapi::openapi_json;
pub use secrets::{Secrets, SecretsError};
pub use serve::{Server, StartError};
