//! The HTTP side of CodeLab: access, routes, streams, settings.
//!
//! It parses requests into typed values, asks the runtime, and writes answers. It decides nothing
//! about a session.

mod access;
mod address;
mod app;
mod body;
mod buffers;
mod cluster;
mod config;
mod connections;
mod docs;
mod error;
mod fields;
mod guarded;
mod listen;
mod master_key;
mod models;
mod openapi;
mod page;
mod path;
mod private;
mod routes;
mod secrets;
mod serve;
mod sse;
mod unread;
mod users;

pub use config::{
    ConfigError, Explained, Flags, JwtAlgorithm, JwtSettings, ModelHint, SandboxSettings, Settings,
    ShownSetting, Source,
};
pub use master_key::{MasterKey, audit_sealed_file};
pub use openapi::openapi_json;
pub use private::private_data_folder;
pub use routes::check_agent;
pub use secrets::{Secrets, SecretsError};
pub use serve::{
    STOP_GRACE, Server, StartError, default_model, embedded_memory, living_url, memory,
    model_config,
};
pub use users::{Identity, LoginTicket, SignError, UserRole, sign_token};
