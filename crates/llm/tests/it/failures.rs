//! What comes back when they do not. Every failure ends in time, with a code and a text that gives
//! nothing away.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use codelab_fakemodel::{FakeModel, Fault, Reply};
use codelab_llm::{DEFAULT_PROVIDER, ModelAuth, ModelsConfig, Secret};
use codelab_protocol::{ModelFailure, ModelFailureKind};
use serde_json::json;
use tokio::net::TcpListener;
use tracing_subscriber::fmt::MakeWriter;

use crate::harness::{Outcome, SHORT, call, config, request, with_auth};

const CANARY_KEY: &str = "canary-key-5f1c";
const CANARY_BODY: &str = "canary-body-77aa";
/// No limit in these tests is longer; more than this means that a call hung.
const HUNG: Duration = Duration::from_secs(20);

async fn fails(config: ModelsConfig) -> (ModelFailure, Outcome) {
    let base_url = config.providers[DEFAULT_PROVIDER].url.clone();
    let config = with_auth(config, ModelAuth::Key(Secret::new(CANARY_KEY)));
    let begun = Instant::now();
    let outcome = tokio::time::timeout(HUNG, call(config, &request()))
        .await
        .expect("the call hung");
    let failure = outcome.result.clone().expect_err("the call should fail");
    assert!(begun.elapsed() < HUNG);
    let all = format!("{failure:?}");
    let host = base_url
        .trim_start_matches("http://")
        .trim_start_matches("https://");
    for secret in [CANARY_KEY, host] {
        assert!(!all.contains(secret), "{secret} is shown: {all}");
    }
    (failure, outcome)
}

/// A reply, the number of requests until the call fails, and the shown message.
async fn check(name: &str, reply: Reply, code: &str, requests: usize, shown: &str) -> ModelFailure {
    let server = FakeModel::start().await;
    server.default_reply(reply);
    let mut config = config(&server);
    if code == "LLM_TIMEOUT" {
        config.limits.idle_timeout = SHORT;
    }
    config.limits.max_output_bytes = 1000;
    let (failure, outcome) = fails(config).await;
    assert_eq!(failure.code.as_str(), code, "{name}: {failure:?}");
    assert_eq!(server.request_count(), requests, "{name}: requests");
    assert_eq!(outcome.shown, shown, "{name}: shown");
    failure
}

#[tokio::test]
async fn a_server_that_falls_silent_ends_by_the_idle_limit() {
    let half_open = Reply::text("one two three").hang_after_deltas(3);
    let failure = check("half-open", half_open, "LLM_TIMEOUT", 1, "one two ").await;
    assert_eq!(
        json!(failure.into_error().details),
        json!({"kind": "timeout", "model": "gpt-4", "timeout_seconds": 0.3})
    );
}

#[tokio::test]
async fn a_server_that_dribbles_or_never_answers_ends_by_the_total_limit() {
    for (name, reply) in [
        ("silent", Reply::hang()),
        ("comments", Reply::dribble(Duration::from_millis(5))),
        ("comments without a pause", Reply::dribble(Duration::ZERO)),
        (
            "words",
            Reply::text("word ".repeat(1000)).with_delay_per_delta(Duration::from_millis(20)),
        ),
    ] {
        let server = FakeModel::start().await;
        server.reply(reply);
        let mut config = config(&server);
        config.limits.idle_timeout = HUNG;
        config.limits.timeout = SHORT;
        let (failure, _) = fails(config).await;
        assert_eq!(failure.code.as_str(), "LLM_TIMEOUT", "{name}");
        assert_eq!(
            json!(failure.into_error().details),
            json!({"kind": "timeout", "model": "gpt-4", "timeout_seconds": 0.3})
        );
    }
}

