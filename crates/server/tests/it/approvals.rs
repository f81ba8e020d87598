//! What a person is asked, every way to answer, and what is written down about it.

mod edits;
mod expiry;
mod remembered;

use std::sync::Arc;

use codelab_protocol::{
    AckStatus, AgentStreamRequest, CallId, CallerContext, Digest, HitlDecision, TurnStatus, UserId,
};
use codelab_testkit::{Asked, Method, Reply, SeenEvents, TestServer, hitl_decision, id};
use serde_json::{Value, json};

/// A session whose coder waits for a person before it writes `a.py`.
async fn asked_to_write(server: &TestServer, session: &str) -> SeenEvents {
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "a.py", "content": "x = 1"}),
    ));
    let seen = server.say_to(session, "coder", "write a.py").await;
    assert_eq!(seen.status(), TurnStatus::AwaitingApproval);
    seen
}

fn decided(decision: &str) -> HitlDecision {
    HitlDecision {
        decision: Some(codelab_protocol::MaybeKnown::of(decision)),
        ..Default::default()
    }
}

fn by_user(user: i64, request: AgentStreamRequest) -> AgentStreamRequest {
    let context = CallerContext {
        user_id: UserId::new(user),
        ..Default::default()
    };
    AgentStreamRequest {
        context: Some(context),
        ..request
    }
}

#[tokio::test]
async fn a_pending_approval_shows_everything_a_person_needs() {
    let server = TestServer::start().await;
    let asked = asked_to_write(&server, "shape").await;
    let (status, body) = server
        .http(Method::GET, "/sessions/shape/pending-approvals", None)
        .await;
    assert_eq!((status, &body["session_id"]), (200, &json!("shape")));
    let [approval] = body["pending_approvals"].as_array().unwrap().as_slice() else {
        panic!("{body}")
    };
    let canonical = br#"{"arguments":{"content":"x = 1","path":"a.py"},"tool":"write_file"}"#;
    let expected = json!({
        "call_id": asked.call_id(),
        "kind": "tool",
        "tool_name": "write_file",
        "arguments": {"path": "a.py", "content": "x = 1"},
        "digest": Digest::of_bytes(canonical),
        "reason": "File modification requires approval",
        "created_at": approval["created_at"],
        "expires_at": asked.tool_call().expires_at,
        "timeout_seconds": 300,
    });
    assert_eq!(*approval, expected);
    let [info] = server.pending("shape").await.try_into().unwrap();
    assert_eq!(
        info.expires_at.unwrap().millis_since(info.created_at),
        300_000
    );

    let shown = asked.tool_call();
    assert_eq!((shown.requires_approval, shown.approved), (true, false));
    assert_eq!(
        (&shown.digest, shown.agent.as_str()),
        (&info.digest, "coder")
    );
    server.approve("shape", &asked.call_id()).await;
    assert!(server.pending("shape").await.is_empty());
}

#[tokio::test]
async fn only_what_is_dangerous_asks_and_the_parts_of_a_command_are_shown() {
    let server = TestServer::start().await;
    let cases = [
        ("execute_command", json!({"command": "ls -la"}), false),
        ("execute_command", json!({"command": "cargo test"}), false),
        ("execute_command", json!({"command": "rm -fr build"}), true),
        (
            "execute_command",
            json!({"command": "ls; sudo reboot"}),
            true,
        ),
        ("create_directory", json!({"path": "src/new"}), false),
        ("create_directory", json!({"path": "/etc/new"}), true),
        ("read_file", json!({"path": "a.py"}), false),
        ("list_files", json!({"path": "."}), false),
        ("search_in_code", json!({"query": "x"}), false),
        ("write_file", json!({"path": "a.py", "content": ""}), true),
    ];
    for (number, (tool, arguments, asks)) in cases.into_iter().enumerate() {
        server
            .model
            .reply(Reply::tool_call(tool, arguments.clone()));
        let seen = server
            .say_to(&format!("danger-{number}"), "coder", "go")
            .await;
        let expected = if asks {
            TurnStatus::AwaitingApproval
        } else {
            TurnStatus::AwaitingToolResult
        };
        assert_eq!(
            (seen.status(), seen.tool_call().requires_approval),
            (expected, asks),
            "{arguments}"
        );
    }
    let [approval] = server.pending("danger-3").await.try_into().unwrap();
    let parts: Vec<(&str, bool)> = approval
        .parts
        .iter()
        .map(|part| (part.text.as_str(), part.reason.is_some()))
        .collect();
    assert_eq!(parts, [("ls", false), ("sudo reboot", true)]);
    assert!(!approval.reason.is_empty());
}

