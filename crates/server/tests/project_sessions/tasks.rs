//! Plans while they run: order, slots, failures, time, cancel and retry.

use std::time::{Duration, Instant};

use codelab_testkit::{Gate, Method, Reply, eventually, skipped_through_another};
use serde_json::{Value, json};

use crate::kit::{
    Person, Session, is_joining, is_planning, says, server, server_with, task, tasks,
};

fn states(plan: &Value) -> Vec<(&str, &str)> {
    let tasks = plan["tasks"].as_array().unwrap().iter();
    tasks
        .map(|task| {
            (
                task["id"].as_str().unwrap(),
                task["status"].as_str().unwrap(),
            )
        })
        .collect()
}

async fn retry(session: &Session) -> crate::kit::Answer {
    let plan = session.plan().await["plan_id"].as_str().unwrap().to_owned();
    session
        .ask("POST", &session.path(&format!("plans/{plan}/retry/")), None)
        .await
}

#[tokio::test]
async fn independent_tasks_run_side_by_side_and_dependent_ones_wait() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(
        is_planning,
        Reply::text(tasks(&[task("a", "coder", &[]), task("b", "writer", &[])])),
    );
    let gates = [Gate::new(), Gate::new()];
    server
        .model
        .on(says("Do a."), Reply::text("A.").hold(&gates[0]));
    server
        .model
        .on(says("Do b."), Reply::text("B.").hold(&gates[1]));
    let stream = session.stream_plan("Build it").await;
    // Both are under way before either has ended.
    gates[0].reached().await;
    gates[1].reached().await;
    assert_eq!(
        states(&session.plan().await),
        [("a", "running"), ("b", "running")]
    );
    gates.iter().for_each(Gate::open);
    assert_eq!(stream.all().await.status(), "completed");

    let row = [task("a", "coder", &[]), task("b", "writer", &["a"])];
    server.model.on(is_planning, Reply::text(tasks(&row)));
    let gate = Gate::new();
    server
        .model
        .on(says("Do a."), Reply::text("A.").hold(&gate));
    let stream = session.stream_plan("Build it again").await;
    gate.reached().await;
    assert_eq!(
        states(&session.plan().await),
        [("a", "running"), ("b", "pending")]
    );
    gate.open();
    assert_eq!(stream.all().await.status(), "completed");
}

#[tokio::test]
async fn an_agents_limit_bounds_the_tasks_that_run_at_once() {
    let server = server_with(&[("CODELAB_PLAN__APPROVAL_TASKS", "50")]).await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    let body = json!({ "name": "narrow", "concurrency_limit": 2 });
    me.post(&format!("/my/projects/{}/agents/", session.project), body)
        .await
        .expect(201);
    let planned: Vec<Value> = (0..5)
        .map(|number| task(&format!("t{number}"), "narrow", &[]))
        .collect();
    server.model.on(is_planning, Reply::text(tasks(&planned)));
    let gate = Gate::new();
    server.model.on(says("Do t"), Reply::text("T.").hold(&gate));
    let stream = session.stream_plan("Build it").await;
    server.model.wait_until_in_flight(2).await;
    let counts = |plan: &Value, wanted: &str| {
        states(plan)
            .iter()
            .filter(|(_, status)| *status == wanted)
            .count()
    };
    let plan = session.plan().await;
    assert_eq!(
        (counts(&plan, "running"), counts(&plan, "queued")),
        (2, 3),
        "{plan:#}"
    );
    gate.open();
    let seen = stream.all().await;
    assert_eq!(
        (seen.status(), seen.all("task_completed").len()),
        ("completed", 5)
    );
    let statuses: Vec<_> = seen
        .all("agent_status_changed")
        .iter()
        .map(|data| data["status"].clone())
        .collect();
    assert!(statuses.contains(&json!("busy")), "{statuses:?}");
    assert_eq!(
        statuses.last(),
        Some(&json!("idle")),
        "also where tasks end together: {statuses:?}"
    );
}

