//! What the server counts, as Prometheus families. One registry, made at start and passed down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

use crate::runtime::Runtime;

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct TurnOutcome {
    pub outcome: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Answered {
    pub route: String,
    pub status: u16,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct TurnMode {
    pub mode: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Alert {
    pub kind: String,
}

pub struct Metrics {
    registry: Registry,
    pub http_requests: Family<Answered, Counter>,
    pub open_connections: Gauge,
    pub inputs: Family<TurnOutcome, Counter>,
    pub turns: Family<TurnOutcome, Counter>,
    pub model_calls: Family<TurnOutcome, Counter>,
    pub model_call_duration: Histogram,
    pub tokens: Counter,
    pub approvals: Family<TurnOutcome, Counter>,
    pub commit_failures: Family<TurnOutcome, Counter>,
    pub store_commits: Counter<u64, AtomicU64>,
    pub store_transactions: Counter<u64, AtomicU64>,
    pub direct_calls: Counter,
    pub orchestrated_calls: Counter,
    pub call_duration: Family<TurnMode, Histogram>,
    pub alerts: Family<Alert, Counter>,
    pub worker_spaces: Gauge,
    pub worker_spaces_made: Counter,
    pub bus_active: Gauge,
    pub bus_waiting: Gauge,
    pub bus_tasks: Family<TurnOutcome, Counter>,
    pub cache_lookups: Family<TurnOutcome, Counter>,
    pub cache_redis_failures: Counter<u64, AtomicU64>,
    pub cache_pushed_out: Counter<u64, AtomicU64>,
    pub memory_recalls: Family<TurnOutcome, Counter>,
    pub memory_due: Gauge,
    pub live_sessions: Gauge,
    pub open_streams: Gauge,
    pub readers_cut: Counter,
    pub user_refusals: Family<TurnOutcome, Counter>,
    pub waiting_model_calls: Gauge,
    pub connections_closed: Counter,
    pub chat_messages: Family<TurnOutcome, Counter>,
    pub chat_refusals: Family<TurnOutcome, Counter>,
    pub chat_history: Gauge,
    pub chat_askers: Gauge,
    pub adaptive_turns: Family<TurnOutcome, Counter>,
    pub adaptive_backlog: Gauge,
    pub cluster_claims: Family<TurnOutcome, Counter>,
    pub cluster_handovers: Family<TurnOutcome, Counter>,
    pub cluster_lost_leases: Counter,
    pub cluster_forwards: Family<TurnOutcome, Counter>,
}

impl Metrics {
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("codelab");
        let r = &mut registry;
        let by_mode = || Histogram::new(exponential_buckets(0.005, 2.5, 15));
        Arc::new(Self {
            http_requests: add(r, "http_requests", "Answered HTTP requests"),
            open_connections: add(r, "open_connections", "Connections of clients"),
            inputs: add(
                r,
                "session_inputs",
                "Inputs to sessions, by what became of them",
            ),
            turns: add(r, "turns", "Turns that ended or were suspended"),
            model_calls: add(r, "model_calls", "Calls of the model"),
            model_call_duration: add_made(
                r,
                "model_call_duration_seconds",
                "How long model calls took",
                Histogram::new(exponential_buckets(0.005, 2.5, 13)),
            ),
            tokens: add(r, "model_tokens", "Tokens used, as the model reported them"),
            approvals: add(r, "approvals", "Approvals asked for and decided"),
            commit_failures: add(
                r,
                "commit_failures",
                "Commits that the database did not take",
            ),
            store_commits: add(r, "store_commits", "Durable commits"),
            store_transactions: add(
                r,
                "store_transactions",
                "Database transactions, each shared by commits",
            ),
            direct_calls: add(r, "direct_calls", "Messages that went to an agent directly"),
            orchestrated_calls: add(r, "orchestrated_calls", "Messages that were planned"),
            call_duration: add_made(
                r,
                "call_duration_seconds",
                "From a message to the end of its turn",
                Family::new_with_constructor(by_mode),
            ),
            alerts: add(r, "alerts", "Problems that were noticed in worker spaces"),
            worker_spaces: add(r, "worker_spaces", "Worker spaces held in memory"),
            worker_spaces_made: add(r, "worker_spaces_made", "Worker spaces made or rebuilt"),
            bus_active: add(r, "bus_active_tasks", "Tasks that agents work on"),
            bus_waiting: add(r, "bus_waiting_tasks", "Tasks that wait for an agent"),
            bus_tasks: add(
                r,
                "bus_tasks",
                "Tasks that agents finished or had no room for",
            ),
            cache_lookups: add(r, "agent_cache_lookups", "Look-ups in the agent cache"),
            cache_redis_failures: add(
                r,
                "agent_cache_redis_failures",
                "Requests to Redis that failed",
            ),
            cache_pushed_out: add(
                r,
                "agent_cache_pushed_out",
                "Good values that left the agent cache for want of room",
            ),
            memory_recalls: add(
                r,
                "memory_recalls",
                "What agents were reminded of before they worked",
            ),
            memory_due: add(
                r,
                "memory_collections_due",
                "Agents' memories that wait to be made or mended",
            ),
            live_sessions: add(r, "live_sessions", "Sessions held in memory"),
            open_streams: add(r, "open_streams", "Event streams being read"),
            readers_cut: add(
                r,
                "user_readers_cut",
                "Readers of a user's events that fell too far behind",
            ),
            user_refusals: add(
                r,
                "user_refusals",
                "What users had too much of, and got no more",
            ),
            waiting_model_calls: add(
                r,
                "waiting_model_calls",
                "Model calls that wait for their user's share",
            ),
            connections_closed: add(
                r,
                "connections_closed",
                "Connections closed to make room for others",
            ),
            chat_messages: add(r, "chat_messages", "Messages of the Chat, by who spoke"),
            chat_refusals: add(r, "chat_refusals", "What the Chat did not take, by why"),
            chat_history: add(r, "chat_history_messages", "Messages that the Chat keeps"),
            chat_askers: add(r, "chat_askers", "Askers in the Chat without an answer"),
            adaptive_turns: add(r, "adaptive_agent_turns", "What AdaptiveAgent worked on"),
            adaptive_backlog: add(
                r,
                "adaptive_agent_backlog",
                "Messages that wait for AdaptiveAgent",
            ),
            cluster_claims: add(r, "cluster_claims", "What this server came to own"),
            cluster_handovers: add(
                r,
                "cluster_handovers",
                "What this server handed over to another one",
            ),
            cluster_lost_leases: add(
                r,
                "cluster_lost_leases",
                "Times that others took over from this server",
            ),
            cluster_forwards: add(
                r,
                "cluster_forwards",
                "Requests forwarded to the server that owns what they are about",
            ),
            registry,
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
        self.http_requests
            .get_or_create(&Answered {
                route: route.to_owned(),
                status,
            })
            .inc();
    }

    pub fn count_forward(&self, outcome: &str) {
        Self::count(&self.cluster_forwards, outcome);
    }

    pub(crate) fn count(family: &Family<TurnOutcome, Counter>, outcome: &str) {
        family
            .get_or_create(&TurnOutcome {
                outcome: outcome.to_owned(),
            })
            .inc();
    }
}

fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    add_made(registry, name, help, M::default())
}

fn add_made<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
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
        let lookups = [
            ("memory", counts.memory_hits),
            ("redis", counts.redis_hits),
            ("miss", counts.misses),
        ];
        for (outcome, count) in lookups {
            let counter = metrics
                .cache_lookups
                .get_or_create(&TurnOutcome {
                    outcome: outcome.to_owned(),
                })
                .clone();
            counter.inner().store(count, Ordering::Relaxed);
        }
        metrics
            .cache_redis_failures
            .inner()
            .store(counts.redis_failures, Ordering::Relaxed);
        metrics
            .cache_pushed_out
            .inner()
            .store(counts.pushed_out, Ordering::Relaxed);
        gauge(&metrics.memory_due, inner.memories.due_count());
        let stored = inner.store.stats();
        metrics
            .store_commits
            .inner()
            .store(stored.commits, Ordering::Relaxed);
        metrics
            .store_transactions
            .inner()
            .store(stored.transactions, Ordering::Relaxed);
        metrics.encode()
    }
}

/// Something open, counted for as long as this lives.
pub struct OpenGauge(Gauge);

impl OpenGauge {
    pub fn connection(metrics: &Metrics) -> Self {
        Self::counted(&metrics.open_connections)
    }

    pub(crate) fn stream(metrics: &Metrics) -> Self {
        Self::counted(&metrics.open_streams)
    }

    pub(crate) fn waiting_model_call(metrics: &Metrics) -> Self {
        Self::counted(&metrics.waiting_model_calls)
    }

    fn counted(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for OpenGauge {
    fn drop(&mut self) {
        self.0.dec();
    }
}
