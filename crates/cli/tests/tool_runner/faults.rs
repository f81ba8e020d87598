//! A server or a client that dies while a command runs: it has run once, and everybody knows what
//! is known.

use std::time::Duration;

use codelab_fakemodel::Reply;
use codelab_protocol::{CallOutcome, SessionEventBody};
use codelab_testkit::eventually;
use serde_json::{Value, json};

use crate::lab::{Lab, Process, exists};

/// Notes that it runs, and goes on until it is told to end.
const COMMAND: &str = "echo ran >> runs.txt; while [ ! -e go ]; do sleep 0.05; done; echo finished";

/// A lease lasts 30 s.
const BEFORE_THE_LEASE_ENDS: Duration = Duration::from_secs(20);

async fn running(
    lab: &Lab,
) -> (
    crate::lab::Person,
    tokio::task::JoinHandle<Vec<SessionEventBody>>,
) {
    let person = lab.person().await;
    lab.model.reply(Reply::tool_call(
        "execute_command",
        json!({"command": COMMAND}),
    ));
    person.says("run it").await;
    let (client, session) = (person.client.clone(), person.session.clone());
    let turn = tokio::spawn(async move {
        crate::lab::Person { client, session }
            .approves_until_done()
            .await
    });
    exists(&lab.workspace.join("runs.txt")).await;
    (person, turn)
}

fn results(events: &[SessionEventBody]) -> Vec<&Value> {
    let results = events.iter().filter_map(|event| match event {
        SessionEventBody::ToolResult(result) => Some(&result.result),
        _ => None,
    });
    results.collect()
}

fn outcomes(events: &[SessionEventBody]) -> Vec<CallOutcome> {
    let closed = events.iter().filter_map(|event| match event {
        SessionEventBody::ToolCallClosed(closed) => Some(closed.outcome),
        _ => None,
    });
    closed.collect()
}

/// The journals of this machine's clients, as they are on disk.
fn journals(lab: &Lab) -> String {
    let folders = std::fs::read_dir(lab.data.join("hands")).unwrap();
    let journal = |folder: std::io::Result<std::fs::DirEntry>| {
        folder.unwrap().path().join("project/calls.journal")
    };
    folders
        .map(|folder| std::fs::read_to_string(journal(folder)).unwrap())
        .collect()
}

#[tokio::test]
async fn a_result_that_a_killed_server_did_not_store_is_sent_again_and_the_command_ran_once() {
    let lab = Lab::new().await;
    let server = lab.serve(&[]).await;
    let work = lab.work().await;
    let (_person, turn) = running(&lab).await;

    // Stopped, the server takes the result's connection and does nothing with it.
    server.signal("-STOP").await;
    std::fs::write(lab.workspace.join("go"), "").unwrap();
    eventually("the client has noted the result", async || {
        let journal = journals(&lab);
        if journal.contains("finished\\n") {
            Ok(())
        } else {
            Err(journal)
        }
    })
    .await;
    server.kill().await;
    let _server = lab.serve(&[]).await;

    let events = turn.await.unwrap();
    let results = results(&events);
    assert_eq!(results.len(), 1, "{results:?}");
    assert_eq!(results[0]["stdout"], "finished\n", "{results:?}");
    assert_eq!(lab.read("runs.txt"), "ran\n");
    assert!(
        lab.last_request().contains("finished"),
        "the model reads the result: {}",
        lab.last_request()
    );
    work.says("reconnected to the server").await;
    assert_eq!(work.stop().await, Some(0));
    assert_eq!(lab.read("runs.txt"), "ran\n");
}

#[tokio::test]
async fn a_client_that_was_killed_in_a_command_reports_an_unknown_outcome_and_does_not_run_it_again()
 {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    let work = lab.work().await;
    let (_person, turn) = running(&lab).await;
    work.kill().await;

    let again: Process = lab.work().await;
    again
        .says("its outcome is unknown, it is not run again")
        .await;
    let events = tokio::time::timeout(BEFORE_THE_LEASE_ENDS, turn)
        .await
        .expect("the server is told at once")
        .unwrap();
    assert_eq!(
        outcomes(&events),
        [CallOutcome::Unknown],
        "the person is told"
    );
    assert!(results(&events).is_empty(), "{events:?}");
    assert!(
        lab.last_request().contains("Outcome unknown"),
        "the model is told: {}",
        lab.last_request()
    );
    assert_eq!(lab.read("runs.txt"), "ran\n");
    assert_eq!(again.stop().await, Some(0));
    assert_eq!(lab.read("runs.txt"), "ran\n");
}

#[tokio::test]
async fn a_cancelled_turn_stops_its_command() {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    let work = lab.work().await;
    let (person, turn) = running(&lab).await;
    assert!(
        person
            .client
            .cancel_project_session(&person.session, false)
            .await
            .unwrap()
            .cancelled
    );
    work.says("execute_command failed: cancelled").await;
    turn.await.unwrap();
    // The next message finds the same hands free.
    lab.model
        .reply(Reply::tool_call("read_file", json!({"path": "runs.txt"})));
    person.says("look").await;
    eventually("the file was read", async || {
        let request = lab.last_request();
        if request.contains("ran\\\\n") {
            Ok(())
        } else {
            Err(request)
        }
    })
    .await;
}

#[tokio::test]
async fn only_one_client_serves_a_whole_project_in_a_folder() {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    let _work = lab.work().await;
    let second = lab
        .run(&["work", "--workspace", lab.workspace.to_str().unwrap()])
        .await;
    assert_eq!(second.status.code(), Some(1));
    let complaint = String::from_utf8(second.stderr).unwrap();
    assert!(
        complaint.contains("another codelab process serves this folder"),
        "{complaint}"
    );
}

#[tokio::test]
async fn a_waiting_call_is_claimed_by_a_tool_runner_that_comes_later() {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    let person = lab.person().await;
    std::fs::write(lab.workspace.join("a.txt"), "waited for").unwrap();
    lab.model
        .reply(Reply::tool_call("read_file", json!({"path": "a.txt"})));
    person.says("read it").await;
    let _work = lab.work().await;
    let events = person.approves_until_done().await;
    assert_eq!(results(&events)[0]["content"], "waited for");
}

#[tokio::test]
async fn nothing_is_sent_to_whoever_has_the_port_of_a_server_that_is_gone() {
    let lab = Lab::new().await;
    let server = lab.serve(&[]).await;
    let work = lab.work().await;
    server.kill().await;
    work.says("lost its connection to the server").await;
    let stranger = lab.take_port().await;
    let workspace = lab.workspace.to_str().unwrap();
    let refused = lab.run(&["work", "--workspace", workspace]).await;
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && complaint.contains("no server runs"),
        "{complaint}"
    );
    drop(work);
    stranger.set_nonblocking(true).unwrap();
    assert_eq!(
        stranger.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "somebody has called"
    );
}