#[tokio::test]
async fn broken_answers_are_errors() {
    let half = r#"data: {"choices":[{"delta":{"content":"one"#.to_owned();
    for (name, reply, shown) in [
        (
            "cut between events",
            Reply::text("one two three").cut_after_deltas(3),
            "one two ",
        ),
        (
            "cut inside JSON",
            Reply::text("one two three").cut_after_bytes(200),
            "",
        ),
        ("ended inside JSON", Reply::raw([half]), ""),
        ("ended after the headers", Reply::raw([""; 0]), ""),
        (
            "cut tool call",
            Reply::tool_call("a", json!({"b": "c"}))
                .split_arguments(3)
                .cut_after_deltas(3),
            "",
        ),
        (
            "cut whole body",
            Reply::text("one").not_streamed_json().cut_after_bytes(20),
            "",
        ),
        ("a page", Reply::raw(["<html>canary-body-77aa</html>"]), ""),
        ("garbage", Reply::raw(["data: canary-body-77aa\n\n"]), ""),
        ("too large", Reply::text("x".repeat(1001)), ""),
        (
            "endless line",
            Reply::raw(["data: ".to_owned() + &"x".repeat(1024 * 1024)]),
            "",
        ),
    ] {
        check(name, reply, "LLM_ERROR", 1, shown).await;
    }
}

#[tokio::test]
async fn an_error_inside_an_answer_is_tried_again_before_the_first_token() {
    let inside = json!({"error": {"code": 502, "message": CANARY_BODY}}).to_string();
    for body in [format!("data: {inside}\n\n"), inside] {
        let failure = check("error inside", Reply::raw([body]), "LLM_ERROR", 3, "").await;
        assert_eq!(failure.kind, Some(ModelFailureKind::ServerError));
        assert_eq!(failure.provider_message.as_deref(), Some(CANARY_BODY));
    }
    let broken = Reply::text("one two").fault_after_deltas(2, Fault::Overloaded);
    let failure = check("error later", broken, "LLM_ERROR", 1, "one ").await;
    assert_eq!(failure.kind, Some(ModelFailureKind::Overloaded));
}

#[tokio::test]
async fn people_read_why_a_call_failed() {
    const KEY: &str = "Check LLM_API_KEY.";
    for (fault, kind, code, requests, told) in [
        (
            Fault::WrongKey,
            ModelFailureKind::WrongKey,
            "LLM_ERROR",
            1,
            KEY,
        ),
        (
            Fault::UnknownModel("gpt-4".to_owned()),
            ModelFailureKind::UnknownModel,
            "LLM_ERROR",
            1,
            "does not know",
        ),
        (
            Fault::ContextTooLong,
            ModelFailureKind::ContextTooLong,
            "LLM_ERROR",
            1,
            "too long",
        ),
        (
            Fault::ContentFilter,
            ModelFailureKind::ContentFilter,
            "LLM_ERROR",
            1,
            "content filter",
        ),
        (
            Fault::RateLimit,
            ModelFailureKind::RateLimit,
            "LLM_ERROR",
            3,
            "rate limited",
        ),
        (
            Fault::Quota,
            ModelFailureKind::Quota,
            "LLM_ERROR",
            1,
            "no quota",
        ),
        (
            Fault::Overloaded,
            ModelFailureKind::Overloaded,
            "LLM_ERROR",
            3,
            "overloaded",
        ),
        (
            Fault::ServerError,
            ModelFailureKind::ServerError,
            "LLM_ERROR",
            3,
            "failed",
        ),
        (
            Fault::Timeout,
            ModelFailureKind::Timeout,
            "LLM_TIMEOUT",
            3,
            "in time",
        ),
    ] {
        let failure = check("fault", Reply::fault(fault.clone()), code, requests, "").await;
        assert_eq!(failure.kind, Some(kind), "{fault:?}");
        assert!(failure.message.contains(told), "{failure:?}");
        let said = failure
            .provider_message
            .clone()
            .expect("the provider's words");
        assert!(failure.message.contains(&said), "{failure:?}");
        let details = failure.into_error().details;
        assert_eq!(details["kind"], kind.as_str());
        assert_eq!(details["provider_message"], said);
        assert_eq!(details["model"], "gpt-4");
        assert!(details["status"].is_u64());
    }
}

#[tokio::test]
async fn an_answer_that_was_withheld_is_a_failure() {
    let withheld = Reply::text("").with_finish_reason("content_filter");
    let failure = check("withheld", withheld, "LLM_ERROR", 1, "").await;
    assert_eq!(failure.kind, Some(ModelFailureKind::ContentFilter));
}

