//! Direct mode: a message that names its agent.

use std::time::{Duration, Instant};

use codelab_testkit::{Asked, Gate, Reply, skipped_through_another};
use serde_json::{Value, json};

use crate::kit::{Person, server, server_with};

#[tokio::test]
async fn direct_mode_through_target_agent() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .reply(Reply::text_with_usage("Hello there.", 120, 3));
    let answer = session.call("coder", "Say hello").await.expect(200);
    assert_eq!(
        (&answer["mode"], &answer["status"], &answer["success"]),
        (&json!("direct"), &json!("completed"), &json!(true))
    );
    assert_eq!(
        (&answer["response"], &answer["agent"]),
        (&json!("Hello there."), &json!("agent_coder"))
    );
    assert_eq!(
        (&answer["context"], &answer["usage"]["total_tokens"]),
        (&json!([]), &json!(123))
    );
    assert!(
        answer["usage"]["cost_usd"].as_f64().unwrap() > 0.0,
        "the price of gpt-4 is known: {answer:#}"
    );
    let said = session.messages("").await;
    assert_eq!(
        (&answer["message_id"], &answer["response_message_id"]),
        (&said[0]["message_id"], &said[1]["message_id"])
    );
    assert_eq!(answer.get("warnings"), None);
    let asked = server.model.requests();
    assert_eq!(asked.len(), 1, "no orchestrator was asked");
    assert_eq!(
        (&asked[0].body["model"], asked[0].message(-1)),
        (&json!("gpt-4"), &json!("Say hello"))
    );
    assert!(asked[0].tool_names().contains(&"switch_mode"));
}

#[tokio::test]
async fn an_announced_rate_limit_is_not_the_agents_time() {
    let server = server_with(&[("CODELAB_LIMITS__DIRECT_TIMEOUT_SECONDS", "1")]).await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::status_with_headers(
        429,
        &[("retry-after", "1.5")],
        "later",
    ));
    assert_eq!(
        session.call("coder", "hi").await.expect(200)["response"],
        "Done."
    );
    server.model.reply(Reply::status_with_headers(
        429,
        &[("retry-after", "3600")],
        "much later",
    ));
    let answer = session.call("coder", "hi").await;
    assert_eq!(answer.retry_after, Some(3600));
    let failed = answer.expect(502);
    assert!(
        failed["error"]
            .as_str()
            .unwrap()
            .contains("rate limited until"),
        "{failed:#}"
    );
    let details = &failed["details"];
    assert_eq!(
        (&details["kind"], &details["retry_after_seconds"]),
        (&json!("rate_limit"), &json!(3600)),
        "{failed:#}"
    );
}

