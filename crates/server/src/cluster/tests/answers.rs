//! What a caller gets through another server is what the owner says.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;

/// Says back what the request was.
async fn echo(request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, BODY_BYTES).await.unwrap();
    let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap());
    let is_forwarded = parts.extensions.get::<crate::cluster::Forwarded>();
    let said = json!({
        "method": parts.method.as_str(),
        "path": parts.uri.path_and_query().unwrap().as_str(),
        "body": String::from_utf8_lossy(&bytes),
        "host": header("host"),
        "authorization": header("authorization"),
        "cookie": header("cookie"),
        "last_event_id": header("last-event-id"),
        "length": header("content-length"),
        "hop": header("keep-alive"),
        "key": header("x-codelab-cluster-key"),
        "caller": is_forwarded.and_then(|forwarded| forwarded.caller),
    });
    let cookies = [("set-cookie", "a=1"), ("set-cookie", "b=2")];
    let mut response = (StatusCode::ACCEPTED, axum::Json(said)).into_response();
    for (name, value) in cookies {
        response.headers_mut().append(name, value.parse().unwrap());
    }
    response
}

#[tokio::test]
async fn every_method_is_forwarded_with_its_headers_and_body() {
    let routes = Router::new()
        .route("/sessions/{session_id}", any(echo))
        .route("/sessions/{session_id}/history", any(echo))
        .route("/my/projects/{project_id}", any(echo))
        .route("/chat/user_message", any(echo));
    let (first, owner) = pair(routes).await;
    let http = reqwest::Client::new();
    for (method, path, body) in [
        (Method::GET, "/sessions/s/history?limit=2&x=%2F", ""),
        (Method::POST, "/chat/user_message", "{\"text\":\"hi\"}"),
        (Method::PATCH, "/my/projects/4", "{\"name\":\"n\"}"),
        (Method::DELETE, "/sessions/s?hard=true", ""),
    ] {
        let asked = http
            .request(method.clone(), first.url(path))
            .header("host", "codelab.example")
            .header("authorization", "Bearer t")
            .header("cookie", "codelab_session=c")
            .header("last-event-id", "17")
            .header("keep-alive", "timeout=5")
            .header("x-codelab-cluster-key", "forged")
            .body(body);
        let answer = within(asked.send()).await.unwrap();
        assert_eq!(answer.status(), 202, "{method}");
        let cookies = answer.headers().get_all("set-cookie").iter();
        let cookies: Vec<_> = cookies.map(|cookie| cookie.to_str().unwrap()).collect();
        assert_eq!(cookies, ["a=1", "b=2"]);
        assert!(!answer.headers().contains_key("x-codelab-forward-decision"));
        let said: Value = answer.json().await.unwrap();
        let length = (!body.is_empty()).then(|| body.len().to_string());
        let length = length.or((method == Method::POST).then(|| "0".to_owned()));
        assert_eq!(
            said,
            json!({
                "method": method.as_str(), "path": path, "body": body, "host": "codelab.example",
                "authorization": "Bearer t", "cookie": "codelab_session=c", "last_event_id": "17",
                "length": length, "hop": null, "key": null, "caller": "127.0.0.1",
            })
        );
    }
    let head = within(http.head(first.url("/sessions/s/history")).send()).await;
    let head = head.unwrap();
    assert_eq!(head.status(), 202);
    assert!(head.headers().contains_key("content-type"));
    assert_eq!(head.bytes().await.unwrap(), "");
    assert_eq!(owner.script.accepted().len(), 5);
    assert_eq!(owner.script.routed(), [], "the owner forwards nothing");
    assert_eq!(first.forwards("answered"), 5);
}

#[tokio::test]
async fn large_bodies_pass_both_ways() {
    let routes = Router::new().route(
        "/chat/user_message",
        post(|body: Body| async move { body.into_response() }),
    );
    let (first, _owner) = pair(routes).await;
    let sent: Bytes = (0..8 * MIB).map(|at| (at % 251) as u8).collect();
    let http = reqwest::Client::new();
    let asked = http.post(first.url("/chat/user_message"));
    let answer = within(asked.body(sent.clone()).send()).await.unwrap();
    let got = within(answer.bytes()).await.unwrap();
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
}

