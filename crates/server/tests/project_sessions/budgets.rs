//! What may be spent: limits of sessions and projects, and what was used.

use codelab_testkit::{Gate, Reply};
use serde_json::{Value, json};

use crate::kit::{
    Person, Session, is_joining, is_planning, says, server, server_with, task, tasks,
};

/// The approval that waits in the session.
async fn asked_about(session: &Session) -> Value {
    let open = session.get(&session.path("approvals/")).await.expect(200);
    assert_eq!(open["total"], 1, "{open:#}");
    open["approvals"][0].clone()
}

/// A project whose one new agent has a short prompt, no tools, and answers of at most 1000 tokens.
async fn frugal(me: &Person, body: Value) -> i64 {
    let project = me.project(body).await;
    let agent = json!({ "name": "frugal", "system_prompt": "Be brief.", "max_tokens": 1000, "allowed_tools": [] });
    me.post(&format!("/my/projects/{project}/agents/"), agent)
        .await
        .expect(201);
    project
}

/// A session of such a project.
async fn frugal_session(me: &Person, mut body: Value) -> Session {
    body["project_id"] = frugal(me, json!({ "name": "thrifty" })).await.into();
    me.session_with(body).await
}

/// Waits until a thread has come to its agent and left it again.
async fn came_and_went(session: &Session, is_it: impl Fn(&Value) -> bool) {
    let mut events = session.follow(0).await;
    for _ in 0..2 {
        events.until("agent_status_changed", &is_it).await;
    }
}

#[tokio::test]
async fn a_session_stops_at_its_budget_and_goes_on_when_it_is_raised() {
    let server = server().await;
    let session = frugal_session(&Person::new(&server, 1), json!({ "budget_tokens": 1200 })).await;
    server.model.reply(Reply::text_with_usage("One.", 90, 110));
    session.call("frugal", "one").await.expect(200);
    server.model.reply(Reply::text_with_usage("Two.", 90, 710));
    session.call("frugal", "two").await.expect(200);
    let asked: Vec<Value> = server
        .model
        .requests()
        .iter()
        .map(|request| request.body["max_tokens"].clone())
        .collect();
    assert_eq!(asked[0], 1000, "what the agent may write fits");
    assert!(
        (256..1000).contains(&asked[1].as_u64().unwrap()),
        "the answer is as long as the budget has room: {asked:?}"
    );
    let waits = session.call("frugal", "three").await.expect(200);
    assert_eq!(
        (&waits["status"], &waits["pending"]["kind"]),
        (&json!("awaiting_approval"), &json!("budget"))
    );
    let approval = asked_about(&session).await;
    let arguments = &approval["arguments"];
    assert_eq!(
        (&arguments["scope"], &arguments["budget_tokens"]),
        (&json!("session"), &json!(1200))
    );
    let [limit, spent, reserved] =
        ["limit", "spent", "reserved"].map(|name| &arguments[name]["tokens"]);
    assert_eq!(
        (limit, spent, reserved),
        (&json!(1200), &json!(1000), &json!(0))
    );
    assert_eq!(
        (&approval["tool_name"], &approval["timeout_seconds"]),
        (&json!("budget"), &json!(300))
    );
    assert_eq!(
        server.model.request_count(),
        2,
        "nothing more is spent before the person has decided"
    );
    let call = approval["call_id"].as_str().unwrap();
    for wrong in [
        json!({}),
        json!({ "budget_tokens": -1 }),
        json!({ "budget_usd": "much" }),
    ] {
        let edit = json!({ "decision": "edit", "modified_args": wrong });
        session
            .decide(call, edit)
            .await
            .refused(422, "INVALID_TOOL_ARGUMENTS");
    }
    let edit = json!({ "decision": "edit", "modified_args": { "budget_tokens": 5000 } });
    session.decide(call, edit).await.expect(200);
    session
        .wait_for("task_completed", |data| data["response"] == "Done.")
        .await;
    assert_eq!(session.detail().await["budget_tokens"], 5000);
    assert_eq!(
        session.log().await.one("approval_resolved")["decision"],
        "edit"
    );
    assert_eq!(
        session.call("frugal", "four").await.expect(200)["status"],
        "completed"
    );
}

