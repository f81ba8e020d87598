//! Agents at work: in and out of service, at their limit, failing, changed and deleted meanwhile.

use codelab_testkit::{Asked, Gate, Reply, TestServer};
use serde_json::{Value, json};

use crate::kit::{Person, metric, server, server_with, until};

#[tokio::test]
async fn a_changed_agent_is_used_by_the_very_next_call() {
    let server = server().await;
    server.model.default_reply(Reply::text("Done."));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let session = me.session(project).await;
    let agent = format!(
        "/my/projects/{project}/agents/{}",
        me.agent(project, "agent_writer").await
    );
    for number in 1..=5 {
        let (model, temperature) = (format!("model-{number}"), f64::from(number) / 8.0);
        let prompt = format!("You are number {number}.");
        let change = json!({ "model": model, "temperature": temperature, "system_prompt": prompt });
        me.patch(&agent, change).await.expect(200);
        me.say(&session, "writer", "go").await.expect(200);
        let asked = server.model.requests().pop().unwrap();
        assert_eq!(asked.body["model"], model.as_str());
        assert_eq!(asked.temperature(), temperature);
        assert!(
            asked.system_prompt().contains(&prompt),
            "{}",
            asked.system_prompt()
        );
    }
    // A new agent can be talked to at once, by its id and both its names; a deleted one no longer.
    let agents = format!("/my/projects/{project}/agents");
    let made = me
        .post(&agents, json!({ "name": "agent_fresh", "model": "fresh" }))
        .await
        .expect(201);
    let id = made["agent_id"].as_str().unwrap();
    for name in ["fresh", "agent_fresh", id] {
        let answer = me.say(&session, name, "go").await.expect(200);
        assert_eq!(
            (&answer["agent"], &answer["success"]),
            (&json!("agent_fresh"), &json!(true)),
            "{name}"
        );
        assert_eq!(
            server.model.requests().pop().unwrap().body["model"],
            "fresh"
        );
    }
    assert_eq!(me.space(project).await["active_agents"], 5);
    me.delete(&format!("{agents}/{id}")).await.expect(204);
    me.say(&session, "fresh", "go")
        .await
        .refused(404, "AGENT_NOT_FOUND");
    assert_eq!(me.space(project).await["active_agents"], 4);
}

#[tokio::test]
async fn an_agent_out_of_service_stays_so_until_it_is_registered_again() {
    let mut server = server().await;
    server.model.default_reply(Reply::text("Done."));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let session = me.session(project).await;
    let out = me
        .tell(project, "agent_coder", "deregister")
        .await
        .expect(200);
    assert_eq!(
        out,
        json!({ "agent": "agent_coder", "status": "idle", "registered": false })
    );
    let refused = async |me: &Person| {
        let answer = me.say(&session, "coder", "go").await;
        answer.refused(503, "AGENT_UNAVAILABLE");
        assert_eq!(answer.raw.headers["retry-after"], "30");
    };
    refused(&me).await;
    me.say(&session, "writer", "go").await.expect(200);
    assert_eq!(me.space(project).await["active_agents"], 3);
    // Neither reading it anew nor a new space brings it back.
    me.tell(project, "agent_coder", "invalidate")
        .await
        .expect(200);
    refused(&me).await;
    for action in ["reset", "cleanup"] {
        me.ask(
            "POST",
            &format!("/my/projects/{project}/worker-space/{action}"),
            None,
        )
        .await
        .expect(200);
        refused(&me).await;
    }
    server.restart().await;
    let me = Person::user(&server, 1);
    refused(&me).await;
    assert_eq!(
        me.about(project, "agent_coder", "status").await["registered"],
        false
    );
    let back = me
        .tell(project, "agent_coder", "register")
        .await
        .expect(200);
    assert_eq!(
        back,
        json!({ "agent": "agent_coder", "status": "idle", "registered": true })
    );
    me.say(&session, "coder", "go").await.expect(200);
}

