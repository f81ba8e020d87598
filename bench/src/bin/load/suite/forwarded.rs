//! What it costs that a request enters at another server than the owner's.
//!
//! Two servers are one installation. The second one is drained, so that it owns nothing and forwards
//! everything.

use anyhow::Context as _;

use super::beside::{FAST, MeasuredRun, SLOW};
use super::{Suite, median};
use crate::generate::{LoadWork, ModelPace, Rhythm, RunUntil, TurnKind};
use crate::process::{CodeLab, ProcessUsage};
use crate::table::{Goal, Row};

const MOST_ADDED_MS: f64 = 1.0;
const MOST_CPU: f64 = 1.6;

struct Workload {
    name: &'static str,
    workers: usize,
    pace: ModelPace,
    rhythm: Rhythm,
}

const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "plain turn, C=1",
        workers: 1,
        pace: FAST,
        rhythm: Rhythm::Closed,
    },
    Workload {
        name: "plain turn, C=16",
        workers: 16,
        pace: FAST,
        rhythm: Rhythm::Closed,
    },
    Workload {
        name: "plain turn, 200 a second",
        workers: 16,
        pace: FAST,
        rhythm: Rhythm::EveryMs(80),
    },
    Workload {
        name: "a token each 15 ms, 64 turns a second",
        workers: 64,
        pace: SLOW,
        rhythm: Rhythm::EveryMs(1000),
    },
];

struct Installation {
    owner: CodeLab,
    entry: CodeLab,
}

impl Installation {
    /// Of both servers together: an idle one uses next to nothing.
    fn usage(&self) -> anyhow::Result<ProcessUsage> {
        let (owner, entry) = (self.owner.usage()?, self.entry.usage()?);
        Ok(ProcessUsage {
            cpu_seconds: owner.cpu_seconds + entry.cpu_seconds,
            resident_kib: owner.resident_kib + entry.resident_kib,
        })
    }
}

impl Suite<'_> {
    pub async fn forwarded(&mut self) -> anyhow::Result<()> {
        let postgres = self.postgres.context("several servers need PostgreSQL")?;
        let url = postgres.database().await?;
        let member = || CodeLab::member(self.program, self.dir, &url, self.model);
        let both = Installation {
            owner: member().await?,
            entry: member().await?,
        };
        both.entry.drain().await?;
        for (number, workload) in WORKLOADS.iter().enumerate() {
            let mut runs = Vec::new();
            for pair in 0..self.size.pairs {
                let run = (number, pair);
                let direct = self.run_through(workload, &both, &both.owner, run).await?;
                let forwarded = self.run_through(workload, &both, &both.entry, run).await?;
                runs.push((forwarded, direct));
            }
            for row in workload.rows(&runs) {
                self.add(row);
            }
        }
        both.entry.stop().await?;
        both.owner.stop().await
    }

    async fn run_through(
        &self,
        workload: &Workload,
        both: &Installation,
        server: &CodeLab,
        (number, pair): (usize, usize),
    ) -> anyhow::Result<MeasuredRun> {
        let target = server.gateway();
        let Workload {
            name,
            workers,
            pace,
            rhythm,
        } = *workload;
        let work = LoadWork::Turns {
            kind: TurnKind::Fresh,
            workers,
            until: RunUntil::Seconds(self.size.seconds),
            pace,
            rhythm,
            prefix: format!("{}-{number}-{pair}", target.addr.replace([':', '.'], "-")),
        };
        let title = format!("{name}: through {}", target.addr);
        self.run_side(&title, target, work, || both.usage()).await
    }
}

impl Workload {
    /// How long a turn takes is told where the machine is not busy: otherwise turns wait for each
    /// other, and the time follows from the processor time.
    fn rows(&self, runs: &[(MeasuredRun, MeasuredRun)]) -> Vec<Row> {
        let is_busy = self.workers > 1 && matches!(self.rhythm, Rhythm::Closed);
        let added = (!is_busy).then(|| self.added(runs));
        added.into_iter().chain([self.processor(runs)]).collect()
    }

    fn added(&self, runs: &[(MeasuredRun, MeasuredRun)]) -> Row {
        let p50: fn(&MeasuredRun) -> f64 = |run| run.report.whole_ms.p50;
        let (slow, quick) = medians(runs, p50);
        let differences = runs
            .iter()
            .map(|(forwarded, direct)| p50(forwarded) - p50(direct));
        let added = median(differences);
        Row {
            what: format!("{}: a turn at P50", self.name),
            codelab: format!("{slow:.2} ms"),
            limit: format!("{quick:.2} ms"),
            against: Goal {
                seen: format!("{added:+.2} ms"),
                wanted: "≤ 1 ms",
                is_met: added <= MOST_ADDED_MS,
            },
        }
    }

    fn processor(&self, runs: &[(MeasuredRun, MeasuredRun)]) -> Row {
        let cpu: fn(&MeasuredRun) -> f64 = |run| run.cpu_us;
        let (more, less) = medians(runs, cpu);
        let times = median(
            runs.iter()
                .map(|(forwarded, direct)| cpu(forwarded) / cpu(direct)),
        );
        Row {
            what: format!("{}: processor time for a turn", self.name),
            codelab: format!("{more:.0} µs"),
            limit: format!("{less:.0} µs"),
            against: Goal {
                seen: format!("{times:.2} ×"),
                wanted: "≤ 1.6 ×",
                is_met: times <= MOST_CPU,
            },
        }
    }
}

/// Of the forwarded runs, and of the direct ones.
fn medians(runs: &[(MeasuredRun, MeasuredRun)], of: fn(&MeasuredRun) -> f64) -> (f64, f64) {
    let forwarded = median(runs.iter().map(|(forwarded, _)| of(forwarded)));
    (forwarded, median(runs.iter().map(|(_, direct)| of(direct))))
}