/// The handler answers at once; the caller is still sending.
#[tokio::test]
async fn an_answer_does_not_wait_for_the_rest_of_a_body() {
    let refuse = || async { (StatusCode::PAYLOAD_TOO_LARGE, "too large") };
    let routes = Router::new().route("/chat/user_message", post(refuse));
    let (first, _owner) = pair(routes).await;
    let http = reqwest::Client::new();
    let asked = http.post(first.url("/chat/user_message"));
    let answer = within(asked.body(vec![b'x'; 8 * MIB]).send())
        .await
        .unwrap();
    assert_eq!(answer.status(), 413);
    assert_eq!(answer.text().await.unwrap(), "too large");
}

/// The rest of a body that nobody reads is dropped, and the next request on the connection counts.
#[tokio::test]
async fn a_connection_goes_on_after_a_body_that_nobody_read() {
    let refuse = || async { (StatusCode::PAYLOAD_TOO_LARGE, "too large") };
    let routes = Router::new().route("/chat/user_message", post(refuse));
    let (first, owner) = pair(routes).await;
    let mut caller = TcpStream::connect(first.url.strip_prefix("http://").unwrap())
        .await
        .unwrap();
    let head = "POST /chat/user_message HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n";
    for _ in 0..2 {
        caller.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"too large") {
            answer.push(within(caller.read_u8()).await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 413"));
        caller.write_all(&[b'x'; 100]).await.unwrap();
    }
    assert_eq!(owner.script.accepted().len(), 2);
}

type Pieces = Arc<tokio::sync::Mutex<mpsc::Receiver<Result<Bytes, std::io::Error>>>>;

/// `/chat/stream` with the pieces that the test sends.
fn streamed() -> (mpsc::Sender<Result<Bytes, std::io::Error>>, Router) {
    let (send, pieces) = mpsc::channel(1);
    let pieces: Pieces = Arc::new(tokio::sync::Mutex::new(pieces));
    let stream = |State(pieces): State<Pieces>| async move {
        let pieces = pieces.lock_owned().await;
        let stream = futures_util::stream::unfold(pieces, |mut pieces| async move {
            let piece = pieces.recv().await?;
            Some((piece, pieces))
        });
        Body::from_stream(stream).into_response()
    };
    let routes = Router::new().route("/chat/stream", any(stream));
    (send, routes.with_state(pieces))
}

#[tokio::test]
async fn a_stream_arrives_piece_by_piece() {
    let (send, routes) = streamed();
    let (first, _owner) = pair(routes).await;
    let mut answer = within(reqwest::get(first.url("/chat/stream")))
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    for token in ["data: a\n\n", "data: b\n\n", "data: c\n\n"] {
        // The next token is made only after this one was read.
        send.send(Ok(Bytes::from(token))).await.unwrap();
        assert_eq!(within(answer.chunk()).await.unwrap().unwrap(), token);
    }
    drop(send);
    assert_eq!(within(answer.chunk()).await.unwrap(), None);
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off_for_the_caller() {
    let (send, routes) = streamed();
    let (first, _owner) = pair(routes).await;
    let mut answer = within(reqwest::get(first.url("/chat/stream")))
        .await
        .unwrap();
    send.send(Ok(Bytes::from("half"))).await.unwrap();
    assert_eq!(within(answer.chunk()).await.unwrap().unwrap(), "half");
    let broken = std::io::Error::other("broken");
    send.send(Err(broken)).await.unwrap();
    assert!(within(answer.chunk()).await.is_err());
    assert_eq!(first.forwards("cut"), 1);
}

/// A reader that reads nothing costs the buffers of its connections, and not the whole answer.
#[tokio::test]
async fn back_pressure_reaches_the_owner() {
    const PIECE_BYTES: usize = 64 << 10;
    /// More than the buffers of all sockets on the way.
    const PIECES: usize = 4096;
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let flood = move || async move {
        let pieces = futures_util::stream::iter(0..PIECES).map(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; PIECE_BYTES]))
        });
        Body::from_stream(pieces)
    };
    let routes = Router::new().route("/chat/stream", any(flood));
    let (first, _owner) = pair(routes).await;
    let mut answer = within(reqwest::get(first.url("/chat/stream")))
        .await
        .unwrap();
    let begun = within(answer.chunk()).await.unwrap().unwrap();
    // The owner has stopped when the number stays the same.
    let mut before = usize::MAX;
    while before != made.load(Ordering::SeqCst) {
        before = made.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(before < PIECES / 2, "{before} pieces were made for nobody");
    let mut read = begun.len();
    while let Some(piece) = within(answer.chunk()).await.unwrap() {
        read += piece.len();
    }
    assert_eq!(read, PIECES * PIECE_BYTES);
}

