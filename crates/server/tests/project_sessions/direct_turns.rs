//! Direct mode beyond one answer: handing over to another agent, and waiting for a person.

use std::time::Duration;

use codelab_testkit::{Asked as _, Reply};
use serde_json::json;

use crate::kit::{Person, is_planning, server, server_with, task, tasks};

#[tokio::test]
async fn a_direct_call_can_switch_agents_within_the_turn() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::tool_call(
        "switch_mode",
        json!({ "agent": "writer", "reason": "prose" }),
    ));
    server.model.reply(Reply::text("Once upon a time."));
    let seen = session
        .stream_call("coder", "Tell a story")
        .await
        .all()
        .await;
    let switched: Vec<_> = seen
        .all("agent_switched")
        .iter()
        .map(|data| (data["to_agent"].clone(), data["reason"].clone()))
        .collect();
    let there_and_back = [
        ("agent_writer", "prose"),
        ("orchestrator", "turn_completed"),
    ];
    assert_eq!(
        switched,
        there_and_back.map(|(to, why)| (json!(to), json!(why)))
    );
    assert_eq!(seen.one("task_completed")["agent"], "agent_writer");
    assert_eq!(
        session.messages("?role=assistant").await.last().unwrap()["agent_id"],
        "agent_writer"
    );
    let steps = server.model.requests();
    assert!(
        steps[1].told().contains("Previous agent: agent_coder"),
        "{}",
        steps[1].told()
    );
    // What is asked next was handed over by nobody.
    server.model.on(
        is_planning,
        Reply::text(tasks(&[task("a", "analyzer", &[])])),
    );
    session.call("researcher", "look").await.expect(200);
    session.stream_plan("Build it").await.all().await;
    for request in &server.model.requests()[2..] {
        assert!(
            !request.told().contains("Previous agent"),
            "{}",
            request.told()
        );
    }
    // A failure is of the agent that worked last.
    server.model.reply(Reply::tool_call(
        "switch_mode",
        json!({ "agent": "writer", "reason": "prose" }),
    ));
    server.model.reply(Reply::status(400, "no"));
    assert_eq!(
        session.call("coder", "again").await.expect(502)["agent"],
        "agent_writer"
    );
}

#[tokio::test]
async fn a_direct_call_that_waits_says_for_what() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": "a.txt", "content": "x" }),
    ));
    let asked = session.call("coder", "write").await.expect(200);
    assert_eq!(
        (&asked["status"], &asked["success"]),
        (&json!("awaiting_approval"), &json!(false))
    );
    let (pending, call) = (
        &asked["pending"],
        asked["pending"]["call_id"].as_str().unwrap(),
    );
    assert_eq!(
        (&pending["kind"], &pending["tool_name"]),
        (&json!("tool"), &json!("write_file"))
    );
    assert!(
        pending["digest"].is_string() && pending["expires_at"].is_string(),
        "{pending}"
    );
    assert_eq!(
        asked["message_id"],
        session.messages("").await[0]["message_id"],
        "the user's, as always"
    );
    assert_eq!(
        asked.get("response_message_id"),
        None,
        "nothing is answered yet"
    );
    let decided = session
        .decide(call, json!({ "decision": "approve" }))
        .await
        .expect(200);
    assert_eq!(decided["status"], "awaiting_tool_result");
    assert_eq!(session.detail().await["status"], "awaiting_tool_result");
    session.claim(call, "laptop").await.expect(200);
    session
        .result(call, "laptop", json!({ "success": true, "size": 1 }))
        .await
        .expect(200);
    session
        .wait_for("task_completed", |data| data["response"] == "Done.")
        .await;

    server
        .model
        .reply(Reply::tool_call("read_file", json!({ "path": "a.txt" })));
    let waits = session.call("coder", "read").await.expect(200);
    assert_eq!(waits["status"], "awaiting_tool_result");
    assert!(waits["pending"]["call_id"].is_string(), "{waits:#}");
    session.cancel().await.expect(200);
    server.model.reply(Reply::tool_call(
        "ask_followup_question",
        json!({ "question": "Which?", "options": ["a", "b"] }),
    ));
    let question = session.call("coder", "choose").await.expect(200);
    assert_eq!(
        (&question["status"], &question["pending"]["question"]),
        (&json!("awaiting_answer"), &json!("Which?"))
    );
}

#[tokio::test]
async fn several_calls_at_once_run_in_order_each_with_its_approval() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::tool_calls(vec![
        ("write_file", json!({ "path": "a.md", "content": "a" })),
        ("write_file", json!({ "path": "b.md", "content": "b" })),
    ]));
    session.call("coder", "write both").await.expect(200);
    for path in ["a.md", "b.md"] {
        let asked = session
            .wait_for("approval_request", |data| data["arguments"]["path"] == path)
            .await;
        let call = asked.data["call_id"].as_str().unwrap().to_owned();
        let open = session.get(&session.path("approvals/")).await.expect(200);
        assert_eq!(open["total"], 1, "one question at a time: {open:#}");
        session
            .decide(&call, json!({ "decision": "approve" }))
            .await
            .expect(200);
        session.claim(&call, "laptop").await.expect(200);
        session
            .result(&call, "laptop", json!({ "success": true }))
            .await
            .expect(200);
    }
    session.wait_for("task_completed", |_| true).await;
    let log = session.log().await;
    assert!(!log.kinds().contains(&"error"), "{:?}", log.kinds());
    let told = server.model.requests().pop().unwrap().body;
    let roles: Vec<_> = told["messages"].as_array().unwrap()[1..]
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool"]);
}

/// The answer takes longer than the silence that is allowed, but no pause in it does.
#[tokio::test]
async fn an_answer_that_is_still_streaming_is_not_cut_off() {
    let server = server_with(&[("CODELAB_LIMITS__DIRECT_TIMEOUT_SECONDS", "2")]).await;
    let session = Person::new(&server, 1).session().await;
    let text = "one two three four five six seven eight nine ten eleven twelve";
    let pace = Duration::from_millis(200);
    server
        .model
        .reply(Reply::text(text).with_delay_per_delta(pace));
    let answer = session.call("coder", "count").await.expect(200);
    assert_eq!(answer["response"], text);
}
