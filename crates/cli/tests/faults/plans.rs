//! `kill -9` while a task of a plan is at work.

use codelab_fakemodel::{Gate, Reply};
use codelab_testkit::{Access, Client, Method};
use serde_json::{Value, json};

use crate::lab::{Lab, eventually};
use crate::process::ran;

/// A user of the server that runs now.
struct User(Client);

impl User {
    async fn of(lab: &Lab) -> Self {
        let folder = lab.data_dir().display().to_string();
        let token = ran(&["token", "--user", "1", "--data-dir", &folder], &lab.settings).await;
        Self(Client::new(&lab.server().url, Access::Bearer(token.trim().to_owned())).unwrap())
    }

    async fn get(&self, path: &str) -> Value {
        self.ask(Method::GET, path, Value::Null, 200).await
    }

    async fn post(&self, path: &str, body: Value, status: u16) -> Value {
        self.ask(Method::POST, path, body, status).await
    }

    async fn ask(&self, method: Method, path: &str, body: Value, status: u16) -> Value {
        let headers = [("content-type", "application/json")];
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.0.raw(method, path, &headers, text).await.unwrap();
        let seen: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        assert_eq!(answer.status, status, "{path}: {seen}");
        seen
    }

    /// The statuses of the only plan and of its tasks, once they are these.
    async fn until_plan(&self, chat: &str, expected: [&str; 3]) -> Value {
        let path = format!("/my/chat/{chat}/plans");
        let mut plan = Value::Null;
        eventually("the plan is there", async || {
            plan = self.get(&path).await["plans"][0].clone();
            let seen = [&plan["status"], &plan["tasks"][0]["status"], &plan["tasks"][1]["status"]];
            if seen == expected.map(|status| json!(status)).each_ref() { Ok(()) } else { Err(plan.clone()) }
        })
        .await;
        plan
    }
}

/// What the model is told when it joins the results.
const JOINING: &str = "Several agents worked";

fn says(text: &'static str) -> impl Fn(&Value) -> bool + Send + Sync {
    move |body| body["messages"].to_string().contains(text)
}

#[tokio::test]
async fn a_task_that_was_at_work_is_failed_and_can_be_run_again() {
    let mut lab = Lab::start().await;
    let gate = Gate::new();
    let task = |id: &str, agent: &str, description: &str| json!({ "id": id, "agent": agent, "description": description, "depends_on": [], "estimated_tokens": 10 });
    let plan = json!({ "tasks": [task("slow", "agent_coder", "the slow part"), task("fast", "agent_writer", "the fast part")] });
    lab.model.on(says("the slow part"), Reply::text("Slow is done.").hold(&gate));
    lab.model.on(says("the fast part"), Reply::text("Fast is done."));
    lab.model.on(says("You plan work"), Reply::text(plan.to_string()));
    lab.model.on(says(JOINING), Reply::text("All of it."));
    let user = User::of(&lab).await;
    let project = user.post("/my/projects", json!({ "name": "p" }), 201).await["project_id"].clone();
    let chat = user.post("/my/chat/sessions", json!({ "project_id": project }), 201).await;
    let chat = chat["session_id"].as_str().unwrap().to_owned();
    user.post(&format!("/my/chat/{chat}/message"), json!({ "content": "both parts" }), 202).await;
    gate.reached().await;
    user.until_plan(&chat, ["running", "running", "completed"]).await;
    lab.crash().await;

    // The task is failed, what was done stays, and the workflow ends with a part of the answer.
    let user = User::of(&lab).await;
    let plan = user.until_plan(&chat, ["partial", "failed", "completed"]).await;
    assert_eq!(plan["tasks"][1]["result"], "Fast is done.");
    let is_fast = |body: &Value| says("the fast part")(body) && !says(JOINING)(body);
    let fast_calls = || lab.model.requests().iter().filter(|request| is_fast(&request.body)).count();
    let detail = user.get(&format!("/my/chat/sessions/{chat}")).await;
    assert_eq!((&detail["busy"], &detail["queued"]), (&json!(false), &json!(0)), "{detail}");
    let answer = &detail["messages"].as_array().unwrap().last().unwrap()["content"];
    assert!(answer.as_str().unwrap().contains("Fast is done.") || answer == "All of it.", "{answer}");
    let space = user.get(&format!("/my/projects/{project}/worker-space")).await;
    assert_eq!(
        (&space["active_tasks"], &space["queued_tasks"], &space["is_healthy"]),
        (&json!(0), &json!(0), &json!(true))
    );

    // The space is usable, and the failed task alone is run again.
    gate.open();
    let direct = json!({ "content": "hello, slow part? the slow part!", "target_agent": "coder" });
    let direct = user.post(&format!("/my/chat/{chat}/message"), direct, 200).await;
    assert_eq!((&direct["success"], &direct["response"]), (&json!(true), &json!("Slow is done.")));
    let plan_id = plan["plan_id"].as_str().unwrap();
    user.post(&format!("/my/chat/{chat}/plans/{plan_id}/retry"), Value::Null, 202).await;
    let plan = user.until_plan(&chat, ["completed", "completed", "completed"]).await;
    assert_eq!(plan["tasks"][0]["result"], "Slow is done.");
    assert_eq!(fast_calls(), 1, "a finished task is not repeated");
}