#[tokio::test]
async fn approving_adds_what_a_person_last_set() {
    let mut server = server().await;
    let me = Person::new(&server, 1);
    let project = frugal(&me, json!({ "name": "thrifty", "budget_tokens": 2000 })).await;
    let session = me.session_with(json!({ "project_id": project })).await;
    for limit in [4000, 6000] {
        // The first one of the second round comes after a restart.
        let (me, session) = (
            Person::new(&server, 1),
            session.seen_by(&Person::new(&server, 1)),
        );
        server
            .model
            .reply(Reply::text_with_usage("Much.", 100, 1800));
        session.call("frugal", "spend").await.expect(200);
        let waits = session.call("frugal", "more").await.expect(200);
        assert_eq!(
            waits["pending"]["arguments"]["limit"]["tokens"],
            limit - 2000,
            "{waits:#}"
        );
        let call = waits["pending"]["call_id"].as_str().unwrap();
        session
            .decide(call, json!({ "decision": "approve" }))
            .await
            .expect(200);
        session
            .wait_for("task_completed", |data| data["response"] == "Done.")
            .await;
        assert_eq!(
            me.get(&format!("/my/projects/{project}")).await.expect(200)["budget_tokens"],
            limit
        );
        server.restart().await;
        server.model.default_reply(Reply::text("Done."));
    }
}

#[tokio::test]
async fn a_refused_budget_ends_the_turn_with_what_was_done() {
    let server = server().await;
    let session = Person::new(&server, 1)
        .session_with(json!({ "budget_tokens": 20_000 }))
        .await;
    let looks = Reply::tool_call("read_file", json!({ "path": "a" }))
        .with_text("I look first.")
        .with_usage(100, 19_800);
    server.model.reply(looks);
    let call = session.call("coder", "look").await.expect(200)["pending"]["call_id"]
        .as_str()
        .unwrap()
        .to_owned();
    session.claim(&call, "here").await.expect(200);
    session
        .result(&call, "here", json!({ "success": true, "content": "x" }))
        .await
        .expect(200);
    session
        .wait_for("approval_request", |data| data["kind"] == "budget")
        .await;
    let asked = asked_about(&session).await;
    session
        .decide(
            asked["call_id"].as_str().unwrap(),
            json!({ "decision": "reject" }),
        )
        .await
        .expect(200);
    let said = session.messages("?role=assistant").await.pop().unwrap();
    assert!(
        said["content"]
            .as_str()
            .unwrap()
            .starts_with("I look first.\n\nStopped here."),
        "{said}"
    );
    assert_eq!(
        (said.get("error"), session.log().await.status()),
        (None, "completed")
    );
    // Where nothing was done, the call failed.
    let waits = session.call("coder", "two").await.expect(200);
    let call = waits["pending"]["call_id"].as_str().unwrap();
    session
        .decide(call, json!({ "decision": "reject" }))
        .await
        .expect(200);
    let log = session.log().await;
    assert_eq!(
        (log.status(), &log.one("error")["error_code"]),
        ("failed", &json!("CANCELLED"))
    );
    assert_eq!(session.messages("").await.last().unwrap()["error"], true);
    assert_eq!(server.model.request_count(), 1);
}

