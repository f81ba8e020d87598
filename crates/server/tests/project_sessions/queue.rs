//! One turn at a time in a session; sessions beside each other.

use codelab_testkit::{Gate, Reply};
use serde_json::json;

use crate::kit::{Person, Session, Stream, is_planning, says, server, server_with, task, tasks};

/// A session whose first turn stands at the gate.
async fn busy(server: &codelab_testkit::TestServer, gate: &Gate) -> (Session, Stream) {
    let session = Person::new(server, 1).session().await;
    server
        .model
        .on(says("first"), Reply::text("First.").hold(gate));
    let stream = session.stream_call("coder", "first").await;
    gate.reached().await;
    (session, stream)
}

#[tokio::test]
async fn sequential_processing_in_a_session() {
    let server = server().await;
    let gate = Gate::new();
    let (session, first) = busy(&server, &gate).await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    let second = session.stream_call("coder", "second").await;
    let third = session
        .send(json!({ "content": "third" }))
        .await
        .expect(202);
    assert_eq!(
        (&third["status"], &third["position"], &third["mode"]),
        (&json!("queued"), &json!(2), &json!("orchestrated"))
    );
    assert!(third["workflow_id"].is_string(), "{third}");
    let fourth = tokio::spawn({
        let session = session.clone();
        async move { session.call("analyzer", "fourth").await }
    });
    session
        .wait_for("message_queued", |data| data["position"] == 3)
        .await;
    assert_eq!(
        session.messages("").await.len(),
        1,
        "what waits is not said yet"
    );
    assert_eq!(session.detail().await["queued"], 3);
    gate.open();
    assert_eq!(
        first.all().await.one("task_completed")["response"],
        "First."
    );
    let second = second.all().await;
    assert_eq!(
        (second.kinds()[0], second.status()),
        ("message_queued", "completed")
    );
    assert_eq!(
        second.all("message_created")[0]["content"],
        "second",
        "its own turn only"
    );
    assert_eq!(fourth.await.unwrap().expect(200)["agent"], "agent_analyzer");
    let log = session.log().await;
    assert_eq!(
        log.one("workflow_completed")["workflow_id"],
        third["workflow_id"]
    );
    let said: Vec<_> = session
        .messages("?role=user")
        .await
        .iter()
        .map(|message| message["content"].clone())
        .collect();
    assert_eq!(said, ["first", "second", "third", "fourth"]);
    let roles: Vec<_> = session
        .messages("")
        .await
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(
        roles,
        [
            "user",
            "assistant",
            "user",
            "assistant",
            "user",
            "assistant",
            "user",
            "assistant"
        ]
    );
}

#[tokio::test]
async fn parallel_sessions() {
    let server = server().await;
    let gate = Gate::new();
    let (session, first) = busy(&server, &gate).await;
    let me = Person::new(&server, 1);
    for _ in 0..3 {
        assert_eq!(
            me.session()
                .await
                .call("coder", "elsewhere")
                .await
                .expect(200)["response"],
            "Done."
        );
    }
    let held = [Gate::new(), Gate::new()];
    server
        .model
        .on(says("one"), Reply::text("One.").hold(&held[0]));
    server
        .model
        .on(says("two"), Reply::text("Two.").hold(&held[1]));
    let streams = [
        me.session().await.stream_call("coder", "one").await,
        me.session().await.stream_call("coder", "two").await,
    ];
    held[0].reached().await;
    held[1].reached().await;
    assert_eq!(session.detail().await["busy"], true);
    held.iter().for_each(Gate::open);
    for stream in streams {
        assert_eq!(stream.all().await.status(), "completed");
    }
    gate.open();
    assert_eq!(first.all().await.status(), "completed");
}

#[tokio::test]
async fn session_lock() {
    let server = server().await;
    let gate = Gate::new();
    let (session, first) = busy(&server, &gate).await;
    let mut second = session.stream_call("coder", "second").await;
    let queued = second.until("message_queued", |_| true).await;
    assert_eq!(
        (&queued.data["position"], queued.data.get("workflow_id")),
        (&json!(1), None)
    );
    assert_eq!(
        server.model.request_count(),
        1,
        "the second waits for the first"
    );
    gate.open();
    first.all().await;
    assert_eq!(second.until_done().await.status(), "completed");
}

#[tokio::test]
async fn message_queue() {
    let server = server().await;
    let gate = Gate::new();
    let (session, first) = busy(&server, &gate).await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    for number in 1..=10 {
        let accepted = session
            .send(json!({ "content": format!("waiting {number}") }))
            .await
            .expect(202);
        assert_eq!(
            (&accepted["status"], &accepted["position"]),
            (&json!("queued"), &json!(number))
        );
    }
    let surplus = json!({ "content": "one too many", "client_message_id": "surplus" });
    let direct = json!({ "content": "one too many", "target_agent": "coder" });
    for answer in [
        session.send(surplus.clone()).await,
        session.send(direct.clone()).await,
        session.refused_stream(direct).await,
    ] {
        answer.refused(429, "QUEUE_FULL");
        assert!(answer.retry_after.is_some_and(|seconds| seconds >= 1));
    }
    Person::new(&server, 1)
        .session()
        .await
        .call("coder", "elsewhere")
        .await
        .expect(200);
    gate.open();
    first.all().await;
    session.wait_for("workflow_completed", |_| true).await;
    session.send(surplus).await.expect(202);
    let mut events = session.follow(0).await;
    for _ in 0..11 {
        events
            .until("workflow_completed", |data| data["status"] == "completed")
            .await;
    }
    let said: Vec<_> = session
        .messages("?role=user")
        .await
        .iter()
        .map(|message| message["content"].clone())
        .collect();
    let expected: Vec<_> = (1..=10)
        .map(|number| json!(format!("waiting {number}")))
        .collect();
    assert_eq!(
        (said.len(), &said[1..11], &said[11]),
        (12, &expected[..], &json!("one too many"))
    );
}

