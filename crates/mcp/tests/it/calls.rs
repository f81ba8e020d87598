//! Servers that keep to the protocol.

use codelab_mcp::{ElicitReply, McpCallEnd, McpLimits};
use codelab_protocol::{Digest, McpStatus};
use serde_json::json;

use crate::lab::{
    call, call_with, content, limits, listening, mark, object, quiet, ready, scripted, state_where,
};

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_listed_and_called() {
    for mode in ["normal", "greeting", "oldest"] {
        let handle = scripted(mode, &mark(), limits());
        let state = ready(&handle).await;
        assert_eq!(state.error, None);
        assert!(state.tools.iter().any(|tool| tool.name == "echo"));
        let end = call(&handle, "echo", json!({"text": "hello"})).await;
        assert_eq!(
            end,
            McpCallEnd::Result(json!({"success": true, "content": "hello"}))
        );
        let end = call(&handle, "fail", json!({})).await;
        let expected = json!({"success": false, "content": "", "error": "no such file"});
        assert_eq!(end, McpCallEnd::Result(expected));
        let end = call(&handle, "image", json!({})).await;
        let McpCallEnd::Result(result) = end else {
            panic!("{end:?}");
        };
        assert_eq!(result["images"][0]["data"], "aGk=");
        let end = call(&handle, "refuse", json!({})).await;
        let expected = "the server refused the call: not\u{241b}[2J today";
        assert_eq!(end, McpCallEnd::Failed(expected.to_owned()));
        handle.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ignores_the_newest_protocol_is_understood() {
    let handle = scripted("silent", &mark(), limits());
    ready(&handle).await;
    assert_eq!(
        content(&call(&handle, "echo", json!({"text": "a"})).await),
        "a"
    );
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_gets_its_own_environment_and_little_else() {
    let handle = scripted("normal", &mark(), limits());
    ready(&handle).await;
    let end = call(&handle, "environment", json!({})).await;
    let known = ["PATH", "HOME", "LANG", "TMPDIR", "CODELAB_TEST_MARK"];
    for name in content(&end).split(' ') {
        assert!(known.contains(&name), "{name}");
    }
    assert!(content(&end).contains("CODELAB_TEST_MARK"));
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_questions_reach_the_caller() {
    let handle = scripted("normal", &mark(), limits());
    ready(&handle).await;
    let (options, heard) = listening(|| ElicitReply::Decline);
    let end = call_with(&handle, "progress", json!({}), options).await;
    assert_eq!(content(&end), "done");
    let heard = heard.await.unwrap();
    assert!(!heard.is_empty(), "progress is passed on");
    for text in heard {
        assert!(
            text.contains("step\\u{241b}[2J") || text.contains("step␛[2J"),
            "{text}"
        );
    }

    let accept = || ElicitReply::Accept(object(json!({"name": "Ada"})));
    let (options, heard) = listening(accept);
    let end = call_with(&handle, "elicit", json!({"times": 2}), options).await;
    let expected = json!({"accepted": [{"name": "Ada"}, {"name": "Ada"}], "declined": 0});
    assert_eq!(content(&end), expected.to_string());
    assert_eq!(heard.await.unwrap(), ["Your ␛[2Jname?"; 2]);

    // Nobody listens.
    let end = call(&handle, "elicit", json!({"times": 1})).await;
    assert_eq!(
        content(&end),
        json!({"accepted": [], "declined": 1}).to_string()
    );
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_definition_than_the_one_shown_is_not_called() {
    let handle = scripted("normal", &mark(), limits());
    let before = ready(&handle).await;
    let echo = before
        .tools
        .iter()
        .find(|tool| tool.name == "echo")
        .unwrap();
    let shown = echo.digest();
    assert_eq!(
        content(&call(&handle, "change", json!({})).await),
        "changed"
    );
    state_where(&handle, |state| state.tools != before.tools).await;
    let end = handle
        .call("echo", &shown, object(json!({})), quiet())
        .await;
    let McpCallEnd::Refused(reason) = end else {
        panic!("{end:?}");
    };
    assert!(reason.contains("changed the definition"), "{reason}");
    let none = Digest::of_bytes(b"");
    let end = handle
        .call("unknown", &none, object(json!({})), quiet())
        .await;
    assert!(matches!(end, McpCallEnd::Refused(_)), "{end:?}");
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_is_told_to_the_server() {
    let handle = scripted("normal", &mark(), limits());
    ready(&handle).await;
    let options = quiet();
    let stop = options.stop.clone();
    let cancel = tokio::spawn(async move { stop.cancel() });
    let end = call_with(&handle, "hang", json!({}), options).await;
    cancel.await.unwrap();
    assert!(
        matches!(end, McpCallEnd::Unknown(_) | McpCallEnd::Refused(_)),
        "{end:?}"
    );
    let short = McpLimits {
        call_timeout: std::time::Duration::from_millis(100),
        ..limits()
    };
    let impatient = scripted("normal", &mark(), short);
    ready(&impatient).await;
    let end = call(&impatient, "hang", json!({})).await;
    assert!(matches!(end, McpCallEnd::Unknown(_)), "{end:?}");
    assert_eq!(
        content(&call(&impatient, "cancelled", json!({})).await),
        "1"
    );
    handle.stop().await;
    impatient.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_server_is_stopped_and_started_by_the_next_call() {
    let mark = mark();
    let quick = McpLimits {
        idle_timeout: std::time::Duration::from_millis(50),
        ..limits()
    };
    let handle = scripted("normal", &mark, quick);
    ready(&handle).await;
    let idle = state_where(&handle, |state| state.status == McpStatus::Idle).await;
    assert!(!idle.tools.is_empty(), "what it offers stays known");
    assert_eq!(crate::lab::marked(&mark), [0; 0]);
    assert_eq!(
        content(&call(&handle, "echo", json!({"text": "again"})).await),
        "again"
    );
    handle.stop().await;
}
