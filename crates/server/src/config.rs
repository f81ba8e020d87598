//! Settings: `codelab.toml`, then the environment, then flags. A wrong one stops the start and is named.

mod origin;
mod sources;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use codelab_engine::{ChatLimits, Limits, Locale, Mode, MultipleToolCalls, PromptLimits, Region, Zone};
use codelab_llm::{Price, PriceTable, Secret};
use codelab_runtime::{Failpoint, Retention};
use codelab_store::DatabaseUrl;
use serde::Deserialize;

pub use origin::Origin;
pub use sources::Flags;

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
    pub mode: Mode,
    pub limits: Limits,
    pub prompt: PromptLimits,
    pub region: Region,
    /// The page's language until a person chooses another; without a setting, the browser's.
    pub page_locale: Option<Locale>,
    pub log_prompts: bool,
    pub body_bytes: usize,
    pub llm: LlmSettings,
    pub http: HttpSettings,
    pub internal_api_key: Option<Secret>,
    pub jwt_secret: Option<Secret>,
    pub jwt: JwtSettings,
    pub retention: Retention,
    pub spaces: SpaceSettings,
    pub chat: ChatSettings,
    /// For crash tests (`CODELAB_FAILPOINT`).
    pub failpoint: Failpoint,
}

/// The global Chat.
#[derive(Debug)]
pub struct ChatSettings {
    pub access: ChatAccess,
    pub limits: ChatLimits,
}

/// Which users the global Chat is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
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
    /// A model is configured exactly when this is set.
    pub proxy_url: Option<String>,
    pub model: Option<String>,
    pub model_override: Option<String>,
    pub api_key: Option<Secret>,
    pub send_internal_key: bool,
    pub model_map: BTreeMap<String, String>,
    pub prices: PriceTable,
    pub timeout_seconds: u64,
    pub idle_timeout_seconds: u64,
}

#[derive(Debug, Clone)]
pub struct HttpSettings {
    pub public_url: Option<Origin>,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<Origin>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
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

/// Longer waits would leave the calendar.
const MAX_TIMEOUT_SECONDS: u64 = 10 * 366 * 24 * 60 * 60;

/// The model of agents that name none.
pub(crate) const DEFAULT_MODEL: &str = "gpt-4";

impl Settings {
    /// Reads the file, the environment and the flags, later ones winning.
    pub fn load(flags: Flags, environment: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let environment: BTreeMap<String, String> = environment.collect();
        let data_dir = sources::data_dir(&flags, &environment)?;
        let table = sources::merged(&flags, &environment, &data_dir)?;
        let file: File = serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|error| {
            let setting = match error.path().to_string() {
                path if path == "." => "settings".to_owned(),
                path => path,
            };
            // What a parser says of a wrong value quotes it, and this one may be a secret.
            let why = match setting.ends_with("api_key") {
                true => "must be a text".to_owned(),
                false => error.into_inner().to_string(),
            };
            ConfigError { setting, why: why.lines().next().unwrap_or_default().to_owned() }
        })?;
        file.checked(data_dir, &environment)
    }

