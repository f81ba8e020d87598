//! Orchestrated mode: a message that is planned.

use codelab_testkit::{Asked, Reply};
use serde_json::json;

use crate::kit::{Person, is_joining, is_planning, says, server, server_with, task, tasks};

#[tokio::test]
async fn orchestrated_mode_without_target_agent() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(
        is_planning,
        Reply::text(tasks(&[task("one", "coder", &[])])),
    );
    let accepted = session
        .send(json!({ "content": "Build it" }))
        .await
        .expect(202);
    assert_eq!(
        (&accepted["mode"], &accepted["status"]),
        (&json!("orchestrated"), &json!("accepted"))
    );
    let workflow = &accepted["workflow_id"];
    assert!(workflow.is_string(), "{accepted:#}");
    let completed = session.wait_for("workflow_completed", |_| true).await.data;
    assert_eq!(
        (&completed["workflow_id"], &completed["status"]),
        (workflow, &json!("completed"))
    );
    assert_eq!(completed["response"], "Done.");
    let said = session.messages("").await;
    assert_eq!(said[0]["message_id"], accepted["message_id"]);
    assert_eq!(
        (&said[1]["content"], &said[1]["agent_id"]),
        (&json!("Done."), &json!("agent_coder"))
    );
    assert_eq!(
        (said.len(), &said[1]["message_id"]),
        (2, &completed["message_id"])
    );
}

#[tokio::test]
async fn the_answer_comes_before_the_plan() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(is_planning, Reply::hang());
    let accepted = session
        .send(json!({ "content": "Build it" }))
        .await
        .expect(202);
    assert_eq!(
        session.messages("").await[0]["message_id"],
        accepted["message_id"],
        "it is durable"
    );
    server.model.wait_until_in_flight(1).await;
    session.cancel().await.expect(200);
    server.model.wait_until_in_flight(0).await;
}

#[tokio::test]
async fn planning_the_task_graph() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    session.call("coder", "What came before").await.expect(200);
    server.model.on(
        is_planning,
        Reply::text(tasks(&[
            task("a", "coder", &[]),
            task("b", "agent_writer", &["a"]),
        ])),
    );
    server.model.on(
        is_joining,
        Reply::text("Both are done.").with_finish_reason("length"),
    );
    let seen = session
        .stream_plan("Build and describe it")
        .await
        .all()
        .await;
    let plan = seen.one("task_plan_created");
    assert_eq!(
        (
            &plan["status"],
            &plan["requires_approval"],
            &plan["fallback"]
        ),
        (&json!("running"), &json!(false), &json!(false))
    );
    assert!(
        plan["estimated_cost_usd"].as_f64().unwrap() > 0.0 && plan["cost_known"] == true,
        "{plan:#}"
    );
    assert_eq!(plan["tasks"][1]["depends_on"], json!(["a"]));
    assert_eq!(
        (&plan["tasks"][1]["agent"], &plan["tasks"][1]["description"]),
        (&json!("agent_writer"), &json!("Do b."))
    );
    let asked = server
        .model
        .requests()
        .into_iter()
        .find(|request| is_planning(&request.body))
        .unwrap();
    for part in [
        "- agent_coder: ",
        "- agent_writer: ",
        "- agent_analyzer: ",
        "- agent_researcher: ",
    ] {
        assert!(asked.system_prompt().contains(part), "{part}");
    }
    assert_eq!(
        asked.roles(),
        ["system", "user", "assistant", "user"],
        "the planner knows what was said before"
    );
    assert_eq!(
        (asked.message(1), asked.message(-1)),
        (&json!("What came before"), &json!("Build and describe it"))
    );
    assert_eq!(seen.one("workflow_completed")["response"], "Both are done.");
    let stored = session.plan().await;
    assert_eq!(
        (&stored["status"], &stored["plan_id"]),
        (&json!("completed"), &plan["plan_id"])
    );
    assert_eq!(
        (&stored["tasks"][0]["status"], &stored["tasks"][0]["result"]),
        (&json!("completed"), &json!("Done."))
    );
    let one = session
        .get(&session.path(&format!("plans/{}/", plan["plan_id"].as_str().unwrap())))
        .await
        .expect(200);
    assert_eq!(one, stored);
    let answer = session.messages("?role=assistant").await.pop().unwrap();
    assert_eq!(answer["agent_id"], "orchestrator");
    assert!(
        answer["warnings"][0]
            .as_str()
            .unwrap()
            .contains("token limit"),
        "a cut answer says so: {answer:#}"
    );

    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "coder", &[])])));
    server.model.on(
        says("Do a."),
        Reply::text("A, or a part of it.").with_finish_reason("length"),
    );
    session.stream_plan("Build it alone").await.all().await;
    let answer = session.messages("?role=assistant").await.pop().unwrap();
    assert_eq!(answer["content"], "A, or a part of it.");
    assert!(
        answer["warnings"][0]
            .as_str()
            .unwrap()
            .contains("token limit"),
        "so does a task's: {answer:#}"
    );
}

