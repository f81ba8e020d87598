//! Ten thousand callers that hang up in the middle, while others work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use codelab_client::ClientError;
use codelab_fakemodel::Reply;
use codelab_protocol::{HealthStatus, Role, TurnStatus};
use codelab_testkit::{OwnDatabase, SeenEvents, eventually};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::lab::{Lab, to_coder};
use crate::process::INTERNAL_KEY;

const REQUESTS: usize = 10_000;
const AT_ONCE: usize = 64;
/// Sessions that only those talk to who hang up.
const VISITED: usize = 16;
/// Callers that stay, each with a session and an answer of its own.
const RESIDENTS: usize = 4;
/// The goal on a machine with two cores of its own is half of it.
const STORM_WITHIN: Duration = Duration::from_secs(60);
/// Connections to the model that are kept for the next call, and the residents' own.
const MAX_KEPT_FILES: usize = 64;

/// Where a caller hangs up.
#[derive(Clone, Copy)]
enum HangUp {
    HalfWay,
    /// With everything sent, by an orderly close.
    Sent,
    /// With everything sent, by a reset.
    Reset,
    /// With the beginning of the answer read, by a reset.
    Answered,
}

const HANG_UPS: [HangUp; 4] = [
    HangUp::HalfWay,
    HangUp::Sent,
    HangUp::Reset,
    HangUp::Answered,
];

#[tokio::test]
async fn ten_thousand_aborted_requests_on_sqlite() {
    aborted_requests(&Lab::start().await).await;
}

#[tokio::test]
async fn ten_thousand_aborted_requests_on_postgres() {
    let Some(database) = OwnDatabase::make("aborted").await else {
        return;
    };
    let mut lab = Lab::with(&[("DATABASE_URL", &database.url)]).await;
    aborted_requests(&lab).await;
    assert_eq!(
        database.open_transactions().await,
        0,
        "no transaction was left open"
    );
    lab.kill().await;
    database.remove().await;
}

async fn aborted_requests(lab: &Lab) {
    for resident in 0..RESIDENTS {
        let name = resident_name(resident);
        let mine = format!("{name} speaks");
        lab.model.on(
            move |body| body.to_string().contains(&mine),
            Reply::text(answer_of(&name)),
        );
    }
    lab.model.default_reply(Reply::text("For a visitor."));
    for visited in 0..VISITED {
        lab.say(&visited_name(visited), "I will be back").await;
    }
    let files_before = lab.server().open_files();

    let over = Arc::new(AtomicBool::new(false));
    let mut residents = JoinSet::new();
    for resident in 0..RESIDENTS {
        residents.spawn(reside(lab.client().clone(), resident, Arc::clone(&over)));
    }
    let begun = Instant::now();
    storm(lab.server().host()).await;
    println!(
        "{REQUESTS} requests aborted in {} ms",
        begun.elapsed().as_millis()
    );
    assert!(begun.elapsed() < STORM_WITHIN, "{:?}", begun.elapsed());
    over.store(true, Ordering::Relaxed);
    let spoken = residents.join_all().await;

    assert_eq!(
        lab.client().health().await.unwrap().status,
        HealthStatus::Healthy
    );
    for (resident, turns) in spoken {
        let name = resident_name(resident);
        println!("{name} had {turns} turns meanwhile");
        assert!(turns > 0);
        assert_eq!(
            lab.said_by(Role::User, &name).await,
            vec![format!("{name} speaks"); turns]
        );
        assert_eq!(
            lab.said_by(Role::Assistant, &name).await,
            vec![answer_of(&name); turns]
        );
    }
    for visited in 0..VISITED {
        works(lab, &visited_name(visited)).await;
    }
    eventually("files are closed again", async || {
        match lab.server().open_files() {
            files if files <= files_before + MAX_KEPT_FILES => Ok(()),
            files => Err((files_before, files)),
        }
    })
    .await;
}

fn resident_name(resident: usize) -> String {
    format!("resident-{resident}")
}

fn visited_name(visited: usize) -> String {
    format!("visited-{visited}")
}

fn answer_of(name: &str) -> String {
    format!("Only for {name}.")
}

