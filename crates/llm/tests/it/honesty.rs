//! What a server does not say of itself, and what models think.

use codelab_fakemodel::{FakeModel, Reply};
use codelab_protocol::{AnswerCut, CallId, ModelMessage, ModelRequest, ModelToolCall, Reasoning};
use serde_json::{Value, json};

use crate::harness::{call, config, request};

#[tokio::test]
async fn a_prompt_that_the_server_cut_is_said() {
    let long = ModelRequest {
        messages: vec![ModelMessage::User {
            content: "word ".repeat(10_000),
            files: Vec::new(),
        }],
        ..request()
    };
    for (read, is_said) in [(4096, true), (12_000, false), (0, false)] {
        let server = FakeModel::start().await;
        server.reply(Reply::text_with_usage("ok", read, 1));
        let output = call(config(&server), &long).await.result.unwrap();
        let said = output.warnings.iter().any(|said| said.contains("num_ctx"));
        assert_eq!(said, is_said, "{read}: {output:?}");
    }
}

#[tokio::test]
async fn a_tool_call_that_came_as_text_becomes_one() {
    let server = FakeModel::start().await;
    let text = r#"<tool_call>{"name": "read_file", "arguments": {"path": "a.md"}}</tool_call>"#;
    server.reply(Reply::text(text));
    let output = call(config(&server), &request()).await.result.unwrap();
    assert_eq!((output.text.as_str(), output.tool_calls.len()), ("", 1));
    assert_eq!(output.tool_calls[0].name, "read_file");
    assert!(output.warnings[0].contains("as text"), "{output:?}");
    // Without tools there is nothing that could be called.
    server.reply(Reply::text(text));
    let plain = ModelRequest {
        tools: Vec::new(),
        ..request()
    };
    let output = call(config(&server), &plain).await.result.unwrap();
    assert_eq!((output.text.as_str(), output.tool_calls.len()), (text, 0));
}

#[tokio::test]
async fn a_cut_tool_call_is_marked_and_a_refusal_is_the_answer() {
    let server = FakeModel::start().await;
    let cut = Reply::tool_call_raw("read_file", r#"{"path": "a"#).with_finish_reason("length");
    server.reply(cut);
    let output = call(config(&server), &request()).await.result.unwrap();
    let limit = AnswerCut {
        max_tokens: Some(200),
    };
    assert_eq!(output.cut, Some(limit));
    assert!(output.warnings[0].contains("200 tokens"), "{output:?}");
    server.reply(Reply::refusal("I will not."));
    let output = call(config(&server), &request()).await.result.unwrap();
    assert_eq!(output.text, "I will not.");
}

#[tokio::test]
async fn usage_names_what_was_cached_and_thought() {
    let server = FakeModel::start().await;
    let reply = Reply::text_with_usage("a", 1_000_000, 1_000_000);
    server.reply(reply.with_cached(600_000, 0).with_reasoning("hm", 400_000));
    let asked = ModelRequest {
        model: "gpt-4o".to_owned(),
        ..request()
    };
    let usage = call(config(&server), &asked)
        .await
        .result
        .unwrap()
        .usage
        .unwrap();
    assert_eq!(
        (usage.cached_tokens, usage.reasoning_tokens),
        (600_000, 400_000)
    );
    assert_eq!(usage.cost_usd, Some(1.0 + 0.75 + 10.0));
}

/// What the second request carries of the first answer's reasoning.
async fn sent_back(field: &str, provider: &str) -> Option<Value> {
    let server = FakeModel::start().await;
    let thought = |text: &str| json!({"choices": [{"index": 0, "delta": {field: text}}]});
    let piece =
        json!({"index": 0, "id": "c", "function": {"name": "read_file", "arguments": "{}"}});
    let called = json!({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}, "finish_reason": "tool_calls"}]});
    let events = [thought("I think "), thought("twice."), called];
    let mut body: Vec<String> = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    body.push("data: [DONE]\n\n".to_owned());
    server.reply(Reply::raw(body));
    server.reply(Reply::text("done"));
    let outcome = call(config(&server), &request()).await;
    assert_eq!(
        (outcome.reasoning.as_str(), outcome.shown.as_str()),
        ("I think twice.", "")
    );
    let reasoning = outcome
        .result
        .expect("an answer")
        .reasoning
        .expect("thoughts");
    assert_eq!(reasoning.text, "I think twice.");
    let call_id = CallId::parse("c").expect("an id");
    let mut next = request();
    next.messages.push(ModelMessage::Assistant {
        content: String::new(),
        tool_calls: vec![ModelToolCall {
            call_id: call_id.clone(),
            name: "read_file".to_owned(),
            arguments: Default::default(),
        }],
        reasoning: Some(Box::new(Reasoning {
            provider: provider.to_owned(),
            ..*reasoning
        })),
    });
    next.messages.push(ModelMessage::Tool {
        call_id,
        content: "text".to_owned(),
        files: Vec::new(),
    });
    let second = call(config(&server), &next).await.result;
    second.expect("an answer");
    server.requests()[1].body["messages"][2].get(field).cloned()
}

#[tokio::test]
async fn reasoning_goes_back_to_its_provider_in_the_field_it_came_in() {
    for field in ["reasoning_content", "reasoning"] {
        assert_eq!(
            sent_back(field, "default").await,
            Some(json!("I think twice."))
        );
        assert_eq!(sent_back(field, "another").await, None);
    }
}