#[tokio::test]
async fn active_tasks_are_finished_before_an_agent_leaves_service() {
    let server = server().await;
    let gate = Gate::new();
    server.model.reply(Reply::text("Done.").hold(&gate));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let (session, other) = (me.session(project).await, me.session(project).await);
    let works = me.saying(&session, "coder");
    gate.reached().await;
    let leaving = {
        let me = me.clone();
        tokio::spawn(async move { me.tell(project, "agent_coder", "deregister").await })
    };
    until(
        "the agent leaves",
        json!({ "registered": false, "status": "processing" }),
        async || me.about(project, "agent_coder", "status").await,
    )
    .await;
    me.say(&other, "coder", "go")
        .await
        .refused(503, "AGENT_UNAVAILABLE");
    assert!(!leaving.is_finished() && !works.is_finished());
    gate.open();
    assert_eq!(works.await.unwrap().expect(200)["response"], "Done.");
    assert_eq!(leaving.await.unwrap().expect(200)["status"], "idle");
}

#[tokio::test]
async fn what_an_agent_has_begun_ends_also_when_it_is_out_of_service() {
    let mut server = server().await;
    server.model.default_reply(Reply::text("Done."));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let session = me.session(project).await;
        server
            .model
            .reply(Reply::tool_call("read_file", json!({ "path": "a" })));
        let asked = me.say(&session, "coder", "read").await.expect(200);
        waiting.push((
            session,
            asked["pending"]["call_id"].as_str().unwrap().to_owned(),
        ));
    }
    me.tell(project, "agent_coder", "deregister")
        .await
        .expect(200);
    me.say(&me.session(project).await, "coder", "go")
        .await
        .refused(503, "AGENT_UNAVAILABLE");
    for (number, (session, call)) in waiting.into_iter().enumerate() {
        let me = Person::user(&server, 1);
        let path = |what: &str| format!("/my/chat/{session}/tool_calls/{call}/{what}/");
        me.post(&path("claim"), json!({ "client_id": "here" }))
            .await
            .expect(200);
        me.post(
            &path("result"),
            json!({ "client_id": "here", "result": "text" }),
        )
        .await
        .expect(200);
        let ended = json!({ "busy": false, "message_count": 4 });
        until("the turn ends", ended, async || {
            me.get(&format!("/my/chat/sessions/{session}"))
                .await
                .expect(200)
        })
        .await;
        let said = me
            .get(&format!("/my/chat/{session}/messages/"))
            .await
            .expect(200);
        assert_eq!(
            said["messages"][3]["content"], "Done.",
            "{number}: {said:#}"
        );
        // The second one waits through a restart.
        server.restart().await;
    }
}

#[tokio::test]
async fn at_its_limit_an_agent_is_busy_and_the_next_task_waits() {
    let server = server().await;
    let gate = Gate::new();
    server.model.default_reply(Reply::text("Done.").hold(&gate));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let agent = me.agent(project, "agent_coder").await;
    let path = format!("/my/projects/{project}/agents/{agent}");
    me.patch(&path, json!({ "concurrency_limit": 1 }))
        .await
        .expect(200);
    let first = me.saying(&me.session(project).await, "coder");
    gate.reached().await;
    assert_eq!(
        me.about(project, "agent_coder", "status").await["status"],
        "busy"
    );
    let second = me.saying(&me.session(project).await, "coder");
    let waits =
        json!({ "active": 1, "queue_length": 1, "concurrency_limit": 1, "tasks_processed": 0 });
    until("the second task waits", waits, async || {
        me.about(project, "agent_coder", "metrics").await
    })
    .await;
    let space = me.space(project).await;
    assert_eq!(
        (&space["active_tasks"], &space["queued_tasks"]),
        (&json!(1), &json!(1))
    );
    let gauges = (
        metric(&server, "codelab_bus_active_tasks").await,
        metric(&server, "codelab_bus_waiting_tasks").await,
    );
    assert_eq!(gauges, (1.0, 1.0));
    // Another agent is free, and another project's agent of the same name too.
    assert_eq!(
        me.about(project, "agent_writer", "status").await["status"],
        "idle"
    );
    let beside = me.project("beside").await;
    assert_eq!(
        me.about(beside, "agent_coder", "status").await["status"],
        "idle"
    );
    assert_eq!(server.model.request_count(), 1);
    gate.open();
    for task in [first, second] {
        task.await.unwrap().expect(200);
    }
    let done = json!({ "tasks_processed": 2, "tasks_failed": 0, "active": 0, "queue_length": 0, "error_rate": 0.0 });
    until("both are done", done, async || {
        me.about(project, "agent_coder", "metrics").await
    })
    .await;
    let metrics = me.about(project, "agent_coder", "metrics").await;
    assert!(
        metrics["avg_processing_time"].as_f64().unwrap() >= 0.0
            && metrics["last_activity"].is_string()
    );
    assert_eq!(me.space(project).await["total_tasks_processed"], 2);
    assert_eq!(
        metric(&server, "codelab_bus_tasks_total{outcome=\"succeeded\"}").await,
        2.0
    );
    assert_eq!(metric(&server, "codelab_bus_active_tasks").await, 0.0);
    // More room lets waiting tasks in at once.
    let gate = Gate::new();
    server.model.default_reply(Reply::text("Done.").hold(&gate));
    let tasks = [
        me.saying(&me.session(project).await, "coder"),
        me.saying(&me.session(project).await, "coder"),
    ];
    gate.reached().await;
    me.patch(&path, json!({ "concurrency_limit": 2 }))
        .await
        .expect(200);
    server.model.wait_until_in_flight(2).await;
    gate.open();
    for task in tasks {
        task.await.unwrap().expect(200);
    }
}

