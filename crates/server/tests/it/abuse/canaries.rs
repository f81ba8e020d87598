//! Secrets with a name that can be searched for: never in a log at any level, an answer, an event,
//! or a start error.

use std::path::PathBuf;

use codelab_server::{Flags, Settings};
use codelab_testkit::{Reply, TestServer, skipped_through_another};
use serde_json::{Value, json};

use super::{alone, block_on};
use crate::openapi::routes;
use crate::raw::{Answer, Request, exchange};

const KEY: &str = "canary-internal-5f2e";
const MODEL_KEY: &str = "canary-model-77aa";
const JWT: &str = "canary-jwt-91cc";
/// A header for an MCP server.
const MCP: &str = "canary-mcp-4e88";
/// What people and models say is stored and shown, but not logged.
const SAID: &str = "canary-said-03bd";
const ANSWERED: &str = "canary-answered-ab12";

const SECRETS: [&str; 4] = [KEY, MODEL_KEY, JWT, MCP];

#[track_caller]
fn assert_clean(what: &str, text: &str, words: &[&str]) {
    for word in words {
        if let Some(at) = text.find(word) {
            let from = text[..at].rfind('\n').map_or(0, |start| start + 1);
            let line: String = text[from..]
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(400)
                .collect();
            panic!("{what} shows {word}: {line}");
        }
    }
}

#[test]
fn secrets_are_never_logged_answered_or_streamed() {
    if skipped_through_another("it gives the server another internal key") {
        return;
    }
    if let Some(log) = alone("abuse::canaries::secrets_are_never_logged_answered_or_streamed") {
        assert!(
            log.contains("TRACE") && log.contains("DEBUG"),
            "everything is logged: {} bytes",
            log.len()
        );
        for line in [
            "model server refused a call",
            "calling the model",
            "request",
        ] {
            assert!(
                log.contains(line),
                "no {line:?} in {} bytes of log",
                log.len()
            );
        }
        assert_clean("the log", &log, &SECRETS);
        assert_clean("the log", &log, &[SAID, ANSWERED]);
        return;
    }
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    tracing::trace!("the log of this process begins");
    block_on(async {
        with_a_model_key().await;
        with_the_internal_key_sent_to_the_model().await;
        with_an_mcp_server_that_refuses().await;
    });
}

async fn with_a_model_key() {
    let settings = [
        ("INTERNAL_API_KEY", KEY),
        ("LLM_API_KEY", MODEL_KEY),
        ("JWT_SECRET", JWT),
        ("CODELAB_LIMITS__MODEL_TIMEOUT_SECONDS", "1"),
    ];
    let server = TestServer::with(&settings).await;
    let caller = Caller { server: &server };
    caller.ordinary_work().await;
    assert!(
        server
            .model
            .requests()
            .iter()
            .all(|request| request.header("authorization").is_some())
    );
    caller.failing_models(MODEL_KEY).await;
    caller.wrong_keys().await;
    caller.bad_requests().await;
    caller.every_route().await;
}

async fn with_the_internal_key_sent_to_the_model() {
    let settings = [
        ("INTERNAL_API_KEY", KEY),
        ("JWT_SECRET", JWT),
        ("CODELAB_LIMITS__MODEL_TIMEOUT_SECONDS", "1"),
    ];
    let server = TestServer::with(&settings).await;
    let caller = Caller { server: &server };
    caller.ordinary_work().await;
    assert!(
        server
            .model
            .requests()
            .iter()
            .all(|request| request.header("x-internal-auth") == Some(KEY))
    );
    caller.failing_models(KEY).await;
    caller.every_route().await;
}

/// The model's server stands for one: it refuses what it does not know.
async fn with_an_mcp_server_that_refuses() {
    let settings = [("JWT_SECRET", JWT), ("CODELAB_MCP__ALLOW_PRIVATE", "true")];
    let server = TestServer::with(&settings).await;
    let caller = Caller { server: &server };
    let bearer = format!("Bearer {}", server.token(1));
    let request = |method: &str, path: &str| {
        Request::new(&server, method, path).with("Authorization", &bearer)
    };
    let made = request("POST", "/my/projects/").json(json!({"name": "p"}).to_string());
    let project = caller.send(made).await.json()["project_id"].clone();
    let path = format!("/my/projects/{project}/mcp/");
    let url = format!("{}/mcp", server.model.url());
    let saved = json!({"name": "s", "url": url, "headers": {"X-Key": MCP}});
    let saved = caller.send(request("POST", &path).json(saved.to_string()));
    assert_eq!(saved.await.status, 201);
    let tried = caller
        .send(request("POST", &format!("{path}s/test/")))
        .await;
    assert!(tried.json()["error"].is_string(), "{}", tried.text());
    caller.send(request("GET", &path)).await;
}