#[tokio::test]
async fn an_operators_own_rules_ask() {
    let rules = [
        ("CODELAB_POLICY__PROTECTED_PATHS", "[\"deploy\"]"),
        ("CODELAB_POLICY__ASK_FOR", "['^cargo test']"),
    ];
    let server = TestServer::with(&rules).await;
    let cases = [
        (
            "create_directory",
            json!({"path": "Deploy/new"}),
            "protected",
        ),
        (
            "write_file",
            json!({"path": "deploy/a.yaml", "content": ""}),
            "protected",
        ),
        (
            "execute_command",
            json!({"command": "cargo test"}),
            "cargo test",
        ),
    ];
    for (number, (tool, arguments, why)) in cases.into_iter().enumerate() {
        server
            .model
            .reply(Reply::tool_call(tool, arguments.clone()));
        let session = format!("rule-{number}");
        server.say_to(&session, "coder", "go").await;
        let [approval] = server.pending(&session).await.try_into().unwrap();
        assert!(
            approval.reason.contains(why),
            "{arguments}: {}",
            approval.reason
        );
    }
    server.model.reply(Reply::tool_call(
        "execute_command",
        json!({"command": "ls"}),
    ));
    assert_eq!(
        server.say_to("unruled", "coder", "go").await.status(),
        TurnStatus::AwaitingToolResult
    );
}

#[tokio::test]
async fn every_decision_is_taken_in_any_case_and_written_down() {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Then not."));
    let cases = [
        ("APPROVE", "APPROVE", TurnStatus::AwaitingToolResult),
        ("approve", "APPROVE", TurnStatus::AwaitingToolResult),
        ("eDiT", "EDIT", TurnStatus::AwaitingToolResult),
        ("EDIT", "EDIT", TurnStatus::AwaitingToolResult),
        ("Reject", "REJECT", TurnStatus::Completed),
        ("REJECT", "REJECT", TurnStatus::Completed),
    ];
    for (number, (word, recorded, status)) in cases.into_iter().enumerate() {
        let session = format!("case-{number}");
        let asked = asked_to_write(&server, &session).await;
        let modified_args = (recorded == "EDIT").then(|| json!({"path": "b.py", "content": "y"}));
        let decision = HitlDecision {
            modified_args: modified_args.clone(),
            ..decided(word)
        };
        let seen = server
            .send(&by_user(
                42,
                hitl_decision(&session, &asked.call_id(), decision),
            ))
            .await;
        assert_eq!(seen.status(), status, "{word}");
        if status == TurnStatus::AwaitingToolResult {
            let shown = seen.tool_call();
            assert_eq!((shown.requires_approval, shown.approved), (false, true));
            let final_arguments = modified_args
                .clone()
                .unwrap_or(json!({"path": "a.py", "content": "x = 1"}));
            assert_eq!(
                Value::Object(shown.tool_call.arguments.clone()),
                final_arguments
            );
        }
        let audit = server
            .http(Method::GET, &format!("/sessions/{session}/audit"), None)
            .await
            .1;
        let row = &audit["audit"][0];
        assert_eq!(
            (
                audit["verified"].as_bool(),
                audit["audit"].as_array().map(Vec::len)
            ),
            (Some(true), Some(1))
        );
        assert_eq!(row["call_id"], json!(asked.call_id()));
        assert_eq!(row["tool_name"], "write_file");
        assert_eq!(
            row["original_args"],
            json!({"path": "a.py", "content": "x = 1"})
        );
        assert_eq!(row["modified_args"], modified_args.unwrap_or_default());
        assert_eq!(
            (&row["decision"], &row["decided_by"]),
            (&json!(recorded), &json!("42"))
        );
        assert_eq!(row["hash"].as_str().map(str::len), Some(64));
        assert!(
            row["timestamp"].is_string() && row.get("reason").is_some(),
            "{row}"
        );
    }
}

