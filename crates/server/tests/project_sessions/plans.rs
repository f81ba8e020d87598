//! Plans before they run: decided by a person, mended, or replaced by one task.

use codelab_testkit::{Asked, Reply, TestServer};
use serde_json::{Value, json};

use crate::kit::{Person, Session, is_planning, server, server_with, task, tasks};

/// A session whose plan of three tasks in a row waits for a person.
async fn waiting(server: &TestServer) -> (Session, Value) {
    let session = Person::new(server, 1).session().await;
    let planned = [
        task("a", "coder", &[]),
        task("b", "analyzer", &["a"]),
        task("c", "writer", &["b"]),
    ];
    server.model.on(is_planning, Reply::text(tasks(&planned)));
    let seen = session.stream_plan("Build it").await.all().await;
    assert_eq!(seen.status(), "awaiting_approval");
    let request = seen.one("plan_request").clone();
    (session, request)
}

#[tokio::test]
async fn a_rejected_plan_ends_its_workflow() {
    let server = server().await;
    let (session, plan) = waiting(&server).await;
    let rejected = session
        .decide_plan(
            &plan,
            json!({ "decision": "Reject", "feedback": "too much" }),
        )
        .await
        .expect(200);
    assert_eq!(rejected["status"], "cancelled");
    // One request lists the plans of all sessions.
    let plans = format!("/my/projects/{}/plans/", session.project);
    let listed = session.get(&plans).await.expect(200);
    let first = &listed["plans"][0];
    assert_eq!(
        (&listed["total"], &first["session_id"], &first["title"]),
        (&json!(1), &json!(session.id), &json!("Build it"))
    );
    assert_eq!(
        (&first["plan_id"], &first["status"]),
        (&plan["plan_id"], &json!("cancelled"))
    );
    assert_eq!(first["tasks"], rejected["tasks"]);
    let stranger = Person::new(&server, 2).get(&plans).await;
    stranger.refused(404, "PROJECT_NOT_FOUND");
    assert!(
        rejected["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|task| task["status"] == "cancelled"),
        "{rejected:#}"
    );
    let log = session.log().await;
    let resolved = log.one("plan_resolved");
    assert_eq!(
        (&resolved["decision"], &resolved["reason"]),
        (&json!("reject"), &json!("too much"))
    );
    assert_eq!(
        (
            log.one("workflow_completed")["status"].as_str(),
            log.status()
        ),
        (Some("cancelled"), "cancelled")
    );
    assert!(!log.kinds().contains(&"task_started"));
    assert_eq!(session.get("/my/approvals/").await.expect(200)["total"], 0);
    assert_eq!(server.model.request_count(), 1);
    let again = session.path(&format!(
        "plans/{}/retry/",
        plan["plan_id"].as_str().unwrap()
    ));
    session
        .ask("POST", &again, None)
        .await
        .refused(409, "CONFLICT");
}

#[tokio::test]
async fn the_next_plan_is_made_with_the_reason_against_the_last_one() {
    let server = server().await;
    let (session, plan) = waiting(&server).await;
    let reason = "one task is enough for this";
    let no = json!({ "decision": "reject", "feedback": reason });
    session.decide_plan(&plan, no).await.expect(200);
    let one = tasks(&[task("a", "coder", &[])]);
    for (said, is_told) in [("Again, please", true), ("And once more", false)] {
        server.model.on(is_planning, Reply::text(&one));
        session.stream_plan(said).await.all().await;
        let requests = server.model.requests();
        let planning = requests
            .iter()
            .rev()
            .find(|request| is_planning(&request.body));
        let asked = planning.unwrap().body["messages"].to_string();
        assert_eq!(asked.contains(reason), is_told, "{said}: {asked}");
    }
}

#[tokio::test]
async fn an_edit_changes_the_tasks_and_approves_in_the_same_act() {
    let server = server().await;
    let (session, plan) = waiting(&server).await;
    let mut first = task("a", "researcher", &[]);
    first["description"] = json!("Do a differently.");
    let edited = json!([first, task("c", "agent_writer", &["a"])]);
    let after = session
        .decide_plan(&plan, json!({ "decision": "EDIT", "tasks": edited }))
        .await
        .expect(200);
    assert_eq!(after["tasks"].as_array().unwrap().len(), 2);
    session
        .wait_for("workflow_completed", |data| data["status"] == "completed")
        .await;
    let log = session.log().await;
    let resolved = log.one("plan_resolved");
    assert_eq!(
        (&resolved["decision"], &resolved["tasks"][0]["description"]),
        (&json!("edit"), &json!("Do a differently."))
    );
    let started: Vec<_> = log
        .all("task_started")
        .iter()
        .map(|data| (data["task_id"].clone(), data["agent"].clone()))
        .collect();
    assert_eq!(
        started,
        [
            (json!("a"), json!("agent_researcher")),
            (json!("c"), json!("agent_writer"))
        ]
    );
    let audit = session.get(&session.path("audit/")).await.expect(200);
    let row = &audit["audit"][0];
    assert_eq!(
        (&row["decision"], &audit["verified"]),
        (&json!("EDIT"), &json!(true))
    );
    assert_eq!(
        row["original_args"]["tasks"].as_array().unwrap().len(),
        3,
        "what was proposed"
    );
    assert_eq!(
        row["modified_args"]["tasks"].as_array().unwrap().len(),
        2,
        "and what ran"
    );
}

#[tokio::test]
async fn an_edit_that_cannot_be_run_leaves_the_plan_pending() {
    let server = server().await;
    let (session, plan) = waiting(&server).await;
    let many: Vec<Value> = (0..51)
        .map(|number| task(&format!("t{number}"), "coder", &[]))
        .collect();
    for edited in [
        json!([]),
        json!([task("a", "nobody", &[])]),
        json!([task("a", "coder", &["b"])]),
        json!([task("a", "coder", &["a"])]),
        json!([task("a", "coder", &[]), task("a", "coder", &[])]),
        json!([{ "id": "a", "agent": "coder" }]),
        json!("tasks"),
        json!(many),
    ] {
        session
            .decide_plan(&plan, json!({ "decision": "edit", "tasks": edited }))
            .await
            .refused(422, "INVALID_PLAN");
    }
    session
        .decide_plan(&plan, json!({ "decision": "edit" }))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    session
        .decide_plan(&plan, json!({}))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    session
        .decide_plan(&plan, json!({ "decision": "maybe" }))
        .await
        .refused(422, "INVALID_DECISION");
    let other = json!({ "decision": "approve", "digest": "0".repeat(64) });
    session
        .decide_plan(&plan, other)
        .await
        .refused(409, "CONFLICT");
    assert_eq!(session.plan().await["status"], "awaiting_approval");
    assert_eq!(session.get("/my/approvals/").await.expect(200)["total"], 1);
    let same = json!({ "decision": "approve", "digest": plan["digest"] });
    session.decide_plan(&plan, same).await.expect(200);
    session
        .wait_for("workflow_completed", |data| data["status"] == "completed")
        .await;
    session
        .decide_plan(
            &json!({ "plan_id": "nope" }),
            json!({ "decision": "approve" }),
        )
        .await
        .refused(404, "PLAN_NOT_FOUND");
}

#[tokio::test]
async fn a_plan_is_decided_like_any_approval() {
    let server = server().await;
    let (session, plan) = waiting(&server).await;
    let call = plan["call_id"].as_str().unwrap();
    session
        .decide(
            call,
            json!({ "decision": "edit", "modified_args": { "tasks": [] } }),
        )
        .await
        .refused(422, "INVALID_PLAN");
    let edited = json!({ "tasks": [task("only", "coder", &[])] });
    session
        .decide(call, json!({ "decision": "edit", "modified_args": edited }))
        .await
        .expect(200);
    session
        .wait_for("workflow_completed", |data| data["response"] == "Done.")
        .await;
    assert_eq!(
        session.messages("?role=assistant").await[0]["agent_id"],
        "agent_coder",
        "the voice of the only task"
    );
}

#[tokio::test]
async fn a_plan_that_nobody_decides_about_expires() {
    let server = server_with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "1")]).await;
    let (session, plan) = waiting(&server).await;
    let completed = session.wait_for("workflow_completed", |_| true).await.data;
    assert_eq!(completed["status"], "cancelled");
    let log = session.log().await;
    let resolved = log.one("plan_resolved");
    assert_eq!(
        (&resolved["decision"], &resolved["decided_by"]),
        (&json!("expired"), &json!("timeout"))
    );
    assert_eq!(log.one("error")["error_code"], "HITL_TIMEOUT");
    session
        .decide_plan(&plan, json!({ "decision": "approve" }))
        .await
        .refused(409, "CONFLICT");
    let audit = session.get(&session.path("audit/")).await.expect(200);
    assert_eq!(
        (
            &audit["audit"][0]["decision"],
            &audit["audit"][0]["decided_by"]
        ),
        (&json!("REJECT"), &json!("timeout"))
    );
    assert_eq!(
        session.call("coder", "go on").await.expect(200)["success"],
        true,
        "the session is free again"
    );
}

