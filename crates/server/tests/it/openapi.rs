//! The API document: that the kept copy is the served one, and that it says what every route can
//! answer.

use std::collections::BTreeSet;
use std::path::PathBuf;

use codelab_protocol::ErrorCode;
use codelab_server::openapi_json;
use codelab_testkit::{INTERNAL_KEY, TestServer};
use serde_json::Value;

use crate::raw::Request;

/// One operation of the document.
#[derive(Debug, Clone)]
pub struct Route {
    pub method: String,
    pub path: String,
    pub way_in: WayIn,
    pub takes_body: bool,
}

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayIn {
    Open,
    InternalKey,
    User,
}

impl Route {
    /// What an honest caller sends, but for the body.
    pub fn request(&self, server: &TestServer, session: &str) -> Request {
        let request = Request::new(server, &self.method, &self.at(session));
        match self.way_in {
            WayIn::User => request.with("Authorization", &format!("Bearer {}", server.token(1))),
            WayIn::Open | WayIn::InternalKey => request.with("X-Internal-Auth", INTERNAL_KEY),
        }
    }

    /// A stream that the internal key opens and that never ends.
    pub fn is_endless(&self) -> bool {
        self.path == "/chat/stream"
    }

    /// The path with a session in it.
    pub fn at(&self, session: &str) -> String {
        self.path.replace("{session_id}", session)
    }
}

/// Every operation, so that a new route is covered by the tests that walk over them.
pub fn routes() -> Vec<Route> {
    let document = document();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schemes = operation["security"]
                .as_array()
                .unwrap_or_else(|| panic!("{method} {path}: no security"));
            routes.push(Route {
                method: method.to_uppercase(),
                path: path.clone(),
                way_in: way_in(schemes),
                takes_body: operation.get("requestBody").is_some(),
            });
        }
    }
    routes
}

fn way_in(schemes: &[Value]) -> WayIn {
    let names = |scheme: &Value| {
        scheme
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let names: Vec<Vec<String>> = schemes.iter().map(names).collect();
    if names.contains(&Vec::new()) {
        WayIn::Open
    } else if names.iter().flatten().any(|name| name == "user_token") {
        WayIn::User
    } else {
        WayIn::InternalKey
    }
}

fn document() -> Value {
    serde_json::from_str(&openapi_json()).unwrap()
}

fn kept_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json")
}

#[test]
fn the_kept_document_is_the_generated_one() {
    let generated = openapi_json();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(kept_file(), &generated).unwrap();
    }
    let kept = std::fs::read_to_string(kept_file()).unwrap_or_default();
    assert!(
        kept == generated,
        "docs/openapi.json is not what the routes say; write it again with\n  \
         UPDATE=1 cargo test -p codelab-server --test it openapi"
    );
}

#[tokio::test]
async fn the_served_document_is_the_generated_one() {
    let server = TestServer::start().await;
    let answer = Request::new(&server, "GET", "/openapi.json")
        .send(&server)
        .await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    assert_eq!(String::from_utf8(answer.body).unwrap(), openapi_json());
}

#[test]
fn the_document_is_openapi_3_1_with_both_ways_in() {
    let document = document();
    assert!(
        document["openapi"].as_str().unwrap().starts_with("3.1."),
        "{}",
        document["openapi"]
    );
    let schemes = &document["components"]["securitySchemes"];
    assert_eq!(schemes["internal_key"]["type"], "apiKey");
    assert_eq!(
        (
            &schemes["internal_key"]["in"],
            &schemes["internal_key"]["name"]
        ),
        (&"header".into(), &"X-Internal-Auth".into())
    );
    assert_eq!(
        (
            &schemes["internal_bearer"]["type"],
            &schemes["internal_bearer"]["scheme"]
        ),
        (&"http".into(), &"bearer".into())
    );
}

/// The runtime API as the specification lists it; a route that is missing here or there is a
/// mistake.
const RUNTIME_API: [&str; 27] = [
    "DELETE /sessions/{session_id}",
    "GET /",
    "GET /agents",
    "GET /agents/{session_id}/current",
    "GET /chat/history",
    "GET /chat/stream",
    "GET /docs",
    "GET /health",
    "GET /health/live",
    "GET /health/ready",
    "GET /metrics",
    "GET /openapi.json",
    "GET /sessions",
    "GET /sessions/{session_id}/agent-history",
    "GET /sessions/{session_id}/audit",
    "GET /sessions/{session_id}/events",
    "GET /sessions/{session_id}/history",
    "GET /sessions/{session_id}/pending-approvals",
    "POST /agent/message/stream",
    "POST /chat/agent_message",
    "POST /chat/ask_user",
    "POST /chat/cancel",
    "POST /chat/user_message",
    "POST /sessions",
    "POST /sessions/{session_id}/cancel",
    "POST /sessions/{session_id}/reset",
    "POST /sessions/{session_id}/restore",
];

