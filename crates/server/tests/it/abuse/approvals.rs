//! What was shown is what runs: digests, replays, hidden characters, and edits.

use codelab_protocol::{HitlDecision, TurnStatus};
use codelab_testkit::{Reply, SeenEvents, TestServer, hitl_decision};
use serde_json::{Value, json};

use crate::raw::Request;

const SESSION: &str = "s";

async fn asked(server: &TestServer, tool: &str, arguments: Value) -> SeenEvents {
    server.model.reply(Reply::tool_call(tool, arguments));
    let seen = server.say_to(SESSION, "coder", "go on").await;
    assert_eq!(
        seen.status(),
        TurnStatus::AwaitingApproval,
        "{:?}",
        seen.story()
    );
    seen
}

fn decision(word: &str) -> HitlDecision {
    HitlDecision {
        decision: Some(codelab_protocol::MaybeKnown::of(word)),
        ..Default::default()
    }
}

fn with_digest(digest: &str) -> HitlDecision {
    HitlDecision {
        digest: Some(digest.to_owned()),
        ..decision("APPROVE")
    }
}

/// SHA-256 of `{"arguments":{"content":"print(1)\n","path":"a.py"},"tool":"write_file"}`, computed
/// elsewhere.
const DIGEST: &str = "91725e1fd4fdc0c0a9ffca19a9acea56834bfe1e08b293c59ab354196b94412b";

#[tokio::test]
async fn a_decision_about_other_arguments_is_refused() {
    let server = TestServer::start().await;
    let seen = asked(
        &server,
        "write_file",
        json!({"path": "a.py", "content": "print(1)\n"}),
    )
    .await;
    let call = seen.call_id();
    let digest = seen.tool_call().digest.as_str().to_owned();
    assert_eq!(digest, DIGEST);

    let other = codelab_protocol::arguments_digest(
        "write_file",
        json!({"path": "a.py", "content": "print(2)\n"})
            .as_object()
            .unwrap(),
    );
    let mut flipped = digest.clone();
    flipped.replace_range(..1, if digest.starts_with('0') { "1" } else { "0" });
    for wrong in [
        other.as_str(),
        &flipped,
        &digest[1..],
        &format!("{digest}0"),
        "",
        "0",
    ] {
        let refused = server
            .refused(&hitl_decision(SESSION, &call, with_digest(wrong)))
            .await;
        assert_eq!(refused, (409, "CONFLICT".to_owned()), "{wrong}");
    }
    let pending = server
        .client
        .pending_approvals(&session())
        .await
        .unwrap()
        .pending_approvals;
    assert_eq!(pending.len(), 1, "the approval still waits");

    let approved = server.decide(SESSION, &call, with_digest(&digest)).await;
    assert_eq!(approved.tool_call().digest.as_str(), digest);
    assert_eq!(
        approved.tool_call().tool_call.arguments,
        seen.tool_call().tool_call.arguments
    );
    assert!(approved.tool_call().approved && !approved.tool_call().requires_approval);
}

/// Numbers that a double cannot tell apart are different arguments all the same: they have digests
/// of their own, or are refused.
#[tokio::test]
async fn different_numbers_never_share_a_digest() {
    let server = TestServer::start().await;
    let mut digests = Vec::new();
    for seconds in [
        9_007_199_254_740_992_u64,
        9_007_199_254_740_993,
        u64::MAX - 1,
        u64::MAX,
    ] {
        let arguments = json!({"command": "rm -rf build", "timeout_seconds": seconds});
        server
            .model
            .reply(Reply::tool_call("execute_command", arguments));
        server.model.reply(Reply::text("Then not"));
        let seen = server.say_to(SESSION, "coder", "go on").await;
        if seen.status() == TurnStatus::AwaitingApproval {
            digests.push(seen.tool_call().digest.clone());
            server
                .decide(SESSION, &seen.call_id(), decision("REJECT"))
                .await;
        }
    }
    for (index, digest) in digests.iter().enumerate() {
        assert!(
            !digests[..index].contains(digest),
            "two calls share a digest: {digests:?}"
        );
    }
}

