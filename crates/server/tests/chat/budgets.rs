//! What may be spent: limits of sessions and projects, and what was used.

use codelab_testkit::{Gate, Reply};
use serde_json::{Value, json};

use crate::kit::{Chat, Person, is_joining, is_planning, says, server, server_with, task, tasks};

/// The approval that waits in the session.
async fn asked(chat: &Chat) -> Value {
    let open = chat.get(&chat.path("approvals/")).await.expect(200);
    assert_eq!(open["total"], 1, "{open:#}");
    open["approvals"][0].clone()
}

#[tokio::test]
async fn a_session_stops_at_its_budget_and_goes_on_when_it_is_raised() {
    let server = server().await;
    let chat = Person::new(&server, 1).chat_with(json!({ "budget_tokens": 100 })).await;
    server.model.reply(Reply::text_with_usage("One.", 90, 20));
    chat.call("coder", "one").await.expect(200);
    let waits = chat.call("coder", "two").await.expect(200);
    assert_eq!((&waits["status"], &waits["pending"]["kind"]), (&json!("awaiting_approval"), &json!("budget")));
    let approval = asked(&chat).await;
    let arguments = &approval["arguments"];
    assert_eq!(
        (&arguments["scope"], &arguments["budget_tokens"], &arguments["spent_tokens"]),
        (&json!("session"), &json!(100), &json!(110))
    );
    assert_eq!((&approval["tool_name"], &approval["timeout_seconds"]), (&json!("budget"), &json!(300)));
    assert_eq!(server.model.request_count(), 1, "nothing more is spent before the person has decided");
    let call = approval["call_id"].as_str().unwrap();
    for wrong in [json!({}), json!({ "budget_tokens": -1 }), json!({ "budget_usd": "much" })] {
        let edit = json!({ "decision": "edit", "modified_args": wrong });
        chat.decide(call, edit).await.refused(422, "INVALID_TOOL_ARGUMENTS");
    }
    let edit = json!({ "decision": "edit", "modified_args": { "budget_tokens": 500 } });
    chat.decide(call, edit).await.expect(200);
    chat.wait_for("task_completed", |data| data["response"] == "Done.").await;
    assert_eq!(chat.detail().await["budget_tokens"], 500);
    assert_eq!(chat.log().await.one("approval_resolved")["decision"], "edit");
    assert_eq!(chat.call("coder", "three").await.expect(200)["status"], "completed");
}

#[tokio::test]
async fn a_refused_budget_ends_the_turn() {
    let server = server().await;
    let chat = Person::new(&server, 1).chat_with(json!({ "budget_usd": 0.001 })).await;
    server.model.reply(Reply::text_with_usage("One.", 1000, 1000));
    chat.call("coder", "one").await.expect(200);
    let waits = chat.call("coder", "two").await.expect(200);
    let call = waits["pending"]["call_id"].as_str().unwrap();
    chat.decide(call, json!({ "decision": "reject" })).await.expect(200);
    let log = chat.log().await;
    assert_eq!((log.status(), &log.one("error")["error_code"]), ("failed", &json!("CANCELLED")));
    assert_eq!(chat.messages("").await.last().unwrap()["error"], true);
    assert_eq!(server.model.request_count(), 1);
    // Approving grants as much again.
    let waits = chat.call("coder", "three").await.expect(200);
    chat.decide(waits["pending"]["call_id"].as_str().unwrap(), json!({ "decision": "approve" })).await.expect(200);
    chat.wait_for("task_completed", |data| data["response"] == "Done.").await;
    assert!(chat.detail().await["budget_usd"].as_f64().unwrap() > 0.09);
}

#[tokio::test]
async fn a_budget_question_that_nobody_answers_ends_the_turn() {
    let server = server_with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "1")]).await;
    let chat = Person::new(&server, 1).chat_with(json!({ "budget_tokens": 0 })).await;
    chat.call("coder", "one").await.expect(200);
    chat.wait_for("error", |data| data["error_code"] == "HITL_TIMEOUT").await;
    assert_eq!(chat.log().await.status(), "failed");
}

#[tokio::test]
async fn a_projects_budget_is_shared_by_its_sessions() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let project = me.project(json!({ "name": "thrifty", "budget_tokens": 100 })).await;
    let chats =
        [me.chat_with(json!({ "project_id": project })).await, me.chat_with(json!({ "project_id": project })).await];
    server.model.reply(Reply::text_with_usage("One.", 90, 20));
    chats[0].call("coder", "one").await.expect(200);
    let waits = chats[1].call("coder", "two").await.expect(200);
    assert_eq!(waits["pending"]["arguments"]["scope"], "project", "{waits:#}");
    let call = waits["pending"]["call_id"].as_str().unwrap();
    let edit = json!({ "decision": "edit", "modified_args": { "budget_tokens": 5000, "budget_usd": null } });
    chats[1].decide(call, edit).await.expect(200);
    chats[1].wait_for("task_completed", |_| true).await;
    let row = me.get(&format!("/my/projects/{project}")).await.expect(200);
    assert_eq!((&row["budget_tokens"], &row["budget_usd"]), (&json!(5000), &Value::Null));
    // A change of the project counts at once.
    me.ask("PATCH", &format!("/my/projects/{project}"), Some(json!({ "budget_tokens": 1 }))).await.expect(200);
    let waits = chats[0].call("coder", "three").await.expect(200);
    assert_eq!(waits["status"], "awaiting_approval", "{waits:#}");
    me.ask("PATCH", &format!("/my/projects/{project}"), Some(json!({ "budget_tokens": null }))).await.expect(200);
    assert_eq!(chats[1].call("coder", "four").await.expect(200)["status"], "completed");
    let elsewhere = me.chat().await;
    assert_eq!(elsewhere.call("coder", "five").await.expect(200)["status"], "completed");
}

