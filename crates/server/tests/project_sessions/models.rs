//! What happens to model calls: reasoning, fallbacks, waits, why a call failed, cut answers.

use codelab_testkit::{Fault, ModelWire, Reply};
use serde_json::{Value, json};

use crate::kit::{Person, Seen, Session, server, server_of_anthropic, server_with};

/// A streamed answer of these deltas.
fn streamed(deltas: &[Value], finish: &str) -> Reply {
    let chunk = |delta: &Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "choices": [choice] }))
    };
    let mut pieces: Vec<String> = deltas
        .iter()
        .map(|delta| chunk(delta, Value::Null))
        .collect();
    pieces.push(chunk(&json!({}), json!(finish)));
    pieces.push("data: [DONE]\n\n".to_owned());
    Reply::raw(pieces)
}

/// The client runs the call that was shown, and the turn ends.
async fn file_is_read(session: &Session, seen: &Seen) {
    let call = seen.one("tool_call")["tool_call"]["call_id"]
        .as_str()
        .unwrap();
    session.claim(call, "laptop").await.expect(200);
    let result = json!({ "success": true, "content": "hello" });
    session.result(call, "laptop", result).await.expect(200);
    session.wait_for("task_completed", |_| true).await;
}

#[tokio::test]
async fn reasoning_is_streamed_kept_and_sent_back() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let call = json!({ "index": 0, "id": "c", "type": "function",
        "function": { "name": "read_file", "arguments": "{\"path\": \"a.md\"}" } });
    server.model.reply(streamed(
        &[
            json!({ "reasoning_content": "I should " }),
            json!({ "reasoning_content": "read it." }),
            json!({ "tool_calls": [call] }),
        ],
        "tool_calls",
    ));
    let seen = session.stream_call("coder", "what is in a.md?").await;
    let seen = seen.all().await;
    let thought: String = seen
        .all("reasoning_delta")
        .iter()
        .map(|delta| delta["content"].as_str().unwrap())
        .collect();
    // What came before the reader did is not shown again.
    let is_end = "I should read it.".ends_with(&thought) && !thought.is_empty();
    assert!(is_end, "{thought:?}");
    file_is_read(&session, &seen).await;
    let asked = server.model.requests().pop().unwrap().body;
    let said = asked["messages"].as_array().unwrap();
    let assistant = said
        .iter()
        .find(|message| message["role"] == "assistant")
        .unwrap();
    assert_eq!(assistant["reasoning_content"], "I should read it.");
    let stored = &session.messages("?role=assistant").await[0];
    assert_eq!(stored["content"], "", "reasoning is no part of the answer");
    assert_eq!(
        stored["reasoning"],
        json!({ "text": "I should read it.", "provider": "default" })
    );
    let log = session.log().await;
    assert!(!log.kinds().contains(&"reasoning_delta"), "it is ephemeral");
    let created = log.all("message_created");
    assert_eq!(created[1]["reasoning"]["text"], "I should read it.");
    // The next turn does without it.
    session.call("coder", "thanks").await.expect(200);
    let asked = server.model.requests().pop().unwrap().body;
    assert!(
        !asked.to_string().contains("I should read it."),
        "{asked:#}"
    );
}

#[tokio::test]
async fn another_model_answers_and_the_session_says_so() {
    let spare = [("CODELAB_LLM__FALLBACK_MODELS", "[\"spare\"]")];
    let server = server_with(&spare).await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(
        |body| body["model"] == "gpt-4",
        Reply::status(503, "{\"error\": {\"message\": \"down\"}}"),
    );
    let answer = session.call("coder", "hi").await.expect(200);
    assert_eq!(answer["usage"]["model"], "spare");
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains("gpt-4") && warning.contains("spare"));
    let log = session.log().await;
    let fallback = log.one("model_fallback");
    assert_eq!(
        (&fallback["from"], &fallback["to"], &fallback["agent"]),
        (&json!("gpt-4"), &json!("spare"), &json!("agent_coder"))
    );
    assert!(
        ["overloaded", "server_error"].contains(&fallback["kind"].as_str().unwrap()),
        "{fallback:#}"
    );
}

