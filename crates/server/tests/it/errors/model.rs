//! A model server that fails in every way: the turn ends in a clear error in time, and the session
//! goes on.

use std::time::{Duration, Instant};

use codelab_protocol::{ErrorCode, TurnStatus};
use codelab_testkit::{Reply, TestServer};
use serde_json::json;
use tokio::net::TcpListener;

use super::assert_shape;

/// No program listens on this port: it is reserved, and binding it needs rights nobody has here.
pub const NOBODY: &str = "http://127.0.0.1:1";

const DEADLINE: &[(&str, &str)] = &[
    ("CODELAB_LIMITS__MODEL_TIMEOUT_SECONDS", "2"),
    ("CODELAB_LIMITS__MODEL_IDLE_TIMEOUT_SECONDS", "1"),
];
/// The two seconds above, and what a busy machine adds.
const IN_TIME: Duration = Duration::from_secs(8);

/// What a model server sends beside its error message; none of it is for the caller.
const INTERNAL: &str = "internal-words-of-the-model-server";
/// The message of its errors, which the caller reads.
const REASON: &str = "the reason that the model server gives";

fn failures() -> Vec<(&'static str, ErrorCode, Reply)> {
    let error = json!({"error": {"message": REASON, "trace": INTERNAL}}).to_string();
    let refused = |status| Reply::status(status, error.clone());
    let words = || Reply::text("one two three four five six");
    let wait =
        |seconds: &str| Reply::status_with_headers(429, &[("retry-after", seconds)], error.clone());
    use ErrorCode::{LlmError, LlmTimeout};
    vec![
        ("500", LlmError, refused(500)),
        ("503", LlmError, refused(503)),
        ("400", LlmError, refused(400)),
        ("401", LlmError, refused(401)),
        ("404", LlmError, refused(404)),
        (
            "a redirect",
            LlmError,
            Reply::status_with_headers(302, &[("location", "http://evil.example/")], ""),
        ),
        ("a 429 storm", LlmError, refused(429)),
        ("a 429 storm that asks for an hour", LlmError, wait("3600")),
        ("a 429 storm that asks for nonsense", LlmError, wait("-1")),
        ("silence", LlmTimeout, Reply::hang()),
        ("half-open", LlmTimeout, words().hang_after_deltas(3)),
        (
            "half-open from the start",
            LlmTimeout,
            words().hang_after_deltas(0),
        ),
        (
            "dribble",
            LlmTimeout,
            Reply::dribble(Duration::from_millis(50)),
        ),
        (
            "words too slow",
            LlmTimeout,
            words().with_delay_per_delta(Duration::from_millis(700)),
        ),
        (
            "cut before the first word",
            LlmError,
            words().cut_after_deltas(0),
        ),
        ("cut between words", LlmError, words().cut_after_deltas(3)),
        ("cut mid-JSON", LlmError, words().cut_after_bytes(137)),
        (
            "a call cut mid-arguments",
            LlmError,
            write().split_arguments(8).cut_after_deltas(5),
        ),
        ("no body", LlmError, Reply::raw(Vec::<Vec<u8>>::new())),
        ("no events", LlmError, Reply::raw(["\n\n\n"])),
        (
            "a web page",
            LlmError,
            Reply::status(200, format!("<html>{INTERNAL}</html>")),
        ),
        (
            "broken JSON",
            LlmError,
            Reply::raw([format!("data: {{\"choices\": {INTERNAL}\n\n")]),
        ),
        (
            "bytes",
            LlmError,
            Reply::raw([vec![0xff, 0xfe, 0x00, 0x80]]),
        ),
        (
            "an error in the stream",
            LlmError,
            Reply::raw([format!("data: {error}\n\n")]),
        ),
        (
            "other JSON",
            LlmError,
            Reply::status(200, json!({"hello": INTERNAL}).to_string()),
        ),
        ("an empty answer", LlmError, Reply::text("")),
        ("a blank answer", LlmError, Reply::text(" \n ")),
    ]
}

fn write() -> Reply {
    Reply::tool_call("write_file", json!({"path": "a.py", "content": "print(1)"}))
}

