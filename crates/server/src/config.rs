//! Settings: `codelab.toml`, then the environment, then flags. A wrong one stops the start and is
//! named.

mod checked;
mod file;
mod hint;
mod origin;
mod shown;
mod sources;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use codelab_engine::{AgentMode, ChatLimits, Locale, PromptLimits, Region, SessionLimits};
use codelab_llm::{ModelFacts, PriceTable, ProviderConfig, Secret};
use codelab_policy::Policy;
use codelab_runtime::{Failpoint, Retention, ShareLimits};
use codelab_store::DatabaseUrl;
use codelab_transport::NetworkOptions;
use serde::{Deserialize, Serialize};

use self::file::File;
use self::sources::Merged;

pub use hint::ModelHint;
pub use origin::HttpOrigin;
pub use shown::{Explained, ShownSetting};
pub use sources::{Flags, Source};

/// Why the server cannot start with these settings: one line that names the setting.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {why}")]
pub struct ConfigError {
    pub setting: String,
    pub why: String,
}

/// Everything that can be set, checked.
#[derive(Debug)]
pub struct Settings {
    pub addr: SocketAddr,
    pub data_dir: PathBuf,
    pub database: DatabaseUrl,
    pub mode: AgentMode,
    pub limits: SessionLimits,
    /// What needs a person's approval, on the server and in tool runners that read these settings.
    pub policy: Policy,
    pub sandbox: SandboxSettings,
    pub mcp: McpSettings,
    pub prompt: PromptLimits,
    pub region: Region,
    /// The page's language until a person chooses another; without a setting, the browser's.
    pub page_locale: Option<Locale>,
    pub log_prompts: bool,
    pub body_bytes: usize,
    /// How much of the server one user may have.
    pub shares: ShareLimits,
    pub llm: LlmSettings,
    pub http: HttpSettings,
    pub internal_api_key: Option<Secret>,
    pub jwt_secret: Option<Secret>,
    /// Of all outgoing connections.
    pub network: NetworkOptions,
    pub master_key: Option<Secret>,
    pub jwt: JwtSettings,
    /// Where the other servers of the installation reach this one; none if it is alone.
    pub cluster_address: Option<HttpOrigin>,
    pub retention: Retention,
    pub spaces: SpaceSettings,
    pub chat: ChatSettings,
    /// For crash tests (`CODELAB_FAILPOINT`).
    pub failpoint: Failpoint,
}

/// For the clients that run commands and read these settings; the server itself runs none.
#[derive(Debug, Clone, Default)]
pub struct SandboxSettings {
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub file_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    pub cpu_seconds: Option<u64>,
    /// Folders that commands may read beside the workspace and the known toolchains.
    pub readable: Vec<PathBuf>,
}

/// MCP servers that the server calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct McpSettings {
    /// Whether addresses of this machine and of private networks may be called.
    pub allow_private: bool,
}

/// The global Chat.
#[derive(Debug)]
pub struct ChatSettings {
    pub access: ChatAccess,
    pub limits: ChatLimits,
}

/// Which users the global Chat is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatAccess {
    #[default]
    All,
    Admin,
    /// For nobody, other programs included.
    Off,
}

/// Worker spaces and what they share.
#[derive(Debug)]
pub struct SpaceSettings {
    pub redis_url: Option<Secret>,
    pub cache_ttl_seconds: u64,
    pub idle_timeout_seconds: u64,
    /// A Qdrant server instead of the memory engine inside the process.
    pub qdrant_url: Option<String>,
    pub qdrant_api_key: Option<Secret>,
    /// Asked at the model's address; without one memory is searched by words alone.
    pub embedding_model: Option<String>,
}