#[tokio::test]
async fn several_answers_are_joined_or_put_one_after_the_other() {
    for joins in [true, false] {
        let server = server().await;
        let session = Person::new(&server, 1).session().await;
        server.model.on(
            is_planning,
            Reply::text(tasks(&[task("a", "coder", &[]), task("b", "writer", &[])])),
        );
        server.model.on(says("Do a."), Reply::text("Alpha."));
        server.model.on(says("Do b."), Reply::text("Beta."));
        server.model.on(
            is_joining,
            if joins {
                Reply::text("Alpha and Beta.")
            } else {
                Reply::status(400, "no")
            },
        );
        let seen = session.stream_plan("Build it").await.all().await;
        let completed = seen.one("workflow_completed");
        assert_eq!(
            (&completed["status"], seen.status()),
            (&json!("completed"), "completed")
        );
        let response = completed["response"].as_str().unwrap();
        assert!(
            response.contains("Alpha") && response.contains("Beta"),
            "{response}"
        );
        assert_eq!(response == "Alpha and Beta.", joins, "{response}");
        let joining = server
            .model
            .requests()
            .into_iter()
            .find(|request| is_joining(&request.body))
            .unwrap();
        let results = joining.message(-1).as_str().unwrap();
        assert!(
            results.contains("Alpha.") && results.contains("Beta."),
            "{results}"
        );
        assert_eq!(joining.message(1), "Build it");
    }
}

#[tokio::test]
async fn error_in_orchestrated_mode() {
    let server = server_with(&[("CODELAB_PLAN__APPROVAL_TASKS", "50")]).await;
    let session = Person::new(&server, 1).session().await;
    let planned = [
        task("a", "coder", &[]),
        task("b", "writer", &["a"]),
        task("c", "writer", &["b"]),
        task("d", "analyzer", &[]),
    ];
    server.model.on(is_planning, Reply::text(tasks(&planned)));
    server.model.on(says("Do a."), Reply::status(400, "no"));
    server.model.on(says("Do d."), Reply::text("D is done."));
    let seen = session.stream_plan("Build it").await.all().await;
    assert_eq!(
        seen.status(),
        "completed",
        "a part of an answer is an answer"
    );
    let failed = seen.one("task_failed");
    assert_eq!(
        (&failed["task_id"], &failed["error"]["error_code"]),
        (&json!("a"), &json!("LLM_ERROR"))
    );
    let skipped: Vec<_> = seen
        .all("task_skipped")
        .iter()
        .map(|data| (data["task_id"].clone(), data["because_of"].clone()))
        .collect();
    assert_eq!(
        skipped,
        [(json!("b"), json!("a")), (json!("c"), json!("a"))]
    );
    let completed = seen.one("workflow_completed");
    assert_eq!(completed["status"], "partial");
    let response = completed["response"].as_str().unwrap();
    for part in [
        "D is done.",
        "Not done:",
        "- a (agent_coder): failed",
        "- b (agent_writer): skipped, because a failed",
    ] {
        assert!(response.contains(part), "{part}: {response}");
    }
    let plan = session.plan().await;
    assert_eq!(
        states(&plan),
        [
            ("a", "failed"),
            ("b", "skipped"),
            ("c", "skipped"),
            ("d", "completed")
        ]
    );
    assert_eq!(
        (&plan["status"], &plan["tasks"][0]["error"]["error_code"]),
        (&json!("partial"), &json!("LLM_ERROR"))
    );
    assert_eq!(
        session.messages("?role=assistant").await[0]["content"],
        response
    );

    // Only what did not end well runs again.
    let asked = server.model.request_count();
    server.model.on(says("Do a."), Reply::text("A at last."));
    let again = retry(&session).await.expect(200);
    assert_eq!(again["plan_id"], plan["plan_id"]);
    let completed = session
        .wait_for("workflow_completed", |data| data["status"] == "completed")
        .await
        .data;
    assert_eq!(completed["workflow_id"], plan["workflow_id"]);
    assert_eq!(
        states(&session.plan().await),
        [
            ("a", "completed"),
            ("b", "completed"),
            ("c", "completed"),
            ("d", "completed")
        ]
    );
    let since = server.model.requests().split_off(asked);
    assert_eq!(
        since
            .iter()
            .filter(|request| says("Do d.")(&request.body))
            .count(),
        0,
        "what was done is not done again"
    );
    assert_eq!(
        since
            .iter()
            .filter(|request| says("Do a.")(&request.body))
            .count(),
        1
    );
    let joined = since
        .iter()
        .find(|request| is_joining(&request.body))
        .unwrap();
    assert_eq!(
        joined.message(1),
        "Build it",
        "the answer is to the request that was planned"
    );
    assert!(joined.message(-1).as_str().unwrap().contains("D is done."));
    retry(&session).await.refused(409, "CONFLICT");
    session
        .ask("POST", &session.path("plans/nope/retry/"), None)
        .await
        .refused(404, "PLAN_NOT_FOUND");
}

