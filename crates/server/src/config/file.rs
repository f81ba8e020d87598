//! The settings as they stand in the file, with their defaults. Nothing is checked here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use codelab_engine::{ChatLimits, MultipleToolCalls, PromptLimits, SessionLimits};
use codelab_llm::{CallLimits, ModelFacts, ProviderSettings};
use codelab_runtime::ShareLimits;
use serde::{Deserialize, Serialize};

use super::{ChatAccess, JwtAlgorithm};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub addr: String,
    pub locale: Option<String>,
    pub multi_agent_mode: bool,
    pub multiple_tool_calls: Option<MultipleToolCalls>,
    pub database: Database,
    pub limits: LimitsTable,
    pub context: ContextTable,
    pub llm: LlmTable,
    pub model_map: BTreeMap<String, String>,
    pub prices: BTreeMap<String, PriceRow>,
    pub models: BTreeMap<String, ModelFacts>,
    pub providers: BTreeMap<String, ProviderSettings>,
    pub server: ServerTable,
    pub http: HttpTable,
    pub cluster: ClusterTable,
    pub auth: AuthTable,
    pub retention: RetentionTable,
    pub redis: Redis,
    pub qdrant: Qdrant,
    pub embedding: Embedding,
    pub agent_cache: AgentCacheTable,
    pub worker_space: WorkerSpaceTable,
    pub plan: PlanTable,
    pub chat: ChatTable,
    pub policy: PolicyTable,
    pub sandbox: SandboxTable,
    pub mcp: McpTable,
}

/// MCP servers that the server calls.
#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct McpTable {
    pub allow_private: bool,
}

/// Outgoing connections. Proxies come from the environment, as for other programs.
#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HttpTable {
    pub ca_file: Option<PathBuf>,
}

/// Several servers as one installation.
#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ClusterTable {
    pub address: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ChatTable {
    pub access: ChatAccess,
    pub history_messages: usize,
}

/// Rules in addition to the built-in ones, which always apply.
#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PolicyTable {
    pub protected_paths: Vec<String>,
    pub ask_for: Vec<String>,
}

