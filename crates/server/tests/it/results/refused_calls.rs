//! Calls the model may not make: shown as an error, told to the model, and the turn goes on.

use codelab_protocol::TurnStatus;
use codelab_testkit::{Asked, Reply, TestServer};
use serde_json::json;

#[tokio::test]
async fn a_refused_call_is_shown_told_to_the_model_and_survived() {
    let server = TestServer::start().await;
    let write = |path: &str| Reply::tool_call("write_file", json!({"path": path, "content": "x"}));
    let question = Reply::tool_call("ask_followup_question", json!({"question": "Why?"}));
    let cases = [
        (
            "coder",
            Reply::tool_call("fly", json!({})),
            "TOOL_VALIDATION_ERROR",
        ),
        ("debug", write("a.py"), "TOOL_VALIDATION_ERROR"),
        ("ask", question, "TOOL_VALIDATION_ERROR"),
        (
            "architect",
            Reply::tool_call("execute_command", json!({"command": "ls"})),
            "TOOL_VALIDATION_ERROR",
        ),
        ("architect", write("src/main.py"), "FILE_RESTRICTION_ERROR"),
        ("architect", write("notes.md.py"), "FILE_RESTRICTION_ERROR"),
        (
            "coder",
            Reply::tool_call("read_file", json!({"file": "a.py"})),
            "INVALID_TOOL_ARGUMENTS",
        ),
        (
            "coder",
            Reply::tool_call("write_file", json!({"path": "a.py"})),
            "INVALID_TOOL_ARGUMENTS",
        ),
        (
            "coder",
            Reply::tool_call_raw("read_file", "{\"path\": "),
            "INVALID_TOOL_ARGUMENTS",
        ),
        (
            "coder",
            Reply::tool_call_raw("read_file", "[\"a.py\"]"),
            "INVALID_TOOL_ARGUMENTS",
        ),
    ];
    for (number, (agent, reply, code)) in cases.into_iter().enumerate() {
        let session = format!("call-{number}");
        server.model.reply(reply);
        server.model.reply(Reply::text("I see."));
        let seen = server.say_to(&session, agent, "go").await;
        let (switch, error, answer) = (
            format!("switch_agent {agent}"),
            format!("error {code}"),
            format!("assistant_message {agent}"),
        );
        assert_eq!(
            seen.story(),
            [&switch, &error, &answer, "completion"],
            "{number}"
        );
        assert_eq!(seen.status(), TurnStatus::Completed);
        let shown = seen
            .events
            .iter()
            .find(|event| event.event == "error")
            .unwrap();
        assert!(shown.id.is_some(), "an error is an event of the log");
        let step = server.steps().pop().unwrap();
        assert_eq!(
            step.roles(),
            ["system", "user", "assistant", "tool"],
            "{number}"
        );
        let told = step.wire_message(-1);
        assert_eq!(
            told["tool_call_id"],
            step.wire_message(-2)["tool_calls"][0]["id"]
        );
        assert!(told["content"].as_str().unwrap().contains(code), "{told}");
        assert!(
            server.pending(&session).await.is_empty(),
            "nobody is asked about a call that cannot be made"
        );
    }
}

#[tokio::test]
async fn a_file_restriction_says_what_would_be_allowed() {
    let server = TestServer::start().await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "src/main.py", "content": "x"}),
    ));
    server.model.reply(Reply::text("Only documents, then."));
    let seen = server.say_to("details", "architect", "go").await;
    let details = &seen.error().details;
    assert_eq!(details["agent"], "architect");
    assert_eq!(details["tool"], "write_file");
    assert_eq!(details["file_path"], "src/main.py");
    assert_eq!(details["allowed_patterns"], json!(["\\.md$"]));
}

#[tokio::test]
async fn the_same_call_again_and_again_ends_the_turn() {
    let server = TestServer::start().await;
    server
        .model
        .default_reply(Reply::tool_call("echo", json!({"text": "again"})));
    let seen = server.say_to("stuck", "coder", "go").await;
    let echo = "tool_result echo";
    assert_eq!(
        seen.story(),
        ["switch_agent coder", echo, echo, echo, "error STEP_LIMIT"]
    );
    assert_eq!(seen.status(), TurnStatus::Failed);
}

#[tokio::test]
async fn a_turn_has_a_limited_number_of_steps() {
    let server = TestServer::with(&[("CODELAB_LIMITS__STEPS", "3")]).await;
    for number in 0..3 {
        server.model.reply(Reply::tool_call(
            "echo",
            json!({"text": number.to_string()}),
        ));
    }
    let seen = server.say_to("steps", "coder", "go").await;
    assert_eq!(
        seen.story().last().map(String::as_str),
        Some("error STEP_LIMIT")
    );
    assert_eq!(
        (seen.status(), server.model.request_count()),
        (TurnStatus::Failed, 3)
    );
    server.model.reply(Reply::text("Fresh."));
    assert_eq!(
        server.say("steps", "go on").await.status(),
        TurnStatus::Completed,
        "the next turn starts anew"
    );
}