#[tokio::test]
async fn error_answers_are_errors() {
    let body = format!("{CANARY_BODY} {CANARY_KEY}");
    for (name, status, requests, told) in [
        ("429 storm", 429, 3, "rate limited"),
        ("500", 500, 3, "HTTP 500"),
        ("401", 401, 1, "LLM_API_KEY"),
        ("404", 404, 1, "gpt-4"),
        ("400", 400, 1, "HTTP 400"),
        ("a redirect is not followed", 307, 1, "HTTP 307"),
    ] {
        let reply = Reply::status_with_headers(
            status,
            &[("location", "http://127.0.0.1:1/")],
            body.clone(),
        );
        let failure = check(name, reply, "LLM_ERROR", requests, "").await;
        assert!(failure.message.contains(told), "{name}: {failure:?}");
        assert_eq!(failure.details["status"], status);
    }
    let huge = Reply::status(400, "x".repeat(10 * 1024 * 1024));
    check("huge error body", huge, "LLM_ERROR", 1, "").await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let gone = FakeModel::start().await.url();
    for url in [
        gone,
        "http://no-such-host.invalid".to_owned(),
        "https://no-such-host.invalid/v1".to_owned(),
    ] {
        let mut config = ModelsConfig::new(url.clone(), ModelAuth::None);
        config.limits.max_retries = 1;
        config.limits.retry_delay = Duration::from_millis(1);
        let (failure, _) = fails(config).await;
        assert_eq!(
            failure.code.as_str(),
            "LLM_PROXY_UNAVAILABLE",
            "{url}: {failure:?}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_because_it_would_carry_the_key() {
    let other = FakeModel::start().await;
    let location = format!("{}/v1/chat/completions", other.url());
    let moved = Reply::status_with_headers(307, &[("location", &location)], "");
    let failure = check("redirect", moved, "LLM_ERROR", 1, "").await;
    assert!(failure.message.contains("redirects"), "{failure:?}");
    assert_eq!(failure.details["status"], 307);
    assert_eq!(other.request_count(), 0);
}

#[tokio::test]
async fn a_server_without_tls_behind_https_is_unavailable() {
    let server = FakeModel::start().await;
    let mut config = config(&server);
    let provider = config.providers.get_mut(DEFAULT_PROVIDER).unwrap();
    provider.url = server.url().replace("http://", "https://");
    let (failure, _) = fails(config).await;
    assert_eq!(failure.code.as_str(), "LLM_PROXY_UNAVAILABLE");
}

#[tokio::test]
async fn a_server_that_hangs_up_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    let mut config = ModelsConfig::new(url, ModelAuth::None);
    config.limits.max_retries = 1;
    config.limits.retry_delay = Duration::from_millis(1);
    let (failure, _) = fails(config).await;
    accepting.abort();
    assert_eq!(failure.code.as_str(), "LLM_ERROR", "{failure:?}");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .expect("no test panicked in it")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn keys_are_not_in_the_log_even_at_trace_level() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    // For all threads: one that logs without a subscriber of its own can switch a line off for
    // everybody.
    tracing::subscriber::set_global_default(subscriber).expect("no other test sets one");
    tracing::callsite::rebuild_interest_cache();
    let server = FakeModel::start().await;
    server.reply(Reply::status(
        400,
        format!("{CANARY_BODY} {CANARY_KEY} {}", "x".repeat(5000)),
    ));
    fails(config(&server)).await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        text.contains(CANARY_BODY),
        "the upstream's words are for the log: {text}"
    );
    let line = text
        .lines()
        .find(|line| line.contains("model call failed") && line.contains(&"x".repeat(100)))
        .expect("one line says why");
    for field in [
        "model=gpt-4",
        "provider=default",
        "kind=\"nonsense\"",
        "status=400",
    ] {
        assert!(line.contains(field), "{field}: {line}");
    }
    assert!(!text.contains(CANARY_KEY), "{text}");
    assert!(!text.contains(&"x".repeat(1001)), "the log is bounded");
}