#[tokio::test]
async fn a_failing_model_ends_the_turn_in_time_and_the_session_goes_on() {
    let tasks: Vec<_> = failures()
        .into_iter()
        .map(|(what, code, reply)| tokio::spawn(one_failure(what, code, reply)))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn one_failure(what: &'static str, code: ErrorCode, reply: Reply) {
    let server = TestServer::with(DEADLINE).await;
    server.model.on(|_| true, reply);
    let begun = Instant::now();
    let failed = server.say_to("s", "coder", "go on").await;
    assert!(begun.elapsed() < IN_TIME, "{what}: {:?}", begun.elapsed());
    assert_eq!(
        failed.status(),
        TurnStatus::Failed,
        "{what}: {:?}",
        failed.story()
    );
    assert_shape(failed.error(), code);
    let shown = format!("{:?}", failed.events);
    assert!(
        !shown.contains(INTERNAL) && !shown.contains("127.0.0.1"),
        "{what}: {shown}"
    );
    if what.parse::<u16>().is_ok() {
        assert_eq!(failed.error().details["provider_message"], REASON, "{what}");
        assert!(failed.error().message.contains(REASON), "{what}: {shown}");
    }

    server.model.on(|_| true, Reply::text("Here I am again"));
    completes(&server, what).await;
    let history = server
        .client
        .history(&super::asked_session())
        .await
        .unwrap()
        .messages;
    let said: Vec<&str> = history
        .iter()
        .filter(|m| m.agent_id.is_some())
        .map(|m| m.content.as_str())
        .collect();
    assert_eq!(
        said,
        ["Here I am again"],
        "{what}: nothing of the failed answer is kept"
    );
}

async fn completes(server: &TestServer, what: &str) {
    let seen = server.say("s", "and now?").await;
    assert_eq!(
        seen.status(),
        TurnStatus::Completed,
        "{what}: {:?}",
        seen.story()
    );
    assert_eq!(seen.streamed_text(), "Here I am again", "{what}");
}

#[tokio::test]
async fn a_long_rate_limit_is_told_at_once() {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::status_with_headers(
        429,
        &[("retry-after", "3600")],
        "later",
    ));
    let failed = server.say_to("s", "coder", "go on").await;
    assert_eq!(failed.status(), TurnStatus::Failed);
    assert!(
        failed.error().message.contains("rate limited until 20"),
        "{:?}",
        failed.error()
    );
    assert_eq!(failed.error().details["kind"], "rate_limit");
    assert_eq!(server.model.request_count(), 1, "nobody waits for an hour");
}

#[tokio::test]
async fn answers_that_are_not_whole_say_so() {
    let server = TestServer::start().await;
    for (number, (reason, told)) in [("length", "token limit"), ("content_filter", "withheld")]
        .into_iter()
        .enumerate()
    {
        let session = format!("cut-{number}");
        server
            .model
            .reply(Reply::text("half of").with_finish_reason(reason));
        let seen = server.say_to(&session, "coder", "go on").await;
        let warnings = seen.answer().warnings.clone();
        assert!(
            warnings.len() == 1 && warnings[0].contains(told),
            "{reason}: {warnings:?}"
        );
        assert_eq!(seen.status(), TurnStatus::Completed);
        let history = server
            .client
            .history(&codelab_testkit::id(&session))
            .await
            .unwrap()
            .messages;
        assert_eq!(
            history.last().unwrap().warnings,
            warnings,
            "{reason}: the history says so too"
        );
        server
            .model
            .reply(Reply::text("").with_finish_reason(reason));
        let failed = server.say_to(&session, "coder", "go on").await;
        assert!(
            failed.error().message.contains(told),
            "{reason}: {:?}",
            failed.error()
        );
        let kind = failed.error().details.get("kind").cloned();
        let wanted = (reason == "content_filter").then(|| json!("content_filter"));
        assert_eq!(kind, wanted, "{reason}");
    }
    let delta = |delta: serde_json::Value, reason: Option<&str>| {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"delta": delta, "finish_reason": reason}]})
        )
    };
    server.model.reply(Reply::raw([
        delta(json!({"refusal": "I will "}), None),
        delta(json!({"refusal": "not."}), Some("stop")),
    ]));
    let seen = server.say_to("refusal", "coder", "go on").await;
    assert_eq!(
        (seen.answer().content.as_str(), seen.status()),
        ("I will not.", TurnStatus::Completed)
    );
    assert_eq!(seen.streamed_text(), "I will not.");
}

