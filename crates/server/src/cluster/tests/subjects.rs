//! What a request is about, as its path or its body says.

use axum::Router;
use axum::body::Bytes;
use axum::routing::any;
use reqwest::Method;

use super::*;

fn project(id: i64) -> Option<OwnedThing> {
    ProjectId::new(id).map(OwnedThing::Project)
}

fn session(id: &str) -> Option<OwnedThing> {
    SessionId::parse(id).ok().map(OwnedThing::Session)
}

/// Says back the body, so that a test sees that all of it arrived.
fn routes() -> Router {
    let echo = |body: Bytes| async move { body };
    let paths = [
        "/agent/message/stream",
        "/sessions",
        "/sessions/{session_id}/events",
        "/agents/{session_id}/current",
        "/my/chat/sessions",
        "/my/chat/{session_id}/events",
        "/my/projects/{project_id}/clients",
        "/my/projects/{project_id}",
        "/my/usage",
        "/chat/history",
        "/oauth/callback",
        "/my/projects/{project_id}/mcp/{name}",
    ];
    paths
        .into_iter()
        .fold(Router::new(), |routes, path| routes.route(path, any(echo)))
}

#[tokio::test]
async fn a_request_is_about_what_its_path_or_body_names() {
    const POST: Method = Method::POST;
    const GET: Method = Method::GET;
    let came_back = format!("/oauth/callback?code=c&state={KNOWN_STATE}");
    let cases: Vec<(Method, &str, &str, Option<OwnedThing>)> = vec![
        (GET, "/chat/history", "", Some(OwnedThing::Chat)),
        (GET, "/my/usage", "", None),
        (GET, "/my/projects/12/mcp/git", "", project(12)),
        (GET, came_back.as_str(), "", project(FIRST_PROJECT)),
        (GET, "/oauth/callback?code=c&state=other", "", None),
        (GET, "/oauth/callback", "", None),
        (GET, "/sessions/s:1/events", "", session("s:1")),
        (GET, "/sessions/s%20x/events", "", None),
        (GET, "/agents/s/current", "", session("s")),
        (POST, "/my/projects/12/clients", "{}", project(12)),
        (POST, "/my/projects/0/clients", "{}", None),
        (GET, "/my/projects/12", "", None),
        (Method::PATCH, "/my/projects/12", "{}", project(12)),
        (GET, "/my/chat/known/events", "", project(FIRST_PROJECT)),
        (GET, "/my/chat/unknown/events", "", None),
        (POST, "/my/chat/sessions", "{\"project_id\":3}", project(3)),
        (
            POST,
            "/my/chat/sessions",
            "{\"title\":\"t\"}",
            project(USER),
        ),
        (POST, "/my/chat/sessions", "", project(USER)),
        (POST, "/my/chat/sessions", "{\"project_id\":-3}", None),
        (POST, "/my/chat/sessions", "{", None),
        (
            POST,
            "/sessions",
            "{\"session_id\":\"new\"}",
            session("new"),
        ),
        (POST, "/sessions", "{}", None),
        (
            POST,
            "/agent/message/stream",
            "{\"message\":1,\"session_id\":\"s\"}",
            session("s"),
        ),
        (POST, "/agent/message/stream", "{\"session_id\":7}", None),
        (POST, "/agent/message/stream", "not JSON", None),
    ];
    let node = Node::start(Script::first([Says::Here]), routes()).await;
    let http = reqwest::Client::new();
    let mut before = 0;
    for (method, path, body, expected) in cases {
        let mut asked = http.request(method, node.url(path));
        if !body.is_empty() {
            asked = asked.header("content-type", "application/json").body(body);
        }
        let answer = within(asked.send()).await.unwrap();
        assert_eq!(answer.status(), 200, "{path} {body}");
        assert_eq!(answer.text().await.unwrap(), body, "{path}");
        let routed = node.script.routed();
        let newly = routed[before..].to_vec();
        assert_eq!(newly, Vec::from_iter(expected), "{path} {body}");
        before = routed.len();
    }
}

/// Such bodies are refused by their handler, so they need not be read here.
#[tokio::test]
async fn a_body_that_its_handler_refuses_unread_is_left_to_it() {
    let node = Node::start(Script::first([Says::Here]), routes()).await;
    let http = reqwest::Client::new();
    let named = "{\"session_id\":\"s\"}";
    let asked = http.post(node.url("/sessions")).body(named);
    let answer = within(asked.send()).await.unwrap();
    assert_eq!(
        answer.text().await.unwrap(),
        named,
        "without a content type"
    );
    assert_eq!(node.script.routed(), []);
}

#[tokio::test]
async fn a_body_without_end_is_refused_at_the_limit() {
    let node = Node::start(Script::first([Says::Here]), routes()).await;
    let pieces =
        futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; MIB])));
    let pieces = futures_util::StreamExt::take(pieces, 2 * BODY_BYTES / MIB);
    let asked = reqwest::Client::new()
        .post(node.url("/sessions"))
        .header("content-type", "application/json")
        .body(reqwest::Body::wrap_stream(pieces));
    let answer = within(asked.send()).await.unwrap();
    assert_eq!(answer.status(), 413);
}
