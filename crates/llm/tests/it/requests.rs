//! What the server is asked.

use codelab_fakemodel::{FakeModel, Reply};
use codelab_llm::{Model, ModelAuth, Models, ModelsConfig, Secret};
use codelab_protocol::{CallId, ModelMessage, ModelRequest, ModelToolCall, OutputSchema};
use serde_json::json;

use crate::harness::{call, config, request};

#[tokio::test]
async fn a_request_has_the_openai_form() {
    let server = FakeModel::start().await;
    server.reply(Reply::text("ok"));
    let mut request = request();
    let call_id = CallId::parse("c1").unwrap();
    let arguments = json!({"path": "a.md"}).as_object().unwrap().clone();
    let tool_calls = vec![ModelToolCall {
        call_id: call_id.clone(),
        name: "read_file".to_owned(),
        arguments,
    }];
    request.messages.push(ModelMessage::Assistant {
        content: String::new(),
        tool_calls,
        reasoning: None,
    });
    request.messages.push(ModelMessage::Tool {
        call_id,
        content: "text".to_owned(),
        files: Vec::new(),
    });
    request.messages.push(ModelMessage::Assistant {
        content: "so".to_owned(),
        tool_calls: Vec::new(),
        reasoning: None,
    });
    let parameters = request.tools[0].parameters.clone();
    let description = request.tools[0].description.clone();
    call(config(&server), &request).await.result.unwrap();

    let sent = server.requests().remove(0);
    assert_eq!(
        sent.body,
        json!({
            "model": "gpt-4",
            "messages": [
                {"role": "system", "content": "You are the coder."},
                {"role": "user", "content": "Привет"},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
                    "function": {"name": "read_file", "arguments": "{\"path\":\"a.md\"}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "text"},
                {"role": "assistant", "content": "so"},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "temperature": 0.3,
            "max_tokens": 200,
            "tools": [{"type": "function",
                "function": {"name": "read_file", "description": description, "parameters": parameters}}],
            "parallel_tool_calls": false,
        })
    );
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(
        (sent.header("authorization"), sent.header("x-internal-auth")),
        (None, None)
    );
}

#[tokio::test]
async fn what_is_not_asked_for_is_not_sent() {
    let server = FakeModel::start().await;
    server.reply(Reply::text("ok"));
    let request = ModelRequest {
        tools: Vec::new(),
        temperature: None,
        max_tokens: None,
        ..request()
    };
    call(config(&server), &request).await.result.unwrap();
    let body = server.requests().remove(0).body;
    let names: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(names, ["model", "messages", "stream", "stream_options"]);
}

#[tokio::test]
async fn the_key_goes_where_the_server_looks_for_it() {
    for (auth, bearer, internal) in [
        (ModelAuth::Key(Secret::new("k1")), Some("Bearer k1"), None),
        (
            ModelAuth::InternalHeader(Secret::new("k2")),
            None,
            Some("k2"),
        ),
    ] {
        let server = FakeModel::start().await;
        server.reply(Reply::text("ok"));
        let config = ModelsConfig {
            limits: config(&server).limits,
            ..ModelsConfig::new(server.url() + "/v1/", auth)
        };
        call(config, &request()).await.result.unwrap();
        let sent = server.requests().remove(0);
        assert_eq!(
            (sent.header("authorization"), sent.header("x-internal-auth")),
            (bearer, internal)
        );
    }
}

#[tokio::test]
async fn names_are_rewritten_on_the_wire() {
    let map = |to: &str| [("GPT-4".to_owned(), to.to_owned())].into();
    for (model_map, model_override, wanted, is_priced) in [
        (map("llama3"), None, "llama3", false),
        (map("gpt-4o"), None, "gpt-4o", true),
        (map("gpt-4o"), Some("qwen"), "qwen", false),
        (Default::default(), None, "gpt-4", true),
    ] {
        let server = FakeModel::start().await;
        server.reply(Reply::text("ok"));
        let config = ModelsConfig {
            model_map,
            model_override: model_override.map(str::to_owned),
            ..config(&server)
        };
        let expected = ModelsConfig::default().prices.price(wanted);
        assert_eq!(expected.is_some(), is_priced);
        assert_eq!(
            Models::new(config.clone()).unwrap().price("gpt-4"),
            expected
        );
        let output = call(config, &request()).await.result.unwrap();
        assert_eq!(server.requests()[0].body["model"], wanted);
        assert!(
            output.warnings.is_empty(),
            "a rewritten name is what the person asked for"
        );
    }
}

#[tokio::test]
async fn an_unknown_model_falls_back_with_a_warning() {
    for refusal in [
        Reply::unknown_model("gpt-4"),
        Reply::status(
            400,
            r#"{"error":{"message":"Invalid model name passed in model=gpt-4"}}"#,
        ),
    ] {
        let server = FakeModel::start().await;
        server.reply(refusal);
        server.reply(Reply::text_with_usage("hello", 1_000_000, 0));
        let config = ModelsConfig {
            default_model: Some("gpt-4o".to_owned()),
            ..config(&server)
        };
        let output = call(config, &request()).await.result.unwrap();
        let models: Vec<_> = server
            .requests()
            .iter()
            .map(|sent| sent.body["model"].clone())
            .collect();
        assert_eq!(models, ["gpt-4", "gpt-4o"]);
        assert_eq!(output.text, "hello");
        assert!(
            output.warnings[0].contains("gpt-4") && output.warnings[0].contains("gpt-4o"),
            "{output:?}"
        );
        assert_eq!(
            output.usage.unwrap().cost_usd,
            Some(2.5),
            "the price is that of the model that answered"
        );
    }
}

#[tokio::test]
async fn without_another_model_an_unknown_one_fails_at_once() {
    for default_model in [None, Some("gpt-4".to_owned())] {
        let server = FakeModel::start().await;
        server.default_reply(Reply::unknown_model("gpt-4"));
        let config = ModelsConfig {
            default_model,
            ..config(&server)
        };
        let failure = call(config, &request()).await.result.unwrap_err();
        assert_eq!(failure.code.as_str(), "LLM_ERROR");
        assert_eq!(server.request_count(), 1);
    }
}

#[tokio::test]
async fn a_schema_is_asked_for_and_given_up_where_it_is_refused() {
    let schema = json!({"type": "object"});
    let request = ModelRequest {
        schema: Some(OutputSchema {
            name: "plan",
            schema: schema.clone(),
        }),
        ..request()
    };
    for refused in [400, 422] {
        let server = FakeModel::start().await;
        server.reply(Reply::status(
            refused,
            r#"{"error":"response_format is not supported by this model"}"#,
        ));
        server.reply(Reply::text("{}"));
        assert_eq!(
            call(config(&server), &request).await.result.unwrap().text,
            "{}"
        );
        let sent = server.requests();
        let wanted = json!({"type": "json_schema", "json_schema": {"name": "plan", "strict": true, "schema": schema}});
        assert_eq!(sent[0].body["response_format"], wanted);
        assert_eq!(sent[1].body.get("response_format"), None);
    }
}

#[tokio::test]
async fn newer_models_get_their_own_parameter_names() {
    let server = FakeModel::start().await;
    server.reply(Reply::status(400, r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}"#));
    server.reply(Reply::status(
        400,
        r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.3 with this model."}}"#,
    ));
    server.reply(Reply::text("ok"));
    call(config(&server), &request()).await.result.unwrap();
    let last = &server.requests()[2].body;
    assert_eq!(last["max_completion_tokens"], 200);
    assert_eq!(
        (last.get("max_tokens"), last.get("temperature")),
        (None, None)
    );
}

#[tokio::test]
async fn wrong_settings_are_named_and_keys_are_not_shown() {
    let bad = |config: ModelsConfig| Models::new(config).err().unwrap().to_string();
    assert!(
        bad(ModelsConfig::new("localhost:8080", ModelAuth::None)).starts_with("LLM_PROXY_URL ")
    );
    let key = ModelAuth::Key(Secret::new("canary\n"));
    let text = bad(ModelsConfig::new("http://a", key.clone()));
    assert!(
        text.starts_with("LLM_API_KEY ") && !text.contains("canary"),
        "{text}"
    );
    let mut zero = ModelsConfig::new("http://a", ModelAuth::None);
    zero.limits.timeout = std::time::Duration::ZERO;
    assert!(bad(zero).starts_with("limits.model_timeout_seconds "));
    let config = ModelsConfig::new("http://a", key);
    assert!(!format!("{config:?}").contains("canary"));
    let named = ModelsConfig {
        default_model: Some("llama3".to_owned()),
        ..ModelsConfig::new("http://a", ModelAuth::None)
    };
    let description = Models::new(named).unwrap().describe();
    assert_eq!(
        (description.label.as_str(), description.demo),
        ("llama3", false)
    );
}