struct Caller<'a> {
    server: &'a TestServer,
}

impl Caller<'_> {
    async fn send(&self, request: Request) -> Answer {
        let answer = request.send(self.server).await;
        let shown = format!("{:?}\n{}", answer.headers, answer.text());
        assert_clean(
            &format!("the answer to {} {}", request.method, request.target),
            &shown,
            &SECRETS,
        );
        answer
    }

    fn request(&self, method: &str, target: &str) -> Request {
        Request::new(self.server, method, target).with("X-Internal-Auth", KEY)
    }

    async fn stream(&self, body: Value) -> Answer {
        self.send(
            self.request("POST", "/agent/message/stream")
                .json(body.to_string()),
        )
        .await
    }

    async fn say(&self, session: &str) -> Answer {
        self.stream(json!({"session_id": session, "message": format!("hello {SAID}"), "agent_type": "coder"})).await
    }

    async fn ordinary_work(&self) {
        self.server.model.reply(Reply::tool_call(
            "write_file",
            json!({"path": "a.py", "content": ANSWERED}),
        ));
        let asked = self.say("s").await.text();
        let call = asked
            .split("\"call_id\":\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap()
            .to_owned();
        let decide = json!({"session_id": "s", "message_type": "hitl_decision", "tool_call_id": call,
            "hitl_decision": {"decision": "APPROVE"}});
        assert_eq!(self.stream(decide).await.status, 200);
        self.server
            .model
            .reply(Reply::text(format!("I wrote {ANSWERED}")));
        let result = json!({"session_id": "s", "message_type": "tool_result", "tool_call_id": call, "tool_result": SAID});
        let done = self.stream(result).await;
        assert!(
            done.text().contains(ANSWERED) && done.text().contains("\"completed\""),
            "{}",
            done.text()
        );
    }

    /// Model servers that say the key back in everything they refuse.
    async fn failing_models(&self, key: &str) {
        let echo = json!({"error": {"message": format!("Incorrect API key provided: {key}."), "key": key}}).to_string();
        let far = format!("{}{key}", "x".repeat(16 * 1024 - key.len() / 2));
        let failures = [
            Reply::status(401, echo.clone()),
            Reply::status(403, format!("<html>Bearer {key}</html>")),
            Reply::status(400, far),
            Reply::status(500, echo.clone()),
            Reply::status(429, echo.clone()),
            Reply::status_with_headers(
                401,
                &[("www-authenticate", &format!("Bearer {key}"))],
                echo.clone(),
            ),
            Reply::status_with_headers(
                307,
                &[("location", &format!("http://127.0.0.1:1/?key={key}"))],
                "",
            ),
            Reply::status(200, echo.clone()),
            Reply::raw([format!("data: {echo}\n\n")]),
            Reply::raw([format!("data: {{{key}\n\n")]),
            Reply::raw([format!("event: {key}\n\n")]),
            Reply::hang(),
            Reply::unknown_model(key),
        ];
        for failure in failures {
            self.server.model.on(|_| true, failure);
            let failed = self.say("failing").await;
            assert!(failed.text().contains("\"failed\""), "{}", failed.text());
        }
        self.server.model.on(|_| true, Reply::text("Again"));
    }

    async fn wrong_keys(&self) {
        // Close to the real one, as a person mistypes it: what was given must not be logged either.
        for key in [
            format!("{KEY}x"),
            format!("{KEY} {KEY}"),
            KEY.to_uppercase(),
            format!("Bearer {KEY}"),
            JWT.to_owned(),
        ] {
            let request =
                Request::new(self.server, "GET", "/sessions").with("X-Internal-Auth", &key);
            assert_eq!(self.send(request).await.status, 401, "{key}");
        }
        let request = Request::new(self.server, "GET", "/metrics")
            .with("Authorization", &format!("Bearer {KEY}"));
        assert_eq!(self.send(request).await.status, 200);
        let request = Request::new(self.server, "GET", &format!("/sessions?key={KEY}"));
        assert_eq!(request.send(self.server).await.status, 401);
        let foreign = self
            .request("GET", "/sessions")
            .with("Origin", "http://evil.example");
        assert_eq!(self.send(foreign).await.status, 403);
    }

    async fn bad_requests(&self) {
        for body in ["{", "[]", "{\"session_id\": 5}", "{\"session_id\": \"s\"}"] {
            let request = self.request("POST", "/agent/message/stream").json(body);
            assert_eq!(self.send(request).await.status, 422);
        }
        let host = crate::raw::authority(self.server);
        let broken =
            format!("GET / HTTP/1.1\r\nHost: {host}\r\nX-Internal-Auth: {KEY}\r\nX y: 1\r\n\r\n");
        let answer = exchange(self.server, broken.into_bytes()).await.unwrap();
        assert_clean("the answer to a broken head", &answer.text(), &SECRETS);
        let many: String = (0..1000).map(|n| format!("X-{n}: a\r\n")).collect();
        let flood = format!(
            "GET /sessions HTTP/1.1\r\nHost: {host}\r\nX-Internal-Auth: {KEY}\r\n{many}\r\n"
        );
        let answer = exchange(self.server, flood.into_bytes()).await.unwrap();
        assert_clean("the answer to a flood", &answer.text(), &SECRETS);
    }

    async fn every_route(&self) {
        for route in routes().into_iter().filter(|route| !route.is_endless()) {
            let mut request = self.request(&route.method, &route.at("s")).json("{}");
            if route.path.ends_with("/events") {
                request.target.push_str("?follow=false");
            }
            self.send(request).await;
        }
    }
}

