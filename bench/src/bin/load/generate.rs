//! The load generator, a separate process. It reads an order from standard input and prints the
//! results on standard output.

mod plans;
mod searches;
mod streams;
mod turns;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::wire::LoadTarget;
pub use turns::{RunUntil, TurnKind};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub target: LoadTarget,
    pub work: LoadWork,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum LoadWork {
    Turns {
        kind: TurnKind,
        workers: usize,
        until: RunUntil,
        pace: ModelPace,
        rhythm: Rhythm,
        prefix: String,
    },
    /// Readers of sessions' events: first idle, then with events.
    Streams {
        sessions: usize,
        readers: usize,
        events_per_second: usize,
        seconds: f64,
        prefix: String,
    },
    /// Orchestrated requests, one after the other.
    Plans {
        model: String,
        count: usize,
        pace: ModelPace,
    },
    /// Fills an agent's memory, then searches it, one search after the other.
    Searches {
        interactions: usize,
        searches: usize,
    },
}

/// When a worker starts its next turn.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Rhythm {
    /// When its last one has ended. With several workers the machine is as busy as it can be.
    Closed,
    /// One in so many milliseconds; the workers' beginnings are spread evenly.
    EveryMs(u64),
}

/// Milliseconds until the model's first delta, and between deltas.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct ModelPace {
    pub first_ms: u64,
    pub gap_ms: u64,
}

/// The results of an order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct LoadReport {
    pub count: usize,
    pub seconds: f64,
    pub first_ms: Times,
    pub whole_ms: Times,
    /// Turns per second at the start and at the end of a long run.
    pub growth: Option<(f64, f64)>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Times {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub most: f64,
}

impl Times {
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| match times.len() {
            0 => 0.0,
            count => times[(count * percent).div_ceil(100).max(1) - 1].as_secs_f64() * 1000.0,
        };
        Self {
            p50: at(50),
            p95: at(95),
            p99: at(99),
            most: at(100),
        }
    }
}

impl LoadReport {
    pub fn rate(&self) -> f64 {
        self.count as f64 / self.seconds
    }
}

/// Printed where the parent may measure the server between two parts of an order. A line from the
/// parent ends the pause.
pub const PAUSE: &str = "pause";

pub async fn run() -> anyhow::Result<()> {
    let mut order = String::new();
    std::io::stdin().read_line(&mut order)?;
    let Order { target, work } = serde_json::from_str(&order)?;
    let report = match work {
        LoadWork::Turns {
            kind,
            workers,
            until,
            pace,
            rhythm,
            prefix,
        } => turns::run(&target, kind, workers, until, (pace, rhythm), &prefix).await?,
        LoadWork::Streams {
            sessions,
            readers,
            events_per_second,
            seconds,
            prefix,
        } => {
            streams::run(
                &target,
                sessions,
                readers,
                events_per_second,
                seconds,
                &prefix,
            )
            .await?
        }
        LoadWork::Plans { model, count, pace } => plans::run(&target, &model, count, pace).await?,
        LoadWork::Searches {
            interactions,
            searches,
        } => searches::run(&target, interactions, searches).await?,
    };
    crate::say(&serde_json::to_string(&report)?);
    Ok(())
}

fn pause_for_parent() -> anyhow::Result<()> {
    crate::say(PAUSE);
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