#[derive(Debug)]
pub struct LlmSettings {
    /// A model is configured exactly when this or a provider is set.
    pub proxy_url: Option<String>,
    /// `[providers.NAME]`, with their keys.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// For agents that name none themselves.
    pub fallback_models: Vec<String>,
    /// `models.<name>`.
    pub facts: BTreeMap<String, ModelFacts>,
    /// What a person set who seems to want a model, where none is configured.
    pub hint: Option<ModelHint>,
    pub model: Option<String>,
    pub model_override: Option<String>,
    pub api_key: Option<Secret>,
    pub send_internal_key: bool,
    pub model_map: BTreeMap<String, String>,
    pub prices: PriceTable,
    pub timeout_seconds: u64,
    pub idle_timeout_seconds: u64,
    /// Waits that the model server announced; a longer one fails the call at once.
    pub rate_limit_wait_seconds: u64,
}

#[derive(Debug, Clone)]
pub struct HttpSettings {
    pub public_url: Option<HttpOrigin>,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<HttpOrigin>,
    /// A reader that takes nothing for this long is cut.
    pub write_timeout_seconds: u64,
}

/// How users' tokens are signed.
#[derive(Debug, Clone, Default)]
pub struct JwtSettings {
    pub algorithm: JwtAlgorithm,
    /// PEM; for the algorithms with a public key.
    pub public_key_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JwtAlgorithm {
    /// With `JWT_SECRET`.
    #[default]
    Hs256,
    Rs256,
    Es256,
}

impl JwtAlgorithm {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }
}

/// The embedded database, in the data folder.
pub(crate) const DEFAULT_DATABASE: &str = "codelab.db";
/// The model of agents that name none.
pub(crate) const DEFAULT_MODEL: &str = "gpt-4";

impl Settings {
    /// Reads the file, the environment and the flags, later ones winning.
    pub fn load(
        flags: Flags,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        Self::explain(flags, environment).settings
    }

    /// The same, with every setting and where it comes from, for people who look for a mistake.
    pub fn explain(flags: Flags, environment: impl Iterator<Item = (String, String)>) -> Explained {
        let environment: BTreeMap<String, String> = environment.collect();
        let (data_dir, source) = match sources::data_dir(&flags, &environment) {
            Ok(found) => found,
            Err(error) => {
                return Explained {
                    settings: Err(error),
                    shown: Vec::new(),
                    data_dir: None,
                };
            }
        };
        let read = || {
            let merged = sources::merged(&flags, &environment, &data_dir)?;
            let file = parse(&merged)?;
            let shown = shown::all(&file, &merged, (&data_dir, source), &environment);
            Ok((file, shown))
        };
        match read() {
            Ok((file, shown)) => {
                let settings = file.checked(data_dir.clone(), &environment);
                Explained {
                    settings,
                    shown,
                    data_dir: Some(data_dir),
                }
            }
            Err(error) => Explained {
                settings: Err(error),
                shown: Vec::new(),
                data_dir: Some(data_dir),
            },
        }
    }

    /// Whether other machines can reach the server.
    pub fn is_exposed(&self) -> bool {
        !self.addr.ip().is_loopback()
    }
}

fn parse(merged: &Merged) -> Result<File, ConfigError> {
    serde_path_to_error::deserialize(toml::Value::Table(merged.table.clone())).map_err(|error| {
        let setting = match error.path().to_string() {
            path if path == "." => "settings".to_owned(),
            path => path,
        };
        // What a parser says of a wrong value quotes it, and this one may be a secret.
        let why = match setting.ends_with("api_key") {
            true => "must be a text".to_owned(),
            false => error.into_inner().to_string(),
        };
        ConfigError {
            setting,
            why: why.lines().next().unwrap_or_default().to_owned(),
        }
    })
}

/// What is wrong with the database's address; most people set it by its plain name.
pub(crate) fn wrong_database(why: &str) -> ConfigError {
    wrong("database.url", &format!("{why} (check DATABASE_URL)"))
}

pub(crate) fn wrong(setting: &str, why: &str) -> ConfigError {
    ConfigError {
        setting: setting.to_owned(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests;
