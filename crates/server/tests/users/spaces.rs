//! Worker spaces: there at once, one per project, gone when idle, back when used.

use codelab_testkit::{Gate, Reply, skipped_through_another};
use serde_json::{Value, json};

use crate::kit::{Person, claims, metric, server, server_with, sign, until};

async fn post(person: &Person, project: i64, action: &str) -> Value {
    person
        .ask(
            "POST",
            &format!("/my/projects/{project}/worker-space/{action}/"),
            None,
        )
        .await
        .expect(200)
}

#[tokio::test]
async fn a_new_project_is_ready_at_once() {
    if skipped_through_another("the owner starts a worker space when it is first used") {
        return;
    }
    let server = server().await;
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let mut space = me.space(project).await;
    let uptime = space
        .as_object_mut()
        .unwrap()
        .remove("uptime")
        .unwrap()
        .as_f64()
        .unwrap();
    assert!((0.0..60.0).contains(&uptime));
    let expected = json!({
        "user_id": 1, "project_id": project, "active": true, "active_agents": 4, "cache_size": 4,
        "total_tasks_processed": 0, "active_tasks": 0, "queued_tasks": 0, "is_healthy": true, "direct_calls_count": 0,
        "orchestrated_calls_count": 0, "average_duration": { "direct": 0.0, "orchestrated": 0.0 },
        "attached_clients": 0,
    });
    assert_eq!(space, expected);
    let health = me
        .get(&format!("/my/projects/{project}/worker-space/health"))
        .await
        .expect(200);
    assert_eq!(health["status"], "healthy");
    assert!(
        health["checks"]
            .as_object()
            .unwrap()
            .values()
            .all(|check| check["status"] == "healthy"),
        "{health}"
    );
    for name in [
        "agent_coder",
        "agent_analyzer",
        "agent_writer",
        "agent_researcher",
    ] {
        let status = me.about(project, name, "status").await;
        assert_eq!(
            status,
            json!({ "agent": name, "status": "idle", "registered": true })
        );
        let metrics = me.about(project, name, "metrics").await;
        let expected = json!({
            "tasks_processed": 0, "tasks_failed": 0, "avg_processing_time": 0.0, "last_activity": null,
            "error_rate": 0.0, "active": 0, "queue_length": 0, "concurrency_limit": 4,
        });
        assert_eq!(metrics, expected);
    }
    // The default project too, and its agents are read from the cache.
    let other = Person::user(&server, 2);
    let default = other.get("/my/projects").await.expect(200)["projects"][0]["project_id"]
        .as_i64()
        .unwrap();
    assert_eq!(other.space(default).await["active_agents"], 4);
    assert_eq!(metric(&server, "codelab_worker_spaces").await, 2.0);
    server.model.default_reply(Reply::text("Done."));
    let session = me.session(project).await;
    let misses = metric(
        &server,
        "codelab_agent_cache_lookups_total{outcome=\"miss\"}",
    )
    .await;
    me.say(&session, "coder", "go").await.expect(200);
    assert_eq!(
        metric(
            &server,
            "codelab_agent_cache_lookups_total{outcome=\"miss\"}"
        )
        .await,
        misses
    );
    let space = me.space(project).await;
    assert_eq!(
        (
            &space["direct_calls_count"],
            &space["total_tasks_processed"]
        ),
        (&json!(1), &json!(1))
    );
    assert!(
        space["average_duration"]["direct"].as_f64().unwrap() > 0.0,
        "{space}"
    );
    // Clearing the cache touches nobody's service.
    me.delete(&format!("/my/projects/{project}/worker-space/cache/"))
        .await
        .expect(204);
    let space = me.space(project).await;
    assert_eq!(
        (&space["cache_size"], &space["active_agents"]),
        (&json!(0), &json!(4))
    );
    me.say(&session, "coder", "go").await.expect(200);
    assert_eq!(me.space(project).await["cache_size"], 4);
}