#[tokio::test]
async fn an_announced_wait_is_an_event() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::status_with_headers(
        429,
        &[("retry-after", "1")],
        "{\"error\": {\"message\": \"slow down\"}}",
    ));
    session.call("coder", "hi").await.expect(200);
    let log = session.log().await;
    let waiting = log.one("model_waiting");
    assert_eq!(waiting["kind"], "rate_limit");
    assert!(waiting["until"].is_string(), "{waiting:#}");
}

/// The key is the operator's; the agent works again as soon as it is right.
#[tokio::test]
async fn a_wrong_key_is_told_and_does_not_count_against_the_agent() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    for _ in 0..6 {
        server.model.reply(Reply::status(
            401,
            "{\"error\": {\"message\": \"Incorrect API key provided\", \"code\": \"invalid_api_key\"}}",
        ));
        let failed = session.call("coder", "go").await.expect(502);
        let details = &failed["details"];
        assert_eq!(
            (&details["kind"], &details["model"], &details["status"]),
            (&json!("wrong_key"), &json!("gpt-4"), &json!(401)),
            "{failed:#}"
        );
        let said = details["provider_message"].as_str().unwrap();
        assert!(said.contains("Incorrect API key"), "{said}");
    }
    session.call("coder", "go").await.expect(200);
}

#[tokio::test]
async fn a_cut_answer_says_so() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .reply(Reply::text("half of").with_finish_reason("length"));
    let answer = session.call("coder", "hi").await.expect(200);
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains("cut short"), "{warning}");
    let said = session.messages("?role=assistant").await;
    assert_eq!(said[0]["is_cut"], true);
    // A tool call that was cut is told to the model, with the limit.
    server.model.reply(
        Reply::tool_call_raw("write_file", "{\"path\": \"a.md\", \"content\": \"half")
            .with_finish_reason("length"),
    );
    session.call("coder", "write").await.expect(200);
    let asked = server.model.requests().pop().unwrap();
    let told = asked.message(-1).as_str().unwrap();
    assert!(
        told.contains("cut at the limit of 4096 tokens") && told.contains("did not run"),
        "{told}"
    );
}

#[tokio::test]
async fn a_model_is_tried_with_one_short_call() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let tried = async |model: &str| {
        let body = json!({ "model": model });
        me.post("/my/models/test/", body).await.expect(200)
    };
    let failed_as = |tried: &Value, kind: &str| {
        assert_eq!(tried["ok"], false, "{tried:#}");
        assert_eq!(tried["details"]["kind"], kind, "{tried:#}");
    };
    assert_eq!(tried("gpt-4o").await, json!({ "ok": true }));
    let asked = server.model.requests().pop().unwrap().body;
    assert_eq!(
        (&asked["model"], &asked["max_tokens"]),
        (&json!("gpt-4o"), &json!(16))
    );
    server.model.reply(Reply::fault(Fault::WrongKey));
    let failed = tried("gpt-4o").await;
    failed_as(&failed, "wrong_key");
    assert!(
        failed["detail"].as_str().unwrap().contains("key"),
        "{failed:#}"
    );
    // No other model is asked instead, and none is skipped because it failed before.
    for _ in 0..2 {
        server.model.reply(Reply::unknown_model("nobody"));
        let unknown = tried("nobody").await;
        failed_as(&unknown, "unknown_model");
    }
    assert_eq!(
        tried("nobody").await,
        json!({ "ok": true }),
        "it is there now"
    );
    let calls = server.model.requests().len();
    server.model.reply(Reply::fault(Fault::Overloaded));
    tried("gpt-4o").await;
    assert_eq!(server.model.requests().len(), calls + 1, "one attempt");
    for wrong in [json!({}), json!({ "model": "a b" })] {
        let refused = me.post("/my/models/test/", wrong).await;
        assert_eq!(refused.status, 422, "{:#}", refused.body);
    }
    for _ in 0..4 {
        tried("gpt-4o").await;
    }
    let body = json!({ "model": "gpt-4o" });
    let refused = me.post("/my/models/test/", body).await;
    refused.refused(429, "RATE_LIMITED");
}

