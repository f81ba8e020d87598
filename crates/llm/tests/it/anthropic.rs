//! What a server that speaks Anthropic's Messages is asked.

use codelab_fakemodel::{FakeModel, Reply};
use codelab_llm::{DEFAULT_PROVIDER, Thinking};
use codelab_protocol::{
    CallId, ModelMessage, ModelRequest, ModelToolCall, OutputSchema, Reasoning,
};
use serde_json::{Value, json};

use crate::harness::{Outcome, anthropic, call, request};

async fn ask(request: &ModelRequest) -> Value {
    let server = FakeModel::start().await;
    server.reply(Reply::text("ok"));
    call(anthropic(&server), request).await.result.unwrap();
    server.requests().remove(0).body
}

fn system(content: &str) -> ModelMessage {
    ModelMessage::System {
        content: content.to_owned(),
    }
}

fn user(content: &str) -> ModelMessage {
    ModelMessage::User {
        content: content.to_owned(),
        files: Vec::new(),
    }
}

fn assistant(content: &str, calls: &[&str]) -> ModelMessage {
    let tool_calls = calls.iter().map(|id| ModelToolCall {
        call_id: CallId::parse(id).unwrap(),
        name: "read_file".to_owned(),
        arguments: json!({"path": id}).as_object().unwrap().clone(),
    });
    ModelMessage::Assistant {
        content: content.to_owned(),
        tool_calls: tool_calls.collect(),
        reasoning: None,
    }
}