#[tokio::test]
async fn reading_a_cleaned_space_does_not_rebuild_it_and_using_it_does() {
    let server = server().await;
    server.model.default_reply(Reply::text("Done."));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let session = me.session(project).await;
    me.say(&session, "coder", "go").await.expect(200);
    for again in ["once", "twice"] {
        let gone = post(&me, project, "cleanup").await;
        assert_eq!(
            (&gone["active"], &gone["active_agents"], &gone["cache_size"]),
            (&json!(false), &json!(0), &json!(0))
        );
        post(&me, project, "cleanup").await;
        me.about(project, "agent_coder", "status").await;
        me.about(project, "agent_coder", "metrics").await;
        me.get(&format!("/my/projects/{project}/worker-space/health"))
            .await
            .expect(200);
        me.get(&format!("/my/chat/{session}/messages"))
            .await
            .expect(200);
        me.patch(
            &format!("/my/projects/{project}"),
            json!({ "budget_tokens": 1_000_000 }),
        )
        .await
        .expect(200);
        assert_eq!(me.space(project).await["active"], false, "{again}");
        // The session is still in memory, and meets the new space.
        me.say(&session, "coder", "go").await.expect(200);
        let space = me.space(project).await;
        assert_eq!(
            (
                &space["active"],
                &space["active_agents"],
                &space["total_tasks_processed"]
            ),
            (&json!(true), &json!(4), &json!(1))
        );
    }
}

