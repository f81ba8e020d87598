//! Workloads that CodeLab and the relay run in turn, under the same conditions.

use super::{Suite, median};
use crate::generate::{LoadReport, LoadWork, ModelPace, Rhythm, RunUntil, TurnKind};
use crate::process::{CodeLab, ProcessUsage};
use crate::table::{Goal, Row};
use crate::wire::LoadTarget;

const REUSED_SESSIONS: usize = 64;
pub(super) const SLOW: ModelPace = ModelPace {
    first_ms: 15,
    gap_ms: 15,
};

/// A workload, and how its results are compared.
struct Beside {
    name: &'static str,
    what: &'static str,
    kind: TurnKind,
    workers: usize,
    pace: ModelPace,
    goals: &'static [Compared],
}

enum Compared {
    /// Turns per second, as a share of the relay's.
    Rate(&'static str, f64),
    /// Processor time of the server per turn, as a multiple of the relay's.
    Cpu(&'static str, f64),
    /// Milliseconds to the first token at P95, more than the relay's.
    First(&'static str, f64),
}

pub(super) const FAST: ModelPace = ModelPace {
    first_ms: 0,
    gap_ms: 0,
};
const REUSED: TurnKind = TurnKind::Reused {
    sessions: REUSED_SESSIONS,
};
const HALF: Compared = Compared::Rate("≥ 0.5", 0.5);

const WORKLOADS: [Beside; 7] = [
    Beside {
        name: "W1",
        what: "plain turn, fresh session",
        kind: TurnKind::Fresh,
        workers: 1,
        pace: FAST,
        goals: &[Compared::Rate("≥ 0.3", 0.3)],
    },
    Beside {
        name: "W1",
        what: "plain turn, fresh session",
        kind: TurnKind::Fresh,
        workers: 16,
        pace: FAST,
        goals: &[HALF, Compared::Cpu("≤ 2.5 ×", 2.5)],
    },
    Beside {
        name: "W1",
        what: "plain turn, fresh session",
        kind: TurnKind::Fresh,
        workers: 64,
        pace: FAST,
        goals: &[HALF],
    },
    Beside {
        name: "W2",
        what: "plain turn, 64 sessions with history",
        kind: REUSED,
        workers: 16,
        pace: FAST,
        goals: &[Compared::Rate("≥ 0.35", 0.35)],
    },
    Beside {
        name: "W2",
        what: "plain turn, 64 sessions with history",
        kind: REUSED,
        workers: 64,
        pace: FAST,
        goals: &[Compared::Rate("≥ 0.35", 0.35)],
    },
    Beside {
        name: "W3",
        what: "tool turn, two model calls",
        kind: TurnKind::Tool,
        workers: 16,
        pace: FAST,
        goals: &[Compared::Rate("≥ 0.25", 0.25)],
    },
    Beside {
        name: "W5",
        what: "a token each 15 ms",
        kind: TurnKind::Fresh,
        workers: 64,
        pace: SLOW,
        goals: &[
            Compared::First("≤ 5 ms later", 5.0),
            Compared::Cpu("≤ 2 ×", 2.0),
        ],
    },
];

/// One run of CodeLab or of the relay.
pub(super) struct MeasuredRun {
    pub report: LoadReport,
    pub cpu_us: f64,
}

impl Suite<'_> {
    pub(super) async fn beside_the_relay(&mut self) -> anyhow::Result<()> {
        let wanted: Vec<&Beside> = WORKLOADS
            .iter()
            .filter(|workload| self.wants(workload.name))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let server = self.server().await?;
        let mut runs: Vec<Vec<(MeasuredRun, MeasuredRun)>> =
            wanted.iter().map(|_| Vec::new()).collect();
        for pair in 0..self.size.pairs {
            for (workload, runs) in wanted.iter().zip(&mut runs) {
                let limit = self.run_limit(workload).await?;
                let codelab = self.run_codelab(workload, &server, pair).await?;
                runs.push((codelab, limit));
            }
        }
        for (workload, runs) in wanted.iter().zip(&runs) {
            for compared in workload.goals {
                self.add(workload.row(compared, runs));
            }
        }
        server.stop().await
    }

    async fn run_limit(&self, workload: &Beside) -> anyhow::Result<MeasuredRun> {
        let title = format!("{} with {} at once: limit", workload.name, workload.workers);
        let usage = || self.limit.usage();
        self.run_side(
            &title,
            self.limit.target(),
            workload.work(TurnKind::Limit, self.size.seconds, String::new()),
            usage,
        )
        .await
    }

    async fn run_codelab(
        &self,
        workload: &Beside,
        server: &CodeLab,
        pair: usize,
    ) -> anyhow::Result<MeasuredRun> {
        let title = format!(
            "{} with {} at once: CodeLab",
            workload.name, workload.workers
        );
        let prefix = format!("{}-{}-{pair}", workload.name, workload.workers);
        let work = workload.work(workload.kind, self.size.seconds, prefix);
        self.run_side(&title, server.gateway(), work, || server.usage())
            .await
    }

    pub(super) async fn run_side(
        &self,
        title: &str,
        target: LoadTarget,
        work: LoadWork,
        usage: impl Fn() -> anyhow::Result<ProcessUsage>,
    ) -> anyhow::Result<MeasuredRun> {
        let mut generator = self.prepare(title, target, work).await?;
        generator.pause().await?;
        let before = usage()?.cpu_seconds;
        let report = generator.report().await?;
        let cpu_us = (usage()?.cpu_seconds - before) / report.count.max(1) as f64 * 1e6;
        Ok(MeasuredRun { report, cpu_us })
    }
}

impl Beside {
    fn work(&self, kind: TurnKind, seconds: f64, prefix: String) -> LoadWork {
        LoadWork::Turns {
            kind,
            workers: self.workers,
            until: RunUntil::Seconds(seconds),
            pace: self.pace,
            rhythm: Rhythm::Closed,
            prefix,
        }
    }

    fn row(&self, compared: &Compared, runs: &[(MeasuredRun, MeasuredRun)]) -> Row {
        let name = format!("{} {}, C={}", self.name, self.what, self.workers);
        let both = |of: fn(&MeasuredRun) -> f64| {
            let codelab = median(runs.iter().map(|(codelab, _)| of(codelab)));
            (codelab, median(runs.iter().map(|(_, limit)| of(limit))))
        };
        let ratio = |of: fn(&MeasuredRun) -> f64| {
            median(runs.iter().map(|(codelab, limit)| of(codelab) / of(limit)))
        };
        match *compared {
            Compared::Rate(wanted, least) => {
                let rate: fn(&MeasuredRun) -> f64 = |run| run.report.rate();
                let ((codelab, limit), share) = (both(rate), ratio(rate));
                Row {
                    what: name,
                    codelab: format!("{codelab:.0} turns/s"),
                    limit: format!("{limit:.0}"),
                    against: Goal {
                        seen: format!("{share:.2}"),
                        wanted,
                        is_met: share >= least,
                    },
                }
            }
            Compared::Cpu(wanted, most) => {
                let cpu: fn(&MeasuredRun) -> f64 = |run| run.cpu_us;
                let ((codelab, limit), times) = (both(cpu), ratio(cpu));
                Row {
                    what: format!("{name}: own processor time for a turn"),
                    codelab: format!("{codelab:.0} µs"),
                    limit: format!("{limit:.0} µs"),
                    against: Goal {
                        seen: format!("{times:.1} ×"),
                        wanted,
                        is_met: times <= most,
                    },
                }
            }
            Compared::First(wanted, most) => {
                let (codelab, limit) = both(|run| run.report.first_ms.p95);
                let later = median(
                    runs.iter()
                        .map(|(own, bare)| own.report.first_ms.p95 - bare.report.first_ms.p95),
                );
                Row {
                    what: format!("{name}: first token at P95"),
                    codelab: format!("{codelab:.1} ms"),
                    limit: format!("{limit:.1} ms"),
                    against: Goal {
                        seen: format!("{later:+.1} ms"),
                        wanted,
                        is_met: later <= most,
                    },
                }
            }
        }
    }
}