/// A start that fails says which setting is wrong, and not what a secret in it is.
#[tokio::test]
async fn start_errors_name_the_setting_and_not_the_secret() {
    if skipped_through_another("no server starts") {
        return;
    }
    let cases: &[&[(&str, &str)]] = &[
        &[("DATABASE_URL", "postgres://user:canary-db-1@127.0.0.1:1/x")],
        &[(
            "DATABASE_URL",
            "postgres://user:canary-db-2@127.0.0.1:port/x",
        )],
        &[("DATABASE_URL", "mysql://user:canary-db-3@127.0.0.1/x")],
        &[("LLM_PROXY_URL", "ftp://user:canary-url-4@127.0.0.1")],
        &[("LLM_PROXY_URL", "canary-url-5")],
        &[("LLM_API_KEY", "canary-key-6\nx")],
        &[("INTERNAL_API_KEY", "canary-key-7\nx")],
        &[("JWT_SECRET", "canary-jwt-8"), ("CODELAB_ADDR", "canary")],
        &[
            ("CODELAB_LLM__API_KEY", "canary-key-9"),
            ("CODELAB_LIMITS__STEPS", "many"),
        ],
    ];
    for settings in cases {
        let Err(error) = TestServer::try_with(settings).await else {
            panic!("started with {settings:?}")
        };
        for shown in [format!("{error}"), format!("{error:?}")] {
            assert_clean(&format!("{settings:?}"), &shown, &["canary-"]);
            assert!(
                !shown.contains('\n') || shown.starts_with(char::is_uppercase),
                "one line: {shown}"
            );
        }
    }
}

#[test]
fn wrong_secrets_in_the_file_are_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    for (text, setting) in [
        ("[llm]\napi_key = 778899", "llm.api_key"),
        ("[llm]\napi_key = [\"canary-778899\"]", "llm.api_key"),
        ("[llm]\napi_key = \"canary-778899", "line 2"),
        ("[llm]\napi_keys = \"canary-778899\"", "api_keys"),
        ("internal_api_key = \"canary-778899\"", "internal_api_key"),
    ] {
        let path: PathBuf = folder.path().join("codelab.toml");
        std::fs::write(&path, text).unwrap();
        let flags = Flags {
            config: Some(path),
            data_dir: Some(folder.path().to_owned()),
            ..Flags::default()
        };
        let error = Settings::load(flags, std::iter::empty())
            .unwrap_err()
            .to_string();
        assert!(error.contains(setting), "{error}");
        assert_clean(text, &error, &["778899"]);
    }
}

#[test]
fn settings_can_be_shown_without_their_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let flags = Flags {
        data_dir: Some(folder.path().to_owned()),
        ..Flags::default()
    };
    let environment = [
        ("INTERNAL_API_KEY", KEY),
        ("LLM_API_KEY", MODEL_KEY),
        ("JWT_SECRET", JWT),
        ("DATABASE_URL", "postgres://user:canary-db@127.0.0.1/x"),
    ];
    let settings = Settings::load(
        flags,
        environment
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v.to_owned())),
    )
    .unwrap();
    assert_clean("the settings", &format!("{settings:?}"), &["canary"]);
}
