//! Workloads that have a goal of their own: many turns at once, many streams, plans, memory,
//! growth.

use std::time::Duration;

use super::{Suite, median};
use crate::generate::{LoadWork, ModelPace, Rhythm, RunUntil, TurnKind};
use crate::process::CodeLab;
use crate::table::{Goal, Row};

const RSS_LOOK: Duration = Duration::from_millis(20);
const LATE_START: ModelPace = ModelPace {
    first_ms: 2_000,
    gap_ms: 0,
};
const TASK: ModelPace = ModelPace {
    first_ms: 50,
    gap_ms: 0,
};
const KIB_PER_TURN: f64 = 60.0;
const ALL_WITHIN_MS: f64 = 2_500.0;
const KIB_PER_STREAM: f64 = 24.0;
const DELIVERY_MS: f64 = 100.0;
const ABOVE_PATH_MS: f64 = 10.0;
const SEARCH_MS: f64 = 5.0;
const START_MS: f64 = 100.0;
const IDLE_MIB: f64 = 40.0;
const GROWTH: f64 = 0.8;
const GROWTH_WORKERS: usize = 16;
/// The first turns of a process also open connections, start threads and fill caches.
const WARM_UP: usize = 64;

impl Suite<'_> {
    pub(super) async fn cold_starts(&mut self) -> anyhow::Result<()> {
        let (mut starts, mut resident) = (Vec::new(), Vec::new());
        for _ in 0..self.size.starts {
            let server = self.server().await?;
            starts.push(server.cold_start.as_secs_f64() * 1000.0);
            resident.push(server.usage()?.resident_kib / 1024.0);
            server.stop().await?;
        }
        let (start, idle) = (median(starts), median(resident));
        self.row(
            "cold start to healthy",
            format!("{start:.0} ms"),
            "≤ 100 ms",
            start <= START_MS,
        );
        self.row(
            "resident memory, idle",
            format!("{idle:.1} MiB"),
            "≤ 40 MiB",
            idle <= IDLE_MIB,
        );
        Ok(())
    }

    pub(super) async fn at_once(&mut self) -> anyhow::Result<()> {
        let server = self.warm_server().await?;
        let count = self.size.at_once;
        let work = LoadWork::Turns {
            kind: TurnKind::Fresh,
            workers: count,
            until: RunUntil::Count(count),
            pace: LATE_START,
            rhythm: Rhythm::Closed,
            prefix: "W4".to_owned(),
        };
        let title = format!("W4: {count} turns at once, first token after 2 s");
        let mut generator = self.prepare(&title, server.gateway(), work).await?;
        generator.pause().await?;
        // The connections are open by now, so the growth is what the turns need.
        let before = server.usage()?.resident_kib;
        let mut most = before;
        let mut reporting = std::pin::pin!(generator.report());
        let report = loop {
            tokio::select! {
                report = &mut reporting => break report?,
                () = tokio::time::sleep(RSS_LOOK) => most = most.max(server.usage()?.resident_kib),
            }
        };
        server.stop().await?;
        let (slowest, each) = (report.whole_ms.most, (most - before) / count as f64);
        let done = format!(
            "{} of {count} within {:.2} s",
            report.count,
            slowest / 1000.0
        );
        let is_met = report.count == count && slowest <= ALL_WITHIN_MS;
        self.row(
            &format!("W4 {count} turns at once, 2 s to the first token"),
            done,
            "all within 2.5 s",
            is_met,
        );
        self.row(
            "W4 memory for a turn in flight",
            format!("{each:.1} KiB"),
            "≤ 60 KiB",
            each <= KIB_PER_TURN,
        );
        Ok(())
    }

    pub(super) async fn streams(&mut self) -> anyhow::Result<()> {
        let server = self.warm_server().await?;
        let size = self.size;
        let work = LoadWork::Streams {
            sessions: size.sessions_watched,
            readers: size.streams,
            events_per_second: size.events_per_second,
            seconds: size.stream_seconds,
            prefix: "W6".to_owned(),
        };
        let title = format!("W6: {} event streams", size.streams);
        let mut generator = self.prepare(&title, server.gateway(), work).await?;
        generator.pause().await?;
        let before = server.usage()?.resident_kib;
        generator.go_on().await?;
        generator.pause().await?;
        let each = (server.usage()?.resident_kib - before) / size.streams as f64;
        let report = generator.report().await?;
        server.stop().await?;
        let late = report.whole_ms.p99;
        self.row(
            "W6 memory for an idle event stream",
            format!("{each:.1} KiB"),
            "≤ 24 KiB",
            each <= KIB_PER_STREAM,
        );
        let fan = size.streams / size.sessions_watched;
        let what = format!(
            "W6 {} events/s to {fan} readers each, P99",
            size.events_per_second
        );
        self.row(
            &what,
            format!("{late:.1} ms"),
            "≤ 100 ms",
            late <= DELIVERY_MS,
        );
        Ok(())
    }

    pub(super) async fn plans(&mut self) -> anyhow::Result<()> {
        let server = self.warm_server().await?;
        let work = LoadWork::Plans {
            model: self.model.addr.clone(),
            count: self.size.plans,
            pace: TASK,
        };
        let report = self
            .generate(
                "W7: plans of 10 tasks in 3 layers",
                server.user().await?,
                work,
            )
            .await?;
        server.stop().await?;
        let above = report.first_ms.p95;
        let seen = format!("{above:.1} ms (P50 {:.1})", report.first_ms.p50);
        self.row(
            "W7 plan of 10 tasks, above its critical path, P95",
            seen,
            "≤ 10 ms",
            above <= ABOVE_PATH_MS,
        );
        Ok(())
    }

    pub(super) async fn searches(&mut self) -> anyhow::Result<()> {
        let server = self.warm_server().await?;
        let (interactions, searches) = (self.size.interactions, self.size.searches);
        let title = format!("W8: an agent remembers {interactions} interactions");
        let work = LoadWork::Searches {
            interactions,
            searches,
        };
        let report = self.generate(&title, server.user().await?, work).await?;
        server.stop().await?;
        let (p50, p95) = (report.whole_ms.p50, report.whole_ms.p95);
        let what = format!("W8 memory search among {interactions}, P95");
        self.row(
            &what,
            format!("{p95:.1} ms (P50 {p50:.1})"),
            "≤ 5 ms",
            p95 <= SEARCH_MS,
        );
        Ok(())
    }

    pub(super) async fn growth(&mut self) -> anyhow::Result<()> {
        let (sessions, turns) = (self.size.sessions, self.size.turns);
        let what = format!("turns/s on session number {}", sessions.0);
        self.growth_of(&what, TurnKind::Fresh, GROWTH_WORKERS, sessions)
            .await?;
        let what = format!("turns/s on message number {} of one session", turns.0 * 2);
        self.growth_of(&what, TurnKind::Reused { sessions: 1 }, 1, turns)
            .await
    }

    async fn growth_of(
        &mut self,
        what: &str,
        kind: TurnKind,
        workers: usize,
        run: (usize, usize),
    ) -> anyhow::Result<()> {
        let server = self.warm_server().await?;
        let (count, window) = run;
        let until = RunUntil::Growth { count, window };
        let work = LoadWork::Turns {
            kind,
            workers,
            until,
            pace: ModelPace::default(),
            rhythm: Rhythm::Closed,
            prefix: "growth".to_owned(),
        };
        let report = self
            .generate(&format!("growth: {what}"), server.gateway(), work)
            .await?;
        server.stop().await?;
        let (first, last) = report.growth.unwrap_or_default();
        let share = last / first;
        let row = Row {
            what: what.to_owned(),
            codelab: format!("{last:.0}, first {first:.0}"),
            limit: String::new(),
            against: Goal {
                seen: format!("{share:.2}"),
                wanted: "≥ 0.8 of the first",
                is_met: share >= GROWTH,
            },
        };
        self.add(row);
        Ok(())
    }

    async fn warm_server(&self) -> anyhow::Result<CodeLab> {
        let server = self.server().await?;
        let work = LoadWork::Turns {
            kind: TurnKind::Fresh,
            workers: 1,
            until: RunUntil::Count(WARM_UP),
            pace: ModelPace::default(),
            rhythm: Rhythm::Closed,
            prefix: "warm".to_owned(),
        };
        self.generate("a new server", server.gateway(), work)
            .await?;
        Ok(server)
    }

    fn row(&mut self, what: &str, seen: String, wanted: &'static str, is_met: bool) {
        let against = Goal {
            seen: String::new(),
            wanted,
            is_met,
        };
        self.add(Row {
            what: what.to_owned(),
            codelab: seen,
            limit: String::new(),
            against,
        });
    }
}
