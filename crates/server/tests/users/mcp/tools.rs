//! What the tools do.

use codelab_testkit::{Reply, eventually};
use serde_json::{Value, json};

use super::{Mcp, NEW, OLD};
use crate::kit::server;

fn write_file() -> Reply {
    Reply::tool_call("write_file", json!({ "path": "a.txt", "content": "x" }))
}

/// Until the session's last message says this, and its turn is over.
async fn until_said(me: &Mcp, session: &Value, text: &str) {
    let session = json!({ "session_id": session });
    eventually("the answer", async || {
        let found = me.data("get_session", session.clone()).await;
        let last = found["messages"].as_array().unwrap().last().unwrap();
        let is_said = last["content"] == text && found["busy"] == false;
        if is_said { Ok(()) } else { Err(found) }
    })
    .await;
}

#[tokio::test]
async fn an_agent_is_found_asked_and_asked_again() {
    let server = server().await;
    for version in [OLD, NEW] {
        let me = Mcp::new(&server, 1, version);
        let list = me.data("list_agents", json!({})).await;
        let agents = list["agents"].as_array().unwrap();
        assert_eq!((agents.len(), &list["total"]), (4, &json!(4)));
        let coder = agents
            .iter()
            .find(|agent| agent["name"] == "agent_coder")
            .unwrap();
        assert!(coder["description"].is_string() && coder["model"].is_string());
        assert!(coder.get("system_prompt").is_none());

        server.model.reply(Reply::text("Four."));
        let question = json!({ "agent": "coder", "message": "Two and two?" });
        let result = me.call("ask_agent", question).await;
        assert_eq!(result["isError"], false, "{result:#}");
        assert_eq!(result["resultType"] == "complete", version == NEW);
        let answer = &result["structuredContent"];
        assert_eq!(answer["status"], "completed");
        assert_eq!(
            (&answer["response"], &answer["agent"]),
            (&json!("Four."), &json!("agent_coder"))
        );
        assert!(answer["message_id"].is_string());
        assert_eq!(result["content"][0]["text"], "Four.");
        // A client that shows only texts can go on as well.
        let session = answer["session_id"].as_str().unwrap();
        assert!(result["content"].to_string().contains(session));

        server.model.reply(Reply::text("Eight."));
        let project = &list["project_id"];
        let again = json!({
            "agent": coder["agent_id"], "message": "And twice that?",
            "session_id": session, "project_id": project,
        });
        assert_eq!(me.data("ask_agent", again).await["session_id"], session);
        let seen = me
            .data("get_session", json!({ "session_id": session }))
            .await;
        let said: Vec<&str> = seen["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["content"].as_str().unwrap())
            .collect();
        assert_eq!(said, ["Two and two?", "Four.", "And twice that?", "Eight."]);
        assert_eq!(
            (&seen["busy"], &seen["waiting"]),
            (&json!(false), &json!([]))
        );
        assert_eq!(seen["project_id"], *project);
    }
}

#[tokio::test]
async fn what_an_agent_wants_to_do_is_decided() {
    let server = server().await;
    server.model.default_reply(Reply::text("Then not."));
    let me = Mcp::new(&server, 1, NEW);
    server.model.reply(write_file());
    let result = me
        .call("ask_agent", json!({ "agent": "coder", "message": "write" }))
        .await;
    assert_eq!(result["isError"], false);
    let asked = &result["structuredContent"];
    assert_eq!(asked["status"], "awaiting_approval");
    let (session, pending) = (&asked["session_id"], &asked["pending"]);
    let call = pending["call_id"].as_str().unwrap();
    let said = result["content"].to_string();
    for part in ["decide_approval", session.as_str().unwrap(), call, "a.txt"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }

    let open = me.data("list_approvals", json!({})).await;
    assert_eq!(open["total"], 1);
    let open = &open["approvals"][0];
    assert_eq!(
        (&open["session_id"], &open["digest"]),
        (session, &pending["digest"])
    );
    assert_eq!(
        (&open["kind"], &open["tool_name"]),
        (&json!("tool"), &json!("write_file"))
    );
    let seen = me
        .data("get_session", json!({ "session_id": session }))
        .await;
    assert_eq!(
        (&seen["status"], &seen["waiting"][0]["call_id"]),
        (&json!("awaiting_approval"), &json!(call))
    );

    let decide = |more: Value| {
        let mut arguments = json!({ "session_id": session, "call_id": call });
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        arguments
    };
    let wrong = decide(json!({ "decision": "approve", "digest": "0".repeat(64) }));
    me.fails("decide_approval", wrong, "CONFLICT").await;
    let odd = decide(json!({ "decision": "perhaps" }));
    me.fails("decide_approval", odd, "INVALID_DECISION").await;
    let bare = decide(json!({ "decision": "edit" }));
    me.fails("decide_approval", bare, "MISSING_REQUIRED_FIELD")
        .await;
    let unknown = json!({ "session_id": session, "call_id": "other", "decision": "approve" });
    me.fails("decide_approval", unknown, "PENDING_APPROVAL_NOT_FOUND")
        .await;

    let no = json!({ "decision": "reject", "feedback": "not now", "digest": pending["digest"] });
    let decided = me.data("decide_approval", decide(no.clone())).await;
    assert_eq!(decided["session_id"], *session);
    until_said(&me, session, "Then not.").await;
    me.fails("decide_approval", decide(no), "CONFLICT").await;
    let audit = me
        .person
        .get(&format!("/my/chat/{}/audit/", session.as_str().unwrap()))
        .await;
    let row = audit.expect(200)["audit"][0].clone();
    assert_eq!(
        (&row["decision"], &row["decided_by"]),
        (&json!("REJECT"), &json!("1"))
    );
}

#[tokio::test]
async fn an_approved_call_waits_for_a_tool_runner() {
    let server = server().await;
    let me = Mcp::new(&server, 1, OLD);
    server.model.reply(write_file());
    let asked = me
        .data("ask_agent", json!({ "agent": "coder", "message": "write" }))
        .await;
    let decision = json!({
        "session_id": asked["session_id"], "call_id": asked["pending"]["call_id"],
        "decision": "edit", "modified_args": { "path": "b.txt", "content": "y" },
    });
    let decided = me.data("decide_approval", decision).await;
    assert_eq!(decided["status"], "awaiting_tool_result");

    server
        .model
        .reply(Reply::tool_call("read_file", json!({ "path": "a.txt" })));
    let result = me
        .call("ask_agent", json!({ "agent": "coder", "message": "read" }))
        .await;
    let asked = &result["structuredContent"];
    assert_eq!(asked["status"], "awaiting_tool_result");
    assert!(
        asked["next"].as_str().unwrap().contains("None is attached"),
        "{asked:#}"
    );
}

#[tokio::test]
async fn a_question_is_answered_by_asking_again() {
    let server = server().await;
    let me = Mcp::new(&server, 1, OLD);
    let ask = json!({ "question": "Which colour?", "options": ["red", "blue"] });
    server
        .model
        .reply(Reply::tool_call("ask_followup_question", ask));
    let result = me
        .call("ask_agent", json!({ "agent": "coder", "message": "paint" }))
        .await;
    let asked = &result["structuredContent"];
    assert_eq!(asked["status"], "awaiting_answer");
    assert_eq!(asked["pending"]["question"], "Which colour?");
    let said = result["content"].to_string();
    assert!(
        said.contains("Which colour?") && said.contains("red; blue"),
        "{said}"
    );
    server.model.reply(Reply::text("It is blue now."));
    let session = &asked["session_id"];
    let answer = json!({ "agent": "coder", "message": "blue", "session_id": session });
    let answer = me.data("ask_agent", answer).await;
    assert_eq!(
        (&answer["status"], &answer["session_id"]),
        (&json!("completed"), session)
    );
    assert_eq!(answer["response"], "It is blue now.");
    // The same turn went on: the model saw the answer as the result of its question.
    let last = server.model.requests().pop().unwrap();
    let messages = last.body["messages"].as_array().unwrap().clone();
    let told = messages.iter().any(|message| {
        message["role"] == "tool" && message["content"].to_string().contains("blue")
    });
    assert!(told, "{messages:#?}");
}

#[tokio::test]
async fn a_plan_is_started_and_not_waited_for() {
    let server = server().await;
    let me = Mcp::new(&server, 1, NEW);
    let plan = json!({ "tasks": [{
        "id": "t1", "agent": "coder", "description": "Do it.", "depends_on": [],
        "estimated_tokens": 100,
    }] });
    let is_planning = |body: &Value| body["response_format"]["json_schema"]["name"] == "plan";
    server.model.on(is_planning, Reply::text(plan.to_string()));
    server.model.default_reply(Reply::text("All done."));
    let started = me
        .data("start_plan", json!({ "message": "Do everything" }))
        .await;
    assert_eq!(
        (&started["status"], &started["mode"]),
        (&json!("accepted"), &json!("orchestrated"))
    );
    assert!(started["workflow_id"].is_string() && started["message_id"].is_string());
    until_said(&me, &started["session_id"], "All done.").await;
}

#[tokio::test]
async fn what_cannot_be_done_is_a_result_that_says_so() {
    let server = server().await;
    let me = Mcp::new(&server, 1, OLD);
    let hello = json!({ "agent": "nobody", "message": "hello" });
    me.fails("ask_agent", hello, "AGENT_NOT_FOUND").await;
    for (tool, arguments, code) in [
        (
            "ask_agent",
            json!({ "agent": "coder" }),
            "MISSING_REQUIRED_FIELD",
        ),
        (
            "ask_agent",
            json!({ "agent": " ", "message": "x" }),
            "MISSING_REQUIRED_FIELD",
        ),
        (
            "ask_agent",
            json!({ "agent": "coder", "message": " " }),
            "MISSING_REQUIRED_FIELD",
        ),
        (
            "ask_agent",
            json!({ "agent": "coder", "message": 5 }),
            "VALIDATION_ERROR",
        ),
        ("start_plan", json!({}), "MISSING_REQUIRED_FIELD"),
        (
            "start_plan",
            json!({ "message": "" }),
            "MISSING_REQUIRED_FIELD",
        ),
        ("list_approvals", json!({ "limit": 5 }), "VALIDATION_ERROR"),
        (
            "list_agents",
            json!({ "project_id": "one" }),
            "VALIDATION_ERROR",
        ),
        ("get_session", json!({}), "MISSING_REQUIRED_FIELD"),
        (
            "decide_approval",
            json!({ "session_id": "a", "call_id": "b" }),
            "MISSING_REQUIRED_FIELD",
        ),
    ] {
        me.fails(tool, arguments, code).await;
    }
    // A session that was made for a message that was refused is not left behind.
    let sessions = me.person.get("/my/chat/sessions/").await.expect(200);
    assert_eq!(sessions["total"], 0);
    let other = me.person.project("other").await;
    server.model.reply(Reply::text("Hello."));
    let asked = me
        .data("ask_agent", json!({ "agent": "coder", "message": "hello" }))
        .await;
    let elsewhere = json!({
        "agent": "coder", "message": "hello", "session_id": asked["session_id"],
        "project_id": other,
    });
    me.fails("ask_agent", elsewhere, "VALIDATION_ERROR").await;
}

#[tokio::test]
async fn a_turn_that_fails_is_an_error_with_the_words_of_the_model_server() {
    let server = server().await;
    let me = Mcp::new(&server, 1, NEW);
    let body = json!({ "error": { "message": "the tea is cold" } }).to_string();
    server.model.default_reply(Reply::status(400, body));
    let result = me
        .call("ask_agent", json!({ "agent": "coder", "message": "hello" }))
        .await;
    assert_eq!(result["isError"], true, "{result:#}");
    let failed = &result["structuredContent"];
    assert_eq!(
        (&failed["status"], &failed["error_code"]),
        (&json!("failed"), &json!("LLM_ERROR"))
    );
    assert!(
        failed["error"]
            .as_str()
            .unwrap()
            .contains("the tea is cold"),
        "{failed:#}"
    );
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("LLM_ERROR")
    );
}
