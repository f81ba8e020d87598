//! Three real servers behind HAProxy on one PostgreSQL, under load and faults. Everything that was
//! acknowledged is compared with what is found.
//!
//! `docs/crash-testing.md` says what is checked and how to replay a failure.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says with which seed"
)]

mod announcer;
mod cases;
mod fault;
mod installation;
mod person;
mod postgres;
mod relay;
mod rounds;
mod server;
#[path = "../workload/workload.rs"]
#[allow(dead_code, reason = "each program uses a part of it")]
mod workload;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rounds::Trial;

const ROUNDS: u64 = 60;
/// Installations that are tried at the same time, because most of a fault's time is waiting.
const INSTALLATIONS: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rounds() {
    if !is_wanted("rounds") {
        return;
    }
    let seed = number("CODELAB_CLUSTER_SEED").unwrap_or_else(new_seed);
    let installations = number("CODELAB_CLUSTER_INSTALLATIONS")
        .unwrap_or(INSTALLATIONS)
        .max(1);
    let total = number("CODELAB_CLUSTER_ROUNDS").unwrap_or(ROUNDS);
    let each = total.div_ceil(installations).max(1);
    println!("cluster: seed {seed}, {installations} installations with {each} rounds each");
    let begun = Instant::now();
    let trials = (0..installations).map(|number| Trial::run(seed, number, each));
    let mut failures = Vec::new();
    for ended in futures_util::future::join_all(trials).await {
        match ended {
            Ok(summary) => println!("{summary}"),
            Err(failure) => failures.push(failure),
        }
    }
    assert!(
        failures.is_empty(),
        "{}\nreplay: CODELAB_CLUSTER_SEED={seed} CODELAB_CLUSTER_ROUNDS={total} \
         CODELAB_CLUSTER_INSTALLATIONS={installations} cargo test --workspace --test cluster rounds",
        failures.join("\n\n")
    );
    println!(
        "cluster: {} rounds in {} s, 0 failures",
        each * installations,
        begun.elapsed().as_secs()
    );
}

/// These tests start a PostgreSQL of their own. They run where tests on services do, or where
/// rounds are asked for.
fn is_wanted(test: &str) -> bool {
    let is_set =
        |name: &str| std::env::var_os(name).is_some_and(|value| !value.as_os_str().is_empty());
    let is_wanted = is_set("CODELAB_TEST_POSTGRES_URL") || is_set("CODELAB_CLUSTER_ROUNDS");
    if !is_wanted {
        println!("{test}: skipped, CODELAB_TEST_POSTGRES_URL is not set");
    }
    is_wanted
}

fn new_seed() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    since.as_millis() as u64 % 1_000_000_000
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
