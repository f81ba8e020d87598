//! What it costs that a request enters at another server than the owner's.
//!
//! Two servers are one installation. The second one is drained, so that it owns nothing and forwards
//! everything.

use anyhow::Context as _;

use super::beside::{FAST, MeasuredRun, SLOW};
use super::{Suite, median};
use crate::generate::{LoadWork, ModelPace, RunUntil, TurnKind};
use crate::process::{CodeLab, ProcessUsage};
use crate::table::{Goal, Row};

const MOST_ADDED_MS: f64 = 1.0;
const MOST_CPU: f64 = 1.6;

struct Workload {
    name: &'static str,
    workers: usize,
    pace: ModelPace,
}

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "plain turn",
        workers: 1,
        pace: FAST,
    },
    Workload {
        name: "plain turn",
        workers: 16,
        pace: FAST,
    },
    Workload {
        name: "a token each 15 ms",
        workers: 64,
        pace: SLOW,
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
        for workload in &WORKLOADS {
            let mut runs = Vec::new();
            for pair in 0..self.size.pairs {
                let direct = self.run_through(workload, &both, &both.owner, pair).await?;
                let forwarded = self.run_through(workload, &both, &both.entry, pair).await?;
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
        pair: usize,
    ) -> anyhow::Result<MeasuredRun> {
        let target = server.gateway();
        let Workload {
            name,
            workers,
            pace,
        } = *workload;
        let work = LoadWork::Turns {
            kind: TurnKind::Fresh,
            workers,
            until: RunUntil::Seconds(self.size.seconds),
            pace,
            prefix: format!("{}-{workers}-{pair}", target.addr.replace([':', '.'], "-")),
        };
        let title = format!("{name} with {workers} at once: through {}", target.addr);
        self.run_side(&title, target, work, || both.usage()).await
    }
}

impl Workload {
    fn rows(&self, runs: &[(MeasuredRun, MeasuredRun)]) -> [Row; 2] {
        let name = format!("{}, C={}", self.name, self.workers);
        let of = |of: fn(&MeasuredRun) -> f64| {
            let forwarded = median(runs.iter().map(|(forwarded, _)| of(forwarded)));
            (forwarded, median(runs.iter().map(|(_, direct)| of(direct))))
        };
        let p50: fn(&MeasuredRun) -> f64 = |run| run.report.whole_ms.p50;
        let cpu: fn(&MeasuredRun) -> f64 = |run| run.cpu_us;
        let added = median(
            runs.iter()
                .map(|(forwarded, direct)| p50(forwarded) - p50(direct)),
        );
        let times = median(
            runs.iter()
                .map(|(forwarded, direct)| cpu(forwarded) / cpu(direct)),
        );
        let ((slow, quick), (more, less)) = (of(p50), of(cpu));
        [
            Row {
                what: format!("{name}: a turn at P50"),
                codelab: format!("{slow:.2} ms"),
                limit: format!("{quick:.2} ms"),
                against: Goal {
                    seen: format!("{added:+.2} ms"),
                    wanted: "≤ 1 ms",
                    is_met: added <= MOST_ADDED_MS,
                },
            },
            Row {
                what: format!("{name}: processor time for a turn"),
                codelab: format!("{more:.0} µs"),
                limit: format!("{less:.0} µs"),
                against: Goal {
                    seen: format!("{times:.2} ×"),
                    wanted: "≤ 1.6 ×",
                    is_met: times <= MOST_CPU,
                },
            },
        ]
    }
}
