//! What stops work that waits for somebody outside: the deletion of its agent by force, and a reset
//! of the worker space.

use codelab_testkit::{Gate, Reply, TestServer};
use serde_json::{Value, json};

use crate::kit::{Person, Session, is_planning, says, server, task, tasks};

/// What an agent can wait for, and how its turn stands then.
fn waits() -> [(&'static str, Value, &'static str); 3] {
    [
        ("read_file", json!({ "path": "a" }), "awaiting_tool_result"),
        (
            "write_file",
            json!({ "path": "a", "content": "x" }),
            "awaiting_approval",
        ),
        (
            "ask_followup_question",
            json!({ "question": "Which?" }),
            "awaiting_answer",
        ),
    ]
}

/// A session whose turn waits.
async fn waiting(
    server: &TestServer,
    tool: &str,
    arguments: Value,
    status: &str,
) -> (Session, String) {
    let session = Person::new(server, 1).session().await;
    server.model.reply(Reply::tool_call(tool, arguments));
    let answer = session.call("coder", "go").await.expect(200);
    assert_eq!(answer["status"], status, "{answer:#}");
    let call = answer["pending"]["call_id"].as_str().unwrap().to_owned();
    if status == "awaiting_tool_result" {
        session.claim(&call, "laptop").await.expect(200);
    }
    (session, call)
}

async fn assert_cancelled(session: &Session) {
    let detail = session.detail().await;
    assert_eq!(
        (&detail["busy"], &detail["status"]),
        (&json!(false), &Value::Null),
        "{detail:#}"
    );
    assert_eq!(session.log().await.status(), "cancelled");
}

async fn agent_path(session: &Session, name: &str) -> String {
    let list = session
        .get(&format!("/my/projects/{}/agents/", session.project))
        .await
        .expect(200);
    let agent = list["agents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == name)
        .unwrap();
    format!(
        "/my/projects/{}/agents/{}",
        session.project,
        agent["agent_id"].as_str().unwrap()
    )
}

#[tokio::test]
async fn an_agent_whose_work_waits_for_somebody_is_deleted_by_force_only() {
    for (tool, arguments, status) in waits() {
        // Told by what is stored: after a restart nobody holds the session in memory.
        for restarts in [false, true] {
            let mut server = server().await;
            let (session, call) = waiting(&server, tool, arguments.clone(), status).await;
            if restarts {
                server.restart().await;
            }
            let session = session.seen_by(&Person::new(&server, 1));
            let path = agent_path(&session, "agent_coder").await;
            session
                .ask("DELETE", &path, None)
                .await
                .refused(409, "CONFLICT");
            assert_eq!(session.detail().await["status"], status, "{tool}");
            // Another agent of the project has nothing to do with it.
            session
                .ask("DELETE", &agent_path(&session, "agent_writer").await, None)
                .await
                .expect(204);
            session
                .ask("DELETE", &format!("{path}?force=true"), None)
                .await
                .expect(204);
            assert_cancelled(&session).await;
            if status == "awaiting_tool_result" {
                assert_eq!(
                    session.log().await.one("tool_call_closed")["outcome"],
                    "cancelled"
                );
                session
                    .result(&call, "laptop", json!(1))
                    .await
                    .refused(409, "CONFLICT");
            }
        }
    }
}

#[tokio::test]
async fn a_plan_goes_on_without_the_tasks_of_a_deleted_agent() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let gate = Gate::new();
    server.model.on(
        is_planning,
        Reply::text(tasks(&[task("a", "coder", &[]), task("b", "writer", &[])])),
    );
    server.model.on(
        says("Do a"),
        Reply::tool_call("read_file", json!({ "path": "a" })),
    );
    server
        .model
        .on(says("Do b"), Reply::text("Written.").hold(&gate));
    session
        .send(json!({ "content": "Build it" }))
        .await
        .expect(202);
    let call = session.wait_for("tool_call", |_| true).await;
    gate.reached().await;
    let path = format!("{}?force=true", agent_path(&session, "agent_coder").await);
    session.ask("DELETE", &path, None).await.expect(204);
    gate.open();
    let ended = session.wait_for("workflow_completed", |_| true).await;
    assert_eq!(ended.data["status"], "partial", "{}", ended.data);
    let response = ended.data["response"].as_str().unwrap();
    assert!(
        response.starts_with("Written.") && response.contains("agent_coder was deleted"),
        "{response}"
    );
    let log = session.log().await;
    let failed = log.one("task_failed");
    assert_eq!(
        (&failed["task_id"], &failed["error"]["error_code"]),
        (&json!("a"), &json!("CANCELLED"))
    );
    assert_eq!(log.one("tool_call_closed")["outcome"], "cancelled");
    let call = call.data["tool_call"]["call_id"]
        .as_str()
        .unwrap()
        .to_owned();
    session
        .claim(&call, "laptop")
        .await
        .refused(409, "CONFLICT");
}

#[tokio::test]
async fn a_reset_ends_what_waits_for_somebody() {
    for (tool, arguments, status) in waits() {
        let mut server = server().await;
        let (session, call) = waiting(&server, tool, arguments, status).await;
        server.restart().await;
        let session = session.seen_by(&Person::new(&server, 1));
        let reset = format!("/my/projects/{}/worker-space/reset/", session.project);
        session.ask("POST", &reset, None).await.expect(200);
        assert_cancelled(&session).await;
        if status == "awaiting_approval" {
            session
                .decide(&call, json!({ "decision": "approve" }))
                .await
                .refused(409, "CONFLICT");
        }
        assert_eq!(
            session.call("coder", "again").await.expect(200)["status"],
            "completed"
        );
    }
}

#[tokio::test]
async fn a_reset_ends_a_plan_that_waits_for_its_approval() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let planned = [
        task("a", "coder", &[]),
        task("b", "analyzer", &["a"]),
        task("c", "writer", &["b"]),
    ];
    server.model.on(is_planning, Reply::text(tasks(&planned)));
    assert_eq!(
        session.stream_plan("Build it").await.all().await.status(),
        "awaiting_approval"
    );
    session
        .ask(
            "POST",
            &format!("/my/projects/{}/worker-space/reset/", session.project),
            None,
        )
        .await
        .expect(200);
    assert_cancelled(&session).await;
    assert_eq!(session.get("/my/approvals/").await.expect(200)["total"], 0);
}