    /// Whether other machines can reach the server.
    pub fn is_exposed(&self) -> bool {
        !self.addr.ip().is_loopback()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    addr: String,
    locale: Option<String>,
    multi_agent_mode: bool,
    multiple_tool_calls: Multiple,
    database: Database,
    limits: LimitsTable,
    context: ContextTable,
    llm: LlmTable,
    model_map: BTreeMap<String, String>,
    prices: BTreeMap<String, PriceRow>,
    server: ServerTable,
    auth: AuthTable,
    retention: RetentionTable,
    redis: Redis,
    qdrant: Qdrant,
    embedding: Embedding,
    agent_cache: AgentCacheTable,
    worker_space: WorkerSpaceTable,
    plan: PlanTable,
    chat: ChatTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ChatTable {
    access: ChatAccess,
    history_messages: usize,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Redis {
    url: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Qdrant {
    url: Option<String>,
    api_key: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Embedding {
    model: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AgentCacheTable {
    ttl_seconds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WorkerSpaceTable {
    idle_timeout_seconds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PlanTable {
    approval_tasks: usize,
    approval_usd: f64,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct AuthTable {
    jwt_algorithm: JwtAlgorithm,
    jwt_public_key_file: Option<PathBuf>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RetentionTable {
    session_hours: u64,
    event_days: u64,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Multiple {
    #[default]
    Reject,
    Sequence,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Database {
    url: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsTable {
    approval_timeout_seconds: u64,
    tool_result_timeout_seconds: u64,
    direct_timeout_seconds: u64,
    task_timeout_seconds: u64,
    model_timeout_seconds: u64,
    model_idle_timeout_seconds: u64,
    queue_length: usize,
    body_bytes: usize,
    steps: u32,
    switches: u32,
    repeats: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ContextTable {
    messages: usize,
    tokens: usize,
    tool_result_bytes: usize,
    timezone: String,
    log_prompts: bool,
    /// 0 = never.
    compact_tokens: u64,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct LlmTable {
    proxy_url: Option<String>,
    model: Option<String>,
    model_override: Option<String>,
    api_key: Option<String>,
    send_internal_key: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    input_per_million_usd: f64,
    output_per_million_usd: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerTable {
    public_url: Option<String>,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
    write_timeout_seconds: u64,
}

impl Default for File {
    fn default() -> Self {
        Self {
            addr: "127.0.0.1:8080".to_owned(),
            locale: None,
            multi_agent_mode: true,
            multiple_tool_calls: Multiple::default(),
            database: Database::default(),
            limits: LimitsTable::default(),
            context: ContextTable::default(),
            llm: LlmTable::default(),
            model_map: BTreeMap::new(),
            prices: BTreeMap::new(),
            server: ServerTable::default(),
            auth: AuthTable::default(),
            retention: RetentionTable::default(),
            redis: Redis::default(),
            qdrant: Qdrant::default(),
            embedding: Embedding::default(),
            agent_cache: AgentCacheTable::default(),
            worker_space: WorkerSpaceTable::default(),
            plan: PlanTable::default(),
            chat: ChatTable::default(),
        }
    }
}

impl Default for ChatTable {
    fn default() -> Self {
        Self { access: ChatAccess::default(), history_messages: ChatLimits::default().history_messages }
    }
}

impl Default for AgentCacheTable {
    fn default() -> Self {
        Self { ttl_seconds: 300 }
    }
}

impl Default for WorkerSpaceTable {
    fn default() -> Self {
        Self { idle_timeout_seconds: 1800 }
    }
}

impl Default for PlanTable {
    fn default() -> Self {
        let Limits { plan_approval_tasks, plan_approval_usd, .. } = Limits::default();
        Self { approval_tasks: plan_approval_tasks, approval_usd: plan_approval_usd }
    }
}

impl Default for LimitsTable {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            approval_timeout_seconds: limits.approval_timeout_seconds,
            tool_result_timeout_seconds: limits.tool_result_timeout_seconds,
            direct_timeout_seconds: limits.direct_timeout_seconds,
            task_timeout_seconds: limits.task_timeout_seconds,
            model_timeout_seconds: 360,
            model_idle_timeout_seconds: 60,
            queue_length: limits.queue_length,
            body_bytes: 8_388_608,
            steps: limits.steps,
            switches: limits.switches,
            repeats: limits.repeats,
        }
    }
}

impl Default for ServerTable {
    fn default() -> Self {
        Self { public_url: None, allowed_hosts: Vec::new(), allowed_origins: Vec::new(), write_timeout_seconds: 30 }
    }
}

impl Default for ContextTable {
    fn default() -> Self {
        let PromptLimits { messages, tokens, tool_result_bytes } = PromptLimits::default();
        Self { messages, tokens, tool_result_bytes, timezone: "UTC".to_owned(), log_prompts: false, compact_tokens: 0 }
    }
}

impl File {
    fn checked(self, data_dir: PathBuf, environment: &BTreeMap<String, String>) -> Result<Settings, ConfigError> {
        let limits = &self.limits;
        let positive = |setting: &str, value: u64| match value {
            0 => Err(wrong(setting, "must be more than 0")),
            _ => Ok(()),
        };
        for (setting, seconds) in [
            ("limits.approval_timeout_seconds", limits.approval_timeout_seconds),
            ("limits.tool_result_timeout_seconds", limits.tool_result_timeout_seconds),
            ("limits.direct_timeout_seconds", limits.direct_timeout_seconds),
            ("limits.task_timeout_seconds", limits.task_timeout_seconds),
            ("worker_space.idle_timeout_seconds", self.worker_space.idle_timeout_seconds),
            ("agent_cache.ttl_seconds", self.agent_cache.ttl_seconds),
            ("limits.model_timeout_seconds", limits.model_timeout_seconds),
            ("limits.model_idle_timeout_seconds", limits.model_idle_timeout_seconds),
            ("server.write_timeout_seconds", self.server.write_timeout_seconds),
        ] {
            if seconds > MAX_TIMEOUT_SECONDS {
                return Err(wrong(setting, &format!("must be at most {MAX_TIMEOUT_SECONDS} (ten years)")));
            }
        }
        positive("limits.tool_result_timeout_seconds", limits.tool_result_timeout_seconds)?;
        positive("limits.direct_timeout_seconds", limits.direct_timeout_seconds)?;
        positive("limits.task_timeout_seconds", limits.task_timeout_seconds)?;
        positive("worker_space.idle_timeout_seconds", self.worker_space.idle_timeout_seconds)?;
        positive("agent_cache.ttl_seconds", self.agent_cache.ttl_seconds)?;
        positive("chat.history_messages", self.chat.history_messages as u64)?;
        positive("plan.approval_tasks", self.plan.approval_tasks as u64)?;
        if !(self.plan.approval_usd.is_finite() && self.plan.approval_usd >= 0.0) {
            return Err(wrong("plan.approval_usd", "must be a number from 0 up"));
        }
        positive("limits.model_timeout_seconds", limits.model_timeout_seconds)?;
        positive("limits.model_idle_timeout_seconds", limits.model_idle_timeout_seconds)?;
        positive("server.write_timeout_seconds", self.server.write_timeout_seconds)?;
        positive("limits.steps", limits.steps.into())?;
        positive("limits.repeats", limits.repeats.into())?;
        positive("limits.body_bytes", limits.body_bytes as u64)?;
        positive("context.tool_result_bytes", self.context.tool_result_bytes as u64)?;
        let addr = parse_addr(&self.addr)?;
        let database = match &self.database.url {
            Some(url) => DatabaseUrl::parse(url).map_err(|error| wrong("database.url", &error.to_string()))?,
            None => DatabaseUrl::SqliteFile(data_dir.join("codelab.db")),
        };
        let page_locale = self.locale.as_deref().map(locale).transpose()?;
        let secret = |name: &str| environment.get(name).filter(|value| !value.is_empty()).map(Secret::new);
        Ok(Settings {
            addr,
            database,
            mode: if self.multi_agent_mode { Mode::Multi } else { Mode::Single },
            limits: Limits {
                steps: limits.steps,
                switches: limits.switches,
                repeats: limits.repeats,
                queue_length: limits.queue_length,
                approval_timeout_seconds: limits.approval_timeout_seconds,
                tool_result_timeout_seconds: limits.tool_result_timeout_seconds,
                direct_timeout_seconds: limits.direct_timeout_seconds,
                task_timeout_seconds: limits.task_timeout_seconds,
                plan_approval_tasks: self.plan.approval_tasks,
                plan_approval_usd: self.plan.approval_usd,
                compact_tokens: Some(self.context.compact_tokens).filter(|tokens| *tokens > 0),
                multiple_tool_calls: match self.multiple_tool_calls {
                    Multiple::Reject => MultipleToolCalls::Reject,
                    Multiple::Sequence => MultipleToolCalls::Sequence,
                },
            },
            prompt: PromptLimits {
                messages: self.context.messages,
                tokens: self.context.tokens,
                tool_result_bytes: self.context.tool_result_bytes,
            },
            region: region(page_locale.unwrap_or_default(), &self.context.timezone)?,
            page_locale,
            log_prompts: self.context.log_prompts,
            body_bytes: limits.body_bytes,
            llm: LlmSettings {
                proxy_url: self.llm.proxy_url.filter(|url| !url.is_empty()),
                model: self.llm.model.filter(|model| !model.is_empty()),
                model_override: self.llm.model_override.filter(|model| !model.is_empty()),
                api_key: self.llm.api_key.filter(|key| !key.is_empty()).map(Secret::new),
                send_internal_key: self.llm.send_internal_key,
                model_map: self.model_map,
                prices: price_table(self.prices)?,
                timeout_seconds: limits.model_timeout_seconds,
                idle_timeout_seconds: limits.model_idle_timeout_seconds,
            },
            http: HttpSettings {
                public_url: match self.server.public_url.filter(|url| !url.is_empty()) {
                    Some(url) => Some(Origin::parse("server.public_url", &url)?),
                    None => None,
                },
                allowed_hosts: hosts(self.server.allowed_hosts)?,
                allowed_origins: self
                    .server
                    .allowed_origins
                    .iter()
                    .map(|origin| Origin::parse("server.allowed_origins", origin))
                    .collect::<Result<_, _>>()?,
                write_timeout_seconds: self.server.write_timeout_seconds,
            },
            retention: Retention { session_hours: self.retention.session_hours, event_days: self.retention.event_days },
            spaces: SpaceSettings {
                redis_url: self.redis.url.filter(|url| !url.is_empty()).map(Secret::new),
                cache_ttl_seconds: self.agent_cache.ttl_seconds,
                idle_timeout_seconds: self.worker_space.idle_timeout_seconds,
                qdrant_url: self.qdrant.url.filter(|url| !url.is_empty()),
                qdrant_api_key: self.qdrant.api_key.filter(|key| !key.is_empty()).map(Secret::new),
                embedding_model: self.embedding.model.filter(|model| !model.is_empty()),
            },
            chat: ChatSettings {
                access: self.chat.access,
                limits: ChatLimits {
                    history_messages: self.chat.history_messages,
                    backlog: limits.queue_length,
                    ..ChatLimits::default()
                },
            },
            internal_api_key: secret("INTERNAL_API_KEY"),
            jwt_secret: secret("JWT_SECRET"),
            jwt: JwtSettings { algorithm: self.auth.jwt_algorithm, public_key_file: self.auth.jwt_public_key_file },
            failpoint: environment.get("CODELAB_FAILPOINT").and_then(|text| Failpoint::parse(text)).unwrap_or_default(),
            data_dir,
        })
    }
}

fn locale(tag: &str) -> Result<Locale, ConfigError> {
    Locale::of(tag).ok_or_else(|| wrong("locale", "must be en, ru or uk"))
}

fn region(locale: Locale, timezone: &str) -> Result<Region, ConfigError> {
    let zone = Zone::named(timezone);
    let zone = zone.ok_or_else(|| wrong("context.timezone", "must be an IANA time zone, such as Europe/Kyiv"))?;
    Ok(Region { locale, zone })
}

fn hosts(given: Vec<String>) -> Result<Vec<String>, ConfigError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    match given.iter().find(|host| host.is_empty() || !host.chars().all(plain)) {
        Some(host) => Err(wrong("server.allowed_hosts", &format!("{host:?} is not a host name"))),
        None => Ok(given),
    }
}

fn price_table(rows: BTreeMap<String, PriceRow>) -> Result<PriceTable, ConfigError> {
    let mut prices = Vec::new();
    for (model, row) in rows {
        let price = Price::per_million(row.input_per_million_usd, row.output_per_million_usd)
            .ok_or_else(|| wrong(&format!("prices.{model}"), "prices must be numbers from 0 up"))?;
        prices.push((model, price));
    }
    Ok(PriceTable::with_configured(prices))
}

/// `IP:port`, with `localhost` for the loopback address.
fn parse_addr(text: &str) -> Result<SocketAddr, ConfigError> {
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port));
    }
    text.parse().map_err(|_| wrong("addr", "must be an IP address and a port, such as 127.0.0.1:8080"))
}

pub(crate) fn wrong(setting: &str, why: &str) -> ConfigError {
    ConfigError { setting: setting.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests;