#[tokio::test]
async fn a_decision_counts_once() {
    let server = TestServer::start().await;
    for (index, (first, feedback)) in [("APPROVE", None), ("REJECT", Some("no")), ("EDIT", None)]
        .into_iter()
        .enumerate()
    {
        let session = format!("s{index}");
        server.model.reply(Reply::tool_call(
            "write_file",
            json!({"path": "a.py", "content": "1"}),
        ));
        let seen = server.say_to(&session, "coder", "go on").await;
        let call = seen.call_id();
        if first == "REJECT" {
            server.model.reply(Reply::text("Then not"));
        }
        let modified_args = (first == "EDIT").then(|| json!({"path": "b.py", "content": "2"}));
        let feedback = feedback.map(str::to_owned);
        server
            .decide(
                &session,
                &call,
                HitlDecision {
                    feedback,
                    modified_args,
                    ..decision(first)
                },
            )
            .await;
        let replays = [
            decision("APPROVE"),
            decision("REJECT"),
            with_digest(seen.tool_call().digest.as_str()),
            HitlDecision {
                modified_args: Some(json!({"path": ".bashrc", "content": "evil"})),
                ..decision("EDIT")
            },
        ];
        for replay in replays {
            let refused = server
                .refused(&hitl_decision(&session, &call, replay))
                .await;
            assert_eq!(refused, (409, "CONFLICT".to_owned()), "after {first}");
        }
        let id = codelab_protocol::SessionId::parse(&session).unwrap();
        let audit = server.client.audit(&id).await.unwrap();
        let decisions: Vec<&str> = audit
            .audit
            .iter()
            .map(|row| row.decision.as_str())
            .collect();
        assert_eq!(decisions, [first.to_uppercase()]);
        assert!(audit.verified);
    }
}

/// A call of one session cannot be decided or answered through another.
#[tokio::test]
async fn a_call_belongs_to_its_session() {
    let server = TestServer::start().await;
    let call = asked(
        &server,
        "write_file",
        json!({"path": "a.py", "content": "1"}),
    )
    .await
    .call_id();
    server.model.reply(Reply::text("Hello"));
    server.say_to("other", "ask", "hello").await;
    let decide = server
        .refused(&hitl_decision("other", &call, decision("APPROVE")))
        .await;
    assert_eq!(decide, (404, "PENDING_APPROVAL_NOT_FOUND".to_owned()));
    let result = server
        .refused(&codelab_testkit::tool_result("other", &call, json!("done")))
        .await;
    assert_eq!(result, (404, "TOOL_CALL_NOT_FOUND".to_owned()));
}

/// Characters that hide or reorder text, and what the model may call with them inside.
const HIDDEN: [&str; 10] = [
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{feff}",
    "\u{1b}[2K",
    "\r",
    "\u{8}",
    "\u{0085}",
    "\u{2028}",
    "\u{e0041}",
];

fn is_clean(text: &str) -> bool {
    !text.chars().any(|c| {
        matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
            || (c.is_control() && c != '\n' && c != '\t')
    })
}

/// Arguments stay exact, because they are what runs and what the digest is of; the words beside
/// them say what hides.
#[tokio::test]
async fn hidden_characters_ask_and_are_made_visible() {
    let server = TestServer::start().await;
    let tools = |hidden: &str| {
        [
            (
                "execute_command",
                "command",
                json!({"command": format!("ls {hidden}src")}),
            ),
            (
                "execute_command",
                "command",
                json!({"command": format!("echo hi{hidden}; rm -rf /")}),
            ),
            (
                "execute_command",
                "cwd",
                json!({"command": "ls", "cwd": format!("src{hidden}")}),
            ),
            (
                "write_file",
                "path",
                json!({"path": format!("a{hidden}.py"), "content": "1"}),
            ),
            (
                "create_directory",
                "path",
                json!({"path": format!("a{hidden}b")}),
            ),
        ]
    };
    for hidden in HIDDEN {
        for (tool, argument, arguments) in tools(hidden) {
            let seen = asked(&server, tool, arguments.clone()).await;
            let shown = seen.tool_call();
            let reason = shown.reason.clone().unwrap_or_default();
            let escaped: String = hidden.chars().next().unwrap().escape_unicode().collect();
            let parts: String = shown
                .parts
                .iter()
                .map(|part| format!("{} {:?}\n", part.text, part.reason))
                .collect();
            assert!(
                is_clean(&reason) && is_clean(&parts),
                "{tool} {hidden:?}: {reason} {parts}"
            );
            let told = reason.contains("hidden characters")
                || format!("{reason}{parts}").contains(&escaped);
            assert!(
                told,
                "{tool} {argument} {hidden:?}: nothing says that it is there: {reason} {parts}"
            );
            assert_eq!(Value::Object(shown.tool_call.arguments.clone()), arguments);
            let call = seen.call_id();
            server.model.reply(Reply::text("Then not"));
            server.decide(SESSION, &call, decision("REJECT")).await;
        }
    }
}

/// Source text can be reordered for the eye too (Trojan Source): the question says so.
#[tokio::test]
async fn hidden_characters_in_written_content_are_made_visible() {
    let server = TestServer::start().await;
    for content in [
        "if admin: \u{202e} # \u{2066}return\u{2069}",
        "x = '\u{200b}'",
    ] {
        for arguments in [
            json!({"path": "a.py", "content": content}),
            json!({"path": "a.py", "edits": [{"old": "x", "new": content}]}),
        ] {
            let seen = asked(&server, "write_file", arguments).await;
            let reason = seen.tool_call().reason.clone().unwrap_or_default();
            let told = reason.contains("hidden characters") || !seen.tool_call().parts.is_empty();
            assert!(
                told,
                "nothing says that the content holds hidden characters: {reason}"
            );
            server.model.reply(Reply::text("Then not"));
            server
                .decide(SESSION, &seen.call_id(), decision("REJECT"))
                .await;
        }
    }
}