#[tokio::test]
async fn a_rejection_gives_the_model_the_persons_words_and_the_turn_goes_on() {
    let server = TestServer::start().await;
    let asked = asked_to_write(&server, "no").await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "tests/a.py", "content": "x = 1"}),
    ));
    let feedback = Some("Только не в корень проекта".to_owned());
    let seen = server
        .decide(
            "no",
            &asked.call_id(),
            HitlDecision {
                feedback,
                ..decided("REJECT")
            },
        )
        .await;
    assert_eq!(
        seen.story(),
        ["tool_call write_file?"],
        "the model tries something else"
    );
    assert_ne!(seen.call_id(), asked.call_id());
    let told = server.steps()[1].wire_message(-1).clone();
    assert_eq!(
        (&told["role"], &told["tool_call_id"]),
        (&json!("tool"), &json!(asked.call_id()))
    );
    assert!(
        told["content"]
            .as_str()
            .unwrap()
            .contains("Только не в корень проекта"),
        "{told}"
    );
    let row = &server.audit("no").await.audit[0];
    assert_eq!(
        (row.decision.as_str(), row.reason.as_deref()),
        ("REJECT", Some("Только не в корень проекта"))
    );
}

#[tokio::test]
async fn a_decision_may_carry_the_digest_that_was_shown() {
    let server = TestServer::start().await;
    let asked = asked_to_write(&server, "digest").await;
    let digest = asked.tool_call().digest.as_str().to_owned();
    let other = Digest::of_bytes(b"something else").as_str().to_owned();
    for wrong in [other.as_str(), "", "not a digest", &digest[..63]] {
        let decision = HitlDecision {
            digest: Some(wrong.to_owned()),
            ..decided("APPROVE")
        };
        let refused = server
            .refused(&hitl_decision("digest", &asked.call_id(), decision))
            .await;
        assert_eq!(refused, (409, "CONFLICT".to_owned()), "{wrong:?}");
    }
    assert_eq!(
        server.pending("digest").await.len(),
        1,
        "a wrong digest decides nothing"
    );
    assert!(server.audit("digest").await.audit.is_empty());
    let decision = HitlDecision {
        digest: Some(digest),
        ..decided("APPROVE")
    };
    assert_eq!(
        server
            .decide("digest", &asked.call_id(), decision)
            .await
            .status(),
        TurnStatus::AwaitingToolResult
    );
}

#[tokio::test]
async fn a_decision_that_cannot_be_taken_is_refused_and_changes_nothing() {
    let server = TestServer::start().await;
    let asked = asked_to_write(&server, "wrong").await;
    let call = asked.call_id();
    let nobody = CallId::parse("call-nobody").unwrap();
    let edit = |modified_args| HitlDecision {
        modified_args,
        ..decided("EDIT")
    };
    let cases = [
        (
            hitl_decision("wrong", &nobody, decided("APPROVE")),
            404,
            "PENDING_APPROVAL_NOT_FOUND",
        ),
        (
            hitl_decision("no-such-session", &call, decided("APPROVE")),
            404,
            "SESSION_NOT_FOUND",
        ),
        (
            hitl_decision("wrong", &call, decided("PERHAPS")),
            422,
            "INVALID_DECISION",
        ),
        (
            hitl_decision("wrong", &call, decided("")),
            422,
            "INVALID_DECISION",
        ),
        (
            hitl_decision("wrong", &call, HitlDecision::default()),
            422,
            "MISSING_REQUIRED_FIELD",
        ),
        (
            hitl_decision("wrong", &call, edit(None)),
            422,
            "MISSING_REQUIRED_FIELD",
        ),
        (
            hitl_decision("wrong", &call, edit(Some(json!(["a.py"])))),
            422,
            "INVALID_DECISION",
        ),
    ];
    for (request, status, code) in cases {
        assert_eq!(
            server.refused(&request).await,
            (status, code.to_owned()),
            "{request:?}"
        );
    }
    assert_eq!(server.pending("wrong").await.len(), 1);

    server.approve("wrong", &call).await;
    for decision in ["APPROVE", "REJECT"] {
        let again = server
            .refused(&hitl_decision("wrong", &call, decided(decision)))
            .await;
        assert_eq!(
            again,
            (409, "CONFLICT".to_owned()),
            "decided while its result is awaited"
        );
    }
    server.model.reply(Reply::text("Written."));
    server.result("wrong", &call, json!("ok")).await;
    let again = server
        .refused(&hitl_decision("wrong", &call, decided("APPROVE")))
        .await;
    assert_eq!(again, (409, "CONFLICT".to_owned()), "decided long ago");
    assert_eq!(server.audit("wrong").await.audit.len(), 1);
}