#[tokio::test]
async fn a_plan_survives_a_restart_and_is_decided_after_it() {
    let mut server = server().await;
    let (session, plan) = waiting(&server).await;
    server.restart().await;
    let session = session.seen_by(&Person::new(&server, 1));
    let open = session.get("/my/approvals/").await.expect(200);
    assert_eq!(
        (&open["total"], &open["approvals"][0]["digest"]),
        (&json!(1), &plan["digest"])
    );
    session
        .decide_plan(&plan, json!({ "decision": "approve" }))
        .await
        .expect(200);
    let completed = session.wait_for("workflow_completed", |_| true).await.data;
    assert_eq!(
        (&completed["status"], &completed["plan_id"]),
        (&json!("completed"), &plan["plan_id"])
    );
}

#[tokio::test]
async fn a_plan_that_cannot_be_used_is_mended_once() {
    for garbage in [
        "I would rather not.".to_owned(),
        tasks(&[]),
        tasks(&[task("a", "coder", &["b"])]),
        tasks(&[task("a", "coder", &["b"]), task("b", "coder", &["a"])]),
        tasks(&[task("a", "nobody", &[])]),
        tasks(&[task("a", "coder", &[]), task("a", "coder", &[])]),
        tasks(
            &(0..51)
                .map(|number| task(&format!("t{number}"), "coder", &[]))
                .collect::<Vec<_>>(),
        ),
    ] {
        let server = server().await;
        let session = Person::new(&server, 1).session().await;
        server.model.reply(Reply::text(garbage.clone()));
        server.model.reply(Reply::text(format!(
            "Here you are:\n```json\n{}\n```",
            tasks(&[task("a", "writer", &[])])
        )));
        let seen = session.stream_plan("Build it").await.all().await;
        let plan = seen.one("task_plan_created");
        assert_eq!(
            (&plan["fallback"], &plan["tasks"][0]["agent"]),
            (&json!(false), &json!("agent_writer")),
            "{garbage}"
        );
        assert_eq!(seen.status(), "completed");
        let mending = &server.model.requests()[1];
        assert!(is_planning(&mending.body));
        assert_eq!(
            mending.message(-2),
            &json!(garbage),
            "the model sees what it said"
        );
        assert!(
            mending
                .message(-1)
                .as_str()
                .unwrap()
                .contains("cannot be used"),
            "{}",
            mending.message(-1)
        );
    }
}