#[tokio::test]
async fn a_plan_all_of_whose_tasks_fail_has_failed() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(
        is_planning,
        Reply::text(tasks(&[
            task("a", "coder", &[]),
            task("b", "writer", &["a"]),
        ])),
    );
    server.model.on(says("Do a."), Reply::status(400, "no"));
    let seen = session.stream_plan("Build it").await.all().await;
    assert_eq!(
        (
            seen.one("workflow_completed")["status"].as_str(),
            seen.status()
        ),
        (Some("failed"), "failed")
    );
    let said = session.messages("?role=assistant").await;
    assert_eq!(
        (&said[0]["error"], &said[0]["agent_id"]),
        (&json!(true), &json!("orchestrator"))
    );
}

#[tokio::test]
async fn processing_timeout() {
    let server = server_with(&[("CODELAB_LIMITS__TASK_TIMEOUT_SECONDS", "1")]).await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(
        is_planning,
        Reply::text(tasks(&[task("a", "coder", &[]), task("b", "writer", &[])])),
    );
    server.model.on(says("Do a."), Reply::hang());
    let seen = session.stream_plan("Build it").await.all().await;
    let failed = seen.one("task_failed");
    assert_eq!(
        (&failed["task_id"], &failed["error"]["error_code"]),
        (&json!("a"), &json!("TASK_TIMEOUT"))
    );
    assert_eq!(seen.one("workflow_completed")["status"], "partial");
    server.model.wait_until_in_flight(0).await;
}

/// The clock of a direct call and of a task stands still while somebody outside is awaited.
#[tokio::test]
async fn waiting_for_a_person_is_not_working() {
    let server = server_with(&[
        ("CODELAB_LIMITS__TASK_TIMEOUT_SECONDS", "1"),
        ("CODELAB_LIMITS__DIRECT_TIMEOUT_SECONDS", "1"),
    ])
    .await;
    let session = Person::new(&server, 1).session().await;
    let ask = Reply::tool_call("ask_followup_question", json!({ "question": "Which?" }));
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    let planned = session.session().await;
    server.model.reply(ask.clone());
    let seen = planned.stream_plan("Build it").await.all().await;
    assert_eq!(seen.status(), "awaiting_answer");
    server.model.reply(ask);
    let asked = Instant::now();
    let question = session.call("coder", "choose").await.expect(200);
    // A turn of another session that does time out says when a second has passed.
    let other = session.session().await;
    server.model.reply(Reply::hang());
    other.call("coder", "hang").await.expect(504);
    assert!(asked.elapsed() >= Duration::from_secs(1));
    let path = format!(
        "questions/{}/answer/",
        question["pending"]["call_id"].as_str().unwrap()
    );
    let answered = session
        .post(&session.path(&path), json!({ "answer": "this one" }))
        .await
        .expect(200);
    assert_eq!(answered["response"], "Done.");
    planned
        .send(json!({ "content": "that one" }))
        .await
        .expect(202);
    planned
        .wait_for("workflow_completed", |data| data["status"] == "completed")
        .await;
}

