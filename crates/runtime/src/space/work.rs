//! What a worker space has done: tasks, and calls by mode with their time.

use std::time::Duration;

use codelab_protocol::{AverageDuration, HealthStatus, SpaceHealth, SpaceMetrics};

use super::{Space, SpaceKey, lock};
use crate::bus::TaskOutcome;
use crate::metrics::Metrics;

#[derive(Default, Clone, Copy)]
pub(super) struct Calls {
    direct: Sum,
    orchestrated: Sum,
    tasks: u64,
}

#[derive(Default, Clone, Copy)]
struct Sum {
    calls: u64,
    finished: u64,
    seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallMode {
    Direct,
    Orchestrated,
}

impl CallMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Orchestrated => "orchestrated",
        }
    }
}

/// The metrics of a space that is not there.
pub(super) fn absent(key: SpaceKey, health: &SpaceHealth) -> SpaceMetrics {
    SpaceMetrics {
        user_id: key.user,
        project_id: key.project,
        active: false,
        active_agents: 0,
        cache_size: 0,
        total_tasks_processed: 0,
        active_tasks: 0,
        queued_tasks: 0,
        uptime: 0.0,
        is_healthy: health.status == HealthStatus::Healthy,
        direct_calls_count: 0,
        orchestrated_calls_count: 0,
        average_duration: AverageDuration::default(),
        attached_clients: 0,
    }
}

impl Space {
    pub(crate) fn call_began(&self, mode: CallMode) {
        lock(&self.calls).of(mode).calls += 1;
    }

    pub(crate) fn call_ended(&self, mode: CallMode, took: Duration) {
        let mut calls = lock(&self.calls);
        let sum = calls.of(mode);
        sum.finished += 1;
        sum.seconds += took.as_secs_f64();
    }

    /// Cancelled tasks were not processed.
    pub(super) fn task_ended(&self, outcome: TaskOutcome) {
        let word = match outcome {
            TaskOutcome::Succeeded => "succeeded",
            TaskOutcome::Failed | TaskOutcome::Hindered => "failed",
            TaskOutcome::Cancelled => return,
        };
        lock(&self.calls).tasks += 1;
        Metrics::count(&self.metrics.bus_tasks, word);
    }

    pub(super) fn metrics(&self, health: &SpaceHealth) -> SpaceMetrics {
        let load = self.bus.load();
        let Calls {
            direct,
            orchestrated,
            tasks,
        } = *lock(&self.calls);
        SpaceMetrics {
            user_id: self.user(),
            project_id: self.project(),
            active: true,
            active_agents: self.bus.registered().len() as u64,
            cache_size: self.cache_size() as u64,
            total_tasks_processed: tasks,
            active_tasks: load.active as u64,
            queued_tasks: load.waiting as u64,
            uptime: self.uptime().as_secs_f64(),
            is_healthy: health.status == HealthStatus::Healthy,
            direct_calls_count: direct.calls,
            orchestrated_calls_count: orchestrated.calls,
            average_duration: AverageDuration {
                direct: direct.average(),
                orchestrated: orchestrated.average(),
            },
            attached_clients: self
                .attached_clients()
                .iter()
                .filter(|client| client.present)
                .count() as u64,
        }
    }
}

impl Calls {
    fn of(&mut self, mode: CallMode) -> &mut Sum {
        match mode {
            CallMode::Direct => &mut self.direct,
            CallMode::Orchestrated => &mut self.orchestrated,
        }
    }
}

impl Sum {
    fn average(self) -> f64 {
        if self.finished == 0 {
            0.0
        } else {
            self.seconds / self.finished as f64
        }
    }
}