#[tokio::test]
async fn cancel_keeps_the_queue_unless_told_otherwise() {
    let server = server().await;
    let gate = Gate::new();
    let (session, first) = busy(&server, &gate).await;
    let second = session.stream_call("coder", "second").await;
    let cancelled = session.cancel().await.expect(200);
    assert_eq!(
        (&cancelled["cancelled"], &cancelled["queued"]),
        (&json!(true), &json!(0)),
        "the next one began"
    );
    assert_eq!(
        (first.all().await.status(), second.all().await.status()),
        ("cancelled", "completed")
    );

    let again = session.stream_call("coder", "first again").await;
    server.model.wait_until_in_flight(1).await;
    let dropped = session.stream_call("coder", "dropped").await;
    session
        .ask("POST", &session.path("cancel/?queue=drop"), None)
        .await
        .expect(200);
    assert_eq!(
        (again.all().await.status(), dropped.all().await.status()),
        ("cancelled", "cancelled")
    );
    let said: Vec<_> = session
        .messages("?role=user")
        .await
        .iter()
        .map(|message| message["content"].clone())
        .collect();
    assert_eq!(
        said,
        ["first", "second", "first again"],
        "what was dropped was never said"
    );
    session
        .ask("POST", &session.path("cancel/?queue=keep"), None)
        .await
        .expect(200);
    session
        .ask("POST", &session.path("cancel/?queue=explode"), None)
        .await
        .refused(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_cancelled_direct_call_says_so() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::hang());
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.call("coder", "go").await }
    });
    server.model.wait_until_in_flight(1).await;
    session.cancel().await.expect(200);
    let answer = call.await.unwrap().expect(409);
    assert_eq!(
        (&answer["status"], &answer["error_type"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert_eq!(
        (&answer["success"], &answer["error_code"]),
        (&json!(false), &json!("CANCELLED"))
    );
}

#[tokio::test]
async fn a_direct_call_that_was_dropped_from_the_queue_says_so() {
    let server = server().await;
    let gate = Gate::new();
    let (session, _first) = busy(&server, &gate).await;
    let dropped = tokio::spawn({
        let session = session.clone();
        async move { session.call("writer", "dropped").await }
    });
    let queued = session.wait_for("message_queued", |_| true).await;
    session
        .ask("POST", &session.path("cancel/?queue=drop"), None)
        .await
        .expect(200);
    let answer = dropped.await.unwrap();
    assert_eq!(
        answer.retry_after, None,
        "nobody should repeat what a person dropped"
    );
    let answer = answer.expect(409);
    assert_eq!(
        (&answer["status"], &answer["error_code"]),
        (&json!("cancelled"), &json!("CANCELLED"))
    );
    assert_eq!(
        (&answer["agent"], &answer["message_id"]),
        (&json!("agent_writer"), &queued.data["message_id"])
    );
}

/// An earlier turn that waits for a person may wait for ever; the request behind it does not.
#[tokio::test]
async fn a_request_behind_a_waiting_turn_is_told_that_it_is_queued() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": "a", "content": "b" }),
    ));
    session.call("coder", "write").await.expect(200);
    let answer = session.call("coder", "and then").await.expect(202);
    assert_eq!(
        (&answer["status"], &answer["position"], &answer["mode"]),
        (&json!("queued"), &json!(1), &json!("direct"))
    );
    assert!(answer["message_id"].is_string());
    session.cancel().await.expect(200);
    session
        .wait_for("task_completed", |data| data["response"] == "Done.")
        .await;
    assert_eq!(
        session.messages("?role=user").await[1]["message_id"],
        answer["message_id"]
    );
}

/// Another session's long work at the agent does not hold a request for ever.
#[tokio::test]
async fn a_request_to_a_busy_agent_is_told_that_it_is_queued() {
    let server = server_with(&[("CODELAB_LIMITS__DIRECT_TIMEOUT_SECONDS", "600")]).await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    let agents = me
        .get(&format!("/my/projects/{}/agents/", session.project))
        .await
        .expect(200);
    let coder = agents["agents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == "agent_coder")
        .unwrap();
    let path = format!(
        "/my/projects/{}/agents/{}",
        session.project,
        coder["agent_id"].as_str().unwrap()
    );
    me.ask("PATCH", &path, Some(json!({ "concurrency_limit": 1 })))
        .await
        .expect(200);
    let gate = Gate::new();
    server
        .model
        .on(says("first"), Reply::text("First.").hold(&gate));
    // Longer than a request's deadline, and at the limit of its agent, but at work: it is waited
    // for.
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.call("coder", "first").await }
    });
    gate.reached().await;
    let second = me.session().await;
    let answer = second.call("coder", "second").await.expect(202);
    assert_eq!(
        (&answer["status"], &answer["mode"], &answer["position"]),
        (&json!("queued"), &json!("direct"), &json!(0))
    );
    assert_eq!(
        answer["message_id"],
        second.messages("").await[0]["message_id"]
    );
    gate.open();
    assert_eq!(first.await.unwrap().expect(200)["response"], "First.");
    second
        .wait_for("task_completed", |data| data["response"] == "Done.")
        .await;
}
