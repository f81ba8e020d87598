//! `kill -9` while a task of a plan is at work.

use codelab_fakemodel::{Gate, Reply};
use codelab_testkit::eventually;
use serde_json::{Value, json};

use crate::chat::{Chat, is_planning, statuses, task};
use crate::lab::Lab;

/// What the model is told when it joins the results.
const JOINING: &str = "Several agents worked";

fn says(text: &'static str) -> impl Fn(&Value) -> bool + Send + Sync {
    move |body| body["messages"].to_string().contains(text)
}

#[tokio::test]
async fn a_task_that_was_at_work_is_failed_and_can_be_run_again() {
    let mut lab = Lab::start().await;
    let gate = Gate::new();
    let tasks = [
        task("slow", "agent_coder", "the slow part", &[]),
        task("fast", "agent_writer", "the fast part", &[]),
    ];
    lab.model.on(
        says("the slow part"),
        Reply::text("Slow is done.").hold(&gate),
    );
    lab.model
        .on(says("the fast part"), Reply::text("Fast is done."));
    lab.model.on(
        is_planning,
        Reply::text(json!({ "tasks": tasks }).to_string()),
    );
    lab.model.on(says(JOINING), Reply::text("All of it."));
    let chat = Chat::new(&lab).await;
    chat.post(&lab, "message", json!({ "content": "both parts" }))
        .await;
    gate.reached().await;
    eventually("the fast part is done", async || {
        let plan = chat.plan(&lab).await;
        if statuses(&plan) == ["running", "completed"] {
            Ok(())
        } else {
            Err(plan)
        }
    })
    .await;
    lab.crash().await;

    // The task is failed, what was done stays, and the workflow ends with a part of the answer that
    // says what is missing.
    let plan = chat.plan_that_is(&lab, &["partial"]).await;
    assert_eq!(statuses(&plan), ["failed", "completed"]);
    assert_eq!(plan["tasks"][1]["result"], "Fast is done.");
    let detail = chat
        .get(&lab, &format!("/my/chat/sessions/{}", chat.id))
        .await;
    assert_eq!(
        (&detail["busy"], &detail["queued"]),
        (&json!(false), &json!(0)),
        "{detail}"
    );
    let answer = chat.last_said(&lab).await;
    let missing =
        "Not done:\n- slow (agent_coder): failed: The server stopped while this task was running";
    assert_eq!(answer, format!("Fast is done.\n\n{missing}"));
    let space = chat
        .get(&lab, &format!("/my/projects/{}/worker-space", chat.project))
        .await;
    assert_eq!(
        (
            &space["active_tasks"],
            &space["queued_tasks"],
            &space["is_healthy"]
        ),
        (&json!(0), &json!(0), &json!(true))
    );

    // The space is usable, and the failed task alone is run again.
    gate.open();
    let direct = json!({ "content": "hello, slow part? the slow part!", "target_agent": "coder" });
    let direct = chat.post(&lab, "message", direct).await;
    assert_eq!(
        (&direct["success"], &direct["response"]),
        (&json!(true), &json!("Slow is done."))
    );
    chat.post(
        &lab,
        &format!("plans/{}/retry", plan["plan_id"].as_str().unwrap()),
        json!({}),
    )
    .await;
    let plan = chat.plan_that_is(&lab, &["completed"]).await;
    assert_eq!(plan["tasks"][0]["result"], "Slow is done.");
    let is_fast = |body: &Value| says("the fast part")(body) && !says(JOINING)(body);
    let fast_calls = lab
        .model
        .requests()
        .iter()
        .filter(|request| is_fast(&request.body))
        .count();
    assert_eq!(fast_calls, 1, "a finished task is not repeated");
}
