//! Checks the settings from the file and turns them into typed values.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use codelab_engine::{AgentMode, ChatLimits, Locale, PromptLimits, Region, SessionLimits, Zone};
use codelab_llm::{ModelConfigError, Price, PriceTable, Secret};
use codelab_policy::Policy;
use codelab_runtime::{Failpoint, Retention, ShareLimits};
use codelab_store::DatabaseUrl;
use codelab_transport::{NetworkOptions, ProxySettings};
use tokio::sync::Semaphore;

use super::file::{
    AutoTokens, ClusterTable, File, HistoryTokens, HttpTable, PolicyTable, PriceRow, SandboxTable,
    ServerTable,
};
use super::{
    ChatSettings, ConfigError, DEFAULT_DATABASE, HttpOrigin, HttpSettings, JwtSettings,
    LlmSettings, McpSettings, ModelHint, SandboxSettings, Settings, SpaceSettings, wrong,
    wrong_database,
};

/// Longer waits would overflow dates.
const MAX_TIMEOUT_SECONDS: u64 = 10 * 366 * 24 * 60 * 60;

impl File {
    pub fn checked(
        self,
        data_dir: PathBuf,
        environment: &BTreeMap<String, String>,
    ) -> Result<Settings, ConfigError> {
        self.check_ranges()?;
        let database = match &self.database.url {
            Some(url) => {
                DatabaseUrl::parse(url).map_err(|error| wrong_database(&error.to_string()))?
            }
            None => DatabaseUrl::SqliteFile(data_dir.join(DEFAULT_DATABASE)),
        };
        let page_locale = self.locale.as_deref().map(locale).transpose()?;
        let secret = |name: &str| {
            environment
                .get(name)
                .filter(|value| !value.is_empty())
                .map(Secret::new)
        };
        let cluster_address = cluster_address(&self.cluster, &database)?;
        Ok(Settings {
            cluster_address,
            addr: parse_addr(&self.addr)?,
            database,
            mode: if self.multi_agent_mode {
                AgentMode::Multi
            } else {
                AgentMode::Single
            },
            limits: self.engine_limits(),
            prompt: self.prompt_limits(),
            region: region(page_locale.unwrap_or_default(), &self.context.timezone)?,
            page_locale,
            log_prompts: self.context.log_prompts,
            body_bytes: self.limits.body_bytes,
            shares: self.shares(),
            retention: Retention {
                session_hours: self.retention.session_hours,
                event_days: self.retention.event_days,
            },
            spaces: self.spaces(),
            chat: self.chat(),
            llm: self.llm(environment)?,
            policy: policy(&self.policy)?,
            sandbox: sandbox(&self.sandbox)?,
            mcp: McpSettings {
                allow_private: self.mcp.allow_private,
            },
            network: network(self.http, environment)?,
            http: http(self.server)?,
            internal_api_key: secret("INTERNAL_API_KEY"),
            jwt_secret: secret("JWT_SECRET"),
            master_key: secret("CODELAB_MASTER_KEY"),
            jwt: JwtSettings {
                algorithm: self.auth.jwt_algorithm,
                public_key_file: self.auth.jwt_public_key_file,
            },
            failpoint: environment
                .get("CODELAB_FAILPOINT")
                .and_then(|text| Failpoint::parse(text))
                .unwrap_or_default(),
            data_dir,
        })
    }

    fn check_ranges(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        // The setting, what was given, and whether 0 means something.
        for (setting, value, may_be_zero) in [
            (
                "limits.approval_timeout_seconds",
                limits.approval_timeout_seconds,
                true,
            ),
            (
                "limits.tool_result_timeout_seconds",
                limits.tool_result_timeout_seconds,
                false,
            ),
            (
                "limits.direct_timeout_seconds",
                limits.direct_timeout_seconds,
                false,
            ),
            (
                "limits.task_timeout_seconds",
                limits.task_timeout_seconds,
                false,
            ),
            (
                "limits.model_timeout_seconds",
                limits.model_timeout_seconds,
                false,
            ),
            (
                "limits.model_idle_timeout_seconds",
                limits.model_idle_timeout_seconds,
                false,
            ),
            (
                "limits.rate_limit_wait_seconds",
                limits.rate_limit_wait_seconds,
                true,
            ),
            ("limits.steps", limits.steps.into(), false),
            ("limits.repeats", limits.repeats.into(), false),
            ("limits.body_bytes", limits.body_bytes as u64, false),
            (
                "context.tool_result_bytes",
                self.context.tool_result_bytes as u64,
                false,
            ),
            (
                "worker_space.idle_timeout_seconds",
                self.worker_space.idle_timeout_seconds,
                false,
            ),
            (
                "agent_cache.ttl_seconds",
                self.agent_cache.ttl_seconds,
                false,
            ),
            (
                "server.write_timeout_seconds",
                self.server.write_timeout_seconds,
                false,
            ),
            (
                "chat.history_messages",
                self.chat.history_messages as u64,
                false,
            ),
            (
                "plan.approval_tasks",
                self.plan.approval_tasks as u64,
                false,
            ),
        ] {
            if value == 0 && !may_be_zero {
                return Err(wrong(setting, "must be more than 0"));
            }
            if setting.ends_with("_seconds") && value > MAX_TIMEOUT_SECONDS {
                return Err(wrong(
                    setting,
                    &format!("must be at most {MAX_TIMEOUT_SECONDS} (ten years)"),
                ));
            }
        }
        if !(self.plan.approval_usd.is_finite() && self.plan.approval_usd >= 0.0) {
            return Err(wrong("plan.approval_usd", "must be a number from 0 up"));
        }
        Ok(())
    }

