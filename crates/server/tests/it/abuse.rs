//! What somebody with bad intentions tries once they can talk to the server, or through the model.

mod approvals;
mod canaries;
mod commands;
mod floods;

use std::process::Command;

/// Set in a process that was started for one test.
const ALONE: &str = "CODELAB_TEST_ALONE";

/// Runs the named test again in a process of its own, where nothing else logs or takes memory, and
/// returns what that wrote. `None` in that process.
fn alone(test: &str) -> Option<String> {
    if std::env::var_os(ALONE).is_some() {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .env("RUST_BACKTRACE", "0");
    let output = command.output().unwrap();
    let written = [output.stdout, output.stderr].concat();
    let written = String::from_utf8_lossy(&written).into_owned();
    let end: Vec<&str> = written.lines().rev().take(40).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    assert!(
        output.status.success(),
        "{test} fails in a process of its own:\n{}",
        end.join("\n")
    );
    assert!(
        written.contains("test result: ok. 1 passed"),
        "{test} was not found:\n{}",
        end.join("\n")
    );
    Some(written)
}

/// A plain test's own asynchronous world.
fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work);
}
