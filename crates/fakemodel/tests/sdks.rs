//! The fake model is faithful: the official SDKs understand what it sends as a program expects it
//! from the real servers. Needs a Python with the packages of `tests/models.requirements.txt`.

use std::process::Command;

use codelab_fakemodel::{FakeModel, Fault, Reply};
use serde_json::{Value, json};

/// The name under which a fault is asked for, what the OpenAI SDK makes of it, and the Anthropic
/// SDK.
fn faults() -> Vec<(&'static str, Fault, Value, Value)> {
    let error = |class: &str, status: u16, said: &str| json!({"class": class, "status": status, "said": said});
    vec![
        (
            "wrong-key",
            Fault::WrongKey,
            error("AuthenticationError", 401, "Incorrect API key provided."),
            error("AuthenticationError", 401, "invalid x-api-key"),
        ),
        (
            "unknown-model",
            Fault::UnknownModel("m7".to_owned()),
            error(
                "NotFoundError",
                404,
                "The model `m7` does not exist or you do not have access to it.",
            ),
            error("NotFoundError", 404, "model: m7"),
        ),
        (
            "context-too-long",
            Fault::ContextTooLong,
            error(
                "BadRequestError",
                400,
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. \
                 Please reduce the length of the messages.",
            ),
            error(
                "BadRequestError",
                400,
                "prompt is too long: 210000 tokens > 200000 maximum",
            ),
        ),
        (
            "content-filter",
            Fault::ContentFilter,
            error(
                "BadRequestError",
                400,
                "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. \
                 Please modify your prompt and retry.",
            ),
            error(
                "BadRequestError",
                400,
                "Output blocked by content filtering policy",
            ),
        ),
        (
            "rate-limit",
            Fault::RateLimit,
            error(
                "RateLimitError",
                429,
                "Rate limit reached for requests per minute. Please try again later.",
            ),
            error(
                "RateLimitError",
                429,
                "This request would exceed your organization's rate limit of 50,000 input tokens per minute.",
            ),
        ),
        (
            "quota",
            Fault::Quota,
            error(
                "RateLimitError",
                429,
                "You exceeded your current quota, please check your plan and billing details.",
            ),
            error(
                "BadRequestError",
                400,
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade \
                 or purchase credits.",
            ),
        ),
        (
            "overloaded",
            Fault::Overloaded,
            error(
                "InternalServerError",
                503,
                "The engine is currently overloaded, please try again later.",
            ),
            error("OverloadedError", 529, "Overloaded"),
        ),
        (
            "server-error",
            Fault::ServerError,
            error(
                "InternalServerError",
                500,
                "The server had an error while processing your request. Sorry about that!",
            ),
            error("InternalServerError", 500, "Internal server error"),
        ),
        (
            "timeout",
            Fault::Timeout,
            error("APIStatusError", 408, "Request timed out."),
            error("GatewayTimeoutError", 504, "Request timed out"),
        ),
    ]
}

/// The same for answers.
fn answers() -> Vec<(&'static str, Reply, Value, Value)> {
    let openai = |text: &str,
                  reasoning: &str,
                  calls: Value,
                  finish: &str,
                  tokens: [u64; 2],
                  cached: u64,
                  thought: u64| {
        json!({"text": text, "reasoning": reasoning, "calls": calls, "finish": finish, "tokens": tokens,
            "cached": cached, "thought": thought})
    };
    let anthropic = |text: &str,
                     reasoning: &str,
                     calls: Value,
                     finish: &str,
                     tokens: [u64; 2],
                     cached: [u64; 2]| {
        json!({"text": text, "reasoning": reasoning, "signed": true, "calls": calls, "finish": finish,
            "tokens": tokens, "cached": cached})
    };
    let call = json!([["write_file", {"path": "a.md", "content": "її\n"}]]);
    vec![
        (
            "text",
            Reply::text_with_usage("one two", 30, 2),
            openai("one two", "", json!([]), "stop", [30, 2], 0, 0),
            anthropic("one two", "", json!([]), "end_turn", [30, 2], [0, 0]),
        ),
        (
            "tool",
            Reply::tool_call("write_file", json!({"path": "a.md", "content": "її\n"}))
                .with_text("Writing it.")
                .split_arguments(7),
            openai("Writing it.", "", call.clone(), "tool_calls", [10, 5], 0, 0),
            anthropic("Writing it.", "", call, "tool_use", [10, 5], [0, 0]),
        ),
        (
            "thinking",
            Reply::text_with_usage("yes", 10, 8).with_reasoning("is it so", 7),
            openai("yes", "is it so", json!([]), "stop", [10, 8], 0, 7),
            anthropic("yes", "is it so", json!([]), "end_turn", [10, 8], [0, 0]),
        ),
        (
            "cached",
            Reply::text_with_usage("yes", 100, 1).with_cached(60, 30),
            openai("yes", "", json!([]), "stop", [100, 1], 60, 0),
            anthropic("yes", "", json!([]), "end_turn", [10, 1], [60, 30]),
        ),
        (
            "cut",
            Reply::text("half").with_finish_reason("length"),
            openai("half", "", json!([]), "length", [10, 1], 0, 0),
            anthropic("half", "", json!([]), "max_tokens", [10, 1], [0, 0]),
        ),
        (
            "refused",
            Reply::refusal("I will not."),
            openai("I will not.", "", json!([]), "stop", [10, 5], 0, 0),
            anthropic("I will not.", "", json!([]), "refusal", [10, 5], [0, 0]),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_sdks_understand_the_fake_model() {
    let Ok(python) = std::env::var("CODELAB_TEST_MODEL_PYTHON") else {
        println!("skipped: CODELAB_TEST_MODEL_PYTHON is not set");
        return;
    };
    let server = FakeModel::start().await;
    server.offer(&["m7", "m8"]);
    let mut wanted = serde_json::Map::new();
    let replies =
        answers().into_iter().chain(faults().into_iter().map(
            |(name, fault, openai, anthropic)| (name, Reply::fault(fault), openai, anthropic),
        ));
    for (name, reply, openai, anthropic) in replies {
        server.on(move |body| body["model"] == name, reply);
        for way in ["whole", "streamed"] {
            wanted.insert(format!("openai {name} {way}"), openai.clone());
            wanted.insert(format!("anthropic {name} {way}"), anthropic.clone());
        }
    }
    let breaks = Reply::text("one two").fault_after_deltas(2, Fault::Overloaded);
    server.on(|body| body["model"] == "breaks", breaks);
    wanted.insert(
        "openai breaks streamed".to_owned(),
        json!({"class": "APIError", "status": null,
            "said": "The engine is currently overloaded, please try again later."}),
    );
    wanted.insert(
        "anthropic breaks streamed".to_owned(),
        json!({"class": "APIStatusError", "status": 200, "said": "Overloaded"}),
    );
    for sdk in ["openai", "anthropic"] {
        wanted.insert(format!("{sdk} models"), json!(["m7", "m8"]));
    }

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdks.py");
    let url = server.url();
    let asking = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(python);
        for name in ["http_proxy", "https_proxy", "all_proxy"] {
            command.env_remove(name).env_remove(name.to_uppercase());
        }
        command.args([script, &url]).output()
    });
    let output = asking.await.unwrap().expect("Python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let seen: serde_json::Map<String, Value> = serde_json::from_slice(&output.stdout).unwrap();
    let differences: Vec<String> = wanted
        .iter()
        .filter(|(case, wanted)| seen.get(*case) != Some(wanted))
        .map(|(case, wanted)| format!("{case}\n  wanted {wanted}\n  seen   {:?}", seen.get(case)))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(seen.len(), wanted.len());
}