    fn engine_limits(&self) -> SessionLimits {
        let limits = &self.limits;
        SessionLimits {
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
            multiple_tool_calls: self.multiple_tool_calls,
            prompt: self.prompt_limits(),
        }
    }

    fn prompt_limits(&self) -> PromptLimits {
        let tool_result_bytes = self.context.tool_result_bytes;
        match self.context.tokens {
            HistoryTokens::Count(tokens) => PromptLimits {
                messages: self.context.messages,
                tokens,
                tool_result_bytes,
                by_window: false,
            },
            HistoryTokens::Named(AutoTokens::Auto) => PromptLimits {
                tool_result_bytes,
                ..PromptLimits::by_window()
            },
        }
    }

    /// 0 means none of these bounds.
    fn shares(&self) -> ShareLimits {
        let limits = &self.limits;
        ShareLimits {
            sessions_per_minute: limits.user_sessions_per_minute,
            turns: limits.user_turns,
            // The maximum of a semaphore.
            model_calls: limits.user_model_calls.min(Semaphore::MAX_PERMITS),
            streams: limits.user_streams,
            requests_per_second: limits.user_requests_per_second,
        }
    }

    fn llm(&self, environment: &BTreeMap<String, String>) -> Result<LlmSettings, ConfigError> {
        let llm = &self.llm;
        let proxy_url = given(&llm.proxy_url);
        let variable = |name: &str| environment.get(name).cloned();
        let mut providers = BTreeMap::new();
        for (name, settings) in &self.providers {
            let provider = settings.resolve(name, variable).map_err(of_provider)?;
            providers.insert(name.clone(), provider);
        }
        let is_named = given(&llm.model).is_some() || given(&llm.model_override).is_some();
        if proxy_url.is_none() && !providers.is_empty() && !is_named {
            let why =
                "must be NAME/model, with the name of a provider, because LLM_PROXY_URL is not set";
            return Err(wrong("llm.model", &format!("{why} (check LLM_MODEL)")));
        }
        Ok(LlmSettings {
            hint: if proxy_url.is_some() || !providers.is_empty() {
                None
            } else {
                ModelHint::of(llm, environment)
            },
            proxy_url,
            model: given(&llm.model),
            model_override: given(&llm.model_override),
            api_key: given(&llm.api_key).map(Secret::new),
            fallback_models: llm.fallback_models.clone(),
            providers,
            facts: self.models.clone(),
            send_internal_key: llm.send_internal_key,
            model_map: self.model_map.clone(),
            prices: price_table(&self.prices)?,
            timeout_seconds: self.limits.model_timeout_seconds,
            idle_timeout_seconds: self.limits.model_idle_timeout_seconds,
            rate_limit_wait_seconds: self.limits.rate_limit_wait_seconds,
        })
    }

    fn spaces(&self) -> SpaceSettings {
        SpaceSettings {
            redis_url: given(&self.redis.url).map(Secret::new),
            cache_ttl_seconds: self.agent_cache.ttl_seconds,
            idle_timeout_seconds: self.worker_space.idle_timeout_seconds,
            qdrant_url: given(&self.qdrant.url),
            qdrant_api_key: given(&self.qdrant.api_key).map(Secret::new),
            embedding_model: given(&self.embedding.model),
        }
    }

    fn chat(&self) -> ChatSettings {
        ChatSettings {
            access: self.chat.access,
            limits: ChatLimits {
                history_messages: self.chat.history_messages,
                backlog: self.limits.queue_length,
                ..ChatLimits::default()
            },
        }
    }
}

fn of_provider(error: ModelConfigError) -> ConfigError {
    match error {
        ModelConfigError::Provider { setting, why } => ConfigError { setting, why },
        other => wrong("providers", &other.to_string()),
    }
}

/// An empty text counts as not set.
fn given(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}

fn http(server: ServerTable) -> Result<HttpSettings, ConfigError> {
    let origins = server
        .allowed_origins
        .iter()
        .map(|origin| HttpOrigin::parse("server.allowed_origins", origin));
    Ok(HttpSettings {
        public_url: given(&server.public_url)
            .map(|url| HttpOrigin::parse("server.public_url", &url))
            .transpose()?,
        allowed_origins: origins.collect::<Result<_, _>>()?,
        allowed_hosts: hosts(server.allowed_hosts)?,
        write_timeout_seconds: server.write_timeout_seconds,
    })
}