#[tokio::test]
async fn dollars_bound_calls_and_a_model_without_a_price_asks_once() {
    let server = server().await;
    let me = Person::new(&server, 1);
    // gpt-4 writes 1000 tokens for 6 cents.
    let session = frugal_session(&me, json!({ "budget_usd": 0.05 })).await;
    session.call("frugal", "one").await.expect(200);
    let most = server.model.requests().pop().unwrap().body["max_tokens"]
        .as_u64()
        .unwrap();
    assert!((256..834).contains(&most), "{most}");
    server
        .model
        .reply(Reply::text_with_usage("Two.", 1000, 300));
    session.call("frugal", "two").await.expect(200);
    let waits = session.call("frugal", "three").await.expect(200);
    assert_eq!(
        waits["pending"]["arguments"]["limit"],
        json!({ "usd": 0.05, "tokens": null })
    );
    let spent = waits["pending"]["arguments"]["spent"]["usd"]
        .as_f64()
        .unwrap();
    assert!((0.048..0.05).contains(&spent), "{spent}");

    let own = json!({ "name": "local", "system_prompt": "Be brief.", "model": "my-own-model", "allowed_tools": [] });
    me.post(&format!("/my/projects/{}/agents/", session.project), own)
        .await
        .expect(201);
    let session = me
        .session_with(json!({ "project_id": session.project, "budget_usd": 0.05 }))
        .await;
    let waits = session.call("local", "one").await.expect(200);
    assert!(
        waits["pending"]["reason"]
            .as_str()
            .unwrap()
            .contains("my-own-model"),
        "{waits:#}"
    );
    let call = waits["pending"]["call_id"].as_str().unwrap();
    session
        .decide(call, json!({ "decision": "approve" }))
        .await
        .expect(200);
    session.wait_for("task_completed", |_| true).await;
    assert_eq!(
        session.call("local", "two").await.expect(200)["status"],
        "completed",
        "asked once"
    );
}

#[tokio::test]
async fn a_budget_question_that_nobody_answers_ends_the_turn() {
    let server = server_with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "1")]).await;
    let session = Person::new(&server, 1)
        .session_with(json!({ "budget_tokens": 0 }))
        .await;
    session.call("coder", "one").await.expect(200);
    session
        .wait_for("error", |data| data["error_code"] == "HITL_TIMEOUT")
        .await;
    assert_eq!(session.log().await.status(), "failed");
}

#[tokio::test]
async fn a_projects_budget_is_shared_by_its_sessions() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let project = frugal(&me, json!({ "name": "thrifty", "budget_tokens": 1300 })).await;
    let sessions = [
        me.session_with(json!({ "project_id": project })).await,
        me.session_with(json!({ "project_id": project })).await,
    ];
    // While one works, the other one has too little room, and waits for it without asking anybody.
    let gate = Gate::new();
    server
        .model
        .reply(Reply::text_with_usage("One.", 90, 20).hold(&gate));
    let first = sessions[0].stream_call("frugal", "one").await;
    gate.reached().await;
    let second = sessions[1].stream_call("frugal", "two").await;
    came_and_went(&sessions[1], |_| true).await;
    assert_eq!(server.model.request_count(), 1);
    gate.open();
    for stream in [first, second] {
        let seen = stream.all().await;
        assert_eq!(
            (seen.status(), seen.all("approval_request").len()),
            ("completed", 0)
        );
    }
    server
        .model
        .reply(Reply::text_with_usage("Three.", 90, 1000));
    sessions[0].call("frugal", "three").await.expect(200);
    let waits = sessions[1].call("frugal", "four").await.expect(200);
    assert_eq!(
        waits["pending"]["arguments"]["scope"], "project",
        "{waits:#}"
    );
    let call = waits["pending"]["call_id"].as_str().unwrap();
    let edit = json!({ "decision": "edit", "modified_args": { "budget_tokens": 5000, "budget_usd": null } });
    sessions[1].decide(call, edit).await.expect(200);
    sessions[1]
        .wait_for("task_completed", |data| data["response"] == "Done.")
        .await;
    let row = me.get(&format!("/my/projects/{project}")).await.expect(200);
    assert_eq!(
        (&row["budget_tokens"], &row["budget_usd"]),
        (&json!(5000), &Value::Null)
    );
    // A change of the project counts at once.
    me.ask(
        "PATCH",
        &format!("/my/projects/{project}"),
        Some(json!({ "budget_tokens": 1 })),
    )
    .await
    .expect(200);
    let waits = sessions[0].call("frugal", "five").await.expect(200);
    assert_eq!(waits["status"], "awaiting_approval", "{waits:#}");
    me.ask(
        "PATCH",
        &format!("/my/projects/{project}"),
        Some(json!({ "budget_tokens": null })),
    )
    .await
    .expect(200);
    assert_eq!(
        sessions[1].call("frugal", "six").await.expect(200)["status"],
        "completed"
    );
    let elsewhere = me.session().await;
    assert_eq!(
        elsewhere.call("coder", "seven").await.expect(200)["status"],
        "completed"
    );
}

