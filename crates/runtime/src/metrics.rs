//! What the server counts, as Prometheus families. One registry, made at start and passed down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::runtime::Runtime;

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Outcome {
    pub outcome: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Answered {
    pub route: String,
    pub status: u16,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Mode {
    pub mode: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Alert {
    pub kind: String,
}

pub struct Metrics {
    registry: Registry,
    pub http_requests: Family<Answered, Counter>,
    pub inputs: Family<Outcome, Counter>,
    pub turns: Family<Outcome, Counter>,
    pub model_calls: Family<Outcome, Counter>,
    pub model_call_duration: Histogram,
    pub tokens: Counter,
    pub approvals: Family<Outcome, Counter>,
    pub commit_failures: Family<Outcome, Counter>,
    pub store_commits: Counter<u64, AtomicU64>,
    pub store_transactions: Counter<u64, AtomicU64>,
    pub direct_calls: Counter,
    pub orchestrated_calls: Counter,
    pub call_duration: Family<Mode, Histogram>,
    pub alerts: Family<Alert, Counter>,
    pub worker_spaces: Gauge,
    pub worker_spaces_made: Counter,
    pub bus_active: Gauge,
    pub bus_waiting: Gauge,
    pub bus_tasks: Family<Outcome, Counter>,
    pub cache_lookups: Family<Outcome, Counter>,
    pub cache_redis_failures: Counter<u64, AtomicU64>,
    pub live_sessions: Gauge,
    pub open_streams: Gauge,
    pub chat_messages: Family<Outcome, Counter>,
    pub chat_refusals: Family<Outcome, Counter>,
    pub chat_history: Gauge,
    pub chat_askers: Gauge,
    pub adaptive_turns: Family<Outcome, Counter>,
    pub adaptive_backlog: Gauge,
}

impl Metrics {
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("codelab");
        let http_requests = Family::default();
        registry.register("http_requests", "Answered HTTP requests", http_requests.clone());
        let inputs = Family::default();
        registry.register("session_inputs", "Inputs to sessions, by what became of them", inputs.clone());
        let turns = Family::default();
        registry.register("turns", "Turns that ended or were suspended", turns.clone());
        let model_calls = Family::default();
        registry.register("model_calls", "Calls of the model", model_calls.clone());
        let model_call_duration = Histogram::new(exponential_buckets(0.005, 2.5, 13));
        registry.register("model_call_duration_seconds", "How long model calls took", model_call_duration.clone());
        let tokens = Counter::default();
        registry.register("model_tokens", "Tokens used, as the model reported them", tokens.clone());
        let approvals = Family::default();
        registry.register("approvals", "Approvals asked for and decided", approvals.clone());
        let commit_failures = Family::default();
        registry.register("commit_failures", "Commits that the database did not take", commit_failures.clone());
        let store_commits = Counter::default();
        registry.register("store_commits", "Durable commits", store_commits.clone());
        let store_transactions = Counter::default();
        registry.register(
            "store_transactions",
            "Database transactions, each shared by commits",
            store_transactions.clone(),
        );
        let direct_calls = Counter::default();
        registry.register("direct_calls", "Messages that went to an agent directly", direct_calls.clone());
        let orchestrated_calls = Counter::default();
        registry.register("orchestrated_calls", "Messages that were planned", orchestrated_calls.clone());
        let call_duration: Family<Mode, Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.005, 2.5, 15)));
        registry.register("call_duration_seconds", "From a message to the end of its turn", call_duration.clone());
        let alerts = Family::default();
        registry.register("alerts", "Problems that were noticed in worker spaces", alerts.clone());
        let worker_spaces = Gauge::default();
        registry.register("worker_spaces", "Worker spaces held in memory", worker_spaces.clone());
        let worker_spaces_made = Counter::default();
        registry.register("worker_spaces_made", "Worker spaces made or rebuilt", worker_spaces_made.clone());
        let bus_active = Gauge::default();
        registry.register("bus_active_tasks", "Tasks that agents work on", bus_active.clone());
        let bus_waiting = Gauge::default();
        registry.register("bus_waiting_tasks", "Tasks that wait for an agent", bus_waiting.clone());
        let bus_tasks = Family::default();
        registry.register("bus_tasks", "Tasks that agents finished or had no room for", bus_tasks.clone());
        let cache_lookups = Family::default();
        registry.register("agent_cache_lookups", "Look-ups in the agent cache", cache_lookups.clone());
        let cache_redis_failures = Counter::default();
        registry.register("agent_cache_redis_failures", "Requests to Redis that failed", cache_redis_failures.clone());
        let live_sessions = Gauge::default();
        registry.register("live_sessions", "Sessions held in memory", live_sessions.clone());
        let open_streams = Gauge::default();
        registry.register("open_streams", "Event streams being read", open_streams.clone());
        let chat_messages = Family::default();
        registry.register("chat_messages", "Messages of the Chat, by who spoke", chat_messages.clone());
        let chat_refusals = Family::default();
        registry.register("chat_refusals", "What the Chat did not take, by why", chat_refusals.clone());
        let chat_history = Gauge::default();
        registry.register("chat_history_messages", "Messages that the Chat keeps", chat_history.clone());
        let chat_askers = Gauge::default();
        registry.register("chat_askers", "Askers in the Chat without an answer", chat_askers.clone());
        let adaptive_turns = Family::default();
        registry.register("adaptive_agent_turns", "What AdaptiveAgent worked on", adaptive_turns.clone());
        let adaptive_backlog = Gauge::default();
        registry.register("adaptive_agent_backlog", "Messages that wait for AdaptiveAgent", adaptive_backlog.clone());
        Arc::new(Self {
            registry,
            http_requests,
            inputs,
            turns,
            model_calls,
            model_call_duration,
            tokens,
            approvals,
            commit_failures,
            store_commits,
            store_transactions,
            direct_calls,
            orchestrated_calls,
            call_duration,
            alerts,
            worker_spaces,
            worker_spaces_made,
            bus_active,
            bus_waiting,
            bus_tasks,
            cache_lookups,
            cache_redis_failures,
            live_sessions,
            open_streams,
            chat_messages,
            chat_refusals,
            chat_history,
            chat_askers,
            adaptive_turns,
            adaptive_backlog,
        })
    }

    /// The Prometheus text format.
    fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    pub fn count_request(&self, route: &str, status: u16) {
        self.http_requests.get_or_create(&Answered { route: route.to_owned(), status }).inc();
    }

    pub(crate) fn count(family: &Family<Outcome, Counter>, outcome: &str) {
        family.get_or_create(&Outcome { outcome: outcome.to_owned() }).inc();
    }
}

