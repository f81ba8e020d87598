//! Only servers of the installation forward; the headers of others mean nothing.

use axum::Router;
use axum::routing::any;
use reqwest::Method;

use super::*;
use crate::cluster::key::ClusterKey;

fn routes() -> Router {
    let handler = || async { "handled" };
    let is_forwarded = |request: Request| async move {
        let forwarded = request.extensions().get::<crate::cluster::Forwarded>();
        format!("{} {}", request.method(), forwarded.is_some())
    };
    Router::new()
        .route("/chat/user_message", any(handler))
        .route("/chat/history", any(is_forwarded))
}

fn forwarded(node: &Node, method: Method, keys: &[&str]) -> reqwest::RequestBuilder {
    let http = reqwest::Client::new();
    let asked = http
        .request(method, node.url("/cluster/forward"))
        .header("x-codelab-forward-method", "POST")
        .header("x-codelab-forward-path", "/chat/user_message")
        .header("x-codelab-forward-thing", "chat")
        .header("x-codelab-forward-epoch", "1");
    keys.iter().fold(asked, |asked, key| {
        asked.header("x-codelab-cluster-key", *key)
    })
}

#[tokio::test]
async fn without_the_key_the_route_does_not_exist() {
    let node = Node::start(Script::owner(), routes()).await;
    let key = ClusterKey::derive(&Secret::new(INTERNAL_KEY)).header();
    let key = key.to_str().unwrap();
    let cases: [(Method, &[&str], u16); 6] = [
        (Method::POST, &[], 404),
        (Method::POST, &[INTERNAL_KEY], 404),
        (Method::POST, &[&key[1..]], 404),
        (Method::POST, &[key, "another"], 404),
        (Method::GET, &[key], 404),
        (Method::POST, &[key], 200),
    ];
    for (method, keys, status) in cases {
        let answer = within(forwarded(&node, method, keys).send()).await.unwrap();
        assert_eq!(answer.status(), status, "{keys:?}");
    }
    assert_eq!(node.script.accepted(), [OwnedThing::Chat]);
}

#[tokio::test]
async fn a_forward_that_says_too_little_is_refused() {
    let node = Node::start(Script::owner(), routes()).await;
    let key = ClusterKey::derive(&Secret::new(INTERNAL_KEY)).header();
    let asked = reqwest::Client::new()
        .post(node.url("/cluster/forward"))
        .header("x-codelab-cluster-key", key.to_str().unwrap())
        .header("x-codelab-forward-method", "POST")
        .header("x-codelab-forward-path", "/chat/user_message");
    for thing in [None, Some("everything")] {
        let asked = asked.try_clone().unwrap();
        let asked = match thing {
            Some(thing) => asked.header("x-codelab-forward-thing", thing),
            None => asked,
        };
        assert_eq!(within(asked.send()).await.unwrap().status(), 400);
    }
}

/// A caller who writes the headers of a forward gets what the request itself asks for.
#[tokio::test]
async fn forged_headers_on_an_ordinary_request_mean_nothing() {
    let first = Node::start(Script::first([Says::Here]), routes()).await;
    let key = ClusterKey::derive(&Secret::new(INTERNAL_KEY)).header();
    let asked = reqwest::Client::new()
        .get(first.url("/chat/history"))
        .header("x-codelab-cluster-key", key.to_str().unwrap())
        .header("x-codelab-forward-method", "DELETE")
        .header("x-codelab-forward-path", "/chat/user_message")
        .header("x-codelab-forward-thing", "project 1");
    let answer = within(asked.send()).await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "GET false");
    assert_eq!(first.script.routed(), [OwnedThing::Chat]);
    assert_eq!(first.script.accepted(), []);
}

#[tokio::test]
async fn a_server_with_another_key_is_not_of_this_installation() {
    let network = NetworkOptions::default();
    let other = Node::start_with(Script::owner(), routes(), "other", &network, PATIENT).await;
    let script = Script::first([Says::There(other.url.clone())]);
    let first = Node::start(script, routes()).await;
    let asked = reqwest::Client::new().post(first.url("/chat/user_message"));
    let answer = within(asked.body("{}").send()).await.unwrap();
    assert_unreachable(answer, "another key").await;
    assert_eq!(other.script.accepted(), []);
}

/// As many headers as a server takes from a caller. Where they are too long for a forward, the
/// caller is told so.
#[tokio::test]
async fn the_headers_of_a_forward_do_not_push_out_those_of_the_caller() {
    let (first, _owner) = pair(routes()).await;
    let http = reqwest::Client::new();
    let many = (0..120).fold(http.get(first.url("/chat/history")), |asked, at| {
        asked.header(format!("x-{at}"), "1")
    });
    let answer = within(many.send()).await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "GET true");
    const TOO_LONG: &str = "HTTP/1.1 431 Too Large\r\nContent-Length: 0\r\n\r\n";
    let script = Script::first([Says::There(raw_owner(TOO_LONG, false).await)]);
    let first = Node::start(script, routes()).await;
    let answer = within(reqwest::get(first.url("/chat/history"))).await;
    assert_eq!(answer.unwrap().status(), 431, "the caller's fault");
}