#[tokio::test]
async fn without_a_usable_plan_one_agent_takes_the_request() {
    for (request, agent) in [
        ("Fix the error in main.rs", "agent_coder"),
        ("Write an article about our design", "agent_writer"),
        ("Compare the metrics", "agent_analyzer"),
        ("Where is the config read?", "agent_researcher"),
        ("Hm", "agent_coder"),
    ] {
        let server = server().await;
        let session = Person::new(&server, 1).session().await;
        server.model.on(is_planning, Reply::text("no plan"));
        let seen = session.stream_plan(request).await.all().await;
        let plan = seen.one("task_plan_created");
        assert_eq!(
            (&plan["fallback"], &plan["tasks"][0]["agent"]),
            (&json!(true), &json!(agent)),
            "{request}"
        );
        assert_eq!(
            (plan["tasks"].as_array().unwrap().len(), seen.status()),
            (1, "completed")
        );
        assert_eq!(
            server.model.request_count(),
            3,
            "a plan, a mended plan, the work itself"
        );
        assert_eq!(server.model.requests()[2].message(-1), request);
    }
}

#[tokio::test]
async fn a_planner_that_cannot_be_reached_is_not_asked_again() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(is_planning, Reply::status(400, "no"));
    // A server that refuses schemas is asked without one; that is not a planner that answers.
    server.model.on(
        |body| {
            body["messages"][0]["content"]
                .as_str()
                .is_some_and(|text| text.starts_with("You plan work"))
        },
        Reply::status(403, "no"),
    );
    let seen = session.stream_plan("Fix the error").await.all().await;
    assert_eq!(
        (&seen.one("task_plan_created")["fallback"], seen.status()),
        (&json!(true), "completed")
    );
    assert_eq!(seen.one("workflow_completed")["response"], "Done.");
    assert_eq!(session.plan().await["fallback"], true);
    assert!(
        server
            .model
            .requests()
            .last()
            .unwrap()
            .tool_names()
            .contains(&"write_file")
    );
}

#[tokio::test]
async fn a_project_without_agents_says_so() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    let list = format!("/my/projects/{}/agents/", session.project);
    for agent in me.get(&list).await.expect(200)["agents"]
        .as_array()
        .unwrap()
    {
        me.ask(
            "DELETE",
            &format!("{list}{}", agent["agent_id"].as_str().unwrap()),
            None,
        )
        .await
        .expect(204);
    }
    let seen = session.stream_plan("Build it").await.all().await;
    assert_eq!(
        (seen.one("error")["error_code"].as_str(), seen.status()),
        (Some("AGENT_NOT_FOUND"), "failed")
    );
    assert_eq!(session.messages("?role=assistant").await[0]["error"], true);
    session
        .call("coder", "hi")
        .await
        .refused(404, "AGENT_NOT_FOUND");
}