#[tokio::test]
async fn a_model_server_that_is_not_there_is_named_so() {
    // Accepts, and hangs up at once.
    let rude = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rude_url = format!("http://{}", rude.local_addr().unwrap());
    let hanging_up = tokio::spawn(async move {
        loop {
            drop(rude.accept().await.unwrap());
        }
    });
    // Never accepts; connections stay in the queue.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf_url = format!("http://{}", deaf.local_addr().unwrap());
    for (url, code) in [
        (NOBODY, ErrorCode::LlmProxyUnavailable),
        ("http://model.invalid:8080", ErrorCode::LlmProxyUnavailable),
        (rude_url.as_str(), ErrorCode::LlmError),
        (deaf_url.as_str(), ErrorCode::LlmTimeout),
    ] {
        let server = TestServer::with(&[DEADLINE, &[("LLM_PROXY_URL", url)]].concat()).await;
        for _ in 0..2 {
            let begun = Instant::now();
            let failed = server.say_to("s", "coder", "go on").await;
            assert!(begun.elapsed() < IN_TIME, "{url}: {:?}", begun.elapsed());
            assert_eq!(
                failed.status(),
                TurnStatus::Failed,
                "{url}: {:?}",
                failed.story()
            );
            assert_shape(failed.error(), code);
            let shown = format!("{:?}", failed.events);
            assert!(
                !shown.contains("127.0.0.1") && !shown.contains("model.invalid"),
                "{shown}"
            );
        }
    }
    hanging_up.abort();
}

/// Routing never fails a turn: keywords decide where the model does not.
#[tokio::test]
async fn a_failing_classification_falls_back_to_keywords() {
    let mut classifications = failures();
    classifications.push((
        "an unknown agent",
        ErrorCode::LlmError,
        Reply::text(r#"{"agent": "chef"}"#),
    ));
    let turns = classifications.into_iter().map(|(what, _, reply)| {
        tokio::spawn(async move {
            let server = TestServer::with(DEADLINE).await;
            server.model.on(|_| true, Reply::text("Found it"));
            server.model.on(codelab_fakemodel::is_classification, reply);
            (what, server.say("s", "Fix the bug").await)
        })
    });
    for turn in turns.collect::<Vec<_>>() {
        let (what, seen) = turn.await.unwrap();
        let told = [
            "switch_agent debug",
            "assistant_message debug",
            "switch_agent orchestrator",
            "completion",
        ];
        assert_eq!(seen.story(), told, "{what}");
    }
}

/// What a model says against the rules is shown, told to it, and the turn goes on.
#[tokio::test]
async fn nonsense_from_the_model_is_answered_and_the_turn_goes_on() {
    let raw = Reply::tool_call_raw;
    let deep = "[".repeat(100_000);
    let cases = [
        (raw("read_file", "{not json"), "INVALID_TOOL_ARGUMENTS"),
        (raw("read_file", "[1, 2]"), "INVALID_TOOL_ARGUMENTS"),
        (raw("read_file", "\"a.py\""), "INVALID_TOOL_ARGUMENTS"),
        (
            raw("read_file", "{\"path\": \"a\"} {\"path\": \"b\"}"),
            "INVALID_TOOL_ARGUMENTS",
        ),
        (
            raw("read_file", "{\"path\": {\"a\": 1}}"),
            "INVALID_TOOL_ARGUMENTS",
        ),
        (
            raw("read_file", "{\"path\": \"a\\u0000b\"}"),
            "INVALID_TOOL_ARGUMENTS",
        ),
        (
            raw("read_file", "{\"path\": \"\"}"),
            "INVALID_TOOL_ARGUMENTS",
        ),
        (raw("read_file", ""), "INVALID_TOOL_ARGUMENTS"),
        (raw("read_file", &deep), "INVALID_TOOL_ARGUMENTS"),
        (
            raw("execute_command", "{\"command\": \"\\n \"}"),
            "INVALID_TOOL_ARGUMENTS",
        ),
        (raw("rm", "{}"), "TOOL_VALIDATION_ERROR"),
        (
            raw("read_file\n", "{\"path\": \"a\"}"),
            "TOOL_VALIDATION_ERROR",
        ),
        (
            raw("READ_FILE", "{\"path\": \"a\"}"),
            "TOOL_VALIDATION_ERROR",
        ),
        (super::two_calls(), "MULTIPLE_TOOL_CALLS"),
        (
            Reply::tool_calls(vec![("echo", json!({"text": "x"})); 40]),
            "MULTIPLE_TOOL_CALLS",
        ),
    ];
    let server = TestServer::start().await;
    server.switch("s", "coder").await;
    for (reply, code) in cases {
        server.model.reply(reply.clone());
        server.model.reply(Reply::text("Then so"));
        let seen = server.say("s", "go on").await;
        let told = [
            &format!("error {code}"),
            "assistant_message coder",
            "completion",
        ];
        assert_eq!(seen.story(), told, "{reply:?}");
        assert_eq!(seen.status(), TurnStatus::Completed);
        let last = server.model.requests().pop().unwrap();
        let answered = last.body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .rev()
            .find(|m| m["role"] == "tool")
            .unwrap();
        assert!(
            answered["content"].as_str().unwrap().contains(code),
            "the model is told: {answered}"
        );
    }
}