#[tokio::test]
async fn a_plan_stops_before_it_is_made_and_its_tasks_ask_once() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let chat = me.chat_with(json!({ "budget_tokens": 0 })).await;
    server.model.on(is_planning, Reply::text(tasks(&[task("a", "coder", &[]), task("b", "writer", &[])])));
    let seen = chat.stream_plan("Build it").await.all().await;
    assert_eq!((seen.one("approval_request")["kind"].as_str(), seen.status()), (Some("budget"), "awaiting_approval"));
    assert_eq!(server.model.request_count(), 0);
    // Enough for the plan, not for the tasks.
    let edit = json!({ "decision": "edit", "modified_args": { "budget_tokens": 5 } });
    chat.decide(asked(&chat).await["call_id"].as_str().unwrap(), edit).await.expect(200);
    chat.wait_for("task_plan_created", |_| true).await;
    let open = chat.wait_for("approval_request", |data| data.get("task_id").is_some()).await.data;
    let waiting = asked(&chat).await;
    assert_eq!(waiting["call_id"], open["call_id"], "both tasks wait for one answer");
    let edit = json!({ "decision": "edit", "modified_args": { "budget_tokens": null } });
    chat.decide(waiting["call_id"].as_str().unwrap(), edit).await.expect(200);
    let completed = chat.wait_for("workflow_completed", |_| true).await.data;
    assert_eq!(completed["status"], "completed");

    let second = me.chat_with(json!({ "budget_tokens": 0 })).await;
    second.stream_plan("Build it").await.all().await;
    second.decide(asked(&second).await["call_id"].as_str().unwrap(), json!({ "decision": "reject" })).await.expect(200);
    assert_eq!(second.log().await.one("workflow_completed")["status"], "cancelled");
}

#[tokio::test]
async fn parallel_tasks_reserve_before_they_spend() {
    let server = server().await;
    let chat = Person::new(&server, 1).chat_with(json!({ "budget_tokens": 1000 })).await;
    server.model.on(is_planning, Reply::text(tasks(&[task("a", "coder", &[]), task("b", "writer", &[])])));
    let gate = Gate::new();
    server.model.on(says("Do a."), Reply::text("A.").hold(&gate));
    let stream = chat.stream_plan("Build it").await;
    gate.reached().await;
    // What the first may take (up to 4096 tokens) is more than there is, so the second asks.
    let request = chat.wait_for("approval_request", |data| data["task_id"] == "b").await.data;
    assert_eq!(request["kind"], "budget");
    gate.open();
    chat.wait_for("task_completed", |data| data["task_id"] == "a").await;
    chat.decide(request["call_id"].as_str().unwrap(), json!({ "decision": "approve" })).await.expect(200);
    chat.wait_for("workflow_completed", |data| data["status"] == "completed").await;
    assert_eq!(stream.all().await.status(), "awaiting_approval");
}

#[tokio::test]
async fn usage_is_shown_by_message_session_project_and_agent() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let project = me.project(json!({ "name": "other" })).await;
    let (first, second) = (me.chat().await, me.chat_with(json!({ "project_id": project })).await);
    server.model.reply(Reply::text_with_usage("One.", 100, 10));
    let one = first.call("coder", "one").await.expect(200);
    let cost = one["usage"]["cost_usd"].as_f64().unwrap();
    assert!((cost - (100.0 * 30.0 + 10.0 * 60.0) / 1e6).abs() < 1e-9, "{cost}");
    server
        .model
        .on(is_planning, Reply::text_with_usage(tasks(&[task("a", "coder", &[]), task("b", "writer", &[])]), 50, 50));
    server.model.on(says("Do a."), Reply::text_with_usage("A.", 20, 5));
    server.model.on(says("Do b."), Reply::text_with_usage("B.", 30, 5));
    server.model.on(is_joining, Reply::text_with_usage("Both.", 7, 3));
    let seen = second.stream_plan("Build it").await.all().await;
    assert_eq!(seen.one("workflow_completed")["usage"]["total_tokens"], 100 + 25 + 35 + 10);
    assert_eq!(second.messages("?role=assistant").await[0]["usage"]["total_tokens"], 170);
    assert_eq!(second.plan().await["tasks"][1]["usage"]["total_tokens"], 35);
    assert_eq!(second.detail().await["usage"]["total_tokens"], 170);
    let report = me.get("/my/usage/").await.expect(200);
    assert_eq!((&report["total"]["total_tokens"], &report["total"]["calls"]), (&json!(280), &json!(5)));
    let of = |list: &Value, key: &str, id: &Value| {
        let found = list.as_array().unwrap().iter().find(|row| row[key] == *id).unwrap();
        found["usage"]["total_tokens"].as_u64().unwrap()
    };
    assert_eq!(of(&report["projects"], "project_id", &json!(project)), 170);
    assert_eq!(of(&report["sessions"], "session_id", &json!(first.id)), 110);
    assert_eq!(of(&report["sessions"], "session_id", &json!(second.id)), 170);
    let here = me.get(&format!("/my/usage/?project_id={project}")).await.expect(200);
    assert_eq!(here["total"]["total_tokens"], 170);
    for (agent, tokens) in [("orchestrator", 110), ("agent_coder", 25), ("agent_writer", 35)] {
        assert_eq!(of(&here["agents"], "agent", &json!(agent)), tokens, "{agent}");
    }
    me.get("/my/usage/?project_id=999999").await.refused(404, "PROJECT_NOT_FOUND");
}
