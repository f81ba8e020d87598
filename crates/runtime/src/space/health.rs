//! How a worker space is: healthy, degraded or unhealthy, with details.

use std::collections::BTreeMap;
use std::time::Duration;

use codelab_protocol::{AgentStatus, HealthCheck, HealthStatus, SpaceHealth};

use super::Space;
use crate::cache::CacheHealth;

impl Space {
    /// `stuck_after`: a task that works longer than this is stuck.
    pub fn health(&self, stuck_after: Duration) -> SpaceHealth {
        let mut health = Report::new();
        let registered = self.bus.registered();
        let broken: Vec<&str> = registered
            .iter()
            .filter(|name| self.status(name) == AgentStatus::Error)
            .map(|name| name.as_str())
            .collect();
        match broken.len() {
            0 => health.add(
                "agents",
                HealthStatus::Healthy,
                format!("{} registered", registered.len()),
            ),
            n if n == registered.len() => {
                health.add(
                    "agents",
                    HealthStatus::Unhealthy,
                    format!("all fail: {}", broken.join(", ")),
                );
            }
            _ => health.add(
                "agents",
                HealthStatus::Degraded,
                format!("failing: {}", broken.join(", ")),
            ),
        }
        let load = self.bus.load();
        match load.oldest_active {
            Some(age) if age > stuck_after => {
                health.add(
                    "tasks",
                    HealthStatus::Degraded,
                    format!("a task works for {} s", age.as_secs()),
                );
            }
            _ => health.add(
                "tasks",
                HealthStatus::Healthy,
                format!("{} active, {} waiting", load.active, load.waiting),
            ),
        }
        match load.full_queues {
            0 => health.add("queues", HealthStatus::Healthy, "none is full"),
            n => health.add("queues", HealthStatus::Degraded, format!("{n} full")),
        }
        health.add_cache(&self.cache.health());
        health.add_memory(self.memories.problem_in(self.key));
        health.0
    }
}

/// A space that is not there is as well as what it would need.
pub(super) fn absent(cache: &CacheHealth, memory_problem: Option<String>) -> SpaceHealth {
    let mut health = Report::new();
    health.add("agents", HealthStatus::Healthy, "the space is not in use");
    health.add_cache(cache);
    health.add_memory(memory_problem);
    health.0
}

struct Report(SpaceHealth);

impl Report {
    fn new() -> Self {
        Self(SpaceHealth {
            status: HealthStatus::Healthy,
            checks: BTreeMap::new(),
        })
    }

    fn add_cache(&mut self, cache: &CacheHealth) {
        match cache {
            CacheHealth::Memory => self.add("cache", HealthStatus::Healthy, "memory"),
            CacheHealth::Connected => self.add("cache", HealthStatus::Healthy, "memory and Redis"),
            CacheHealth::Unreachable { since } => {
                self.add(
                    "cache",
                    HealthStatus::Degraded,
                    format!("Redis is unreachable since {since}"),
                );
            }
        }
    }

    fn add_memory(&mut self, problem: Option<String>) {
        match problem {
            None => self.add(
                "memory",
                HealthStatus::Healthy,
                "what agents did can be found",
            ),
            Some(problem) => self.add("memory", HealthStatus::Degraded, problem),
        }
    }

    fn add(&mut self, name: &str, status: HealthStatus, detail: impl Into<String>) {
        self.0.status = worse(self.0.status, status);
        self.0.checks.insert(
            name.to_owned(),
            HealthCheck {
                status,
                detail: Some(detail.into()),
            },
        );
    }
}

fn worse(a: HealthStatus, b: HealthStatus) -> HealthStatus {
    let rank = |status| match status {
        HealthStatus::Healthy => 0,
        HealthStatus::Degraded => 1,
        HealthStatus::Unhealthy => 2,
    };
    if rank(a) >= rank(b) { a } else { b }
}
