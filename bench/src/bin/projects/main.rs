//! `projects`: how long a user waits for a new project on a server that has just started and has
//! answered no request yet.
//!
//! Each run is a separate server process on an empty data folder. The time is that of its first
//! request, from the connection to the whole answer. The project must be ready then, with its
//! agents on the bus.

#![allow(clippy::print_stdout, reason = "a benchmark says what it measured")]

mod cold;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser;

use cold::Cold;

const GOAL_P95: Duration = Duration::from_millis(150);
const MAX_RUNS: usize = 10_000;

/// Time of the first request to a cold server, which creates a project.
#[derive(Parser)]
struct Options {
    /// Folder on the disk to measure; temporary folders are created in it
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// The `codelab` program; default: the one beside this program
    #[arg(long)]
    program: Option<PathBuf>,
    #[arg(long, default_value_t = 50)]
    runs: usize,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    ensure!(
        (1..=MAX_RUNS).contains(&options.runs),
        "--runs must be 1 to {MAX_RUNS}"
    );
    let program = match options.program {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("codelab"),
    };
    ensure!(
        program.is_file(),
        "{} does not exist; run: cargo build --release --bin codelab",
        program.display()
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut times = Vec::with_capacity(options.runs);
    for run in 1..=options.runs {
        let time = runtime.block_on(async {
            let server = Cold::start(&program, &options.dir).await?;
            let time = server.make_project().await?;
            server.stop().await?;
            anyhow::Ok(time)
        });
        times.push(time.with_context(|| format!("run {run}"))?);
    }
    times.sort();
    let percentile = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
    let p95 = percentile(95);
    println!("first project on a cold server, {} runs", times.len());
    for (name, time) in [
        ("P50", percentile(50)),
        ("P95", p95),
        ("worst", percentile(100)),
    ] {
        println!("{name:>6} {:>8.1} ms", time.as_secs_f64() * 1000.0);
    }
    let verdict = if p95 < GOAL_P95 { "met" } else { "MISSED" };
    println!("  goal P95 < {} ms: {verdict}", GOAL_P95.as_millis());
    Ok(())
}
