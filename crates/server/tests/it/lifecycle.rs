//! Sessions from their making to their deletion: lists, titles, prompts, history, restore, purge.

mod past;
mod prompts;

use codelab_protocol::{CallId, CreateSession, HitlDecision, Role, TurnStatus};
use codelab_testkit::{
    Asked, Gate, Method, Reply, SeenEvents, TestServer, hitl_decision, id, message, request,
    tool_result,
};
use serde_json::{Value, json};

/// Everything that can be asked of one session, with its status where the session is there and
/// idle.
const ROUTES: [(Method, &str, u16); 9] = [
    (Method::GET, "/agents/{id}/current", 200),
    (Method::GET, "/sessions/{id}/history", 200),
    (Method::GET, "/sessions/{id}/pending-approvals", 200),
    (Method::GET, "/sessions/{id}/agent-history", 200),
    (Method::GET, "/sessions/{id}/audit", 200),
    (Method::GET, "/sessions/{id}/events?follow=false", 200),
    (Method::POST, "/sessions/{id}/cancel", 200),
    (Method::POST, "/sessions/{id}/reset", 200),
    (Method::DELETE, "/sessions/{id}", 204),
];

#[tokio::test]
async fn a_session_is_made_once() {
    let server = TestServer::start().await;
    let body = json!({"session_id": "made", "system_prompt": "You are a helpful coding assistant"});
    let (status, created) = server
        .http(Method::POST, "/sessions", Some(body.clone()))
        .await;
    assert_eq!(
        (status, &created["session_id"], &created["status"]),
        (201, &json!("made"), &json!("created"))
    );
    let (status, refused) = server.http(Method::POST, "/sessions", Some(body)).await;
    assert_eq!(
        (status, &refused["error_code"]),
        (409, &json!("SESSION_CREATION_FAILED"))
    );
    server.model.default_reply(Reply::text("Hi."));
    server.say_to("spoken", "coder", "hello").await;
    let spoken = Some(json!({"session_id": "spoken"}));
    assert_eq!(
        server.http(Method::POST, "/sessions", spoken).await.0,
        409,
        "a message makes a session too"
    );

    let list = server.http(Method::GET, "/sessions", None).await.1;
    let made = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|session| session["session_id"] == "made")
        .unwrap();
    let expected = json!({
        "session_id": "made",
        "title": null,
        "created_at": created["created_at"],
        "last_activity": made["last_activity"],
        "is_active": true,
        "message_count": 0,
    });
    assert_eq!(*made, expected);
    let current = server
        .http(Method::GET, "/agents/made/current", None)
        .await
        .1;
    let unused = json!({"session_id": "made", "current_agent": "orchestrator", "switch_count": 0, "last_switch_at": null});
    assert_eq!(current, unused);
}

#[tokio::test]
async fn a_sessions_prompt_is_appended_to_each_agents_own() {
    let server = TestServer::start().await;
    let words = "Отвечай только стихами.";
    let body = CreateSession {
        session_id: id("poet"),
        system_prompt: Some(words.to_owned()),
    };
    server.client.create_session(&body).await.unwrap();
    for session in ["plain", "poet"] {
        server.model.reply(Reply::tool_call(
            "switch_mode",
            json!({"agent": "debug", "reason": "look"}),
        ));
        server.model.reply(Reply::text("Looked."));
        server.say_to(session, "coder", "go").await;
    }
    let steps = server.steps();
    let [plain_coder, plain_debug, coder, debug] = steps.as_slice() else {
        panic!("{}", steps.len())
    };
    for (plain, with) in [(plain_coder, coder), (plain_debug, debug)] {
        assert!(!plain.system_prompt().contains(words));
        let (own, _) = with.system_prompt().split_once(words).unwrap();
        assert!(
            !own.trim().is_empty() && plain.system_prompt().starts_with(own.trim_end()),
            "{own}"
        );
    }
}

