//! The workloads on one database, and the goals for their results.

mod beside;
mod forwarded;
mod large;

use std::path::Path;

use crate::generate::{LoadReport, LoadWork, Order};
use crate::postgres::PostgresServer;
use crate::process::{CodeLab, Generator, Served};
use crate::progress;
use crate::table::Row;
use crate::wire::LoadTarget;

/// The amounts of a run.
pub struct Size {
    /// How many times CodeLab and the relay run in turn.
    pub pairs: usize,
    /// The duration of each closed loop.
    pub seconds: f64,
    pub at_once: usize,
    pub sessions_watched: usize,
    pub streams: usize,
    pub events_per_second: usize,
    pub stream_seconds: f64,
    pub plans: usize,
    pub interactions: usize,
    pub searches: usize,
    /// New sessions in a row, and how many at the start and at the end are compared.
    pub sessions: (usize, usize),
    /// The same for turns of one session. Each turn is two messages.
    pub turns: (usize, usize),
    pub starts: usize,
}

impl Size {
    pub fn full() -> Self {
        Self {
            pairs: 3,
            seconds: 2.5,
            at_once: 500,
            sessions_watched: 1_000,
            streams: 10_000,
            events_per_second: 1_000,
            stream_seconds: 8.0,
            plans: 40,
            interactions: 100_000,
            searches: 2_000,
            sessions: (100_000, 5_000),
            turns: (1_000, 100),
            starts: 5,
        }
    }

    pub fn quick() -> Self {
        Self {
            pairs: 1,
            seconds: 0.2,
            at_once: 20,
            sessions_watched: 10,
            streams: 50,
            events_per_second: 100,
            stream_seconds: 0.5,
            plans: 1,
            interactions: 300,
            searches: 20,
            sessions: (200, 20),
            turns: (20, 4),
            starts: 1,
        }
    }

    /// A stream has two ends, and each process holds one of them.
    pub fn open_files(&self) -> u64 {
        const OTHERS: u64 = 512;
        self.streams.max(self.at_once) as u64 + OTHERS
    }
}

pub struct Suite<'a> {
    pub size: &'a Size,
    pub program: &'a Path,
    pub dir: &'a Path,
    pub postgres: Option<&'a PostgresServer>,
    pub model: &'a Served,
    pub limit: &'a Served,
    pub only: &'a [String],
    pub rows: Vec<Row>,
}

impl Suite<'_> {
    pub async fn run(&mut self) -> anyhow::Result<()> {
        if self.wants("start") {
            self.cold_starts().await?;
        }
        self.beside_the_relay().await?;
        if self.wants("W4") {
            self.at_once().await?;
        }
        if self.wants("W6") {
            self.streams().await?;
        }
        if self.wants("W7") {
            self.plans().await?;
        }
        if self.wants("W8") {
            self.searches().await?;
        }
        if self.wants("growth") {
            self.growth().await?;
        }
        Ok(())
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| name.starts_with(only.as_str()))
    }

    /// A server with a database of its own.
    async fn server(&self) -> anyhow::Result<CodeLab> {
        let url = match self.postgres {
            Some(postgres) => Some(postgres.database().await?),
            None => None,
        };
        CodeLab::start(self.program, self.dir, url.as_deref(), self.model).await
    }

    fn add(&mut self, row: Row) {
        progress(row.to_string().trim());
        self.rows.push(row);
    }

    async fn prepare(
        &self,
        what: &str,
        target: LoadTarget,
        work: LoadWork,
    ) -> anyhow::Result<Generator> {
        progress(what);
        Generator::start(&Order { target, work }).await
    }

    async fn generate(
        &self,
        what: &str,
        target: LoadTarget,
        work: LoadWork,
    ) -> anyhow::Result<LoadReport> {
        self.prepare(what, target, work).await?.report().await
    }
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