#[tokio::test]
async fn the_planner_reads_a_long_request_to_its_end() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let long = format!("{}What is wrong here?", "fn f() {}\n".repeat(3_000));
    server.model.on(is_planning, Reply::text("no plan"));
    let seen = session.stream_plan(&long).await.all().await;
    let asked = server
        .model
        .requests()
        .into_iter()
        .find(|request| is_planning(&request.body))
        .unwrap();
    assert_eq!(asked.message(-1), &json!(long));
    let task = seen.one("task_plan_created")["tasks"][0]["description"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        task.len() <= 16 * 1024 && task.ends_with("What is wrong here?"),
        "{} bytes",
        task.len()
    );
}

#[tokio::test]
async fn approval_for_complex_plans() {
    let three = [
        task("a", "coder", &[]),
        task("b", "coder", &[]),
        task("c", "coder", &[]),
    ];
    let mut dear = task("a", "coder", &[]);
    dear["estimated_tokens"] = json!(20_000);
    let mut cheap = task("a", "coder", &[]);
    cheap["estimated_tokens"] = json!(1_000);
    for (planned, asks) in [
        (&three[..], true),
        (&three[..2], false),
        (&[dear][..], true),
        (&[cheap][..], false),
    ] {
        let server = server().await;
        let session = Person::new(&server, 1).session().await;
        server.model.on(is_planning, Reply::text(tasks(planned)));
        let seen = session.stream_plan("Build it").await.all().await;
        let plan = seen.one("task_plan_created").clone();
        assert_eq!(plan["requires_approval"], asks, "{plan:#}");
        if !asks {
            assert_eq!(seen.status(), "completed");
            continue;
        }
        assert_eq!(
            (seen.kinds(), seen.status()),
            (
                vec![
                    "message_created",
                    "task_plan_created",
                    "plan_request",
                    "waiting_added"
                ],
                "awaiting_approval"
            )
        );
        assert_eq!(plan["status"], "awaiting_approval");
        let request = seen.one("plan_request");
        assert_eq!(
            (&request["plan_id"], &request["kind"], &request["call_id"]),
            (&plan["plan_id"], &json!("plan"), &plan["plan_id"])
        );
        assert_eq!(
            (&request["timeout_seconds"], &request["tool_name"]),
            (&json!(300), &json!("plan"))
        );
        assert_eq!(
            request["arguments"]["tasks"].as_array().unwrap().len(),
            planned.len()
        );
        let open = session.get("/my/approvals/").await.expect(200);
        assert_eq!(
            (&open["total"], &open["approvals"][0]["session_id"]),
            (&json!(1), &json!(session.id))
        );
        assert_eq!(open["approvals"][0]["digest"], request["digest"]);
        let here = session.get(&session.path("approvals/")).await.expect(200);
        assert_eq!(here["approvals"], open["approvals"]);
        assert_eq!(
            server.model.request_count(),
            1,
            "nothing runs before the person has decided"
        );
    }
}