fn cluster_address(
    table: &ClusterTable,
    database: &DatabaseUrl,
) -> Result<Option<HttpOrigin>, ConfigError> {
    const SETTING: &str = "cluster.address";
    let Some(address) = given(&table.address) else {
        return Ok(None);
    };
    if !matches!(database, DatabaseUrl::Postgres(_)) {
        let why = "needs PostgreSQL, which the servers share: set database.url";
        return Err(wrong(SETTING, why));
    }
    HttpOrigin::parse(SETTING, &address).map(Some)
}

fn network(
    table: HttpTable,
    environment: &BTreeMap<String, String>,
) -> Result<NetworkOptions, ConfigError> {
    let network = NetworkOptions {
        ca_file: table.ca_file.filter(|path| !path.as_os_str().is_empty()),
        proxies: ProxySettings::read(|name| environment.get(name).cloned()),
    };
    network
        .check()
        .map_err(|error| wrong("http.ca_file", &error.to_string()))?;
    Ok(network)
}

/// The built-in rules and those that were added.
fn policy(table: &PolicyTable) -> Result<Policy, ConfigError> {
    let mut policy = Policy::default();
    for pattern in &table.protected_paths {
        if pattern
            .split(['/', '\\'])
            .all(|part| matches!(part.trim(), "" | "."))
        {
            return Err(wrong(
                "policy.protected_paths",
                &format!("{pattern:?} names no file or folder"),
            ));
        }
        policy = policy.protect(pattern);
    }
    for pattern in &table.ask_for {
        policy = policy.ask_for(pattern).map_err(|error| {
            // The lines before it show where the error is.
            let why = error.reason.lines().last().unwrap_or_default();
            wrong(
                "policy.ask_for",
                &format!("{pattern:?} is no regular expression: {why}"),
            )
        })?;
    }
    Ok(policy)
}

fn sandbox(table: &SandboxTable) -> Result<SandboxSettings, ConfigError> {
    let SandboxTable {
        memory_bytes,
        processes,
        file_bytes,
        written_bytes,
        cpu_seconds,
        readable,
    } = table;
    for (setting, value) in [
        ("sandbox.memory_bytes", memory_bytes),
        ("sandbox.processes", processes),
        ("sandbox.file_bytes", file_bytes),
        ("sandbox.written_bytes", written_bytes),
        ("sandbox.cpu_seconds", cpu_seconds),
    ] {
        if *value == Some(0) {
            return Err(wrong(setting, "must be more than 0"));
        }
    }
    if let Some(path) = readable.iter().find(|path| !path.is_absolute()) {
        return Err(wrong(
            "sandbox.readable",
            &format!("{} is not an absolute path", path.display()),
        ));
    }
    Ok(SandboxSettings {
        memory_bytes: *memory_bytes,
        processes: *processes,
        file_bytes: *file_bytes,
        written_bytes: *written_bytes,
        cpu_seconds: *cpu_seconds,
        readable: readable.clone(),
    })
}

fn locale(tag: &str) -> Result<Locale, ConfigError> {
    Locale::of(tag).ok_or_else(|| wrong("locale", "must be en, ru or uk"))
}

fn region(locale: Locale, timezone: &str) -> Result<Region, ConfigError> {
    let zone = Zone::named(timezone);
    let zone = zone.ok_or_else(|| {
        wrong(
            "context.timezone",
            "must be an IANA time zone, such as Europe/Kyiv",
        )
    })?;
    Ok(Region { locale, zone })
}

fn hosts(given: Vec<String>) -> Result<Vec<String>, ConfigError> {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    match given
        .iter()
        .find(|host| host.is_empty() || !host.chars().all(plain))
    {
        Some(host) => Err(wrong(
            "server.allowed_hosts",
            &format!("{host:?} is not a host name"),
        )),
        None => Ok(given),
    }
}

fn price_table(rows: &BTreeMap<String, PriceRow>) -> Result<PriceTable, ConfigError> {
    let mut prices = Vec::new();
    for (model, row) in rows {
        let cached = |price: Price| match row.cached_input_per_million_usd {
            Some(usd) => price.with_cached_input(usd),
            None => Some(price),
        };
        let written = |price: Price| match row.cache_write_per_million_usd {
            Some(usd) => price.with_cache_write(usd),
            None => Some(price),
        };
        let price = Price::per_million(row.input_per_million_usd, row.output_per_million_usd)
            .and_then(cached)
            .and_then(written)
            .ok_or_else(|| {
                wrong(
                    &format!("prices.{model}"),
                    "prices must be numbers from 0 up",
                )
            })?;
        prices.push((model.clone(), price));
    }
    Ok(PriceTable::with_configured(prices))
}

/// `IP:port`, with `localhost` for the loopback address.
fn parse_addr(text: &str) -> Result<SocketAddr, ConfigError> {
    if let Some(port) = text
        .strip_prefix("localhost:")
        .and_then(|port| port.parse().ok())
    {
        return Ok(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port));
    }
    text.parse().map_err(|_| {
        wrong(
            "addr",
            "must be an IP address and a port, such as 127.0.0.1:8080",
        )
    })
}