#[tokio::test]
async fn a_plan_stops_before_it_is_made_and_its_tasks_ask_once() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let session = frugal_session(&me, json!({ "budget_tokens": 0 })).await;
    let plan = tasks(&[
        task("a", "frugal", &[]),
        task("b", "frugal", &["a"]),
        task("c", "frugal", &["a"]),
    ]);
    server
        .model
        .on(is_planning, Reply::text_with_usage(plan, 500, 400));
    server
        .model
        .on(says("Do a."), Reply::text_with_usage("A is done.", 20, 900));
    let seen = session.stream_plan("Build it").await.all().await;
    assert_eq!(
        (seen.one("approval_request")["kind"].as_str(), seen.status()),
        (Some("budget"), "awaiting_approval")
    );
    assert_eq!(server.model.request_count(), 0);
    // Enough for the plan and its first task, not for the others.
    let edit = json!({ "decision": "edit", "modified_args": { "budget_tokens": 2000 } });
    session
        .decide(
            asked_about(&session).await["call_id"].as_str().unwrap(),
            edit,
        )
        .await
        .expect(200);
    let plan = session.wait_for("task_plan_created", |_| true).await.data;
    session
        .decide_plan(&plan, json!({ "decision": "approve" }))
        .await
        .expect(200);
    let open = session
        .wait_for("approval_request", |data| data.get("task_id").is_some())
        .await
        .data;
    let waiting = asked_about(&session).await;
    assert_eq!(
        waiting["call_id"], open["call_id"],
        "both tasks wait for one answer"
    );
    session
        .decide(
            waiting["call_id"].as_str().unwrap(),
            json!({ "decision": "reject" }),
        )
        .await
        .expect(200);
    let completed = session.wait_for("workflow_completed", |_| true).await.data;
    assert_eq!(completed["status"], "partial");
    let response = completed["response"].as_str().unwrap();
    assert!(
        response.contains("A is done.") && response.contains("A person refused to spend more"),
        "{response}"
    );
    assert_eq!(
        session.messages("?role=assistant").await.pop().unwrap()["content"],
        response
    );

    let second = me.session_with(json!({ "budget_tokens": 0 })).await;
    second.stream_plan("Build it").await.all().await;
    let call = asked_about(&second).await["call_id"]
        .as_str()
        .unwrap()
        .to_owned();
    second
        .decide(&call, json!({ "decision": "reject" }))
        .await
        .expect(200);
    let completed = second.log().await.one("workflow_completed").clone();
    assert_eq!(completed["status"], "cancelled");
    assert!(
        completed["response"]
            .as_str()
            .unwrap()
            .starts_with("Nothing was done."),
        "{completed}"
    );
}