#[tokio::test]
async fn an_agent_that_fails_five_times_is_left_alone() {
    let server = server().await;
    server
        .model
        .default_reply(Reply::status(400, r#"{"error":{"message":"no"}}"#));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let session = me.session(project).await;
    for _ in 0..5 {
        assert_eq!(
            me.about(project, "agent_coder", "status").await["status"],
            "idle"
        );
        let failed = me.say(&session, "coder", "go").await.expect(502);
        assert_eq!(
            (&failed["success"], &failed["error_type"]),
            (&json!(false), &json!("execution")),
            "{failed}"
        );
    }
    assert_eq!(
        me.about(project, "agent_coder", "status").await["status"],
        "error"
    );
    let refused = me.say(&session, "coder", "go").await;
    refused.refused(503, "AGENT_UNAVAILABLE");
    let seconds: u64 = refused.raw.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    let metrics = me.about(project, "agent_coder", "metrics").await;
    let numbers = ["tasks_processed", "tasks_failed", "error_rate"]
        .map(|name| metrics[name].as_f64().unwrap());
    assert_eq!(numbers, [5.0, 5.0, 1.0]);
    let health = me
        .get(&format!("/my/projects/{project}/worker-space/health/"))
        .await
        .expect(200);
    assert_eq!(
        (&health["status"], &health["checks"]["agents"]["status"]),
        (&json!("degraded"), &json!("degraded"))
    );
    assert_eq!(me.space(project).await["is_healthy"], false);
    until(
        "the alert",
        json!({ "alerts": 1.0 }),
        async || json!({ "alerts": metric(&server, "codelab_alerts_total{kind=\"agents\"}").await }),
    )
    .await;
    // The others go on; a reset gives it another chance.
    server.model.default_reply(Reply::text("Done."));
    me.say(&session, "writer", "go").await.expect(200);
    me.ask(
        "POST",
        &format!("/my/projects/{project}/worker-space/reset/"),
        None,
    )
    .await
    .expect(200);
    me.say(&session, "coder", "go").await.expect(200);
    assert_eq!(
        me.about(project, "agent_coder", "status").await["status"],
        "idle"
    );
}

#[tokio::test]
async fn a_working_agent_is_deleted_by_force_only() {
    let server = server().await;
    let gate = Gate::new();
    server.model.default_reply(Reply::text("Done.").hold(&gate));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let (session, other) = (me.session(project).await, me.session(project).await);
    let path = format!(
        "/my/projects/{project}/agents/{}",
        me.agent(project, "agent_coder").await
    );
    let (coder, writer) = (me.saying(&session, "coder"), me.saying(&other, "writer"));
    server.model.wait_until_in_flight(2).await;
    me.delete(&path).await.refused(409, "CONFLICT");
    me.delete(&format!("{path}?force=false"))
        .await
        .refused(409, "CONFLICT");
    me.delete(&format!("{path}?force=perhaps"))
        .await
        .refused(422, "VALIDATION_ERROR");
    assert_eq!(
        me.about(project, "agent_coder", "status").await["status"],
        "processing"
    );
    assert!(!coder.is_finished());
    me.delete(&format!("{path}?force=true")).await.expect(204);
    let cancelled = coder.await.unwrap().expect(409);
    assert_eq!(
        (&cancelled["status"], &cancelled["success"]),
        (&json!("cancelled"), &json!(false)),
        "{cancelled}"
    );
    // Its model call is given up; the other agent's goes on.
    server.model.wait_until_in_flight(1).await;
    gate.open();
    writer.await.unwrap().expect(200);
    me.get(&path).await.refused(404, "AGENT_NOT_FOUND");
    me.say(&session, "coder", "go")
        .await
        .refused(404, "AGENT_NOT_FOUND");
    me.say(&session, "writer", "go").await.expect(200);
}

/// How many alerts of a kind there were.
async fn alerts(server: &TestServer, kind: &str) -> Value {
    json!({ "alerts": metric(server, &format!("codelab_alerts_total{{kind=\"{kind}\"}}")).await })
}

#[tokio::test]
async fn a_task_that_takes_too_long_is_told_of() {
    let server = server_with(&[("CODELAB_LIMITS__TASK_TIMEOUT_SECONDS", "1")]).await;
    // What the model's server makes it wait is not its working time, so it is not ended.
    let wait = [("retry-after", "6")];
    server
        .model
        .reply(Reply::status_with_headers(429, &wait, "slow down"));
    server.model.default_reply(Reply::text("Done."));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let works = me.saying(&me.session(project).await, "coder");
    until("the alert", json!({ "alerts": 1.0 }), async || {
        alerts(&server, "tasks").await
    })
    .await;
    let health = me
        .get(&format!("/my/projects/{project}/worker-space/health/"))
        .await
        .expect(200);
    assert_eq!(
        (&health["status"], &health["checks"]["tasks"]["status"]),
        (&json!("degraded"), &json!("degraded"))
    );
    works.await.unwrap().expect(200);
    let health = me
        .get(&format!("/my/projects/{project}/worker-space/health/"))
        .await
        .expect(200);
    assert_eq!(health["checks"]["tasks"]["status"], "healthy");
}

#[tokio::test]
async fn a_full_queue_refuses_and_is_told_of() {
    /// What waits for an agent at most.
    const QUEUE: usize = 100;
    let server = server().await;
    let gate = Gate::new();
    server.model.default_reply(Reply::text("Done.").hold(&gate));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let agent = format!(
        "/my/projects/{project}/agents/{}",
        me.agent(project, "agent_coder").await
    );
    me.patch(&agent, json!({ "concurrency_limit": 1 }))
        .await
        .expect(200);
    let mut tasks = Vec::new();
    for _ in 0..=QUEUE {
        tasks.push(me.saying(&me.session(project).await, "coder"));
    }
    let full = json!({ "active": 1, "queue_length": QUEUE });
    until("the queue is full", full, async || {
        me.about(project, "agent_coder", "metrics").await
    })
    .await;
    me.say(&me.session(project).await, "coder", "one more")
        .await
        .refused(429, "QUEUE_FULL");
    assert_eq!(
        metric(&server, "codelab_bus_tasks_total{outcome=\"refused\"}").await,
        1.0
    );
    until("the alert", json!({ "alerts": 1.0 }), async || {
        alerts(&server, "queues").await
    })
    .await;
    let health = me
        .get(&format!("/my/projects/{project}/worker-space/health/"))
        .await
        .expect(200);
    assert_eq!(health["checks"]["queues"]["status"], "degraded", "{health}");
    me.ask(
        "POST",
        &format!("/my/projects/{project}/worker-space/reset/"),
        None,
    )
    .await
    .expect(200);
    for task in tasks {
        // One that waited may be told that its agent is out of service before it is cancelled.
        let ended = task.await.unwrap();
        assert!(matches!(ended.status, 409 | 503), "{:#}", ended.body);
    }
}