fn result(id: &str, content: &str) -> ModelMessage {
    ModelMessage::Tool {
        call_id: CallId::parse(id).unwrap(),
        content: content.to_owned(),
        files: Vec::new(),
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn marked(mut block: Value) -> Value {
    block["cache_control"] = json!({"type": "ephemeral"});
    block
}

#[tokio::test]
async fn a_request_has_the_form_of_messages_with_marks_for_the_cache() {
    let mut request = request();
    request.messages = vec![
        system("You are the coder."),
        user("Привет"),
        assistant("", &["c1", "t:2.x"]),
        result("c1", "one"),
        result("t:2.x", ""),
        user("and?"),
        system("It is noon."),
    ];
    let tool = request.tools[0].clone();
    let call = |id: &str, path: &str| json!({"type": "tool_use", "id": id, "name": "read_file", "input": {"path": path}});
    let back = |id: &str, content: &str| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    assert_eq!(
        ask(&request).await,
        json!({
            "model": "gpt-4",
            "max_tokens": 200,
            "stream": true,
            "temperature": 0.3,
            "tools": [marked(json!({"name": "read_file", "description": tool.description,
                "input_schema": tool.parameters}))],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
            "system": [marked(text("You are the coder."))],
            "messages": [
                {"role": "user", "content": [text("Привет")]},
                {"role": "assistant", "content": [call("c1", "c1"), call("t_2_x", "t:2.x")]},
                {"role": "user", "content": [back("c1", "one"), back("t_2_x", ""), marked(text("and?")),
                    text("<system>\nIt is noon.\n</system>")]},
            ],
        })
    );
}

/// The history is marked too, because the facts after it are other ones in the next turn.
#[tokio::test]
async fn the_history_before_facts_that_change_is_marked() {
    let mut request = request();
    request.messages = vec![
        system("You are the coder."),
        user("hi"),
        assistant("hello", &[]),
        system("It is noon."),
        user("go on"),
        assistant("", &["c1"]),
        result("c1", "one"),
    ];
    let body = ask(&request).await;
    let hello = marked(text("hello"));
    assert_eq!(body["messages"][1]["content"], json!([hello]));
    let facts = text("<system>\nIt is noon.\n</system>");
    assert_eq!(
        body["messages"][2]["content"],
        json!([facts, text("go on")])
    );
    let last = json!({"type": "tool_result", "tool_use_id": "c1", "content": "one"});
    assert_eq!(body["messages"][4]["content"], json!([marked(last)]));
    assert_eq!(body.to_string().matches("cache_control").count(), 4);
}

/// What a later request begins with is byte for byte what the earlier one was, up to its mark.
#[tokio::test]
async fn the_next_step_repeats_what_was_marked() {
    let mut first = request();
    first.messages.push(assistant("", &["c1"]));
    first.messages.push(result("c1", "one"));
    let mut second = first.clone();
    second.messages.push(assistant("", &["c2"]));
    second.messages.push(result("c2", "two"));
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let prefix = |body: Value| {
        let body = body.to_string();
        let end = body.rfind(mark).expect("a mark");
        (body[..end].replace(mark, ""), body.matches(mark).count())
    };
    let ((first, marks), (second, _)) = (prefix(ask(&first).await), prefix(ask(&second).await));
    assert!(second.starts_with(&first), "{first}\n{second}");
    assert!(marks <= 4, "a server allows four marks");
}

#[tokio::test]
async fn conversations_that_servers_refuse_are_not_sent() {
    let mut request = request();
    request.tools = Vec::new();
    request.temperature = None;
    request.max_tokens = None;
    let cont = || json!({"role": "user", "content": [text("Continue.")]});
    let said = |role: &str, blocks: &[Value]| json!({"role": role, "content": blocks});
    for (name, messages, wanted) in [
        (
            "begins and ends with the assistant",
            vec![assistant("hello", &[])],
            vec![cont(), said("assistant", &[marked(text("hello"))]), cont()],
        ),
        (
            "blank texts",
            vec![user("hi"), assistant(" \n", &[]), user("  "), user("there")],
            vec![said("user", &[text("hi"), marked(text("there"))])],
        ),
        (
            "calls without tools",
            vec![user("hi"), assistant("", &["c1"]), result("c1", "one")],
            vec![
                said("user", &[text("hi")]),
                said(
                    "assistant",
                    &[text("Call of the tool read_file: {\"path\":\"c1\"}")],
                ),
                said("user", &[marked(text("Result of the tool:\none"))]),
            ],
        ),
        ("nothing", vec![], vec![cont()]),
    ] {
        request.messages = [vec![system("s")], messages].concat();
        let body = ask(&request).await;
        assert_eq!(body["messages"], Value::Array(wanted), "{name}");
        let names: Vec<&String> = body.as_object().unwrap().keys().collect();
        assert_eq!(
            names,
            ["model", "max_tokens", "stream", "system", "messages"],
            "{name}"
        );
    }
}

/// A call that the server refuses once with this complaint; the two requests.
async fn refused_once(complaint: &str, request: &ModelRequest) -> (Outcome, Value, Value) {
    let server = FakeModel::start().await;
    let error =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": complaint}});
    server.reply(Reply::status(400, error.to_string()));
    server.reply(Reply::text("ok"));
    let outcome = call(anthropic(&server), request).await;
    let mut sent = server.requests();
    assert_eq!(sent.len(), 2, "{complaint}: {:?}", outcome.result);
    let last = sent.remove(1).body;
    (outcome, sent.remove(0).body, last)
}

#[tokio::test]
async fn what_a_model_refuses_is_given_up() {
    let mut request = request();
    request.max_tokens = None;
    let complaint =
        "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for m";
    let (_, first, second) = refused_once(complaint, &request).await;
    assert_eq!(
        (&first["max_tokens"], &second["max_tokens"]),
        (&json!(32000), &json!(8192))
    );

    let complaint = "`temperature` is deprecated for this model.";
    let (_, first, second) = refused_once(complaint, &request).await;
    assert_eq!(first["temperature"], 0.3);
    assert_eq!(second.get("temperature"), None);

    request.schema = Some(OutputSchema {
        name: "plan",
        schema: json!({"type": "object"}),
    });
    let complaint = "output_config.format: Extra inputs are not permitted";
    let (_, first, second) = refused_once(complaint, &request).await;
    let wanted = json!({"format": {"type": "json_schema", "schema": {"type": "object"}}});
    assert_eq!(first["output_config"], wanted);
    assert_eq!(second.get("output_config"), None);

    request.schema = None;
    request.messages.push(ModelMessage::Assistant {
        content: "so".to_owned(),
        tool_calls: Vec::new(),
        reasoning: Some(Box::new(Reasoning {
            text: "hm".to_owned(),
            provider: DEFAULT_PROVIDER.to_owned(),
            model: None,
            opaque: json!({"model": "gpt-4", "blocks": [
                {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "bytes": 2}]}),
        })),
    });
    let complaint = "messages.1.content.0: Invalid `signature` in `thinking` block";
    let (_, first, second) = refused_once(complaint, &request).await;
    assert_eq!(first["messages"][1]["content"][0]["type"], "thinking");
    assert_eq!(second["messages"][1]["content"][0]["type"], "text");
}

#[tokio::test]
async fn a_model_is_asked_to_think_where_a_setting_says_so() {
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    let budget = json!({"type": "enabled", "budget_tokens": 8000});
    for (thinking, wanted, max_tokens) in [
        (Thinking::Adaptive, adaptive, 200),
        (Thinking::Tokens(8000), budget, 8200),
    ] {
        let server = FakeModel::start().await;
        let mut config = anthropic(&server);
        let provider = config.providers.get_mut(DEFAULT_PROVIDER).unwrap();
        provider.thinking = Some(thinking);
        let error = json!({"type": "error", "error": {"type": "invalid_request_error",
            "message": "\"thinking.type\" is not supported for this model."}});
        server.reply(Reply::status(400, error.to_string()));
        server.reply(Reply::text("ok"));
        call(config, &request()).await.result.unwrap();
        let sent = server.requests();
        assert_eq!(sent[0].body["thinking"], wanted);
        assert_eq!(sent[0].body["max_tokens"], max_tokens);
        assert_eq!(sent[0].body.get("temperature"), None);
        assert_eq!(sent[1].body.get("thinking"), None);
        assert_eq!(sent[1].body["temperature"], 0.3);
    }
}

/// Newer models refuse the thoughts of other models.
#[tokio::test]
async fn thoughts_do_not_go_to_another_model() {
    let mut request = request();
    let opaque = json!({"model": "other", "blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]});
    request.messages.push(ModelMessage::Assistant {
        content: "so".to_owned(),
        tool_calls: Vec::new(),
        reasoning: Some(Box::new(Reasoning {
            text: "hm".to_owned(),
            provider: DEFAULT_PROVIDER.to_owned(),
            model: None,
            opaque,
        })),
    });
    let body = ask(&request).await;
    assert_eq!(body["messages"][1]["content"], json!([marked(text("so"))]));
}
