//! What every answer carries, and what is said about addresses and methods that do not exist.

use codelab_testkit::{INTERNAL_KEY, Reply, TestServer};
use serde_json::json;

use crate::openapi::routes;
use crate::raw::Request;

#[tokio::test]
async fn unknown_addresses_and_methods_are_told_apart() {
    let server = TestServer::start().await;
    for target in [
        "/unknown",
        "/sessions/a/b/c",
        "/agents/a",
        "/my/unknown",
        "/agent/message",
        "/docs2",
        "/%ff",
    ] {
        let answer = Request::with_key(&server, "GET", target)
            .send(&server)
            .await;
        assert_eq!(answer.refusal(), (404, "NOT_FOUND".to_owned()), "{target}");
    }
    for (method, target) in [
        ("POST", "/health"),
        ("DELETE", "/agents"),
        ("PUT", "/sessions"),
        ("GET", "/agent/message/stream"),
        ("GET", "/sessions/a/reset"),
        ("PATCH", "/sessions/a"),
        ("POST", "/"),
    ] {
        let answer = Request::with_key(&server, method, target)
            .send(&server)
            .await;
        assert_eq!(answer.refusal().0, 405, "{method} {target}");
        assert!(
            answer
                .header("allow")
                .is_some_and(|allowed| !allowed.is_empty()),
            "{method} {target}: no Allow"
        );
    }
}

#[tokio::test]
async fn every_route_is_there_with_and_without_a_slash() {
    let server = TestServer::start().await;
    for route in routes() {
        let path = route.at("nobody");
        let mut seen = Vec::new();
        for target in [
            path.clone(),
            format!("{path}/"),
            format!("{path}?x=1"),
            format!("{path}/?x=1"),
        ] {
            let request = Request::with_key(&server, &route.method, &target).json("{}");
            if route.is_endless() {
                seen.push((request.status(&server).await, String::new()));
                continue;
            }
            let answer = request.send(&server).await;
            // A person reads the answer of this route, in a browser.
            let is_page = route.path == "/oauth/callback";
            let code = if answer.status < 400 || is_page {
                String::new()
            } else {
                answer.error_code()
            };
            assert!(
                answer.status != 405 && code != "NOT_FOUND",
                "{} {target}: {}",
                route.method,
                answer.text()
            );
            seen.push((answer.status, code));
        }
        assert!(
            seen.iter().all(|one| *one == seen[0]),
            "{} {path}: {seen:?}",
            route.method
        );
    }
}

#[tokio::test]
async fn event_streams_are_neither_kept_nor_held_back() {
    let server = TestServer::start().await;
    server.model.route_to("ask");
    server.model.reply(Reply::text("Hello"));
    let send = json!({"session_id": "s", "message": "hello"}).to_string();
    for request in [
        Request::with_key(&server, "POST", "/agent/message/stream").json(send),
        Request::with_key(&server, "GET", "/sessions/s/events?follow=false"),
    ] {
        let answer = request.send(&server).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-accel-buffering"), Some("no"));
        assert!(
            answer.text().contains("event: message\ndata: {"),
            "{}",
            answer.text()
        );
    }
}

#[tokio::test]
async fn no_answer_may_be_kept_sniffed_or_framed() {
    let server = TestServer::start().await;
    for target in [
        "/",
        "/health",
        "/openapi.json",
        "/docs",
        "/sessions",
        "/unknown",
        "/metrics",
    ] {
        for request in [
            Request::with_key(&server, "GET", target),
            Request::new(&server, "GET", target),
        ] {
            let answer = request.send(&server).await;
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{target}");
            assert_eq!(
                answer.header("x-content-type-options"),
                Some("nosniff"),
                "{target}"
            );
            assert_eq!(
                answer.header("referrer-policy"),
                Some("no-referrer"),
                "{target}"
            );
        }
    }
}

#[tokio::test]
async fn pages_run_only_their_own_files() {
    let server = TestServer::start().await;
    for target in ["/", "/docs"] {
        let page = Request::new(&server, "GET", target).send(&server).await;
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, Some("text/html; charset=utf-8")),
            "{target}"
        );
        assert_eq!(
            page.header("content-security-policy"),
            Some(
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                 connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            ),
            "{target}"
        );
        let text = page.text();
        assert!(
            !text.contains("<style") && !text.contains(" style="),
            "{target}: {text}"
        );
        for script in text.split("<script").skip(1) {
            assert!(
                script.split('>').next().unwrap().contains("src=\"/assets/"),
                "{target}: {script:.200}"
            );
        }
        // Everything that the page names is there, and of the right kind.
        let named = text
            .split(['"', '\''])
            .filter(|part| part.starts_with("/assets/"));
        for file in named {
            let answer = Request::new(&server, "GET", file).send(&server).await;
            let kind = if file.ends_with(".css") {
                "text/css"
            } else {
                ""
            };
            assert_eq!(answer.status, 200, "{file}");
            assert!(
                answer
                    .header("content-type")
                    .is_some_and(|given| given.starts_with(kind)),
                "{file}"
            );
        }
    }
    let missing = Request::new(&server, "GET", "/assets/missing.js")
        .send(&server)
        .await;
    assert_eq!(missing.refusal(), (404, "NOT_FOUND".to_owned()));
}

#[tokio::test]
async fn a_preflight_is_not_answered_with_permission() {
    let server = TestServer::start().await;
    for route in routes() {
        let preflight = Request::new(&server, "OPTIONS", &route.at("s"))
            .with("Origin", "http://evil.example")
            .with("Access-Control-Request-Method", "POST")
            .with(
                "Access-Control-Request-Headers",
                "x-internal-auth, content-type",
            );
        // That no answer carries a CORS header is checked for every request of these tests.
        let status = preflight.send(&server).await.status;
        assert!(matches!(status, 403 | 405), "{}: {status}", route.path);
    }
}

#[tokio::test]
async fn metrics_take_the_key_as_a_bearer_token_too() {
    let server = TestServer::start().await;
    let cases = [
        (None, 401),
        (Some(format!("Bearer {INTERNAL_KEY}")), 200),
        (Some("Bearer wrong".to_owned()), 401),
        (Some("Bearer ".to_owned()), 401),
        (Some(INTERNAL_KEY.to_owned()), 401),
        (Some(format!("Bearer {}", INTERNAL_KEY.to_uppercase())), 401),
        (Some(format!("Basic {INTERNAL_KEY}")), 401),
    ];
    for (token, status) in cases {
        let request = Request::new(&server, "GET", "/metrics");
        let request = token.iter().fold(request, |request, token| {
            request.with("Authorization", token)
        });
        assert_eq!(request.send(&server).await.status, status, "{token:?}");
    }
    let text = Request::with_key(&server, "GET", "/metrics")
        .send(&server)
        .await
        .text();
    assert!(
        text.contains("# TYPE ") && text.contains("codelab_"),
        "{text}"
    );
    assert!(!text.contains(INTERNAL_KEY));
    let elsewhere = Request::new(&server, "GET", "/sessions")
        .with("Authorization", &format!("Bearer {INTERNAL_KEY}"));
    assert_eq!(elsewhere.send(&server).await.status, 401);
}