#[tokio::test]
async fn an_accepted_call_whose_outcome_cannot_be_stored_is_not_called_refused() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let gate = Gate::new();
    server
        .model
        .reply(Reply::text("It was worth it.").hold(&gate));
    let calling = {
        let session = session.clone();
        tokio::spawn(async move { session.call("coder", "hi").await })
    };
    gate.reached().await;
    let lock = rusqlite::Connection::open(server.data_dir().join("codelab.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    gate.open();
    let answer = calling.await.unwrap();
    lock.execute_batch("ROLLBACK").unwrap();
    answer.refused(503, "DB_CONNECTION_ERROR");
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(
        detail.contains("accepted") && detail.contains("tried again"),
        "{detail}"
    );
    session
        .wait_for("task_completed", |data| {
            data["response"] == "It was worth it."
        })
        .await;
    assert_eq!(
        answer.body["details"]["message_id"],
        session.messages("").await[0]["message_id"]
    );
}

#[tokio::test]
async fn an_answer_says_what_was_wrong_with_it() {
    let server = server_with(&[("LLM_MODEL", "gpt-4o")]).await;
    let session = Person::new(&server, 1).session().await;
    let agents = format!("/my/projects/{}/agents/", session.project);
    let coder = session.get(&agents).await.expect(200)["agents"][0]["agent_id"].clone();
    let path = format!("{agents}{}", coder.as_str().unwrap());
    session
        .ask("PATCH", &path, Some(json!({ "model": "gpt-4" })))
        .await
        .expect(200);
    // Another model answered, and not to the end.
    server.model.reply(Reply::unknown_model("gpt-4"));
    server
        .model
        .reply(Reply::text("half of").with_finish_reason("length"));
    let answer = session.call("coder", "hi").await.expect(200);
    let warnings = answer["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2, "{answer:#}");
    assert!(
        warnings[0].as_str().unwrap().contains("gpt-4o")
            && warnings[1].as_str().unwrap().contains("token limit")
    );
    assert_eq!(
        session.messages("").await[1]["warnings"],
        answer["warnings"],
        "the history says so too"
    );
    assert_eq!(
        session.log().await.all("message_created")[1]["warnings"],
        answer["warnings"]
    );
}

#[tokio::test]
async fn an_agent_is_named_by_id_by_name_or_without_its_prefix() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    let agents = me
        .get(&format!("/my/projects/{}/agents/", session.project))
        .await
        .expect(200);
    let writer = agents["agents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == "agent_writer")
        .unwrap();
    let body = json!({ "name": "poet", "system_prompt": "You write verse." });
    me.post(&format!("/my/projects/{}/agents/", session.project), body)
        .await
        .expect(201);
    for (target, agent) in [
        (writer["agent_id"].as_str().unwrap(), "agent_writer"),
        ("agent_writer", "agent_writer"),
        ("writer", "agent_writer"),
        (" researcher ", "agent_researcher"),
        ("poet", "poet"),
    ] {
        assert_eq!(
            session.call(target, "hi").await.expect(200)["agent"],
            agent,
            "{target}"
        );
    }
    let last = server.model.requests().pop().unwrap();
    assert!(last.system_prompt().starts_with("You write verse."));
}

#[tokio::test]
async fn invalid_target_agent() {
    let server = server().await;
    let (me, other) = (Person::new(&server, 1), Person::new(&server, 2));
    let (session, theirs) = (me.session().await, other.session().await);
    let foreign = other
        .get(&format!("/my/projects/{}/agents/", theirs.project))
        .await
        .expect(200);
    let foreign = foreign["agents"][0]["agent_id"].as_str().unwrap();
    for target in [
        "nobody",
        "agent_",
        "orchestrator",
        "universal",
        "Coder",
        "a/b",
        foreign,
    ] {
        for stream in [false, true] {
            let body = json!({ "content": "hi", "target_agent": target });
            let answer = match stream {
                false => session.send(body).await,
                true => session.refused_stream(body).await,
            };
            answer.refused(404, "AGENT_NOT_FOUND");
            assert_eq!(answer.body["detail"], "Agent not found", "{target}");
        }
    }
    assert_eq!(
        session.messages("").await,
        Vec::<Value>::new(),
        "a refused message is not part of the session"
    );
    assert_eq!(session.log().await.ids(), Vec::<u64>::new());
}

#[tokio::test]
async fn request_format() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    for (body, code) in [
        (json!({}), "MISSING_REQUIRED_FIELD"),
        (json!({ "target_agent": "coder" }), "MISSING_REQUIRED_FIELD"),
        (
            json!({ "content": "", "target_agent": "coder" }),
            "MISSING_REQUIRED_FIELD",
        ),
        (json!({ "content": " \n\t" }), "MISSING_REQUIRED_FIELD"),
        (json!({ "content": null }), "MISSING_REQUIRED_FIELD"),
        (json!({ "content": 3 }), "VALIDATION_ERROR"),
        (
            json!({ "content": "hi", "target_agent": 3 }),
            "VALIDATION_ERROR",
        ),
        (
            json!({ "content": "hi", "target_agent": "" }),
            "VALIDATION_ERROR",
        ),
        (
            json!({ "content": "hi", "target_agent": " " }),
            "VALIDATION_ERROR",
        ),
        (
            json!({ "content": "hi", "client_message_id": "a b" }),
            "VALIDATION_ERROR",
        ),
        (json!([]), "VALIDATION_ERROR"),
    ] {
        session.send(body).await.refused(422, code);
    }
    assert_eq!(server.model.request_count(), 0);
    let body = json!({ "content": "  kept as it is \n", "target_agent": "coder", "client_message_id": "m-1" });
    session.send(body).await.expect(200);
    assert_eq!(
        session.messages("").await[0]["content"],
        "  kept as it is \n"
    );
    for path in [
        session.path("message"),
        session.path("message/"),
        session.path("message//"),
    ] {
        session
            .post(&path, json!({ "content": "hi", "target_agent": "coder" }))
            .await
            .expect(200);
    }
}

#[tokio::test]
async fn immediate_execution() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let gate = Gate::new();
    server.model.reply(Reply::text("Later.").hold(&gate));
    let mut stream = session.stream_call("coder", "go").await;
    let began = stream
        .until("agent_status_changed", |data| {
            data["status"] == "processing"
        })
        .await;
    assert_eq!(began.data["agent"], "agent_coder");
    gate.reached().await;
    gate.open();
    assert_eq!(stream.until_done().await.status(), "completed");
}

/// How long it takes is for the benchmark to say; here, that nothing stands between a request and
/// its agent.
#[tokio::test]
async fn direct_mode_performance() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let gate = Gate::new();
    server.model.reply(Reply::text("Later.").hold(&gate));
    let mut stream = session.stream_call("coder", "go").await;
    stream
        .until("agent_status_changed", |data| {
            data["status"] == "processing"
        })
        .await;
    gate.reached().await;
    assert_eq!(
        server.model.request_count(),
        1,
        "the agent's own call is the only one"
    );
    gate.open();
    assert_eq!(stream.until_done().await.status(), "completed");
    assert_eq!(server.model.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_execution_time() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let mut waits = Vec::new();
    for _ in 0..20 {
        let asked = Instant::now();
        session.call("coder", "go").await.expect(200);
        waits.push(asked.elapsed());
    }
    waits.sort();
    assert!(
        waits[18] < Duration::from_secs(2),
        "from a request to its answer: {waits:?}"
    );
}

#[tokio::test]
async fn sse_events_in_direct_mode() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::text("Hello there."));
    let seen = session.stream_call("coder", "Say hello").await.all().await;
    let expected = [
        "message_created",
        "direct_agent_call",
        "agent_status_changed",
        "message_created",
        "agent_status_changed",
        "task_completed",
    ];
    assert_eq!(
        (seen.kinds(), seen.status()),
        (expected.to_vec(), "completed")
    );
    let call = seen.one("direct_agent_call");
    assert_eq!(
        (&call["agent"], &call["message_id"]),
        (&json!("agent_coder"), &seen.0[0].data["message_id"])
    );
    let statuses: Vec<_> = seen
        .all("agent_status_changed")
        .iter()
        .map(|data| data["status"].clone())
        .collect();
    assert_eq!(statuses, ["processing", "idle"]);
    let completed = seen.one("task_completed");
    assert_eq!(
        (&completed["success"], &completed["response"]),
        (&json!(true), &json!("Hello there."))
    );
    assert!(completed.get("plan_id").is_none(), "{completed}");
    let text: String = seen
        .all("message_delta")
        .iter()
        .map(|data| data["content"].as_str().unwrap())
        .collect();
    assert_eq!(text, "Hello there.");
    for event in &seen.0[..seen.0.len() - 1] {
        assert_eq!(event.whole["session_id"], session.id.as_str());
        assert_eq!(event.id.is_none(), event.kind == "message_delta");
    }
    // The log holds the very same events.
    let log = session.log().await;
    let stored: Vec<_> = seen
        .0
        .iter()
        .filter(|event| event.kind != "message_delta")
        .cloned()
        .collect();
    assert_eq!(log.0, stored);
    assert_eq!(log.ids(), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn error_in_direct_mode() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::status(
        400,
        r#"{"error": {"message": "internal-canary"}}"#,
    ));
    let answer = session.call("coder", "go").await.expect(502);
    assert_eq!(
        (&answer["success"], &answer["error_type"]),
        (&json!(false), &json!("execution"))
    );
    assert_eq!(
        (&answer["mode"], &answer["status"], &answer["error_code"]),
        (&json!("direct"), &json!("failed"), &json!("LLM_ERROR"))
    );
    assert_eq!(
        (
            &answer["details"]["kind"],
            &answer["details"]["provider_message"]
        ),
        (&json!("nonsense"), &json!("internal-canary")),
        "{answer:#}"
    );
    let said = session.messages("").await;
    assert_eq!(said.len(), 2);
    assert_eq!(
        (&said[1]["role"], &said[1]["error"]),
        (&json!("assistant"), &json!(true))
    );
    assert_eq!(
        (&said[1]["content"], &said[1]["message_id"]),
        (&answer["error"], &answer["response_message_id"])
    );
    assert_eq!(said[1]["agent_id"], "agent_coder");
    let log = session.log().await;
    assert_eq!(
        (log.one("error")["error_code"].as_str(), log.status()),
        (Some("LLM_ERROR"), "failed")
    );
    assert!(!log.kinds().contains(&"task_completed"));
    assert_eq!(
        session.call("coder", "again").await.expect(200)["response"],
        "Done.",
        "the session goes on"
    );
}