#[tokio::test]
async fn a_call_that_waits_is_acknowledged_at_once() {
    let answered = Arc::new(tokio::sync::Notify::new());
    let waiting = Arc::clone(&answered);
    let ask = move || async move {
        waiting.notified().await;
        "yes"
    };
    let routes = Router::new().route("/chat/ask_user", post(ask));
    let owner = Node::start(Script::owner(), routes.clone()).await;
    let script = Script::first([Says::There(owner.url.clone())]);
    let within_second = ForwardLimits {
        acknowledge_within: Duration::from_secs(1),
        ..PATIENT
    };
    let network = NetworkOptions::default();
    let first = Node::start_with(script, routes, INTERNAL_KEY, &network, within_second).await;
    let http = reqwest::Client::new();
    let asked = http.post(first.url("/chat/ask_user")).body("{}").send();
    let mut asked = std::pin::pin!(asked);
    // Past the limit it is still waiting, and not refused.
    let early = tokio::time::timeout(Duration::from_millis(1200), asked.as_mut()).await;
    assert!(early.is_err(), "{early:?}");
    answered.notify_one();
    let answer = within(asked).await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "yes");
}

/// Tells when it is dropped.
struct Dropped(Option<tokio::sync::oneshot::Sender<()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.take().map(|tell| tell.send(()));
    }
}

/// A caller that hangs up, with and without a body that is still on its way, ends the work.
#[tokio::test]
async fn a_caller_that_hangs_up_ends_the_work_of_the_owner() {
    for rest in ["", "{\"question\":"] {
        let (tell, dropped) = tokio::sync::oneshot::channel();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let once = Arc::new(Mutex::new(Some((begin, tell))));
        let ask = move |body: Body| async move {
            let (begin, tell) = once.lock().unwrap().take().unwrap();
            let _dropped = Dropped(Some(tell));
            begin.send(()).unwrap();
            if rest.is_empty() {
                std::future::pending::<()>().await;
            }
            let _ = axum::body::to_bytes(body, BODY_BYTES).await;
            "too late"
        };
        let routes = Router::new().route("/chat/ask_user", post(ask));
        let (first, _owner) = pair(routes).await;
        let address = first.url.strip_prefix("http://").unwrap();
        let mut caller = TcpStream::connect(address).await.unwrap();
        let length = if rest.is_empty() { 0 } else { 100 };
        let head = format!(
            "POST /chat/ask_user HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{rest}"
        );
        caller.write_all(head.as_bytes()).await.unwrap();
        within(begun).await.unwrap();
        drop(caller);
        within(dropped).await.unwrap();
    }
}

#[tokio::test]
async fn peers_are_reached_over_tls_with_the_ca_file() {
    use codelab_fakemodel::{TestAuthority, TlsFront};
    let folder = tempfile::tempdir().unwrap();
    let Some(authority) = TestAuthority::make(folder.path()) else {
        return;
    };
    let routes = || Router::new().route("/chat/user_message", any(echo));
    let owner = Node::start(Script::owner(), routes()).await;
    let plain = owner.url.strip_prefix("http://").unwrap().parse().unwrap();
    let certificate = authority.issue("server", "DNS:localhost");
    let front = TlsFront::start(&certificate, plain).await;
    let address = format!("https://localhost:{}", front.addr.port());
    for (ca_file, status) in [(Some(authority.ca_file()), 202), (None, 503)] {
        let network = NetworkOptions {
            ca_file,
            ..NetworkOptions::default()
        };
        let script = Script::first([Says::There(address.clone())]);
        let first = Node::start_with(script, routes(), INTERNAL_KEY, &network, PATIENT).await;
        let http = reqwest::Client::new();
        let asked = http.post(first.url("/chat/user_message")).body("hi");
        let answer = within(asked.send()).await.unwrap();
        assert_eq!(answer.status(), status);
    }
}
