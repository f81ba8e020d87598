//! Results of tool calls: from the client, from the server's own tools, from a person, and from
//! nobody.

mod refused_calls;
mod server_tools;

use codelab_protocol::{AgentStreamRequest, CallId, CallerContext, TurnStatus, UserId};
use codelab_testkit::{
    Asked, Gate, Reply, SeenEvents, TestServer, hitl_decision, id, message, request, tool_result,
};
use serde_json::{Value, json};

/// A session whose coder waits for the content of `a.py`.
async fn reading(server: &TestServer, session: &str) -> CallId {
    server
        .model
        .reply(Reply::tool_call("read_file", json!({"path": "a.py"})));
    let seen = server.say_to(session, "coder", "read a.py").await;
    assert_eq!(seen.status(), TurnStatus::AwaitingToolResult);
    seen.call_id()
}

#[tokio::test]
async fn a_text_reaches_the_model_as_it_is_and_anything_else_as_json() {
    let server = TestServer::start().await;
    let results = [
        json!("def a(): …\n\"quoted\""),
        json!({"success": true, "content": "x = 1", "size": 5}),
        json!(["a", 1, null]),
        json!(42),
        json!(false),
        json!(""),
    ];
    for (number, result) in results.into_iter().enumerate() {
        let session = format!("forms-{number}");
        let call = reading(&server, &session).await;
        server.model.reply(Reply::text("Read."));
        let seen = server.result(&session, &call, result.clone()).await;
        assert_eq!(seen.story(), ["assistant_message coder", "completion"]);
        let last = server.steps().pop().unwrap();
        let told = last.wire_message(-1);
        assert_eq!(
            (&told["role"], &told["tool_call_id"]),
            (&json!("tool"), &json!(call))
        );
        let text = told["content"].as_str().unwrap();
        let read = if result.is_string() {
            json!(text)
        } else {
            serde_json::from_str(text).unwrap()
        };
        assert_eq!(read, result);
        let history = server.history(&session).await;
        let kept = history
            .iter()
            .find(|message| message.tool_call_id.as_ref() == Some(&call))
            .unwrap();
        assert_eq!(
            (kept.content.as_str(), kept.name.as_deref()),
            (text, Some("read_file"))
        );
    }
}

#[tokio::test]
async fn a_long_result_is_cut_for_the_model_and_the_cut_is_marked() {
    let server = TestServer::with(&[("CODELAB_CONTEXT__TOOL_RESULT_BYTES", "1000")]).await;
    let call = reading(&server, "long").await;
    server.model.reply(Reply::text("Read."));
    let whole = format!("start{}end", "ж".repeat(2_000));
    server.result("long", &call, json!(whole)).await;
    let told = server.steps()[1].message(-1).as_str().unwrap().to_owned();
    assert!(
        told.len() < 1_100 && told.starts_with("start") && told.ends_with("end"),
        "{} bytes",
        told.len()
    );
    assert!(told.contains("left out"), "{told}");
    let history = server.history("long").await;
    assert!(
        history.iter().any(|message| message.content == whole),
        "the history keeps all of it"
    );
}

#[tokio::test]
async fn an_identical_repeat_gets_the_same_stream_and_a_different_one_is_refused() {
    let server = TestServer::start().await;
    let call = reading(&server, "again").await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "a.py", "content": "y"}),
    ));
    let result = json!({"success": true, "content": "x", "size": 1});
    let first = server.result("again", &call, result.clone()).await;
    assert_eq!(first.story(), ["tool_call write_file?"]);
    let conflict = (409, "CONFLICT".to_owned());
    let other = tool_result(
        "again",
        &call,
        json!({"success": true, "content": "z", "size": 1}),
    );

    let same_in_other_order = json!({"size": 1, "content": "x", "success": true});
    for repeat in [result.clone(), same_in_other_order] {
        let again = server.result("again", &call, repeat).await;
        assert_eq!(
            (again.ids(), again.story(), again.status()),
            (first.ids(), first.story(), first.status())
        );
    }
    assert_eq!(
        server.refused(&other).await,
        conflict,
        "while the turn waits for something else"
    );

    let approved = server.approve("again", &first.call_id()).await;
    server.model.reply(Reply::text("Done."));
    server
        .result("again", &approved.call_id(), json!("ok"))
        .await;
    let again = server.result("again", &call, result).await;
    assert_eq!(
        (again.ids(), again.status()),
        (first.ids(), first.status()),
        "also after the turn"
    );
    assert_eq!(server.refused(&other).await, conflict, "after the turn");
    assert_eq!(
        server.model.request_count(),
        3,
        "a repeat asks the model nothing"
    );
    assert_eq!(
        server
            .history("again")
            .await
            .iter()
            .filter(|message| message.tool_call_id.is_some())
            .count(),
        2
    );
}

#[tokio::test]
async fn a_repeat_while_the_answer_is_written_sees_the_same_answer() {
    let server = TestServer::start().await;
    let call = reading(&server, "twice").await;
    let gate = Gate::new();
    server
        .model
        .reply(Reply::text("one two three").hold_after_deltas(2, &gate));
    let first = server.open(&tool_result("twice", &call, json!("x"))).await;
    gate.reached().await;
    let second = server.open(&tool_result("twice", &call, json!("x"))).await;
    gate.open();
    let (first, second) = (SeenEvents::all(first).await, SeenEvents::all(second).await);
    assert_eq!((first.story(), first.ids()), (second.story(), second.ids()));
    assert_eq!(first.answer().content, "one two three");
    assert_eq!(server.model.request_count(), 2);
}