/// Limits of the commands that agents run. Without a value, the limit depends on the machine.
#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SandboxTable {
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub file_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    pub cpu_seconds: Option<u64>,
    pub readable: Vec<PathBuf>,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Redis {
    pub url: Option<String>,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Qdrant {
    pub url: Option<String>,
    pub api_key: Option<String>,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Embedding {
    pub model: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AgentCacheTable {
    pub ttl_seconds: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WorkerSpaceTable {
    pub idle_timeout_seconds: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PlanTable {
    pub approval_tasks: usize,
    pub approval_usd: f64,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AuthTable {
    pub jwt_algorithm: JwtAlgorithm,
    pub jwt_public_key_file: Option<PathBuf>,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetentionTable {
    pub session_hours: u64,
    pub event_days: u64,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Database {
    pub url: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsTable {
    pub approval_timeout_seconds: u64,
    pub tool_result_timeout_seconds: u64,
    pub direct_timeout_seconds: u64,
    pub task_timeout_seconds: u64,
    pub model_timeout_seconds: u64,
    pub model_idle_timeout_seconds: u64,
    pub rate_limit_wait_seconds: u64,
    pub queue_length: usize,
    pub body_bytes: usize,
    pub steps: u32,
    pub switches: u32,
    pub repeats: u32,
    pub user_sessions_per_minute: u32,
    pub user_turns: usize,
    pub user_model_calls: usize,
    pub user_streams: usize,
    pub user_requests_per_second: u32,
}

/// How much of the past is sent: so many tokens, or what the model's window has room for.
#[derive(Deserialize, Serialize, Clone, Copy)]
#[serde(untagged, expecting = "must be a number of tokens, or \"auto\"")]
pub(super) enum HistoryTokens {
    Count(usize),
    Named(AutoTokens),
}

#[derive(Deserialize, Serialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub(super) enum AutoTokens {
    Auto,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ContextTable {
    pub messages: usize,
    pub tokens: HistoryTokens,
    pub tool_result_bytes: usize,
    pub timezone: String,
    pub log_prompts: bool,
    /// 0 = never.
    pub compact_tokens: u64,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LlmTable {
    pub proxy_url: Option<String>,
    pub model: Option<String>,
    pub model_override: Option<String>,
    pub api_key: Option<String>,
    pub fallback_models: Vec<String>,
    pub send_internal_key: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PriceRow {
    pub input_per_million_usd: f64,
    pub output_per_million_usd: f64,
    #[serde(default)]
    pub cached_input_per_million_usd: Option<f64>,
    #[serde(default)]
    pub cache_write_per_million_usd: Option<f64>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ServerTable {
    pub public_url: Option<String>,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub write_timeout_seconds: u64,
}

impl Default for File {
    fn default() -> Self {
        Self {
            addr: "127.0.0.1:8080".to_owned(),
            locale: None,
            multi_agent_mode: true,
            multiple_tool_calls: SessionLimits::default().multiple_tool_calls,
            database: Database::default(),
            limits: LimitsTable::default(),
            context: ContextTable::default(),
            llm: LlmTable::default(),
            model_map: BTreeMap::new(),
            prices: BTreeMap::new(),
            models: BTreeMap::new(),
            providers: BTreeMap::new(),
            server: ServerTable::default(),
            http: HttpTable::default(),
            cluster: ClusterTable::default(),
            auth: AuthTable::default(),
            retention: RetentionTable::default(),
            redis: Redis::default(),
            qdrant: Qdrant::default(),
            embedding: Embedding::default(),
            agent_cache: AgentCacheTable::default(),
            worker_space: WorkerSpaceTable::default(),
            plan: PlanTable::default(),
            chat: ChatTable::default(),
            policy: PolicyTable::default(),
            sandbox: SandboxTable::default(),
            mcp: McpTable::default(),
        }
    }
}

impl Default for ChatTable {
    fn default() -> Self {
        Self {
            access: ChatAccess::default(),
            history_messages: ChatLimits::default().history_messages,
        }
    }
}

impl Default for AgentCacheTable {
    fn default() -> Self {
        Self { ttl_seconds: 300 }
    }
}

impl Default for WorkerSpaceTable {
    fn default() -> Self {
        Self {
            idle_timeout_seconds: 1800,
        }
    }
}

impl Default for PlanTable {
    fn default() -> Self {
        let SessionLimits {
            plan_approval_tasks,
            plan_approval_usd,
            ..
        } = SessionLimits::default();
        Self {
            approval_tasks: plan_approval_tasks,
            approval_usd: plan_approval_usd,
        }
    }
}

impl Default for LimitsTable {
    fn default() -> Self {
        let limits = SessionLimits::default();
        let shares = ShareLimits::default();
        Self {
            approval_timeout_seconds: limits.approval_timeout_seconds,
            tool_result_timeout_seconds: limits.tool_result_timeout_seconds,
            direct_timeout_seconds: limits.direct_timeout_seconds,
            task_timeout_seconds: limits.task_timeout_seconds,
            model_timeout_seconds: CallLimits::DEFAULT_TIMEOUT.as_secs(),
            model_idle_timeout_seconds: CallLimits::DEFAULT_IDLE_TIMEOUT.as_secs(),
            rate_limit_wait_seconds: CallLimits::DEFAULT_RATE_LIMIT_WAIT.as_secs(),
            queue_length: limits.queue_length,
            body_bytes: 8_388_608,
            steps: limits.steps,
            switches: limits.switches,
            repeats: limits.repeats,
            user_sessions_per_minute: shares.sessions_per_minute,
            user_turns: shares.turns,
            user_model_calls: shares.model_calls,
            user_streams: shares.streams,
            user_requests_per_second: shares.requests_per_second,
        }
    }
}

impl Default for ServerTable {
    fn default() -> Self {
        Self {
            public_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            write_timeout_seconds: 30,
        }
    }
}

impl Default for ContextTable {
    fn default() -> Self {
        let PromptLimits {
            messages,
            tokens,
            tool_result_bytes,
            ..
        } = PromptLimits::default();
        Self {
            messages,
            tokens: HistoryTokens::Count(tokens),
            tool_result_bytes,
            timezone: "UTC".to_owned(),
            log_prompts: false,
            compact_tokens: 0,
        }
    }
}