#[tokio::test]
async fn sessions_are_listed_newest_first_with_titles_and_pages() {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Hi."));
    let first = "  \n  Создай функцию для сортировки  \nи тесты к ней";
    server.say_to("list-0", "coder", first).await;
    server.say("list-0", "Another thing").await;
    for number in 1..5 {
        server
            .say_to(
                &format!("list-{number}"),
                "coder",
                &format!("Task {number}"),
            )
            .await;
    }
    server.say("list-1", "again").await;
    let all = server.client.sessions(None, None).await.unwrap();
    assert_eq!((all.total, all.offset), (5, 0));
    let titles: Vec<&str> = all
        .sessions
        .iter()
        .map(|session| session.title.as_deref().unwrap())
        .collect();
    assert_eq!(
        titles,
        [
            "Task 1",
            "Task 4",
            "Task 3",
            "Task 2",
            "Создай функцию для сортировки"
        ]
    );
    let counts: Vec<u64> = all
        .sessions
        .iter()
        .map(|session| session.message_count)
        .collect();
    assert_eq!(counts, [4, 2, 2, 2, 4]);
    assert!(
        all.sessions
            .iter()
            .all(|session| session.is_active && session.last_activity >= session.created_at)
    );

    let names = |sessions: &[codelab_protocol::SessionInfo]| -> Vec<String> {
        sessions
            .iter()
            .map(|session| session.session_id.to_string())
            .collect()
    };
    let mut paged = Vec::new();
    for offset in [0, 2, 4] {
        let page = server.client.sessions(Some(2), Some(offset)).await.unwrap();
        assert_eq!((page.total, page.limit, page.offset), (5, 2, offset));
        paged.extend(names(&page.sessions));
    }
    assert_eq!(paged, names(&all.sessions));
    assert!(
        server
            .client
            .sessions(Some(2), Some(5))
            .await
            .unwrap()
            .sessions
            .is_empty()
    );
    for query in [
        "limit=0",
        "limit=-1",
        "limit=many",
        "offset=-1",
        "limit=1001",
    ] {
        let (status, body) = server
            .http(Method::GET, &format!("/sessions?{query}"), None)
            .await;
        assert_eq!(
            (status, &body["error_code"]),
            (422, &json!("VALIDATION_ERROR")),
            "{query}"
        );
    }
    let (_, body) = server.http(Method::GET, "/sessions?limit=1001", None).await;
    assert_eq!(body["details"]["field"], "limit");
}

#[tokio::test]
async fn the_history_holds_every_message_with_who_said_it() {
    let server = TestServer::start().await;
    server.model.route_to("coder");
    server
        .model
        .reply(Reply::tool_call("read_file", json!({"path": "a.py"})).with_text("Let me see."));
    let reading = server.say("told", "What is in a.py?").await;
    server
        .model
        .reply(Reply::text_with_usage("One line.", 30, 12));
    server
        .result("told", &reading.call_id(), json!("x = 1"))
        .await;

    let body = server
        .http(Method::GET, "/sessions/told/history", None)
        .await
        .1;
    assert_eq!(body["session_id"], "told");
    let messages = body["messages"].as_array().unwrap();
    let short: Vec<[&Value; 3]> = messages
        .iter()
        .map(|message| [&message["role"], &message["name"], &message["content"]])
        .collect();
    let expected = [
        [json!("user"), Value::Null, json!("What is in a.py?")],
        [json!("assistant"), json!("coder"), json!("Let me see.")],
        [json!("tool"), json!("read_file"), json!("x = 1")],
        [json!("assistant"), json!("coder"), json!("One line.")],
    ];
    assert_eq!(json!(short), json!(expected));
    let call =
        json!({"call_id": reading.call_id(), "name": "read_file", "arguments": {"path": "a.py"}});
    assert_eq!(messages[1]["tool_calls"], json!([call]));
    assert_eq!(messages[2]["tool_call_id"], json!(reading.call_id()));
    assert_eq!(
        (
            &messages[3]["agent_id"],
            &messages[3]["usage"]["total_tokens"]
        ),
        (&json!("coder"), &json!(42))
    );
    let times: Vec<&str> = messages
        .iter()
        .map(|message| message["timestamp"].as_str().unwrap())
        .collect();
    assert!(
        times.is_sorted() && times.iter().all(|time| time.ends_with('Z')),
        "{times:?}"
    );
}