#[test]
fn every_route_of_the_runtime_is_documented() {
    let named: Vec<String> = routes()
        .iter()
        .map(|route| format!("{} {}", route.method, route.path))
        .collect();
    let missing: Vec<&str> = RUNTIME_API
        .into_iter()
        .filter(|route| !named.contains(&(*route).to_owned()))
        .collect();
    assert!(missing.is_empty(), "not documented: {missing:?}");
}

#[test]
fn every_operation_says_what_it_can_answer() {
    let document = document();
    let mut wrong = Vec::new();
    for route in routes() {
        let operation = &document["paths"][&route.path][route.method.to_lowercase()];
        let mut needed = Vec::new();
        if route.way_in != WayIn::Open {
            needed.extend(["401", "403"]);
        }
        if route.takes_body {
            needed.extend(["413", "422"]);
        }
        if route.path.contains('{') {
            needed.push("404");
        }
        for status in needed {
            let schema =
                &operation["responses"][status]["content"]["application/json"]["schema"]["$ref"];
            if *schema != "#/components/schemas/ErrorBody" {
                wrong.push(format!(
                    "{} {}: {status} is not documented as ErrorBody",
                    route.method, route.path
                ));
            }
        }
        for name in route.path.split(['{', '}']).skip(1).step_by(2) {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let described = parameters
                .filter(|one| one["name"] == name && one["in"] == "path" && one["required"] == true)
                .count();
            if described != 1 {
                wrong.push(format!(
                    "{} {}: {name} is described {described} times",
                    route.method, route.path
                ));
            }
        }
        if operation["summary"].as_str().is_none_or(str::is_empty) {
            wrong.push(format!("{} {}: no summary", route.method, route.path));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The document's own words for errors are those that are sent.
#[test]
fn every_error_code_is_documented_as_it_is_sent() {
    let document = document();
    let documented: Vec<&str> = document["components"]["schemas"]["ErrorCode"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(Value::as_str)
        .collect();
    let sent: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(documented, sent);
}

#[test]
fn every_reference_leads_somewhere() {
    let text = openapi_json();
    let document = document();
    let names = text
        .split("\"#/components/schemas/")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let lost: BTreeSet<&str> = names
        .filter(|name| document["components"]["schemas"].get(name).is_none())
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// A result is a text or any JSON; a document that says `object` makes typed clients refuse the
/// rest.
#[test]
fn results_of_any_kind_are_documented_so() {
    let document = document();
    for (schema, property) in [
        ("AgentStreamRequest", "tool_result"),
        ("ToolResultChunk", "result"),
    ] {
        let documented = &document["components"]["schemas"][schema]["properties"][property];
        let kinds = match &documented["type"] {
            Value::Array(kinds) => kinds.clone(),
            Value::Null => continue,
            kind => vec![kind.clone()],
        };
        assert!(
            kinds.contains(&"string".into()),
            "{schema}.{property} takes only {kinds:?}"
        );
    }
}

#[test]
fn only_the_known_routes_are_public() {
    let open = routes()
        .into_iter()
        .filter(|route| route.way_in == WayIn::Open);
    let public: Vec<String> = open.map(|route| route.path).collect();
    let health = ["/health", "/health/live", "/health/ready"];
    let known = [
        &[
            "/",
            "/docs",
            "/login",
            "/logout",
            "/oauth/callback",
            "/openapi.json",
        ],
        health.as_slice(),
    ]
    .concat();
    assert!(
        public.iter().all(|path| known.contains(&path.as_str())),
        "{public:?}"
    );
    assert_eq!(public.len(), known.len(), "{public:?}");
}

/// A browser asks for them without any key.
#[tokio::test]
async fn the_readable_page_has_its_style_and_its_icon() {
    let server = TestServer::start().await;
    let get = async |path: &str| reqwest::get(format!("{}{path}", server.url)).await.unwrap();
    let page = get("/docs").await.text().await.unwrap();
    let files = page.split("href=\"/assets/").skip(1);
    let files: Vec<&str> = files.filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(files, ["docs.css", "docs-icon.svg"]);
    for (file, kind) in files
        .iter()
        .zip(["text/css; charset=utf-8", "image/svg+xml"])
    {
        let answer = get(&format!("/assets/{file}")).await;
        assert_eq!(answer.status(), 200, "{file}");
        assert_eq!(answer.headers()["content-type"], kind, "{file}");
    }
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let document = document();
    let items = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values());
    let names: Vec<&str> = items
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(
        names.iter().collect::<BTreeSet<_>>().len(),
        names.len(),
        "{names:?}"
    );
}