#[tokio::test]
async fn a_reset_stops_everything_at_once_and_a_cleanup_lets_tasks_finish() {
    let server = server().await;
    let gate = Gate::new();
    server.model.default_reply(Reply::text("Done.").hold(&gate));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let sessions = [me.session(project).await, me.session(project).await];
    let works = [
        me.saying(&sessions[0], "coder"),
        me.saying(&sessions[1], "writer"),
    ];
    server.model.wait_until_in_flight(2).await;
    let fresh = post(&me, project, "reset").await;
    assert_eq!(
        (
            &fresh["active"],
            &fresh["active_agents"],
            &fresh["active_tasks"]
        ),
        (&json!(true), &json!(4), &json!(0))
    );
    for work in works {
        assert_eq!(work.await.unwrap().expect(409)["status"], "cancelled");
    }
    server.model.wait_until_in_flight(0).await;

    let works = me.saying(&sessions[0], "coder");
    server.model.wait_until_in_flight(1).await;
    let cleaning = {
        let me = me.clone();
        tokio::spawn(async move { post(&me, project, "cleanup").await })
    };
    until(
        "no agent takes tasks",
        json!({ "active_agents": 0, "active_tasks": 1 }),
        async || me.space(project).await,
    )
    .await;
    me.say(&sessions[1], "writer", "go")
        .await
        .refused(503, "AGENT_UNAVAILABLE");
    assert!(!cleaning.is_finished());
    gate.open();
    works.await.unwrap().expect(200);
    assert_eq!(cleaning.await.unwrap()["active"], false);
    me.say(&sessions[1], "writer", "go").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_first_requests_make_one_space() {
    let server = server().await;
    server.model.default_reply(Reply::text("Done."));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let mut sessions = Vec::new();
    for _ in 0..8 {
        sessions.push(me.session(project).await);
    }
    post(&me, project, "cleanup").await;
    let made = metric(&server, "codelab_worker_spaces_made_total").await;
    let calls: Vec<_> = sessions
        .iter()
        .map(|session| me.saying(session, "coder"))
        .collect();
    for call in calls {
        call.await.unwrap().expect(200);
    }
    assert_eq!(
        metric(&server, "codelab_worker_spaces_made_total").await,
        made + 1.0
    );
    assert_eq!(metric(&server, "codelab_worker_spaces").await, 1.0);
    let space = me.space(project).await;
    assert_eq!(
        (&space["active_agents"], &space["total_tasks_processed"]),
        (&json!(4), &json!(8))
    );
}

#[tokio::test]
async fn an_idle_space_is_cleaned_up_and_a_working_one_is_not() {
    let server = server_with(&[("CODELAB_WORKER_SPACE__IDLE_TIMEOUT_SECONDS", "1")]).await;
    let gate = Gate::new();
    server.model.default_reply(Reply::text("Done.").hold(&gate));
    let me = Person::user(&server, 1);
    let busy = me.project("busy").await;
    let works = me.saying(&me.session(busy).await, "coder");
    gate.reached().await;
    // Made later, so that the busy one has been idle for longer when this one goes.
    let idle = me.project("idle").await;
    until(
        "the idle space is gone",
        json!({ "active": false }),
        async || me.space(idle).await,
    )
    .await;
    let space = me.space(busy).await;
    assert_eq!(
        (&space["active"], &space["active_tasks"]),
        (&json!(true), &json!(1))
    );
    gate.open();
    works.await.unwrap().expect(200);
    until(
        "the other follows",
        json!({ "active": false }),
        async || me.space(busy).await,
    )
    .await;
    assert_eq!(metric(&server, "codelab_worker_spaces").await, 0.0);
    me.say(&me.session(idle).await, "coder", "go")
        .await
        .expect(200);
}

#[tokio::test]
async fn a_deleted_project_takes_its_work_along() {
    let server = server().await;
    let gate = Gate::new();
    server.model.default_reply(Reply::text("Done.").hold(&gate));
    let me = Person::user(&server, 1);
    let (project, beside) = (me.project("p").await, me.project("beside").await);
    let (session, quiet, other) = (
        me.session(project).await,
        me.session(project).await,
        me.session(beside).await,
    );
    let (works, goes_on) = (me.saying(&session, "coder"), me.saying(&other, "coder"));
    let follows = {
        let (me, path) = (me.clone(), format!("/my/chat/{quiet}/events/"));
        tokio::spawn(async move { me.get(&path).await })
    };
    server.model.wait_until_in_flight(2).await;
    until(
        "somebody follows",
        json!({ "open": 3.0 }),
        async || json!({ "open": metric(&server, "codelab_open_streams").await }),
    )
    .await;
    me.delete(&format!("/my/projects/{project}/"))
        .await
        .expect(204);
    assert!([404, 409].contains(&works.await.unwrap().status));
    server.model.wait_until_in_flight(1).await;
    follows.await.unwrap();
    me.get(&format!("/my/projects/{project}/worker-space"))
        .await
        .refused(404, "PROJECT_NOT_FOUND");
    for gone in [&session, &quiet] {
        me.get(&format!("/my/chat/sessions/{gone}"))
            .await
            .refused(404, "SESSION_NOT_FOUND");
        me.say(gone, "coder", "go")
            .await
            .refused(404, "SESSION_NOT_FOUND");
    }
    assert_eq!(me.get("/my/chat/sessions").await.expect(200)["total"], 1);
    assert_eq!(metric(&server, "codelab_worker_spaces").await, 1.0);
    gate.open();
    goes_on.await.unwrap().expect(200);
}

#[tokio::test]
async fn an_admin_operates_any_worker_space_and_nothing_else() {
    let server = server().await;
    let (owner, other) = (Person::user(&server, 1), Person::user(&server, 2));
    let project = owner.project("p").await;
    let mut admin = claims(3);
    admin["role"] = json!("admin");
    let admin = Person::bearer(&server, &sign(&admin));
    let agent = owner.agent(project, "agent_coder").await;
    let space = format!("/my/projects/{project}/worker-space");
    let operations = [
        ("GET", space.clone(), 200),
        ("GET", format!("{space}/health"), 200),
        ("DELETE", format!("{space}/cache"), 204),
        ("POST", format!("{space}/cleanup"), 200),
        ("POST", format!("{space}/reset"), 200),
    ];
    for (method, path, status) in &operations {
        other
            .ask(method, path, None)
            .await
            .refused(404, "PROJECT_NOT_FOUND");
        let seen = admin.ask(method, path, None).await.expect(*status);
        assert!(
            *status == 204 || seen.get("user_id").is_none_or(|user| *user == 1),
            "{seen}"
        );
        admin
            .ask(method, &path.replace(&project.to_string(), "999999"), None)
            .await
            .refused(404, "PROJECT_NOT_FOUND");
    }
    for (method, path) in [
        ("GET", format!("/my/projects/{project}")),
        ("DELETE", format!("/my/projects/{project}")),
        ("GET", format!("/my/projects/{project}/agents")),
        (
            "GET",
            format!("/my/projects/{project}/agents/{agent}/status"),
        ),
        (
            "POST",
            format!("/my/projects/{project}/agents/{agent}/deregister"),
        ),
    ] {
        admin
            .ask(method, &path, None)
            .await
            .refused(404, "PROJECT_NOT_FOUND");
    }
    assert_eq!(owner.space(project).await["active_agents"], 4);
}
