//! Servers that do not keep to the protocol, or mean harm. They cost themselves, not us.

use std::process::Stdio;
use std::time::Duration;

use codelab_mcp::{ElicitReply, McpCallEnd, McpLimits};
use codelab_protocol::McpStatus;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::lab::{
    LAUNCHER, PATIENCE, SCRIPTED, call, call_with, content, limits, listening, mark, marked,
    object, ready, scripted, state_where, until,
};

/// What the program itself takes, with a message at the limit and its copies.
const MAX_PEAK_KIB: u64 = 160 * 1024;

/// A program that uses a scripted server, and what it said.
async fn driven(mark: &str, arguments: &[&str]) -> (Child, Value) {
    let mut child = Command::new(SCRIPTED)
        .args(["drive", LAUNCHER])
        .args(arguments)
        .env("CODELAB_TEST_MARK", mark)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = timeout(PATIENCE, lines.next_line()).await.unwrap();
    let said = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
    (child, said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_without_end_costs_no_memory() {
    let mark = mark();
    let (mut child, said) = driven(&mark, &["flood"]).await;
    let error = said["error"].as_str().unwrap();
    assert!(
        error.contains("a message of more than 16777216 bytes"),
        "{said}"
    );
    assert!(said["peak_kib"].as_u64().unwrap() < MAX_PEAK_KIB, "{said}");
    child.kill().await.unwrap();
    until("nothing is left", || marked(&mark).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_result_is_refused_while_it_is_read() {
    let mark = mark();
    let huge = json!({"bytes": 100 * 1024 * 1024}).to_string();
    let (mut child, said) = driven(&mark, &["normal", "huge", &huge]).await;
    let end = said["end"].as_str().unwrap();
    assert!(
        end.starts_with("Unknown(\"it sent a message of more than"),
        "{said}"
    );
    assert!(said["peak_kib"].as_u64().unwrap() < MAX_PEAK_KIB, "{said}");
    child.kill().await.unwrap();
    until("nothing is left", || marked(&mark).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_is_cut() {
    let handle = scripted("normal", &mark(), limits());
    ready(&handle).await;
    let end = call(&handle, "huge", json!({"bytes": 4 * 1024 * 1024})).await;
    let text = content(&end);
    assert!(text.ends_with("bytes]") && text.contains("[cut: "));
    assert!(text.len() < 1024 * 1024 + 200, "{}", text.len());
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_end_cost_no_memory() {
    let mark = mark();
    let pings = json!({"times": 300_000}).to_string();
    let (mut child, said) = driven(&mark, &["normal", "pings", &pings]).await;
    let end = said["end"].as_str().unwrap();
    assert!(
        end.starts_with("Unknown(\"the server did not answer within"),
        "{said}"
    );
    assert!(said["peak_kib"].as_u64().unwrap() < MAX_PEAK_KIB, "{said}");
    child.kill().await.unwrap();
    until("nothing is left", || marked(&mark).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_in_the_handshake_is_ended_with_all_it_started() {
    let mark = mark();
    let impatient = McpLimits {
        handshake_timeout: Duration::from_millis(500),
        max_restarts: 0,
        ..limits()
    };
    let handle = scripted("mute", &mark, impatient);
    let state = state_where(&handle, |state| state.status == McpStatus::Failed).await;
    let error = state.error.unwrap();
    assert!(
        error.contains("did not answer the handshake within 0.5 s"),
        "{error}"
    );
    assert_eq!(
        marked(&mark),
        [0; 0],
        "it was ended before its failure was shown"
    );
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_can_be_stopped() {
    let mark = mark();
    let handle = scripted("mute", &mark, limits());
    until("it runs", || marked(&mark).len() >= 2).await;
    handle.stop().await;
    assert_eq!(marked(&mark), [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_says_why_and_is_not_tried_for_ever() {
    let handle = scripted("crash", &mark(), limits());
    let given_up = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        text.contains("it failed 6 times, and the next call tries again")
    };
    let state = state_where(&handle, |state| given_up(&state.error)).await;
    assert_eq!(state.status, McpStatus::Failed);
    let error = state.error.unwrap();
    assert!(error.contains("fatal: ␛[31mno configuration"), "{error}");
    assert!(!error.contains('\u{1b}'), "{error:?}");
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_exist_is_named() {
    let entry = json!({"command": "codelab-no-such-program"});
    let once = McpLimits {
        max_restarts: 0,
        ..limits()
    };
    let handle = crate::lab::process(&entry, once);
    let state = state_where(&handle, |state| state.status == McpStatus::Failed).await;
    let error = state.error.unwrap();
    assert!(
        error.contains("codelab-no-such-program cannot be started"),
        "{error}"
    );
    assert!(error.contains("install it"), "{error}");
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_in_a_call_leaves_it_unknown_and_comes_back() {
    for tool in ["die", "half"] {
        let handle = scripted("normal", &mark(), limits());
        ready(&handle).await;
        let end = call(&handle, tool, json!({})).await;
        let McpCallEnd::Unknown(reason) = end else {
            panic!("{tool}: {end:?}");
        };
        assert!(!reason.contains('\u{1b}'), "{reason:?}");
        let end = call(&handle, "echo", json!({"text": "back"})).await;
        assert_eq!(content(&end), "back");
        handle.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_in_a_loop_are_declined_after_the_tenth() {
    let handle = scripted("normal", &mark(), limits());
    ready(&handle).await;
    let (options, heard) = listening(|| ElicitReply::Accept(object(json!({"name": "x"}))));
    let end = call_with(&handle, "elicit", json!({"times": 25}), options).await;
    let said: Value = serde_json::from_str(content(&end)).unwrap();
    assert_eq!(said["declined"], 15);
    assert_eq!(heard.await.unwrap().len(), 10);
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_hide_end_with_their_server() {
    let mark = mark();
    let handle = scripted("normal", &mark, limits());
    ready(&handle).await;
    call(&handle, "linger", json!({})).await;
    until("they hide", || marked(&mark).len() >= 4).await;
    handle.stop().await;
    assert_eq!(marked(&mark), [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_hide_end_when_whoever_used_the_server_is_killed() {
    let mark = mark();
    let (mut child, _) = driven(&mark, &["normal", "linger", "{}"]).await;
    // The program itself has the mark too.
    until("they hide", || marked(&mark).len() >= 5).await;
    child.kill().await.unwrap();
    until("nothing is left", || marked(&mark).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_handle_ends_its_server() {
    let mark = mark();
    let handle = scripted("normal", &mark, limits());
    ready(&handle).await;
    assert!(!marked(&mark).is_empty());
    drop(handle);
    until("nothing is left", || marked(&mark).is_empty()).await;
}