#[tokio::test]
async fn tasks_that_do_not_fit_beside_each_other_wait_and_nobody_is_asked() {
    let server = server_with(&[("CODELAB_PLAN__APPROVAL_TASKS", "50")]).await;
    let session = frugal_session(&Person::new(&server, 1), json!({ "budget_tokens": 2500 })).await;
    let plan = tasks(&[
        task("a", "frugal", &[]),
        task("b", "frugal", &[]),
        task("c", "frugal", &[]),
    ]);
    server
        .model
        .on(is_planning, Reply::text_with_usage(plan, 10, 10));
    let gates = [Gate::new(), Gate::new()];
    server
        .model
        .on(says("Do a."), Reply::text("A.").hold(&gates[0]));
    server
        .model
        .on(says("Do b."), Reply::text("B.").hold(&gates[1]));
    let stream = session.stream_plan("Build it").await;
    for gate in &gates {
        gate.reached().await;
    }
    // What the two may take leaves too little for the third.
    came_and_went(&session, |data| data["task_id"] == "c").await;
    assert_eq!(server.model.request_count(), 3);
    assert_eq!(session.plan().await["tasks"][2]["status"], "queued");
    gates[0].open();
    session
        .wait_for("task_completed", |data| data["task_id"] == "c")
        .await;
    gates[1].open();
    let seen = stream.all().await;
    assert_eq!(
        (seen.status(), seen.all("approval_request").len()),
        ("completed", 0)
    );
    assert_eq!(seen.one("workflow_completed")["status"], "completed");
}

#[tokio::test]
async fn usage_is_shown_by_message_session_project_and_agent() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let project = me.project(json!({ "name": "other" })).await;
    let (first, second) = (
        me.session().await,
        me.session_with(json!({ "project_id": project })).await,
    );
    server.model.reply(Reply::text_with_usage("One.", 100, 10));
    let one = first.call("coder", "one").await.expect(200);
    let cost = one["usage"]["cost_usd"].as_f64().unwrap();
    assert!(
        (cost - (100.0 * 30.0 + 10.0 * 60.0) / 1e6).abs() < 1e-9,
        "{cost}"
    );
    server.model.on(
        is_planning,
        Reply::text_with_usage(
            tasks(&[task("a", "coder", &[]), task("b", "writer", &[])]),
            50,
            50,
        ),
    );
    server
        .model
        .on(says("Do a."), Reply::text_with_usage("A.", 20, 5));
    server
        .model
        .on(says("Do b."), Reply::text_with_usage("B.", 30, 5));
    server
        .model
        .on(is_joining, Reply::text_with_usage("Both.", 7, 3));
    let seen = second.stream_plan("Build it").await.all().await;
    assert_eq!(
        seen.one("workflow_completed")["usage"]["total_tokens"],
        100 + 25 + 35 + 10
    );
    assert_eq!(
        second.messages("?role=assistant").await[0]["usage"]["total_tokens"],
        170
    );
    assert_eq!(second.plan().await["tasks"][1]["usage"]["total_tokens"], 35);
    assert_eq!(second.detail().await["usage"]["total_tokens"], 170);
    let report = me.get("/my/usage/").await.expect(200);
    assert_eq!(
        (&report["total"]["total_tokens"], &report["total"]["calls"]),
        (&json!(280), &json!(5))
    );
    let of = |list: &Value, key: &str, id: &Value| {
        let found = list
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row[key] == *id)
            .unwrap();
        found["usage"]["total_tokens"].as_u64().unwrap()
    };
    assert_eq!(of(&report["projects"], "project_id", &json!(project)), 170);
    assert_eq!(of(&report["sessions"], "session_id", &json!(first.id)), 110);
    assert_eq!(
        of(&report["sessions"], "session_id", &json!(second.id)),
        170
    );
    let here = me
        .get(&format!("/my/usage/?project_id={project}"))
        .await
        .expect(200);
    assert_eq!(here["total"]["total_tokens"], 170);
    for (agent, tokens) in [
        ("orchestrator", 110),
        ("agent_coder", 25),
        ("agent_writer", 35),
    ] {
        assert_eq!(
            of(&here["agents"], "agent", &json!(agent)),
            tokens,
            "{agent}"
        );
    }
    me.get("/my/usage/?project_id=999999")
        .await
        .refused(404, "PROJECT_NOT_FOUND");
}