#[tokio::test]
async fn a_price_that_is_not_known_is_said() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    let body = json!({ "name": "local", "model": "my-own-model" });
    me.post(&format!("/my/projects/{}/agents/", session.project), body)
        .await
        .expect(201);
    let mut big = task("a", "local", &[]);
    big["estimated_tokens"] = json!(1_000_000);
    server.model.on(is_planning, Reply::text(tasks(&[big])));
    let plan = session
        .stream_plan("Build it")
        .await
        .all()
        .await
        .one("task_plan_created")
        .clone();
    assert_eq!(
        (&plan["cost_known"], &plan["estimated_cost_usd"]),
        (&json!(false), &json!(0.0))
    );
    assert_eq!(plan["tasks"][0]["estimated_cost_usd"], json!(null));
}

#[tokio::test]
async fn the_bounds_of_approval_are_settings() {
    let server = server_with(&[
        ("CODELAB_PLAN__APPROVAL_TASKS", "5"),
        ("CODELAB_PLAN__APPROVAL_USD", "0.001"),
    ])
    .await;
    let session = Person::new(&server, 1).session().await;
    let four = ["a", "b", "c", "d"].map(|id| task(id, "coder", &[]));
    server.model.on(is_planning, Reply::text(tasks(&four)));
    let seen = session.stream_plan("Build it").await.all().await;
    let request = seen.one("plan_request");
    assert!(
        request["reason"].as_str().unwrap().contains('$'),
        "four are few, but dear: {request}"
    );
}

#[tokio::test]
async fn execution_after_approval() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let planned = [
        task("a", "coder", &[]),
        task("b", "analyzer", &["a"]),
        task("c", "writer", &["b"]),
    ];
    server.model.on(is_planning, Reply::text(tasks(&planned)));
    server.model.on(is_joining, Reply::text("All three."));
    server.model.on(says("Do a."), Reply::text("A is 17."));
    let asked = session.stream_plan("Build it").await.all().await;
    let plan = asked.one("task_plan_created").clone();
    let mut events = session.follow(*asked.ids().last().unwrap()).await;
    let running = session
        .decide_plan(&plan, json!({ "decision": "APPROVE" }))
        .await
        .expect(200);
    assert!(
        ["running", "completed"].contains(&running["status"].as_str().unwrap()),
        "{running:#}"
    );
    events.until("done", |_| true).await; // how it stood at that number
    let seen = events.until_done().await;
    assert_eq!(seen.status(), "completed");
    let resolved = seen.one("plan_resolved");
    assert_eq!(
        (&resolved["decision"], &resolved["decided_by"]),
        (&json!("approve"), &json!("1"))
    );
    for (before, after) in [("a", "b"), ("b", "c")] {
        let ended = seen.index("task_completed", |data| data["task_id"] == before);
        let began = seen.index("task_started", |data| data["task_id"] == after);
        assert!(ended < began, "{before} before {after}: {:?}", seen.kinds());
    }
    assert_eq!(seen.one("workflow_completed")["response"], "All three.");
    // What comes first is handed on.
    let second = server
        .model
        .requests()
        .into_iter()
        .find(|request| says("Do b.")(&request.body))
        .unwrap();
    let brief = second.message(-1).as_str().unwrap();
    assert!(
        brief.contains("A is 17.") && brief.contains("[a by agent_coder]"),
        "{brief}"
    );
    // A second word is too late.
    session
        .decide_plan(&plan, json!({ "decision": "reject" }))
        .await
        .refused(409, "CONFLICT");
    let audit = session.get(&session.path("audit/")).await.expect(200);
    assert_eq!(
        (&audit["verified"], audit["audit"].as_array().unwrap().len()),
        (&json!(true), 1)
    );
    assert_eq!(
        (
            &audit["audit"][0]["decision"],
            &audit["audit"][0]["decided_by"]
        ),
        (&json!("APPROVE"), &json!("1"))
    );
}

