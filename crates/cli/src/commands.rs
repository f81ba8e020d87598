//! One file per command.

pub mod agents;
pub mod audit;
pub mod backup;
pub mod login_link;
pub mod serve;
pub mod token;

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use codelab_protocol::Timestamp;
use codelab_server::{Flags, Identity, JwtAlgorithm, Secrets, Settings, sign_token};

/// Where the server's settings and data are; the same for every command.
#[derive(Args, Clone)]
pub struct Place {
    /// Settings file; by default codelab.toml in the data folder
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder for the database and the secrets [env: CODELAB_DATA_DIR] [default: ~/.local/share/codelab]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

impl Place {
    pub fn settings(&self, addr: Option<String>) -> anyhow::Result<Settings> {
        let flags = Flags { config: self.config.clone(), addr, data_dir: self.data_dir.clone() };
        // Variables that are not text cannot be settings.
        let environment = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        Ok(Settings::load(flags, environment)?)
    }
}

/// A token for a server of this machine, signed with its secret.
pub fn local_token(settings: &Settings, identity: &Identity, seconds: u64) -> anyhow::Result<String> {
    if settings.jwt.algorithm != JwtAlgorithm::Hs256 {
        let algorithm = settings.jwt.algorithm.as_str();
        bail!("auth.jwt_algorithm is {algorithm}: tokens come from whoever has the private key");
    }
    let secrets = Secrets::load(settings)?;
    Ok(sign_token(identity, &secrets.jwt_secret, now(), seconds)?)
}

pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// One line for a person; causes are in the same line.
#[allow(clippy::print_stderr)]
pub fn complain(error: &anyhow::Error) {
    eprintln!("codelab: {}", format!("{error:#}").replace('\n', " "));
}

#[allow(clippy::print_stdout)]
pub fn say(text: &str) {
    println!("{text}");
}
