//! Connections that carry more than one request: a refusal does not cost the next one its answer.

use codelab_testkit::TestServer;

use crate::raw::{Conversation, Request};

/// A refused body that is read all the same, so that the connection goes on.
const BODY_BYTES: usize = 100_000;
/// Too much to be read for nothing.
const HUGE_BODY_BYTES: usize = 3 << 20;

/// The answer comes before the body, as it does for a client that is slow to send it.
#[tokio::test]
async fn the_next_request_is_answered_after_a_refusal_that_left_the_body_unread() {
    let server = TestServer::with(&[
        ("CODELAB_LIMITS__BODY_BYTES", "1000"),
        ("CODELAB_LIMITS__USER_REQUESTS_PER_SECOND", "1"),
    ])
    .await;
    let token = format!("Bearer {}", server.token(1));
    let post = |target: &str| Request::new(&server, "POST", target);
    let message = |request: Request| request.with("Content-Type", "application/json");
    let with_key = || Request::with_key(&server, "POST", "/agent/message/stream");
    let of_user = || message(post("/my/chat/sessions/")).with("Authorization", &token);
    let cases = [
        (401, message(post("/agent/message/stream"))),
        (
            403,
            message(with_key()).with("Origin", "http://evil.example"),
        ),
        (
            404,
            message(Request::with_key(&server, "POST", "/no/such/address")),
        ),
        (405, message(Request::with_key(&server, "POST", "/agents"))),
        (413, message(with_key())),
        (422, with_key().with("Content-Type", "text/plain")),
        (429, of_user()),
    ];
    for (status, request) in cases {
        if status == 429 {
            // What the user may have of this second.
            let _ = Request::new(&server, "GET", "/my/usage/")
                .with("Authorization", &token)
                .send(&server)
                .await;
        }
        let body = vec![b'x'; BODY_BYTES];
        let mut talk = Conversation::start(&server).await;
        talk.send(&request.keep_alive_head(body.len())).await;
        let refused = talk.answer().await;
        assert_eq!(refused.status, status, "{}", refused.text());
        assert_eq!(
            refused.header("connection"),
            None,
            "{status}: the connection goes on"
        );
        talk.send(&body).await;
        for path in ["/health/live", "/openapi.json"] {
            talk.send(&Request::new(&server, "GET", path).keep_alive_head(0))
                .await;
            assert_eq!(talk.answer().await.status, 200, "{path} after {status}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_cannot_go_on_says_so() {
    let server = TestServer::start().await;
    let stranger =
        || Request::new(&server, "POST", "/sessions").with("Content-Type", "application/json");
    let huge = stranger().keep_alive_head(HUGE_BODY_BYTES);
    let announced = stranger()
        .with("Expect", "100-continue")
        .keep_alive_head(10);
    let endless = stranger()
        .with("Transfer-Encoding", "chunked")
        .keep_alive_head(0);
    for (name, head) in [
        ("huge", huge),
        ("announced", announced),
        ("of unknown length", endless),
    ] {
        let mut talk = Conversation::start(&server).await;
        talk.send(&head).await;
        let refused = talk.answer().await;
        assert_eq!(
            (refused.status, refused.header("connection")),
            (401, Some("close")),
            "a body that is {name}"
        );
    }
    // The answer arrives also at a client that first sends everything it has.
    let mut talk = Conversation::start(&server).await;
    talk.send(&stranger().keep_alive_head(HUGE_BODY_BYTES))
        .await;
    talk.send(&vec![b'x'; HUGE_BODY_BYTES]).await;
    assert_eq!(talk.answer().await.status, 401);
    talk.ended().await;
}