#[tokio::test]
async fn a_result_that_cannot_be_taken_is_refused() {
    let server = TestServer::start().await;
    let call = reading(&server, "refused").await;
    let nobody = CallId::parse("call-nobody").unwrap();
    let without_result = AgentStreamRequest {
        tool_result: None,
        ..tool_result("refused", &call, Value::Null)
    };
    let without_call = AgentStreamRequest {
        message_type: Some(codelab_protocol::MessageType::ToolResult.into()),
        tool_result: Some(json!("x")),
        ..request("refused")
    };
    let cases = [
        (
            tool_result("refused", &nobody, json!("x")),
            404,
            "TOOL_CALL_NOT_FOUND",
        ),
        (
            tool_result("no-such-session", &call, json!("x")),
            404,
            "SESSION_NOT_FOUND",
        ),
        (without_result, 422, "MISSING_REQUIRED_FIELD"),
        (without_call, 422, "MISSING_REQUIRED_FIELD"),
    ];
    for (request, status, code) in cases {
        assert_eq!(
            server.refused(&request).await,
            (status, code.to_owned()),
            "{request:?}"
        );
    }
    let other = reading(&server, "other").await;
    let foreign = server
        .refused(&tool_result("refused", &other, json!("x")))
        .await;
    assert_eq!(
        foreign,
        (404, "TOOL_CALL_NOT_FOUND".to_owned()),
        "a call belongs to its session"
    );
    server.model.reply(Reply::text("Read."));
    assert_eq!(
        server.result("refused", &call, json!("x")).await.status(),
        TurnStatus::Completed
    );
}

#[tokio::test]
async fn a_call_that_was_not_approved_takes_no_result() {
    let server = TestServer::start().await;
    let conflict = (409, "CONFLICT".to_owned());
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "a.py", "content": "x"}),
    ));
    let asked = server.say_to("early", "coder", "write").await;
    let early = tool_result("early", &asked.call_id(), json!("done already"));
    assert_eq!(
        server.refused(&early).await,
        conflict,
        "before the approval"
    );
    assert_eq!(server.pending("early").await.len(), 1);
    server.model.reply(Reply::text("Then not."));
    let reject = codelab_protocol::HitlDecision {
        decision: Some(codelab_protocol::DecisionChoice::Reject.into()),
        ..Default::default()
    };
    server
        .send(&hitl_decision("early", &asked.call_id(), reject))
        .await;
    assert_eq!(
        server.refused(&early).await,
        conflict,
        "after the rejection"
    );
}

#[tokio::test]
async fn a_cancelled_call_takes_no_result_and_the_next_turn_tells_the_model() {
    let server = TestServer::start().await;
    let call = reading(&server, "cancelled").await;
    server.client.cancel(&id("cancelled"), false).await.unwrap();
    let late = server
        .refused(&tool_result("cancelled", &call, json!("x")))
        .await;
    assert_eq!(late, (409, "CONFLICT".to_owned()));
    server.model.reply(Reply::text("Yes?"));
    server.say("cancelled", "hello").await;
    let next = server.steps().pop().unwrap();
    assert_eq!(
        next.roles(),
        ["system", "user", "assistant", "tool", "user"],
        "every call has a result"
    );
}

#[tokio::test]
async fn a_result_that_never_comes_ends_the_call_and_the_turn_goes_on() {
    let server = TestServer::with(&[("CODELAB_LIMITS__TOOL_RESULT_TIMEOUT_SECONDS", "1")]).await;
    let call = reading(&server, "silent").await;
    server.model.reply(Reply::text("The client is gone."));
    let seen = SeenEvents::until_done(&mut server.follow("silent", 0).await).await;
    assert_eq!(seen.status(), TurnStatus::AwaitingToolResult);
    let seen =
        SeenEvents::until_done(&mut server.follow("silent", *seen.ids().last().unwrap()).await)
            .await;
    assert_eq!(
        seen.story(),
        [
            "error TASK_TIMEOUT",
            "assistant_message coder",
            "completion"
        ]
    );
    assert_eq!(seen.error().details["call_id"], json!(call));
    let told = server.steps()[1].wire_message(-1).clone();
    assert_eq!(
        (&told["role"], &told["tool_call_id"]),
        (&json!("tool"), &json!(call))
    );
    let late = server
        .refused(&tool_result("silent", &call, json!("x")))
        .await;
    assert_eq!(late, (409, "CONFLICT".to_owned()));
}

#[tokio::test]
async fn a_call_carries_the_user_it_is_made_for() {
    let server = TestServer::start().await;
    server
        .model
        .reply(Reply::tool_call("read_file", json!({"path": "a.py"})));
    let context = CallerContext {
        user_id: UserId::new(7),
        ..Default::default()
    };
    let from_seven = AgentStreamRequest {
        agent_type: Some("coder".to_owned()),
        context: Some(context),
        ..message("user", "read")
    };
    let seen = server.send(&from_seven).await;
    assert_eq!(
        serde_json::to_value(seen.tool_call()).unwrap()["user_id"],
        7
    );
}
