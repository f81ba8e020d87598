//! More connections than the server can have: who is let go, and who is answered all the same.

use codelab_fakemodel::Reply;
use codelab_testkit::eventually;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::chat::Chat;
use crate::lab::Lab;
use crate::process::{DEADLINE, INTERNAL_KEY, Process};

/// Open files of the server, and how many connections follow from them.
const FILES: &str = "ulimit -n 192";
const BOUND: usize = 64;
/// Places beyond the bound, for health and operators.
const RESERVED: usize = 32;

#[tokio::test]
async fn connections_that_say_nothing_make_room_for_those_that_do() {
    let mut lab = Lab::prepare(&[]).await;
    lab.prelude = FILES.to_owned();
    lab.boot().await;
    lab.model.default_reply(Reply::text("Done."));
    let mut silent = Vec::new();
    for _ in 0..3 * BOUND {
        silent.push(connect(lab.server()).await);
    }
    // The oldest were closed for those that came after them.
    for stream in silent.iter_mut().take(BOUND) {
        let read = tokio::time::timeout(DEADLINE, stream.read(&mut [0]))
            .await
            .expect("it is closed");
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    lab.say("s", "hello").await;
    assert_eq!(lab.look("/health/ready").await.0, 200);
    assert!(lab.server().open_files() < 192);
}

#[tokio::test]
async fn health_and_operators_are_answered_where_all_places_are_taken() {
    let mut lab = Lab::prepare(&[]).await;
    lab.prelude = FILES.to_owned();
    lab.boot().await;
    lab.model.default_reply(Reply::text("Done."));
    lab.say("s", "hello").await;
    let chat = Chat::new(&lab).await;
    let token = format!("Authorization: Bearer {}", chat.token());
    let operator = format!("X-Internal-Auth: {INTERNAL_KEY}");
    let mut streams = Vec::new();
    for number in 0..BOUND + RESERVED + 4 {
        let mut stream = connect(lab.server()).await;
        let (status, head) = ask(&mut stream, lab.server(), "/sessions/s/events", &operator).await;
        // A stream would keep its place for as long as it likes: those for health and operators are
        // not for it.
        assert_eq!(
            status,
            if number < BOUND { 200 } else { 429 },
            "stream {number}: {head}"
        );
        streams.push(stream);
    }
    for round in 0..40 {
        for path in ["/health", "/health/ready", "/health/live"] {
            let mut stream = connect(lab.server()).await;
            assert_eq!(
                ask(&mut stream, lab.server(), path, "X-Nothing: 1").await.0,
                200,
                "{path} in round {round}"
            );
        }
        let mut stream = connect(lab.server()).await;
        assert_eq!(
            ask(&mut stream, lab.server(), "/sessions", &operator)
                .await
                .0,
            200
        );
        let mut stream = connect(lab.server()).await;
        let (status, head) = ask(&mut stream, lab.server(), "/my/projects/", &token).await;
        assert_eq!(status, 429, "{head}");
        assert!(
            head.contains("retry-after: ") && head.contains("connection: close"),
            "{head}"
        );
        // One that says nothing does not keep a place from whoever watches.
        streams.push(connect(lab.server()).await);
    }
    drop(streams);
    eventually("users are served again", async || {
        let mut stream = connect(lab.server()).await;
        match ask(&mut stream, lab.server(), "/my/projects/", &token).await {
            (200, _) => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

async fn connect(server: &Process) -> TcpStream {
    TcpStream::connect(server.host()).await.unwrap()
}

/// The status and the head of the answer, in lower case; what follows is not read.
async fn ask(stream: &mut TcpStream, server: &Process, path: &str, header: &str) -> (u16, String) {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\n{header}\r\n\r\n",
        server.host()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    let reading = async {
        while !received.windows(4).any(|window| window == b"\r\n\r\n") {
            let read = stream.read_buf(&mut received).await.unwrap();
            assert!(read > 0, "{path}: no answer");
        }
    };
    tokio::time::timeout(DEADLINE, reading)
        .await
        .expect("an answer in time");
    let head = String::from_utf8_lossy(&received).to_lowercase();
    (
        head.split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("a status"),
        head,
    )
}

#[tokio::test]
async fn half_a_request_or_an_unread_answer_holds_no_place() {
    let mut lab = Lab::prepare(&[]).await;
    lab.prelude = FILES.to_owned();
    lab.boot().await;
    lab.model.default_reply(Reply::text("Done."));
    lab.say("s", "hello").await;
    let chat = Chat::new(&lab).await;
    let token = format!("Authorization: Bearer {}", chat.token());
    let operator = format!("X-Internal-Auth: {INTERNAL_KEY}");
    let host = lab.server().host().to_owned();
    let half = format!(
        "POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{\"a\":"
    );
    let unread = format!("GET /openapi.json HTTP/1.1\r\nHost: {host}\r\n\r\n").repeat(100);
    let mut held = Vec::new();
    for round in 0..4 {
        for request in [&half, &unread] {
            for _ in 0..BOUND {
                let mut stream = connect(lab.server()).await;
                // The server may have closed it by now.
                let _ = stream.write_all(request.as_bytes()).await;
                held.push(stream);
            }
            for (path, header) in [
                ("/health/live", "X-Nothing: 1"),
                ("/sessions", operator.as_str()),
            ] {
                let mut stream = connect(lab.server()).await;
                let (status, head) = ask(&mut stream, lab.server(), path, header).await;
                assert_eq!(status, 200, "{path} in round {round}: {head}");
            }
        }
        assert!(
            lab.server().open_files() < 192,
            "{}",
            lab.server().open_files()
        );
    }
    drop(held);
    eventually("users are served again", async || {
        let mut stream = connect(lab.server()).await;
        match ask(&mut stream, lab.server(), "/my/projects/", &token).await {
            (200, _) => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

/// What has arrived of a body is in memory until the rest comes.
#[tokio::test]
async fn unfinished_bodies_of_one_user_are_bounded() {
    const BODY: usize = 8 << 20;
    const REQUESTS: usize = 24;
    let mut lab = Lab::prepare(&[]).await;
    lab.boot().await;
    let chat = Chat::new(&lab).await;
    let head = format!(
        "POST /my/projects/ HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {BODY}\r\n\r\n",
        lab.server().host(),
        chat.token()
    );
    let before = lab.server().rss_bytes();
    let mut unfinished = tokio::task::JoinSet::new();
    for _ in 0..REQUESTS {
        let (mut stream, head) = (connect(lab.server()).await, head.clone());
        unfinished.spawn(async move {
            stream.write_all(head.as_bytes()).await.unwrap();
            // One that is refused may find its connection closed before it has sent all.
            let _ = stream.write_all(&vec![b' '; BODY - 500]).await;
            let mut status = [0; 12];
            let answered = stream.read_exact(&mut status).await;
            assert!(
                answered.is_err() || status.ends_with(b"429"),
                "{}",
                String::from_utf8_lossy(&status)
            );
        });
    }
    // The others wait for their last bytes.
    for number in 1..=REQUESTS - 8 {
        let refused = tokio::time::timeout(DEADLINE, unfinished.join_next()).await;
        refused
            .unwrap_or_else(|_| panic!("refusal {number} of {REQUESTS} requests"))
            .expect("a request")
            .unwrap();
    }
    let grown = lab.server().rss_bytes().saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes more in memory");
    drop(unfinished);
    eventually("the user is served again", async || {
        let mut stream = connect(lab.server()).await;
        let token = format!("Authorization: Bearer {}", chat.token());
        match ask(&mut stream, lab.server(), "/my/projects/", &token).await {
            (200, _) => Ok(()),
            other => Err(other),
        }
    })
    .await;
}