#[tokio::test]
async fn a_long_past_is_answered_whole() {
    let server = TestServer::start().await;
    let long: Vec<String> = (0..4)
        .map(|number| format!("{number} {}", "x".repeat(50_000)))
        .collect();
    for text in &long {
        server.model.reply(Reply::tool_call(
            "write_file",
            json!({"path": "a.txt", "content": text}),
        ));
        let call = server
            .say_to("long", "coder", text)
            .await
            .tool_call()
            .tool_call
            .call_id
            .clone();
        server.model.reply(Reply::text("Then not."));
        let reject = HitlDecision {
            decision: Some(codelab_protocol::DecisionChoice::Reject.into()),
            ..HitlDecision::default()
        };
        server.decide("long", &call, reject).await;
    }
    let history = server.history("long").await;
    let said: Vec<_> = history
        .iter()
        .filter(|message| message.role == Role::User)
        .map(|said| &said.content)
        .collect();
    assert_eq!((said, history.len()), (long.iter().collect(), 16));
    let audit = server.audit("long").await;
    let proposed = audit.audit.iter().map(|row| {
        row.original_args.as_ref().unwrap()["content"]
            .as_str()
            .unwrap()
    });
    assert_eq!(
        (proposed.collect::<Vec<_>>(), audit.verified),
        (long.iter().map(String::as_str).collect(), true)
    );
}

#[tokio::test]
async fn what_was_never_there_is_not_found_anywhere() {
    let server = TestServer::start().await;
    assert_nowhere(&server, "never").await;
    let restored = server
        .http(Method::POST, "/sessions/never/restore", None)
        .await;
    assert_eq!(
        (restored.0, &restored.1["error_code"]),
        (404, &json!("SESSION_NOT_FOUND"))
    );
}

#[tokio::test]
async fn a_deleted_session_is_hidden_everywhere_until_it_is_restored() {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Hi."));
    server.say_to("gone", "coder", "hello").await;
    server.say_to("stays", "coder", "hello").await;
    let before = (
        server.history("gone").await,
        server.log("gone").await.events,
    );
    assert_eq!(
        server.http(Method::DELETE, "/sessions/gone", None).await,
        (204, Value::Null)
    );

    assert_nowhere(&server, "gone").await;
    for refused in [message("gone", "hello?"), switch("gone")] {
        assert_eq!(
            server.refused(&refused).await,
            (404, "SESSION_NOT_FOUND".to_owned())
        );
    }
    assert_ne!(
        server
            .http(
                Method::POST,
                "/sessions",
                Some(json!({"session_id": "gone"}))
            )
            .await
            .0,
        201
    );
    let listed = server.client.sessions(None, None).await.unwrap();
    let names: Vec<&str> = listed
        .sessions
        .iter()
        .map(|session| session.session_id.as_str())
        .collect();
    assert_eq!((listed.total, names), (1, vec!["stays"]));

    let (status, ack) = server
        .http(Method::POST, "/sessions/gone/restore", None)
        .await;
    let expected =
        json!({"session_id": "gone", "status": "restored", "current_agent": "coder", "queued": 0});
    assert_eq!((status, ack), (200, expected));
    assert_eq!(
        (
            server.history("gone").await,
            server.log("gone").await.events
        ),
        before
    );
    assert_eq!(server.client.sessions(None, None).await.unwrap().total, 2);
    let mut events = server
        .follow(
            "gone",
            before.1.iter().filter_map(|event| event.id).max().unwrap(),
        )
        .await;
    let said = server.say("gone", "still there?").await;
    assert_eq!(
        said.story(),
        ["assistant_message coder", "completion"],
        "the pin is still there too"
    );
    assert_eq!(SeenEvents::until_done(&mut events).await.ids(), said.ids());
    let again = server
        .http(Method::POST, "/sessions/gone/restore", None)
        .await;
    assert_eq!(again.0, 404, "there is nothing to restore");
}

#[tokio::test]
async fn deleting_ends_what_runs_and_what_waits() {
    let server = TestServer::start().await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "a.py", "content": "x"}),
    ));
    let asked = server.say_to("asked", "coder", "write").await;
    let gate = Gate::new();
    server.model.reply(Reply::text("Never said.").hold(&gate));
    let running = server.open(&message("running", "write")).await;
    let waiting = server.open(&message("running", "and more")).await;
    let mut follower = server.follow("running", 0).await;
    gate.reached().await;
    for session in ["asked", "running"] {
        server
            .client
            .delete_session(&id(session), false)
            .await
            .unwrap();
    }
    server.model.wait_until_in_flight(0).await;
    for stream in [running, waiting] {
        assert_eq!(
            SeenEvents::all(stream).await.status(),
            TurnStatus::Cancelled
        );
    }
    while let Some(event) = follower.next().await {
        event.unwrap();
    }
    for session in ["asked", "running"] {
        server.client.restore(&id(session)).await.unwrap();
    }
    assert!(server.pending("asked").await.is_empty());
    let approve = HitlDecision {
        decision: Some(codelab_protocol::DecisionChoice::Approve.into()),
        ..Default::default()
    };
    let late = server
        .refused(&hitl_decision("asked", &asked.call_id(), approve))
        .await;
    assert_eq!(late, (409, "CONFLICT".to_owned()));
    server.model.default_reply(Reply::text("Back."));
    assert_eq!(
        server.say_to("running", "coder", "hello").await.status(),
        TurnStatus::Completed
    );
}