#[tokio::test]
async fn sse_events_in_orchestrated_mode() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let planned = [
        task("a", "coder", &[]),
        task("b", "coder", &["a"]),
        task("c", "coder", &["b"]),
    ];
    server.model.on(is_planning, Reply::text(tasks(&planned)));
    let asked = session.stream_plan("Build it").await.all().await;
    session
        .decide_plan(
            asked.one("task_plan_created"),
            json!({ "decision": "approve" }),
        )
        .await
        .expect(200);
    session.wait_for("workflow_completed", |_| true).await;
    let log = session.log().await;
    let mut order = Vec::new();
    for kind in log.kinds() {
        if !order.contains(&kind) {
            order.push(kind);
        }
    }
    let wanted = [
        "task_plan_created",
        "plan_request",
        "task_started",
        "task_progress",
        "task_completed",
        "workflow_completed",
    ];
    let order: Vec<_> = order
        .into_iter()
        .filter(|kind| wanted.contains(kind))
        .collect();
    assert_eq!(order, wanted);
    let ids = log.ids();
    assert_eq!(
        ids,
        (1..=ids.len() as u64).collect::<Vec<_>>(),
        "without a gap"
    );
    for kind in ["task_started", "task_progress", "task_completed"] {
        let events = log.all(kind);
        assert_eq!(events.len(), 3, "{kind}");
        for (event, id) in events.iter().zip(["a", "b", "c"]) {
            assert_eq!(
                (&event["plan_id"], &event["task_id"]),
                (&asked.one("task_plan_created")["plan_id"], &json!(id))
            );
        }
    }
    let progress = log.all("task_progress");
    assert_eq!(
        (&progress[1]["tasks_done"], &progress[1]["tasks_total"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(
        (&progress[1]["note"], &progress[1]["step"]),
        (&json!("answer"), &json!(1))
    );
    assert!(!log.kinds().contains(&"direct_agent_call"));
}

#[tokio::test]
async fn a_task_has_a_thread_of_its_own() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(
        is_planning,
        Reply::text(tasks(&[task("a", "coder", &[]), task("b", "coder", &[])])),
    );
    server.model.on(says("Do a."), Reply::text("A is done."));
    let seen = session.stream_plan("Build it").await.all().await;
    let plan = seen.one("task_plan_created")["plan_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let thread = |task: &str| session.path(&format!("plans/{plan}/tasks/{task}/messages/"));
    let said = session.get(&thread("a")).await.expect(200);
    let texts: Vec<_> = said["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].clone())
        .collect();
    assert_eq!(
        (texts, &said["total"]),
        (vec![json!("Do a."), json!("A is done.")], &json!(2))
    );
    let page = session
        .get(&format!("{}?limit=1&offset=1", thread("a")))
        .await
        .expect(200);
    assert_eq!(
        (&page["messages"][0]["content"], &page["limit"]),
        (&json!("A is done."), &json!(1))
    );
    session.get(&thread("x")).await.refused(404, "NOT_FOUND");
    session
        .get(&session.path("plans/nope/tasks/a/messages/"))
        .await
        .refused(404, "PLAN_NOT_FOUND");
    assert_eq!(
        session.messages("").await.len(),
        2,
        "the session's own history has the question and the answer"
    );
    // Tasks do not hand over: their agent was planned.
    let step = server
        .model
        .requests()
        .into_iter()
        .find(|request| says("Do a.")(&request.body))
        .unwrap();
    assert!(
        !step.tool_names().contains(&"switch_mode"),
        "{:?}",
        step.tool_names()
    );
    assert_eq!(
        (step.roles(), step.message(-1)),
        (vec!["system", "user", "user"], &json!("Do a."))
    );
    assert_eq!(
        step.wire_message(1)["content"],
        "Build it",
        "the request is what was said before"
    );
}