#[tokio::test]
async fn a_direct_call_that_takes_too_long_is_504_and_stays_in_the_history() {
    let server = server_with(&[("CODELAB_LIMITS__DIRECT_TIMEOUT_SECONDS", "1")]).await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::hang());
    let answer = session.call("coder", "go").await.expect(504);
    assert_eq!(
        (&answer["success"], &answer["error_type"]),
        (&json!(false), &json!("timeout"))
    );
    assert_eq!(
        (&answer["status"], &answer["error_code"]),
        (&json!("failed"), &json!("TASK_TIMEOUT"))
    );
    server.model.wait_until_in_flight(0).await;
    let said = session.messages("?role=assistant").await;
    assert_eq!(
        (said.len(), &said[0]["error"], &said[0]["content"]),
        (1, &json!(true), &answer["error"])
    );
}

#[tokio::test]
async fn agent_unavailable() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    for _ in 0..5 {
        server.model.reply(Reply::status(400, "no"));
        session.call("coder", "go").await.expect(502);
    }
    let asked = server.model.request_count();
    for body in [
        json!({ "content": "go", "target_agent": "coder" }),
        json!({ "content": "x", "target_agent": "agent_coder" }),
    ] {
        for answer in [
            session.send(body.clone()).await,
            session.refused_stream(body).await,
        ] {
            answer.refused(503, "AGENT_UNAVAILABLE");
            let wait = answer.retry_after.expect("it says when to come back");
            assert!((20..=30).contains(&wait), "{wait}");
            assert_eq!(answer.body["details"]["retry_after_seconds"], wait);
        }
    }
    assert_eq!(
        server.model.request_count(),
        asked,
        "the failing agent is left alone"
    );
    assert_eq!(
        session.messages("?role=user").await.len(),
        5,
        "a refused message was not accepted"
    );
    session.call("writer", "go").await.expect(200);
    // In another project the same name is another agent.
    let elsewhere = me
        .session_with(json!({ "project_id": me.project(json!({ "name": "other" })).await }))
        .await;
    elsewhere.call("coder", "go").await.expect(200);
}