#[tokio::test]
async fn cancel_stops_every_task_within_two_seconds() {
    let server = server_with(&[("CODELAB_PLAN__APPROVAL_TASKS", "50")]).await;
    let session = Person::new(&server, 1).session().await;
    let planned = [
        task("a", "coder", &[]),
        task("b", "writer", &[]),
        task("c", "analyzer", &[]),
        task("d", "researcher", &["a"]),
        task("e", "coder", &[]),
    ];
    server.model.on(is_planning, Reply::text(tasks(&planned)));
    for text in ["Do a.", "Do b."] {
        server.model.on(says(text), Reply::hang());
    }
    server.model.on(
        says("Do c."),
        Reply::tool_call("read_file", json!({ "path": "x" })),
    );
    server.model.on(says("Do e."), Reply::text("E is done."));
    let stream = session.stream_plan("Build it").await;
    session.wait_for("tool_call", |_| true).await;
    session
        .wait_for("task_completed", |data| data["task_id"] == "e")
        .await;
    server.model.wait_until_in_flight(2).await;
    let asked = Instant::now();
    let cancelled = session.cancel().await.expect(200);
    assert_eq!(
        (&cancelled["cancelled"], &cancelled["queued"]),
        (&json!(true), &json!(0))
    );
    server.model.wait_until_in_flight(0).await;
    let seen = stream.all().await;
    assert!(
        asked.elapsed() < Duration::from_secs(2),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(
        (
            seen.status(),
            seen.one("workflow_completed")["status"].as_str()
        ),
        ("cancelled", Some("cancelled"))
    );
    assert_eq!(seen.one("tool_call_closed")["outcome"], "cancelled");
    let plan = session.plan().await;
    let expected = [
        ("a", "cancelled"),
        ("b", "cancelled"),
        ("c", "cancelled"),
        ("d", "cancelled"),
        ("e", "completed"),
    ];
    assert_eq!(
        (states(&plan), &plan["status"]),
        (expected.to_vec(), &json!("cancelled"))
    );
    assert_eq!(session.cancel().await.expect(200)["cancelled"], false);

    // What was cancelled can be run again.
    for text in ["Do a.", "Do b.", "Do c."] {
        server.model.on(says(text), Reply::text("Now it is."));
    }
    retry(&session).await.expect(200);
    session
        .wait_for("workflow_completed", |data| data["status"] == "completed")
        .await;
    assert_eq!(
        session.log().await.all("task_started").len(),
        4 + 4,
        "e once, the others again"
    );
}

#[tokio::test]
async fn a_retry_waits_for_no_busy_session() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "coder", &[])])));
    server.model.on(says("Do a."), Reply::status(400, "no"));
    session.stream_plan("Build it").await.all().await;
    let gate = Gate::new();
    server
        .model
        .on(says("busy"), Reply::text("Done.").hold(&gate));
    let stream = session.stream_call("coder", "busy").await;
    gate.reached().await;
    retry(&session).await.refused(409, "CONFLICT");
    gate.open();
    stream.all().await;
    server.model.on(says("Do a."), Reply::text("A."));
    retry(&session).await.expect(200);
    session
        .wait_for("workflow_completed", |data| data["status"] == "completed")
        .await;
}

#[tokio::test]
async fn tasks_that_end_while_the_database_is_away_are_all_kept() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(
        is_planning,
        Reply::text(tasks(&[task("a", "coder", &[]), task("b", "writer", &[])])),
    );
    let gate = Gate::new();
    server.model.on(says("Do "), Reply::text("It.").hold(&gate));
    let stream = session.stream_plan("Build it").await;
    server.model.wait_until_in_flight(2).await;
    let lock = rusqlite::Connection::open(server.data_dir().join("codelab.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    gate.open();
    server.model.wait_until_in_flight(0).await;
    // By then both answers are there, and neither could be stored.
    let refused = async || {
        let metrics = server
            .client
            .raw(Method::GET, "/metrics", &[], String::new())
            .await
            .unwrap();
        let text = String::from_utf8(metrics.body.to_vec()).unwrap();
        let counts = text
            .lines()
            .filter_map(|line| line.strip_prefix("codelab_commit_failures_total{"));
        counts
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum::<f64>()
    };
    eventually("both answers are refused", async || match refused().await {
        count if count < 2.0 => Err(count),
        _ => Ok(()),
    })
    .await;
    lock.execute_batch("ROLLBACK").unwrap();
    // The stream was told that nothing could be stored; the plan went on.
    assert!(
        stream.all().await.one("error")["error_code"]
            .as_str()
            .unwrap()
            .starts_with("DB_")
    );
    session
        .wait_for("workflow_completed", |data| data["status"] == "completed")
        .await;
    assert_eq!(
        states(&session.plan().await),
        [("a", "completed"), ("b", "completed")]
    );
    // Nobody was asked twice: the plan, the two tasks, and what joins them.
    assert_eq!(server.model.request_count(), 4);
}