#[tokio::test]
async fn a_purged_session_is_gone_for_good_and_its_name_is_free() {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Hi."));
    for (session, soft_first) in [("purged", false), ("hidden", true)] {
        server.say_to(session, "coder", "my secret").await;
        if soft_first {
            server
                .client
                .delete_session(&id(session), false)
                .await
                .unwrap();
        }
        let purged = server
            .http(
                Method::DELETE,
                &format!("/sessions/{session}?hard=true"),
                None,
            )
            .await;
        assert_eq!(purged, (204, Value::Null));
        assert_nowhere(&server, session).await;
        assert_eq!(
            server
                .http(Method::POST, &format!("/sessions/{session}/restore"), None)
                .await
                .0,
            404
        );

        server.model.route_to("ask");
        let fresh = server.say(session, "who are you?").await;
        assert_eq!(
            (fresh.ids()[0], fresh.story()[0].as_str()),
            (1, "switch_agent ask"),
            "nothing is left of it"
        );
        assert_eq!(server.history(session).await.len(), 2);
        assert!(
            !server
                .steps()
                .pop()
                .unwrap()
                .body
                .to_string()
                .contains("my secret")
        );
    }
}

#[tokio::test]
async fn every_route_is_there_with_and_without_a_trailing_slash() {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Hi."));
    for path in ["/health", "/agents", "/sessions", "/sessions?limit=5"] {
        let slashed = with_slash(path);
        let (plain, slash) = (
            server.http(Method::GET, path, None).await,
            server.http(Method::GET, &slashed, None).await,
        );
        assert_eq!((plain.0, &plain), (200, &slash), "{slashed}");
    }
    for (slash, session) in ["", "/"].into_iter().zip(["bare", "slashed"]) {
        let body = Some(json!({"session_id": session}));
        assert_eq!(
            server
                .http(Method::POST, &format!("/sessions{slash}"), body)
                .await
                .0,
            201
        );
        let said = Some(json!({"session_id": session, "message": "hello", "agent_type": "coder"}));
        assert_eq!(
            server
                .http(Method::POST, &format!("/agent/message/stream{slash}"), said)
                .await
                .0,
            200
        );
        for (method, route, status) in ROUTES {
            let path = route.replace("{id}", session);
            let path = if slash.is_empty() {
                path
            } else {
                with_slash(&path)
            };
            assert_eq!(server.http(method, &path, None).await.0, status, "{path}");
        }
        assert_eq!(
            server
                .http(
                    Method::POST,
                    &format!("/sessions/{session}/restore{slash}"),
                    None
                )
                .await
                .0,
            200
        );
        assert_eq!(server.history(session).await.len(), 2);
    }
}

async fn assert_nowhere(server: &TestServer, session: &str) {
    for (method, route, _) in ROUTES {
        let path = route.replace("{id}", session);
        let (status, body) = server.http(method, &path, None).await;
        assert_eq!(
            (status, &body["error_code"]),
            (404, &json!("SESSION_NOT_FOUND")),
            "{path}"
        );
    }
    let call = CallId::parse("call-1").unwrap();
    let approve = HitlDecision {
        decision: Some(codelab_protocol::DecisionChoice::Approve.into()),
        ..Default::default()
    };
    for request in [
        tool_result(session, &call, json!("x")),
        hitl_decision(session, &call, approve),
    ] {
        assert_eq!(
            server.refused(&request).await,
            (404, "SESSION_NOT_FOUND".to_owned())
        );
    }
}

fn switch(session: &str) -> codelab_protocol::AgentStreamRequest {
    codelab_protocol::AgentStreamRequest {
        message_type: Some(codelab_protocol::MessageType::SwitchAgent.into()),
        agent_type: Some("coder".to_owned()),
        ..request(session)
    }
}

fn with_slash(path: &str) -> String {
    match path.split_once('?') {
        Some((path, query)) => format!("{path}/?{query}"),
        None => format!("{path}/"),
    }
}
