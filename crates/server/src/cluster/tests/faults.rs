//! Owners that moved, are gone, or die on the way.

use axum::Router;
use axum::body::Bytes;
use axum::routing::{any, post};

use super::*;

const ACKNOWLEDGED: &str = "HTTP/1.1 200 OK\r\nx-codelab-forward-decision: accepted\r\n\
    transfer-encoding: chunked\r\n\r\n";
/// The acknowledgement, the head of an answer, and the beginning of its body.
const BEGUN: &str = "HTTP/1.1 200 OK\r\nx-codelab-forward-decision: accepted\r\n\
    transfer-encoding: chunked\r\n\r\n23\r\n\0\0\0\x1b{\"status\":200,\"headers\":[]}half\r\n";

/// Says how many bytes came, and their sum.
async fn measured(body: Bytes) -> String {
    let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
    format!("{} {sum}", body.len())
}

fn routes() -> Router {
    Router::new()
        .route(
            "/chat/user_message",
            post(measured).layer(axum::extract::DefaultBodyLimit::disable()),
        )
        .route("/chat/stream", any(|| async { "handled here" }))
}

fn moved() -> Script {
    let moved = Says::Fails(RouteError::Moved { epoch: 9 });
    Script::new([Says::Nothing], [moved])
}

async fn post_to(node: &Node, body: Bytes) -> reqwest::Response {
    let http = reqwest::Client::new();
    let asked = http.post(node.url("/chat/user_message")).body(body);
    within(asked.send()).await.unwrap()
}

#[tokio::test]
async fn a_request_follows_an_owner_that_moved_with_its_whole_body() {
    let body: Bytes = (0..6 * MIB).map(|at| (at % 253) as u8).collect();
    let expected = measured(body.clone()).await;
    let before = Node::start(moved(), routes()).await;
    let now = Node::start(Script::owner(), routes()).await;
    for second in [Says::There(now.url.clone()), Says::Here] {
        let script = Script::first([Says::There(before.url.clone()), second]);
        let first = Node::start(script, routes()).await;
        let answer = post_to(&first, body.clone()).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.text().await.unwrap(), expected);
        assert_eq!(first.script.forgotten(), 1);
        assert_eq!(first.forwards("moved"), 1);
    }
    assert_eq!(now.script.accepted(), [OwnedThing::Chat]);
}

#[tokio::test]
async fn a_body_that_the_caller_breaks_is_the_callers_error() {
    let (first, _owner) = pair(routes()).await;
    let address = first.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let broken = "POST /chat/user_message HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n\
        4\r\nhalf\r\nno number\r\n";
    stream.write_all(broken.as_bytes()).await.unwrap();
    let head = within(read_head(&mut stream)).await;
    assert!(head.starts_with("HTTP/1.1 422 "), "{head}");
    assert_eq!(first.forwards("unreachable"), 0);
}

#[tokio::test]
async fn a_request_is_forwarded_twice_at_most() {
    let before = Node::start(moved(), routes()).await;
    let script = Script::first([Says::There(before.url.clone())]);
    let first = Node::start(script, routes()).await;
    let answer = post_to(&first, Bytes::from("{}")).await;
    assert_unreachable(answer, "it moved twice").await;
    assert_eq!(before.script.accepted().len(), 2);
    assert_eq!(first.script.forgotten(), 2);
}

#[tokio::test]
async fn an_owner_that_cannot_be_reached_is_told_and_forgotten() {
    let refusing = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    const ANOTHER_PROGRAM: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const NO_HEAD: &str = "HTTP/1.1 200 OK\r\nx-codelab-forward-decision: accepted\r\n\
        content-length: 5\r\n\r\nhello";
    for (address, what) in [
        (refusing, "connection refused"),
        ("http://".to_owned(), "no address"),
        (raw_owner("", false).await, "killed before it acknowledged"),
        (raw_owner(ACKNOWLEDGED, false).await, "killed at work"),
        (raw_owner(ANOTHER_PROGRAM, false).await, "another program"),
        (raw_owner(NO_HEAD, false).await, "no head"),
    ] {
        let script = Script::first([Says::There(address)]);
        let first = Node::start(script, routes()).await;
        let answer = post_to(&first, Bytes::from(vec![b'x'; MIB])).await;
        assert_unreachable(answer, what).await;
        assert_eq!(first.script.forgotten(), 1, "{what}");
        assert_eq!(first.forwards("unreachable"), 1, "{what}");
    }
}

#[tokio::test]
async fn an_owner_killed_within_its_answer_cuts_the_answer() {
    let script = Script::first([Says::There(raw_owner(BEGUN, false).await)]);
    let first = Node::start(script, routes()).await;
    let mut answer = within(reqwest::get(first.url("/chat/stream")))
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(within(answer.chunk()).await.unwrap().unwrap(), "half");
    assert!(within(answer.chunk()).await.is_err());
    assert_eq!(first.forwards("cut"), 1);
}

/// Limits that a test can wait for.
const SHORT: ForwardLimits = ForwardLimits {
    acknowledge_within: Duration::from_millis(300),
    check_owner_every: Duration::from_millis(50),
    max_claim_hold: LIMIT,
    stop_grace: Duration::from_millis(100),
};

#[tokio::test]
async fn an_owner_that_does_not_acknowledge_in_time_is_unreachable() {
    let network = NetworkOptions::default();
    let undecided = Node::start(Script::new([Says::Nothing], [Says::Nothing]), routes()).await;
    for address in [raw_owner("", true).await, undecided.url.clone()] {
        let script = Script::first([Says::There(address)]);
        let first = Node::start_with(script, routes(), INTERNAL_KEY, &network, SHORT).await;
        assert_unreachable(post_to(&first, Bytes::from("{}")).await, "silent").await;
    }
}

