//! `appends`: how many durable appends per second the store makes, compared with a bare loop on the
//! same database.
//!
//! An append is what a step of a session commits: one event, and the session's new state. The bare
//! loop writes the same two rows in one transaction each, which is the lowest cost without group
//! commit.

#![allow(clippy::print_stdout, reason = "a benchmark says what it measured")]

mod bare;
mod figures;
mod payload;
mod stored;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Parser;
use codelab_store::DatabaseUrl;

use bare::{BarePostgres, BareSqlite};
use figures::Figures;
use stored::Stored;

const WRITERS: usize = 64;
const MAX_ROUNDS: usize = 100;

/// Durable appends per second: a bare loop, the store with one writer, the store with 64.
#[derive(Parser)]
struct Options {
    /// Folder on the disk to measure; a temporary folder is created in it
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// A PostgreSQL database to measure as well; a schema is created in it and removed at the end
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    postgres: Option<String>,
    /// Number of rounds; each round measures every way once, so that a slow moment affects all of
    /// them
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each way is measured in a round
    #[arg(long, default_value_t = 1500)]
    turn_ms: u64,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    ensure!(
        (1..=MAX_ROUNDS).contains(&options.rounds),
        "--rounds must be 1 to {MAX_ROUNDS}"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        measure_sqlite(&options).await?.print("SQLite");
        if let Some(url) = &options.postgres {
            measure_postgres(url, &options).await?.print("PostgreSQL");
        }
        Ok(())
    })
}

async fn measure_sqlite(options: &Options) -> anyhow::Result<Figures> {
    let folder = tempfile::tempdir_in(&options.dir)?;
    let mut bare = BareSqlite::open(&folder.path().join("bare.db"))?;
    let stored = Stored::open(DatabaseUrl::SqliteFile(folder.path().join("store.db"))).await?;
    let turn = Duration::from_millis(options.turn_ms);
    let mut figures = Figures::default();
    for _ in 0..options.rounds {
        let begun = Instant::now();
        let mut appends = 0;
        while begun.elapsed() < turn {
            bare.append()?;
            appends += 1;
        }
        figures.bare.push(appends, begun.elapsed());
        stored.round(turn, &mut figures).await?;
    }
    stored.close().await;
    Ok(figures)
}

async fn measure_postgres(url: &str, options: &Options) -> anyhow::Result<Figures> {
    let mut bare = BarePostgres::open(url).await?;
    let stored = Stored::open(DatabaseUrl::parse(&bare.own_url())?).await?;
    let turn = Duration::from_millis(options.turn_ms);
    let mut figures = Figures::default();
    for _ in 0..options.rounds {
        let begun = Instant::now();
        let mut appends = 0;
        while begun.elapsed() < turn {
            bare.append().await?;
            appends += 1;
        }
        figures.bare.push(appends, begun.elapsed());
        stored.round(turn, &mut figures).await?;
    }
    stored.close().await;
    bare.remove().await?;
    Ok(figures)
}
