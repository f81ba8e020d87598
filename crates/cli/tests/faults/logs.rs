//! Nobody reads what the server says: it goes on.

use std::fs::File;
use std::io::{BufRead as _, BufReader, PipeWriter, Write as _};
use std::process::{Command, Stdio};

use codelab_fakemodel::Reply;
use codelab_protocol::TurnStatus;
use codelab_testkit::eventually;

use crate::lab::Lab;
use crate::process::serve;

/// Together enough lines at `trace` to fill the pipe and everything that waits before it.
const ROUNDS: usize = 120;
const TURNS_AT_ONCE: usize = 16;
/// What a pipe of Linux holds.
const PIPE_BYTES: usize = 64 * 1024;

#[tokio::test]
async fn a_log_that_nobody_reads_stops_no_turn_and_says_later_what_it_dropped() {
    let mut lab = Lab::prepare(&[("RUST_LOG", "trace")]).await;
    let made = Command::new("mkfifo").arg(lab.log_file()).status().unwrap();
    assert!(made.success());
    // Open for both, so that neither end waits for the other; nobody reads.
    let pipe = File::options()
        .read(true)
        .write(true)
        .open(lab.log_file())
        .unwrap();
    lab.boot().await;
    lab.model.default_reply(Reply::text(
        "one two three four five six seven eight nine ten",
    ));
    for round in 0..ROUNDS {
        let sessions: Vec<String> = (0..TURNS_AT_ONCE)
            .map(|number| format!("s{number}"))
            .collect();
        let turns = sessions.iter().map(|session| lab.say(session, "hello"));
        for seen in futures_util::future::join_all(turns).await {
            assert_eq!(seen.status(), TurnStatus::Completed, "round {round}");
        }
    }
    assert_eq!(lab.look("/health/ready").await.0, 200);

    let (found, mut reading) = tokio::sync::oneshot::channel();
    // A thread of its own: where the line never comes, nobody can take its reading back.
    std::thread::spawn(move || {
        let told = "log lines were dropped because nobody read them";
        let line = BufReader::new(pipe)
            .lines()
            .map_while(Result::ok)
            .find(|line| line.contains(told));
        let _ = found.send(line);
    });
    let told = eventually("the log says what it dropped", async || {
        // A line comes only when something happens.
        lab.say("s", "hello").await;
        reading.try_recv()
    })
    .await;
    let told: serde_json::Value = serde_json::from_str(&told.unwrap()).unwrap();
    assert!(
        told["dropped"].as_u64().is_some_and(|dropped| dropped > 0),
        "{told}"
    );
}

#[tokio::test]
async fn a_server_whose_output_is_closed_serves_and_stops_as_any_other() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    serves_and_stops(writer).await;
}

#[tokio::test]
async fn a_server_whose_output_nobody_reads_serves_and_stops_as_any_other() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'x'; PIPE_BYTES]).unwrap();
    serves_and_stops(writer).await;
    drop(reader);
}

async fn serves_and_stops(writer: PipeWriter) {
    let lab = Lab::prepare(&[]).await;
    let mut command = serve(&lab.settings, "");
    command
        .arg("--data-dir")
        .arg(lab.data_dir())
        .stdout(writer)
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = command.spawn().unwrap();
    let pid = child.id().unwrap().to_string();
    let addr = eventually("the server listens", async || {
        std::fs::read_to_string(lab.data_dir().join("server-addr"))
            .ok()
            .filter(|addr| !addr.is_empty())
            .ok_or(())
    })
    .await;
    let client =
        codelab_client::Client::new(&format!("http://{addr}"), codelab_client::Credentials::None)
            .unwrap();
    client.health().await.expect("it answers");
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    let ended = tokio::time::timeout(crate::process::DEADLINE, child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.success() && !said.contains("panicked"),
        "{:?}: {said}",
        ended.status
    );
}
