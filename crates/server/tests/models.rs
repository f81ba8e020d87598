//! LiteLLM's real proxy between the server and the scripted model, as many teams run it. It changes
//! what both sides say. Needs a Python with the packages of `tests/models.requirements.txt`.
//!
//! A program of its own, because the start of the proxy takes all of a processor for some seconds,
//! and tests with short time limits should not run meanwhile.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use codelab_protocol::TurnStatus;
use codelab_testkit::{
    FakeModel, Fault, Gate, ModelWire, Reply, SeenEvents, TestServer, message_to,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const KEY: &str = "sk-right-0123456789";
/// The proxy takes about 10 seconds to start, and longer on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(150);
const PAUSE: Duration = Duration::from_millis(100);
/// Groups whose name begins with this reach the scripted model over Anthropic's wire.
const CLAUDE: &str = "claude/";

/// The proxy and the scripted model behind it.
struct Lab {
    upstream: FakeModel,
    url: String,
    process: Child,
    _folder: TempDir,
}

impl Lab {
    /// `models` are the names of the scripted model's answers. The proxy has each under two names,
    /// one for each wire.
    async fn start(python: &str, models: &[(&str, Reply)]) -> Self {
        let upstream = FakeModel::start().await;
        for (name, reply) in models {
            let name = (*name).to_owned();
            upstream.on(move |body| body["model"] == name.as_str(), reply.clone());
        }
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("litellm.yaml");
        fs::write(&config, configuration(models, &upstream.url())).unwrap();
        let port = free_port();
        let process = start_proxy(python, &config, port);
        let url = format!("http://127.0.0.1:{port}");
        let mut lab = Self {
            upstream,
            url,
            process,
            _folder: folder,
        };
        lab.wait_until_ready(&config.with_extension("log")).await;
        lab
    }

    async fn wait_until_ready(&mut self, log: &Path) {
        let ready = format!("{}/health/liveliness", self.url);
        let said = || fs::read_to_string(log).unwrap_or_default();
        let answers = async {
            while !reqwest::get(&ready)
                .await
                .is_ok_and(|answer| answer.status().is_success())
            {
                let ended = self.process.try_wait().unwrap();
                assert!(ended.is_none(), "LiteLLM ended: {}", said());
                tokio::time::sleep(PAUSE).await;
            }
        };
        let started = tokio::time::timeout(START_LIMIT, answers).await;
        assert!(started.is_ok(), "LiteLLM does not answer: {}", said());
    }

    /// A server whose agents call this model of the proxy.
    async fn server(&self, model: &str, key: &str) -> TestServer {
        TestServer::with(&[
            ("LLM_PROXY_URL", &self.url),
            ("LLM_API_KEY", key),
            ("LLM_MODEL_OVERRIDE", model),
            ("CODELAB_LIMITS__RATE_LIMIT_WAIT_SECONDS", "5"),
        ])
        .await
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ended = self.process.kill().and_then(|()| self.process.wait());
    }
}

fn configuration(models: &[(&str, Reply)], upstream: &str) -> String {
    let group = |name: String, model: String, base: String| {
        json!({"model_name": name,
            "litellm_params": {"model": model, "api_base": base, "api_key": "upstream-key"}})
    };
    let groups: Vec<Value> = models
        .iter()
        .flat_map(|(name, _)| {
            [
                group(
                    (*name).to_owned(),
                    format!("openai/{name}"),
                    format!("{upstream}/v1"),
                ),
                group(
                    format!("{CLAUDE}{name}"),
                    format!("anthropic/{name}"),
                    upstream.to_owned(),
                ),
            ]
        })
        .collect();
    // JSON is YAML too. A model that failed is asked again at once: the tests are about one call.
    json!({"model_list": groups, "general_settings": {"master_key": KEY},
        "litellm_settings": {"num_retries": 0},
        "router_settings": {"num_retries": 0, "disable_cooldowns": true}})
    .to_string()
}

fn start_proxy(python: &str, config: &Path, port: u16) -> Child {
    let log = File::create(config.with_extension("log")).unwrap();
    let mut command = Command::new(Path::new(python).with_file_name("litellm"));
    for name in ["http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command
        .args([
            "--host",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--config",
        ])
        .arg(config)
        // It would ask the internet for prices otherwise.
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .env("LITELLM_TELEMETRY", "False")
        .current_dir(config.parent().unwrap())
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("LiteLLM starts")
}

/// LiteLLM cannot tell which port it took, so a free one is chosen for it.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A call that fails: the model of the proxy, the kind, and what a person reads first.
struct Failing {
    model: &'static str,
    kind: &'static str,
    told: &'static str,
    /// A part of the provider's own words.
    said: &'static str,
}

const fn failing(
    model: &'static str,
    kind: &'static str,
    told: &'static str,
    said: &'static str,
) -> Failing {
    Failing {
        model,
        kind,
        told,
        said,
    }
}

const FAILURES: &[Failing] = &[
    failing(
        "wrong-key",
        "wrong_key",
        "The model server refused the key (HTTP 401). Check LLM_API_KEY.",
        "Incorrect API key provided.",
    ),
    failing(
        "nobody",
        "unknown_model",
        "The model server does not know the model \"nobody\" (HTTP 400).",
        "Invalid model name passed in model=nobody.",
    ),
    failing(
        "unknown-model",
        "unknown_model",
        "The model server does not know the model \"unknown-model\" (HTTP 404).",
        "The model `m7` does not exist",
    ),
    failing(
        "context-too-long",
        "context_too_long",
        "The request is too long for the model \"context-too-long\" (HTTP 400).",
        "This model's maximum context length is 8192 tokens.",
    ),
    failing(
        "claude/context-too-long",
        "context_too_long",
        "The request is too long for the model \"claude/context-too-long\" (HTTP 400).",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ),
    failing(
        "content-filter",
        "content_filter",
        "The model server refused the request by its content filter (HTTP 400).",
        "content management policy",
    ),
    failing(
        "rate-limit",
        "rate_limit",
        "The model server is rate limited until 20",
        "Rate limit reached for requests per minute.",
    ),
    failing(
        "quota",
        "quota",
        "The model server says that the account has no quota or credit left (HTTP 429).",
        "You exceeded your current quota",
    ),
    failing(
        "claude/overloaded",
        "overloaded",
        "The model server is overloaded (HTTP 500). Try again later.",
        "Overloaded",
    ),
    failing(
        "server-error",
        "server_error",
        "The model server failed (HTTP 500).",
        "The server had an error while processing your request.",
    ),
    failing(
        "timeout",
        "timeout",
        "The model server did not get an answer from the model in time (HTTP 408).",
        "Request timed out",
    ),
    failing(
        "breaks",
        "rate_limit",
        "The model server is rate limited",
        "Rate limit reached for requests per minute.",
    ),
];

fn models() -> Vec<(&'static str, Reply)> {
    let wait = &[("retry-after", "3600")];
    let read = || Reply::tool_call("read_file", json!({"path": "a.md"}));
    vec![
        ("text", Reply::text("one two three")),
        ("thinking", Reply::text("yes").with_reasoning("is it so", 3)),
        ("tool", read().with_text("Let me see.").split_arguments(3)),
        ("wrong-key", Reply::fault(Fault::WrongKey)),
        ("unknown-model", Reply::unknown_model("m7")),
        ("context-too-long", Reply::fault(Fault::ContextTooLong)),
        ("content-filter", Reply::fault(Fault::ContentFilter)),
        (
            "rate-limit",
            Reply::fault_with_headers(Fault::RateLimit, wait),
        ),
        ("quota", Reply::fault(Fault::Quota)),
        ("overloaded", Reply::fault(Fault::Overloaded)),
        ("server-error", Reply::fault(Fault::ServerError)),
        ("timeout", Reply::fault(Fault::Timeout)),
        (
            "breaks",
            Reply::text("one two three").fault_after_deltas(3, Fault::RateLimit),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_litellm_stands_in_between() {
    let Ok(python) = std::env::var("CODELAB_TEST_MODEL_PYTHON") else {
        println!("skipped: CODELAB_TEST_MODEL_PYTHON is not set");
        return;
    };
    let lab = Lab::start(&python, &models()).await;
    futures_util::future::join_all(FAILURES.iter().map(|case| fails(&lab, case))).await;
    a_wrong_key_of_the_proxy_is_told(&lab).await;
    answers_stream_with_usage(&lab).await;
    tools_are_called(&lab).await;
    reasoning_is_no_part_of_the_answer(&lab).await;
}

async fn ask(server: &TestServer) -> SeenEvents {
    server.say_to("s", "coder", "Hello").await
}

async fn fails(lab: &Lab, case: &Failing) {
    let server = lab.server(case.model, KEY).await;
    let seen = ask(&server).await;
    assert_eq!(
        seen.status(),
        TurnStatus::Failed,
        "{}: {seen:?}",
        case.model
    );
    assert_told(seen.error(), case);
}

fn assert_told(error: &codelab_protocol::ErrorData, case: &Failing) {
    let Failing {
        model,
        kind,
        told,
        said,
    } = case;
    assert!(
        error.message.starts_with(told),
        "{model}: {}",
        error.message
    );
    assert!(error.message.contains(said), "{model}: {}", error.message);
    assert_eq!(error.details["kind"], *kind, "{model}: {error:?}");
    let words = error.details["provider_message"]
        .as_str()
        .unwrap_or_default();
    assert!(words.contains(said), "{model}: {error:?}");
    for secret in [KEY, "upstream-key"] {
        assert!(!format!("{error:?}").contains(secret), "{model}: {error:?}");
    }
}

/// Without a database, LiteLLM says nothing of a key.
async fn a_wrong_key_of_the_proxy_is_told(lab: &Lab) {
    let server = lab.server("text", "sk-wrong-0123456789").await;
    let case = failing(
        "text",
        "wrong_key",
        "The model server refused the key (HTTP 400). Check LLM_API_KEY.",
        "No connected db.",
    );
    assert_told(ask(&server).await.error(), &case);
}

/// On both wires; one of the names has a provider's before its `/`.
async fn answers_stream_with_usage(lab: &Lab) {
    for (model, wire) in [
        ("text", ModelWire::OpenAi),
        ("claude/text", ModelWire::Anthropic),
    ] {
        let server = lab.server(model, KEY).await;
        let gate = Gate::new();
        let reply = Reply::text_with_usage("one two three", 120, 30).with_cached(100, 0);
        lab.upstream.on(
            |body| body["model"] == "text",
            reply.hold_after_deltas(3, &gate),
        );
        let mut stream = server.open(&message_to("coder", "s", "Hello")).await;
        let mut seen = SeenEvents::until_delta(&mut stream).await;
        gate.open();
        seen.events.extend(SeenEvents::all(stream).await.events);
        assert_eq!(seen.status(), TurnStatus::Completed, "{model}: {seen:?}");
        assert_eq!(seen.streamed_text(), "one two three", "{model}");
        let used = seen.answer().usage.clone().expect("usage is told");
        assert_eq!(
            (
                used.prompt_tokens,
                used.completion_tokens,
                used.cached_tokens
            ),
            (120, 30, 100),
            "{model}: {used:?}"
        );
        let asked = lab.upstream.requests();
        assert!(
            asked
                .iter()
                .any(|sent| sent.wire == wire && sent.body["model"] == "text"),
            "{model}"
        );
    }
}

async fn tools_are_called(lab: &Lab) {
    for model in ["tool", "claude/tool"] {
        let server = lab.server(model, KEY).await;
        let seen = ask(&server).await;
        let call = &seen.tool_call().tool_call;
        assert_eq!(
            (call.name.as_str(), json!(call.arguments)),
            ("read_file", json!({"path": "a.md"})),
            "{model}"
        );
    }
}

async fn reasoning_is_no_part_of_the_answer(lab: &Lab) {
    for model in ["thinking", "claude/thinking"] {
        let server = lab.server(model, KEY).await;
        let seen = ask(&server).await;
        assert_eq!(seen.streamed_text(), "yes", "{model}");
    }
}
