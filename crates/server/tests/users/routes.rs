//! Every `/my` route of the API document, walked over: nobody gets in without proof.

use codelab_server::openapi_json;
use serde_json::{Value, json};

use crate::kit::{Person, claims, seconds_from_now, server, server_with, sign};

pub struct Route {
    pub method: String,
    pub path: String,
    /// A body that would be accepted.
    pub body: Option<Value>,
}

/// A new route of users is covered by the tests that walk over these.
pub fn my_routes() -> Vec<Route> {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item
            .as_object()
            .unwrap()
            .iter()
            .filter(|_| path.starts_with("/my/"))
        {
            let security = operation["security"].to_string();
            assert!(
                security.contains("user_token") && security.contains("login_cookie"),
                "{method} {path}"
            );
            for status in ["401", "403", "503"] {
                assert!(
                    operation["responses"][status].is_object(),
                    "{method} {path} does not document {status}"
                );
            }
            let body = operation.get("requestBody").map(|_| sample(path));
            routes.push(Route {
                method: method.to_uppercase(),
                path: path.clone(),
                body,
            });
        }
    }
    assert!(
        routes.len() >= 40,
        "the document has {} routes of users",
        routes.len()
    );
    routes
}

fn sample(path: &str) -> Value {
    match path.rsplit('/').next().unwrap() {
        "projects" | "{project_id}" => json!({ "name": "taken over" }),
        "agents" => json!({ "name": "intruder" }),
        "{agent_id}" => json!({ "role": "intruder" }),
        "sessions" => json!({}),
        "{session_id}" => json!({ "title": "taken over" }),
        "retry" => json!({}),
        "{message_id}" => json!({ "delivery": "steer" }),
        "rewind" => json!({ "to_message_id": "stolen", "scope": "both" }),
        "message" => json!({ "content": "hello" }),
        "fork" => json!({ "at_message_id": "m-1" }),
        "decision" => json!({ "decision": "approve" }),
        "answer" => json!({ "answer": "42" }),
        "clients" => json!({ "client_id": "intruder", "sandbox": "none" }),
        "context" => json!({ "text": "planted" }),
        "search" => json!({ "query": "secrets" }),
        "claim" => json!({ "client_id": "intruder" }),
        "result" => json!({ "client_id": "intruder", "result": "found" }),
        "test" => json!({ "model": "gpt-4" }),
        "mcp" if path.contains("/clients/") => json!({ "servers": [] }),
        "mcp" => json!({ "name": "intruder", "url": "https://intruder.example/mcp" }),
        "{name}" => json!({ "url": "https://intruder.example/mcp" }),
        "instructions" => json!({ "texts": [] }),
        "trust" => json!({ "kind": "skill", "path": "a", "digest": "b" }),
        "accept" => json!({}),
        "elicit" => {
            json!({ "client_id": "intruder", "message": "Which?", "requested_schema": {} })
        }
        "preview" => json!({ "client_id": "intruder", "base": null, "diff": "" }),
        "ask_again" => json!({
            "client_id": "intruder", "reason": "r", "preview": { "base": null, "diff": "" },
        }),
        "progress" => json!({ "client_id": "intruder", "progress": 1 }),
        "permission" => json!({ "tool": "write", "permission": "allow" }),
        other => panic!("say what body a route ending in {other} takes"),
    }
}

#[tokio::test]
async fn a_body_must_be_json_within_the_limit() {
    const LIMIT: usize = 1000;
    let server = server_with(&[("CODELAB_LIMITS__BODY_BYTES", &LIMIT.to_string())]).await;
    let owner = Person::user(&server, 1);
    let project = owner.project("mine").await;
    let agent = owner.agents(project).await[0].clone();
    let session = owner.session(project).await;
    let before = owner.get("/my/projects/").await.expect(200);
    for route in my_routes().into_iter().filter(|route| route.body.is_some()) {
        let path = route.path.replace("{project_id}", &project.to_string());
        let path = path
            .replace("{agent_id}", agent["agent_id"].as_str().unwrap())
            .replace("{session_id}", &session);
        let path = path.replace(['{', '}'], "");
        let send = |content_type, text: &str| {
            let (owner, text, path, method) = (
                owner.clone(),
                text.to_owned(),
                path.clone(),
                route.method.clone(),
            );
            async move { owner.send(&method, &path, content_type, text).await }
        };
        let body = route.body.unwrap().to_string();
        for content_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
            send(content_type, &body)
                .await
                .refused(422, "VALIDATION_ERROR");
        }
        for text in [
            "",
            "[]",
            "{",
            "null",
            "{\"name\": \"\u{0}\"}",
            &"[".repeat(LIMIT),
        ] {
            let answer = send("application/json", text).await;
            assert_eq!(
                answer.status, 422,
                "{} {path} {text:?}: {}",
                route.method, answer.body
            );
        }
        send("application/json", &" ".repeat(LIMIT + 1))
            .await
            .refused(413, "PAYLOAD_TOO_LARGE");
    }
    assert_eq!(owner.get("/my/projects/").await.expect(200), before);
    assert_eq!(owner.agents(project).await[0], agent);
}

#[tokio::test]
async fn nobody_gets_in_without_proof() {
    let server = server().await;
    let owner = Person::user(&server, 1);
    let project = owner.project("mine").await;
    let agent = owner.agents(project).await[0].clone();
    let agent_id = agent["agent_id"].as_str().unwrap();
    let mut expired = claims(1);
    expired["exp"] = json!(seconds_from_now(-60));
    let strangers = [
        ("no token", Person::stranger(&server)),
        ("an expired token", Person::bearer(&server, &sign(&expired))),
        ("nonsense", Person::bearer(&server, "x")),
        (
            "the internal key",
            Person::bearer(&server, codelab_testkit::INTERNAL_KEY),
        ),
        (
            "the internal key's header",
            Person::with(
                &server,
                Some(("x-internal-auth", codelab_testkit::INTERNAL_KEY.to_owned())),
            ),
        ),
        (
            "a made-up cookie",
            Person::cookie(&server, &format!("codelab_session={}", "a".repeat(64))),
        ),
        (
            "another scheme",
            Person::with(
                &server,
                Some(("authorization", format!("Basic {}", sign(&claims(1))))),
            ),
        ),
    ];
    for route in my_routes() {
        let path = route
            .path
            .replace("{project_id}", &project.to_string())
            .replace("{agent_id}", agent_id);
        let path = path.replace(['{', '}'], "");
        for (who, stranger) in &strangers {
            for slash in ["", "/"] {
                let answer = stranger
                    .ask(&route.method, &format!("{path}{slash}"), route.body.clone())
                    .await;
                assert_eq!(
                    (answer.status, answer.code()),
                    (401, "UNAUTHORIZED"),
                    "{who}: {} {path}",
                    route.method
                );
                answer.refused(401, "UNAUTHORIZED");
                assert_eq!(answer.raw.headers["www-authenticate"], "Bearer");
            }
        }
        // A foreign origin is refused even with everything else in order.
        for origin in ["http://evil.example", "null"] {
            let answer = owner
                .ask_with(
                    &route.method,
                    &path,
                    route.body.clone(),
                    &[("origin", origin)],
                )
                .await;
            answer.refused(403, "FORBIDDEN");
        }
    }
    assert_eq!(owner.agents(project).await[0], agent);
    assert_eq!(owner.get("/my/projects/").await.expect(200)["total"], 1);
}
