//! Kills the real server again and again under load, and compares everything that was acknowledged
//! with what is found.
//!
//! `docs/crash-testing.md` says what is checked and how to replay a failure.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says with which seed"
)]

mod database;
mod process;
mod run;
#[path = "../workload/workload.rs"]
#[allow(dead_code, reason = "each program uses a part of it")]
mod workload;

use std::time::{SystemTime, UNIX_EPOCH};

use database::Place;

const SQLITE_ROUNDS: u64 = 200;
const POSTGRES_ROUNDS: u64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_sqlite() {
    run::run(
        "crash_sqlite",
        Place::sqlite(),
        seed(),
        rounds(SQLITE_ROUNDS),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_postgres() {
    let url = std::env::var("CODELAB_TEST_POSTGRES_URL")
        .ok()
        .filter(|url| !url.is_empty());
    let Some(url) = url else {
        println!("crash_postgres: skipped, CODELAB_TEST_POSTGRES_URL is not set");
        return;
    };
    let seed = seed();
    let name = format!("crash_{}_{seed}", std::process::id());
    run::run(
        "crash_postgres",
        Place::postgres(&url, name).await,
        seed,
        rounds(POSTGRES_ROUNDS),
    )
    .await;
}

fn rounds(otherwise: u64) -> u64 {
    number("CODELAB_CRASH_ROUNDS").unwrap_or(otherwise).max(1)
}

/// The one that was given, else a new one for each run.
fn seed() -> u64 {
    number("CODELAB_CRASH_SEED").unwrap_or_else(|| {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        since.as_millis() as u64 % 1_000_000_000
    })
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable)
        .ok()
        .filter(|text| !text.is_empty())?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")),
    )
}