#[tokio::test]
async fn the_models_to_choose_from_are_listed() {
    let server = server().await;
    server.model.offer(&["gpt-4o", "local"]);
    let me = Person::new(&server, 1);
    let list = me.get("/my/models/").await.expect(200);
    let names: Vec<&Value> = list["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|offered| &offered["model"])
        .collect();
    assert_eq!(names, ["gpt-4o", "local"], "{list:#}");
    let known = &list["models"][0];
    assert_eq!(
        (&known["provider"], &known["window"], &known["images"]),
        (&json!("default"), &json!(128_000), &json!(true))
    );
    assert!(known["price"].is_object() && list["models"][1].get("price").is_none());
}

/// With ten earlier messages only a part of a long turn is sent along.
#[tokio::test]
async fn an_answer_warns_when_the_turn_before_was_not_sent_whole() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    for number in 0..6 {
        server.model.reply(Reply::tool_call(
            "switch_mode",
            json!({ "agent": "nobody", "reason": format!("{number}") }),
        ));
    }
    let first = session.call("coder", "try").await.expect(200);
    assert_eq!(first.get("warnings"), None, "{first:#}");
    let second = session.call("coder", "what did you do?").await.expect(200);
    let warning = second["warnings"][0].as_str().unwrap();
    assert!(warning.contains("context.messages"), "{warning}");
    let third = session.call("coder", "and now?").await.expect(200);
    assert_eq!(third.get("warnings"), None, "{third:#}");
}

#[tokio::test]
async fn a_session_can_have_a_model_of_its_own() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let path = format!("/my/chat/sessions/{}", session.id);
    for (choice, called) in [(json!("other"), "other"), (Value::Null, "gpt-4")] {
        let body = json!({ "model": choice });
        let changed = session.ask("PATCH", &path, Some(body)).await.expect(200);
        assert_eq!(changed.get("model").unwrap_or(&Value::Null), &choice);
        let shown = session.detail().await;
        assert_eq!(shown.get("model").unwrap_or(&Value::Null), &choice);
        session.call("coder", "hi").await.expect(200);
        let asked = server.model.requests().pop().unwrap();
        assert_eq!(asked.body["model"], called);
    }
    for wrong in [json!({}), json!({ "model": "" }), json!({ "model": "a b" })] {
        let refused = session.ask("PATCH", &path, Some(wrong)).await;
        assert_eq!(refused.status, 422, "{:#}", refused.body);
    }
}

/// Reasoning, text, a tool call and the answer, on Anthropic's wire.
#[tokio::test]
async fn a_provider_of_the_kind_anthropic_works_through_the_whole_server() {
    let (server, claude) = server_of_anthropic().await;
    let session = Person::new(&server, 1).session().await;
    claude.reply(
        Reply::tool_call("read_file", json!({ "path": "a.md" }))
            .with_text("I look.")
            .with_reasoning("It may be there.", 0),
    );
    claude.reply(Reply::text_with_usage("It says hello.", 20, 4));
    let seen = session.stream_call("coder", "what is in a.md?").await;
    let seen = seen.all().await;
    file_is_read(&session, &seen).await;
    let asked = claude.requests();
    assert_eq!((asked.len(), server.model.request_count()), (2, 0));
    for request in &asked {
        assert_eq!(request.wire, ModelWire::Anthropic);
        assert_eq!(request.header("x-api-key"), Some("sk-ant-0123456789"));
        assert_eq!(request.body["model"], "claude-sonnet-4-5");
    }
    let said = asked[1].body["messages"].as_array().unwrap();
    let answer = said.iter().find(|message| message["role"] == "assistant");
    let blocks = answer.unwrap()["content"].as_array().unwrap();
    assert_eq!(blocks[0]["type"], "thinking");
    assert_eq!(blocks[0]["thinking"], "It may be there.");
    assert!(blocks[0]["signature"].is_string(), "{blocks:#?}");
    assert_eq!(blocks[1]["text"], "I look.");
    let (name, input) = (&blocks[2]["name"], &blocks[2]["input"]);
    assert_eq!(
        (name, input),
        (&json!("read_file"), &json!({ "path": "a.md" }))
    );
    let result = &said.last().unwrap()["content"][0];
    assert_eq!(
        (&result["type"], &result["tool_use_id"]),
        (&json!("tool_result"), &blocks[2]["id"])
    );
    let stored = session.messages("?role=assistant").await;
    assert_eq!(stored[0]["content"], "I look.");
    assert_eq!(
        stored[0]["reasoning"],
        json!({ "text": "It may be there.", "provider": "claude" })
    );
    assert_eq!(stored[1]["content"], "It says hello.");
    assert_eq!(stored[1]["usage"]["model"], "claude/claude-sonnet-4-5");
}