/// Turns one after the other until the storm is over, each with the right answer.
async fn reside(
    client: codelab_client::Client,
    resident: usize,
    over: Arc<AtomicBool>,
) -> (usize, usize) {
    let name = resident_name(resident);
    let mut turns = 0;
    while turns == 0 || !over.load(Ordering::Relaxed) {
        let stream = client
            .send(&to_coder(&name, &format!("{name} speaks")))
            .await
            .expect("a resident is served");
        let seen = SeenEvents::all(stream).await;
        assert_eq!(seen.status(), TurnStatus::Completed);
        assert_eq!(seen.answer().content, answer_of(&name));
        turns += 1;
    }
    (resident, turns)
}

async fn storm(host: &str) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut callers = JoinSet::new();
    for number in 0..REQUESTS {
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        let host = host.to_owned();
        callers.spawn(async move {
            let request = request(&host, number);
            // Each way of hanging up meets each request.
            hang_up(&host, &request, HANG_UPS[(number / KINDS) % HANG_UPS.len()]).await;
            drop(place);
        });
        while let Some(ended) = callers.try_join_next() {
            ended.unwrap();
        }
    }
    callers.join_all().await;
}

async fn hang_up(host: &str, request: &[u8], at: HangUp) {
    let mut stream = TcpStream::connect(host)
        .await
        .expect("the server takes connections");
    let sent = match at {
        HangUp::HalfWay => &request[..request.len() / 2],
        HangUp::Sent | HangUp::Reset | HangUp::Answered => request,
    };
    stream.write_all(sent).await.expect("the server reads");
    match at {
        HangUp::HalfWay | HangUp::Sent => {}
        HangUp::Reset => stream.set_zero_linger().unwrap(),
        HangUp::Answered => {
            let mut beginning = [0; 12];
            stream
                .read_exact(&mut beginning)
                .await
                .expect("the server answers");
            assert!(beginning.starts_with(b"HTTP/1.1 "), "{beginning:?}");
            stream.set_zero_linger().unwrap();
        }
    }
}

const KINDS: usize = 6;

fn request(host: &str, number: usize) -> Vec<u8> {
    let session = visited_name((number / KINDS) % VISITED);
    let post = |path: &str, body: serde_json::Value| raw(host, "POST", path, &body.to_string());
    match number % KINDS {
        0 => post(
            "/agent/message/stream",
            json!({"session_id": session, "agent_type": "coder", "message": format!("said to {session}")}),
        ),
        1 => raw(host, "GET", &format!("/sessions/{session}/events"), ""),
        2 => raw(host, "GET", "/sessions?limit=100", ""),
        3 => post("/sessions", json!({"session_id": format!("made-{number}")})),
        4 => raw(host, "GET", &format!("/sessions/{session}/history"), ""),
        _ => post(
            "/agent/message/stream",
            json!({"session_id": session, "message_type": "hitl_decision", "tool_call_id": "none",
                "hitl_decision": {"decision": "APPROVE"}}),
        ),
    }
}

fn raw(host: &str, method: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nX-Internal-Auth: {INTERNAL_KEY}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    head.into_bytes()
}

/// The session can run a turn, once what was queued by those who left is done, and holds nothing of
/// others.
async fn works(lab: &Lab, session: &str) {
    let text = format!("a turn in {session}");
    eventually("the session takes a message", async || {
        match lab.client().send(&to_coder(session, &text)).await {
            Ok(stream) => {
                let seen = SeenEvents::all(stream).await;
                assert_eq!(
                    (seen.status(), seen.answer().content.as_str()),
                    (TurnStatus::Completed, "For a visitor.")
                );
                Ok(())
            }
            Err(error @ ClientError::Status { status: 429, .. }) => Err(error),
            Err(error) => panic!("{session}: {error}"),
        }
    })
    .await;
    let expected = [
        "I will be back".to_owned(),
        format!("said to {session}"),
        text,
    ];
    for said in lab.said_by(Role::User, session).await {
        assert!(expected.contains(&said), "{session} holds {said:?}");
    }
    lab.log(session).await;
}