impl Runtime {
    /// The Prometheus text format, with what is only looked at when somebody asks.
    pub fn metrics_text(&self) -> String {
        let (metrics, inner) = (&self.inner.metrics, &self.inner);
        let gauge = |gauge: &Gauge, value: usize| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        let load = inner.spaces.load();
        gauge(&metrics.worker_spaces, inner.spaces.all().len());
        gauge(&metrics.bus_active, load.active);
        gauge(&metrics.bus_waiting, load.waiting);
        let chat = inner.chat.gauges();
        gauge(&metrics.chat_history, chat.messages);
        gauge(&metrics.chat_askers, chat.askers);
        gauge(&metrics.adaptive_backlog, chat.backlog);
        let counts = inner.cache.counts();
        let lookups = [("memory", counts.memory_hits), ("redis", counts.redis_hits), ("miss", counts.misses)];
        for (outcome, count) in lookups {
            let counter = metrics.cache_lookups.get_or_create(&Outcome { outcome: outcome.to_owned() }).clone();
            counter.inner().store(count, Ordering::Relaxed);
        }
        metrics.cache_redis_failures.inner().store(counts.redis_failures, Ordering::Relaxed);
        metrics.encode()
    }
}

/// Counts one open stream for as long as it lives.
pub(crate) struct OpenStream(Gauge);

impl OpenStream {
    pub fn new(metrics: &Metrics) -> Self {
        metrics.open_streams.inc();
        Self(metrics.open_streams.clone())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}
