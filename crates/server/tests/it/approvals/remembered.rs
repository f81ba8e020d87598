//! A yes that is remembered for the session: what it covers, what it never covers, and that it is
//! still written down.

use codelab_protocol::{HitlDecision, TurnStatus};
use codelab_testkit::{Reply, SeenEvents, TestServer};
use serde_json::{Value, json};

use super::decided;

fn remember() -> HitlDecision {
    HitlDecision {
        remember: Some(true),
        ..decided("APPROVE")
    }
}

fn write(path: &str) -> Reply {
    Reply::tool_call("write_file", json!({"path": path, "content": "x"}))
}

fn run(command: &str) -> Reply {
    Reply::tool_call("execute_command", json!({"command": command}))
}

/// Lets the running call end and the model make this one next.
async fn next(server: &TestServer, session: &str, before: &SeenEvents, reply: Reply) -> SeenEvents {
    server.model.reply(reply);
    server
        .result(session, &before.call_id(), json!({"success": true}))
        .await
}

fn passes(seen: &SeenEvents) -> bool {
    let shown = seen.tool_call();
    assert_eq!(
        shown.approved, !shown.requires_approval,
        "a call that passes by a rule says so"
    );
    let reason = shown.reason.as_deref().unwrap_or_default();
    assert_eq!(
        reason.contains("remembered"),
        shown.approved,
        "and so does its reason: {reason}"
    );
    seen.status() == TurnStatus::AwaitingToolResult
}

#[tokio::test]
async fn a_remembered_yes_covers_other_file_writes_but_no_protected_path() {
    let server = TestServer::start().await;
    server.model.reply(write("a.py"));
    let mut seen = server.say_to("files", "coder", "write").await;
    let first = seen.call_id();
    seen = server.decide("files", &first, remember()).await;
    seen = next(&server, "files", &seen, write("b.py")).await;
    assert!(passes(&seen), "{:?}", seen.story());
    let second = seen.call_id();
    for path in [".git/hooks/pre-commit", "../outside.py"] {
        seen = next(&server, "files", &seen, write(path)).await;
        assert!(!passes(&seen), "{path}");
        seen = server.approve("files", &seen.call_id()).await;
    }
    seen = next(&server, "files", &seen, run("rm -rf build")).await;
    assert!(!passes(&seen), "a command is another kind");

    let audit = server.audit("files").await;
    assert!(audit.verified);
    assert_eq!(audit.audit.len(), 4);
    let (asked, passed) = (&audit.audit[0], &audit.audit[1]);
    assert_eq!((&asked.call_id, &passed.call_id), (&first, &second));
    assert_eq!(
        (asked.decision.as_str(), passed.decision.as_str()),
        ("APPROVE", "APPROVE")
    );
    assert_ne!(
        asked.decided_by, passed.decided_by,
        "the rule decided, not the person"
    );
    assert!(
        passed.decided_by.contains("remember"),
        "{}",
        passed.decided_by
    );
    assert_eq!(passed.original_args.as_ref().unwrap()["path"], "b.py");
    assert!(
        passed.reason.as_ref().unwrap().contains("remembered"),
        "{:?}",
        passed.reason
    );
}

#[tokio::test]
async fn a_remembered_yes_covers_the_very_same_command_only() {
    let server = TestServer::start().await;
    let command = "rm -rf build";
    server.model.reply(run(command));
    let mut seen = server.say_to("commands", "coder", "clean").await;
    seen = server.decide("commands", &seen.call_id(), remember()).await;
    seen = next(&server, "commands", &seen, run(command)).await;
    assert!(passes(&seen));
    let elsewhere = Reply::tool_call("execute_command", json!({"command": command, "cwd": "lib"}));
    let others = [
        "rm -rf build ",
        "rm  -rf build",
        "rm -rf build2",
        "rm -rf build; ls",
    ]
    .map(run);
    for (number, other) in others.into_iter().chain([elsewhere]).enumerate() {
        seen = next(&server, "commands", &seen, other).await;
        assert!(!passes(&seen), "{number}");
        seen = server.approve("commands", &seen.call_id()).await;
    }
    seen = next(&server, "commands", &seen, write("a.py")).await;
    assert!(!passes(&seen), "a write is another kind");
}

#[tokio::test]
async fn a_yes_without_remember_or_to_a_protected_path_covers_nothing_else() {
    let server = TestServer::start().await;
    server.model.reply(write("a.py"));
    let mut seen = server.say_to("once", "coder", "write").await;
    seen = server.approve("once", &seen.call_id()).await;
    seen = next(&server, "once", &seen, write(".git/hooks/pre-push")).await;
    assert!(!passes(&seen));
    seen = server.decide("once", &seen.call_id(), remember()).await;
    for path in ["b.py", ".git/hooks/pre-push"] {
        seen = next(&server, "once", &seen, write(path)).await;
        assert!(!passes(&seen), "{path}");
        seen = server.approve("once", &seen.call_id()).await;
    }
}

#[tokio::test]
async fn only_an_approval_is_remembered() {
    let server = TestServer::start().await;
    server.model.reply(write("a.py"));
    let mut seen = server.say_to("other", "coder", "write").await;
    let modified_args = Some(json!({"path": "c.py", "content": "x"}));
    let edit = HitlDecision {
        decision: Some(codelab_protocol::DecisionChoice::Edit.into()),
        modified_args,
        ..remember()
    };
    seen = server.decide("other", &seen.call_id(), edit).await;
    seen = next(&server, "other", &seen, write("b.py")).await;
    assert!(!passes(&seen), "an edit");
    server.model.reply(write("d.py"));
    let reject = HitlDecision {
        decision: Some(codelab_protocol::DecisionChoice::Reject.into()),
        ..remember()
    };
    seen = server.decide("other", &seen.call_id(), reject).await;
    assert!(!passes(&seen), "a rejection");
}

#[tokio::test]
async fn what_one_session_remembers_holds_for_no_other() {
    let server = TestServer::start().await;
    server.model.reply(write("a.py"));
    let seen = server.say_to("mine", "coder", "write").await;
    server.decide("mine", &seen.call_id(), remember()).await;
    server.model.reply(write("a.py"));
    let other = server.say_to("yours", "coder", "write").await;
    assert!(!passes(&other));
    assert_eq!(
        Value::from(other.tool_call().requires_approval),
        json!(true)
    );
}