#[tokio::test]
async fn a_call_that_nobody_is_asked_about_cannot_be_decided() {
    let server = TestServer::start().await;
    server
        .model
        .reply(Reply::tool_call("read_file", json!({"path": "a.py"})));
    let reading = server.say_to("free", "coder", "read").await;
    let refused = server
        .refused(&hitl_decision(
            "free",
            &reading.call_id(),
            decided("APPROVE"),
        ))
        .await;
    assert_eq!(refused, (404, "PENDING_APPROVAL_NOT_FOUND".to_owned()));
}

#[tokio::test]
async fn a_cancelled_approval_is_gone_and_cannot_be_decided() {
    let server = TestServer::start().await;
    let asked = asked_to_write(&server, "cancelled").await;
    let mut events = server
        .follow("cancelled", *asked.ids().last().unwrap())
        .await;
    let ack = server.client.cancel(&id("cancelled"), false).await.unwrap();
    assert_eq!(
        (ack.status, ack.turn, ack.queued),
        (AckStatus::Cancelled, None, 0)
    );
    let seen = SeenEvents::until_done(&mut events).await;
    assert_eq!(
        (seen.story(), seen.status()),
        (vec!["error CANCELLED".to_owned()], TurnStatus::Cancelled)
    );
    assert!(server.pending("cancelled").await.is_empty());
    let refused = server
        .refused(&hitl_decision(
            "cancelled",
            &asked.call_id(),
            decided("APPROVE"),
        ))
        .await;
    assert_eq!(refused, (409, "CONFLICT".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_decisions_at_once_exactly_one_wins() {
    let server = Arc::new(TestServer::start().await);
    server.model.default_reply(Reply::text("All right."));
    for pair in 0..20 {
        let session = format!("race-{pair}");
        let call = asked_to_write(&server, &session).await.call_id();
        // Every second pair is a double click on the same button.
        let other = if pair % 2 == 0 { "REJECT" } else { "APPROVE" };
        let decide = |word: &str| {
            let (server, request) = (
                Arc::clone(&server),
                hitl_decision(&session, &call, decided(word)),
            );
            tokio::spawn(async move {
                match server.client.send(&request).await {
                    Ok(stream) => Ok(SeenEvents::all(stream).await.status()),
                    Err(error) => {
                        Err((error.status(), error.error_code().map(|code| code.as_str())))
                    }
                }
            })
        };
        let (first, second) = (decide("APPROVE"), decide(other));
        let outcomes = [first.await.unwrap(), second.await.unwrap()];
        let won: Vec<&TurnStatus> = outcomes.iter().flatten().collect();
        let lost: Vec<_> = outcomes
            .iter()
            .filter_map(|outcome| outcome.err())
            .collect();
        assert_eq!(lost, [(Some(409), Some("CONFLICT"))], "{outcomes:?}");

        let audit = server.audit(&session).await;
        let rows: Vec<&str> = audit
            .audit
            .iter()
            .map(|row| row.decision.as_str())
            .collect();
        let expected = if *won[0] == TurnStatus::AwaitingToolResult {
            "APPROVE"
        } else {
            "REJECT"
        };
        assert_eq!((rows, audit.verified), (vec![expected], true));
        let shown = server.log(&session).await.story();
        let runs = shown
            .iter()
            .filter(|word| *word == "tool_call write_file")
            .count();
        assert_eq!(runs, usize::from(expected == "APPROVE"), "{shown:?}");
    }
}