/// A stopped process keeps its connections open. Others see that its lease has lapsed.
#[tokio::test]
async fn a_silent_owner_that_no_longer_lives_is_given_up() {
    let network = NetworkOptions::default();
    let limits = ForwardLimits {
        acknowledge_within: LIMIT,
        ..SHORT
    };
    let script = Script::first([Says::There(raw_owner(ACKNOWLEDGED, true).await)]);
    let first = Node::start_with(script, routes(), INTERNAL_KEY, &network, limits).await;
    first.script.0.is_living.store(false, Ordering::SeqCst);
    assert_unreachable(post_to(&first, Bytes::from("{}")).await, "before the head").await;
}

#[tokio::test]
async fn a_silent_stream_is_held_while_its_owner_lives_and_cut_afterwards() {
    let network = NetworkOptions::default();
    let limits = ForwardLimits {
        acknowledge_within: LIMIT,
        ..SHORT
    };
    let script = Script::first([Says::There(raw_owner(BEGUN, true).await)]);
    let first = Node::start_with(script, routes(), INTERNAL_KEY, &network, limits).await;
    let mut answer = within(reqwest::get(first.url("/chat/stream")))
        .await
        .unwrap();
    assert_eq!(within(answer.chunk()).await.unwrap().unwrap(), "half");
    let waited = tokio::time::timeout(SHORT.acknowledge_within, answer.chunk()).await;
    assert!(waited.is_err(), "{waited:?}");
    first.script.0.is_living.store(false, Ordering::SeqCst);
    assert!(within(answer.chunk()).await.is_err());
}

/// What an owner says about itself reaches the caller; what the first server finds out as well.
#[tokio::test]
async fn a_server_that_cannot_decide_says_why() {
    let lost = "This server has lost contact with the database; try again";
    for (error, code, words) in [
        (RouteError::Paused, "DB_CONNECTION_ERROR", lost),
        (
            RouteError::Stopping,
            "AGENT_UNAVAILABLE",
            "The server is stopping",
        ),
        (
            RouteError::Store(StoreError::Unavailable("down".into())),
            "DB_CONNECTION_ERROR",
            "The database could not complete the request; try again",
        ),
    ] {
        let refusing = Script::new([Says::Nothing], [Says::Fails(error.clone())]);
        let owner = Node::start(refusing, routes()).await;
        for says in [Says::There(owner.url.clone()), Says::Fails(error.clone())] {
            let first = Node::start(Script::first([says]), routes()).await;
            let answer = post_to(&first, Bytes::from(vec![b'x'; 2 * MIB])).await;
            let expected = (503, Some("1".to_owned()), code.to_owned(), words.to_owned());
            assert_eq!(refusal(answer).await, expected);
        }
    }
}

#[tokio::test]
async fn a_paused_server_answers_health_checks_only() {
    let routes = routes().route("/health", any(|| async { "ok" }));
    let node = Node::start(Script::first([Says::Here]), routes).await;
    for (is_paused, health, stream) in [(false, 200, 200), (true, 200, 503), (false, 200, 200)] {
        node.script.0.is_paused.store(is_paused, Ordering::SeqCst);
        for (path, status) in [("/health", health), ("/chat/stream", stream)] {
            let answer = within(reqwest::get(node.url(path))).await.unwrap();
            assert_eq!(answer.status(), status, "{path} {is_paused}");
            let retry = answer.headers().contains_key("retry-after");
            assert_eq!(retry, status == 503);
        }
    }
}

/// Its readers resume at another server, and callers of long calls are told.
#[tokio::test]
async fn a_server_that_stops_ends_what_it_forwarded() {
    let network = NetworkOptions::default();
    let limits = ForwardLimits {
        acknowledge_within: LIMIT,
        check_owner_every: LIMIT,
        ..SHORT
    };
    let routes = Router::new()
        .route("/chat/ask_user", post(std::future::pending::<()>))
        .route("/chat/stream", any(event_stream));
    let owner = Node::start(Script::owner(), routes.clone()).await;
    let script = Script::first([Says::There(owner.url.clone())]);
    let first = Node::start_with(script, routes, INTERNAL_KEY, &network, limits).await;
    let mut stream = within(reqwest::get(first.url("/chat/stream")))
        .await
        .unwrap();
    assert_eq!(
        within(stream.chunk()).await.unwrap().unwrap(),
        "data: 1\n\n"
    );
    let asked = reqwest::Client::new().post(first.url("/chat/ask_user"));
    let asked = tokio::spawn(asked.body("{}").send());
    within(async {
        while owner.script.accepted().len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    first.stop.cancel();
    assert_eq!(within(stream.chunk()).await.unwrap(), None);
    let (status, _, code, _) = refusal(within(asked).await.unwrap().unwrap()).await;
    assert_eq!((status, code.as_str()), (503, "AGENT_UNAVAILABLE"));
}

async fn event_stream() -> impl axum::response::IntoResponse {
    let first = futures_util::stream::iter([Ok::<_, std::io::Error>("data: 1\n\n")]);
    let events = futures_util::StreamExt::chain(first, futures_util::stream::pending());
    let kind = [("content-type", "text/event-stream")];
    (kind, axum::body::Body::from_stream(events))
}