/// A pending approval and its stream say the same.
#[tokio::test]
async fn the_list_of_approvals_shows_what_the_stream_showed() {
    let server = TestServer::start().await;
    let seen = asked(
        &server,
        "execute_command",
        json!({"command": "ls && rm -rf \u{202e}build"}),
    )
    .await;
    let pending = server
        .client
        .pending_approvals(&session())
        .await
        .unwrap()
        .pending_approvals;
    let shown = seen.tool_call();
    assert_eq!(pending[0].digest, shown.digest);
    assert_eq!(pending[0].parts, shown.parts);
    assert_eq!(Some(&pending[0].reason), shown.reason.as_ref());
    assert_eq!(pending[0].arguments, shown.tool_call.arguments);
}

#[tokio::test]
async fn an_edit_passes_the_rules_again_and_a_refused_one_leaves_the_question_open() {
    let server = TestServer::start().await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "plan.md", "content": "1"}),
    ));
    let seen = server.say_to(SESSION, "architect", "go on").await;
    let call = seen.call_id();
    for (arguments, code) in [
        (json!({}), "INVALID_TOOL_ARGUMENTS"),
        (json!({"path": "plan.md"}), "INVALID_TOOL_ARGUMENTS"),
        (
            json!({"path": "", "content": "1"}),
            "INVALID_TOOL_ARGUMENTS",
        ),
        (
            json!({"path": "plan.py", "content": "1"}),
            "FILE_RESTRICTION_ERROR",
        ),
        (
            json!({"path": "plan.md.sh", "content": "1"}),
            "FILE_RESTRICTION_ERROR",
        ),
        (
            json!({"path": "plan.md\n.sh", "content": "1"}),
            "FILE_RESTRICTION_ERROR",
        ),
    ] {
        let edit = HitlDecision {
            modified_args: Some(arguments.clone()),
            ..decision("EDIT")
        };
        let refused = server.refused(&hitl_decision(SESSION, &call, edit)).await;
        assert_eq!(refused, (422, code.to_owned()), "{arguments}");
    }
    let pending = server
        .client
        .pending_approvals(&session())
        .await
        .unwrap()
        .pending_approvals;
    assert_eq!(pending.len(), 1);
    let changed = json!({"path": "other.md", "content": "2"});
    let edit = HitlDecision {
        modified_args: Some(changed.clone()),
        ..decision("EDIT")
    };
    let edited = server.decide(SESSION, &call, edit).await;
    assert_eq!(
        Value::Object(edited.tool_call().tool_call.arguments.clone()),
        changed
    );
    assert_ne!(edited.tool_call().digest, seen.tool_call().digest);
    let audit = server.client.audit(&session()).await.unwrap().audit;
    assert_eq!(
        audit[0].original_args,
        json!({"path": "plan.md", "content": "1"})
            .as_object()
            .cloned()
    );
    assert_eq!(audit[0].modified_args, changed.as_object().cloned());
}

/// Arguments that are deep enough to be at the edge of what can be read must not end the session.
#[tokio::test]
async fn deep_arguments_do_not_cost_the_session() {
    for depth in [50, 100, 110, 115, 120, 125, 126] {
        let mut server = TestServer::start().await;
        let nested = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let arguments = format!("{{\"path\": \"a.py\", \"content\": \"1\", \"note\": {nested}}}");
        server
            .model
            .reply(Reply::tool_call_raw("write_file", &arguments));
        server.model.reply(Reply::text("Then so"));
        let body =
            json!({"session_id": SESSION, "message": "go on", "agent_type": "coder"}).to_string();
        let send = Request::with_key(&server, "POST", "/agent/message/stream").json(body);
        assert_eq!(send.send(&server).await.status, 200);
        server.restart().await;
        let log = Request::with_key(&server, "GET", "/sessions/s/events?follow=false")
            .send(&server)
            .await;
        assert!(
            log.status == 200 && !log.text().contains("DB_READ_ERROR"),
            "{depth}: {}",
            log.text()
        );
        let cancel = Request::with_key(&server, "POST", "/sessions/s/cancel")
            .send(&server)
            .await;
        assert_eq!(cancel.status, 200, "{depth} deep: {}", cancel.text());
        for part in ["history", "pending-approvals", "audit"] {
            let answer = Request::with_key(&server, "GET", &format!("/sessions/s/{part}"))
                .send(&server)
                .await;
            assert_eq!(
                answer.status,
                200,
                "{depth} deep, {part}: {}",
                answer.text()
            );
        }
    }
}

fn session() -> codelab_protocol::SessionId {
    codelab_protocol::SessionId::parse(SESSION).unwrap()
}
