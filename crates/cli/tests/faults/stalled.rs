//! Readers that stop reading: what they cost while the server goes on, and what they find when they
//! come back.

use std::time::{Duration, Instant};

use codelab_fakemodel::Reply;
use codelab_protocol::TurnStatus;
use codelab_testkit::{SeenEvents, eventually, id};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::chat::Chat;
use crate::lab::{Lab, assert_contiguous};
use crate::process::{DEADLINE, INTERNAL_KEY, Process};

const READERS: u64 = 64;
/// 24 MB of answers, each large for an answer and still a quarter of what a reader may cost.
const TURNS: usize = 96;
/// More than the system keeps for a reader that stalls, so that some of it waits in the server.
const TURNS_TO_STALL: usize = 48;
/// Far less than the setting's default, and time enough for a busy machine to notice the end of one
/// second.
const CUT_WITHIN: Duration = Duration::from_secs(15);
const ANSWER_BYTES: usize = 256 << 10;
/// The same 24 MB in few events, each larger than what a reader may cost.
const HUGE_ANSWER_BYTES: usize = 2 << 20;
const HUGE_TURNS: usize = 12;
const WORD_BYTES: usize = 4096;
const MAX_BYTES_PER_READER: u64 = 1 << 20;
/// Small, so that a reader stalls with its first events and not after megabytes in the system's
/// buffers.
const RECEIVE_BUFFER_BYTES: u32 = 4096;

#[tokio::test]
async fn readers_that_stall_while_they_follow_cost_little_and_miss_nothing() {
    let lab = chatty_lab(&[]).await;
    talk(&lab, TURNS).await;
    let before = talk(&lab, TURNS).await;
    let readers = stalled_readers(lab.server(), Some(before.last_id), READERS).await;
    let after = talk(&lab, TURNS).await;
    assert_little(before.rss_bytes, after.rss_bytes);

    drop(readers);
    come_back(&lab, before.last_id, after.last_id).await;
}

#[tokio::test]
async fn readers_that_stall_far_behind_cost_little_and_miss_nothing() {
    let lab = chatty_lab(&[]).await;
    talk(&lab, TURNS).await;
    let before = talk(&lab, TURNS).await;
    // One that reads everything first, so that what reading itself needs is not counted for those
    // who stall.
    lab.log("s").await;
    let rss_before_bytes = lab.server().rss_bytes().max(before.rss_bytes);
    let readers = stalled_readers(lab.server(), None, READERS).await;
    lab.say("s", "one more").await;
    assert_little(rss_before_bytes, lab.server().rss_bytes());

    drop(readers);
    come_back(&lab, 0, before.last_id).await;
}

/// An event larger than everything that a reader may cost.
#[tokio::test]
async fn readers_that_stall_in_huge_events_cost_no_more() {
    let lab = lab_that_answers(HUGE_ANSWER_BYTES, &[]).await;
    talk_at_length(&lab, HUGE_TURNS, HUGE_ANSWER_BYTES).await;
    let before = talk_at_length(&lab, HUGE_TURNS, HUGE_ANSWER_BYTES).await;
    lab.log("s").await;
    let rss_before_bytes = lab.server().rss_bytes().max(before.rss_bytes);
    let mut readers = stalled_readers(lab.server(), Some(before.last_id), READERS / 2).await;
    let after = talk_at_length(&lab, HUGE_TURNS, HUGE_ANSWER_BYTES).await;
    readers.extend(stalled_readers(lab.server(), None, READERS).await);
    lab.say("s", "one more").await;
    assert_little(rss_before_bytes, lab.server().rss_bytes());

    drop(readers);
    come_back(&lab, before.last_id, after.last_id).await;
}

/// The same for the one stream of all of a user's sessions.
#[tokio::test]
async fn a_users_readers_that_stall_in_huge_events_cost_no_more() {
    let lab = lab_that_answers(HUGE_ANSWER_BYTES, &[]).await;
    let chat = Chat::new(&lab).await;
    let say = async || {
        let message = json!({ "content": "a long answer, please", "target_agent": "coder" });
        let answer = chat.post(&lab, "message/", message).await;
        assert_eq!(
            answer["response"].as_str().map(str::len),
            Some(HUGE_ANSWER_BYTES)
        );
    };
    // What a turn needs for a moment comes and goes, so the most of it counts.
    let mut before_bytes = 0;
    for _ in 0..2 * HUGE_TURNS {
        say().await;
        before_bytes = lab.server().rss_bytes().max(before_bytes);
    }
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let access = format!("Authorization: Bearer {}", chat.token());
        readers.push(stalled_stream(lab.server(), "/my/events/", &access).await);
    }
    open_streams_become(lab.server(), READERS).await;
    for _ in 0..HUGE_TURNS {
        say().await;
    }
    assert_little(before_bytes, lab.server().rss_bytes());
    drop(readers);

    // One that reads gets every event whole.
    let access = format!("Authorization: Bearer {}", chat.token());
    let mut reader = stalled_stream(lab.server(), "/my/events/", &access).await;
    open_streams_become(lab.server(), 1).await;
    say().await;
    let mut received = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&received).contains("event: task_completed") {
            assert!(
                reader.read_buf(&mut received).await.unwrap() > 0,
                "the stream goes on"
            );
        }
    };
    tokio::time::timeout(DEADLINE, reading)
        .await
        .expect("the events come");
    assert!(received.len() > HUGE_ANSWER_BYTES);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_in_time_and_the_others_go_on() {
    let lab = chatty_lab(&[("CODELAB_SERVER__WRITE_TIMEOUT_SECONDS", "1")]).await;
    let newest = talk(&lab, TURNS_TO_STALL).await.last_id;
    let mut other = lab
        .client()
        .events(&id("s"), Some(newest), true)
        .await
        .unwrap();
    let mut stalled = stalled_reader(lab.server(), None).await;
    let begun = Instant::now();
    open_streams_become(lab.server(), 1).await;
    assert!(
        begun.elapsed() < CUT_WITHIN,
        "cut after {:?}",
        begun.elapsed()
    );

    let said = lab.say("s", "one more").await;
    assert_eq!(SeenEvents::until_done(&mut other).await.ids(), said.ids());

    // What the system had taken for it still arrives; then the stream breaks off, and goes on where
    // it is taken up.
    let mut received = Vec::new();
    let _ = tokio::time::timeout(DEADLINE, stalled.read_to_end(&mut received))
        .await
        .expect("the stream ends");
    let last_seen = last_whole_event(&received);
    assert!(last_seen < newest, "all of {newest} events arrived");
    come_back(&lab, last_seen, newest).await;
}

/// The number of the last event that arrived to its end.
fn last_whole_event(received: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(received);
    let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    whole
        .lines()
        .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
        .next_back()
        .unwrap_or(0)
}

async fn chatty_lab(settings: &[(&str, &str)]) -> Lab {
    lab_that_answers(ANSWER_BYTES, settings).await
}

async fn lab_that_answers(bytes: usize, settings: &[(&str, &str)]) -> Lab {
    let lab = Lab::with(settings).await;
    let word = format!("{} ", "x".repeat(WORD_BYTES - 1));
    lab.model
        .default_reply(Reply::text(word.repeat(bytes / WORD_BYTES)));
    lab
}

struct Talked {
    last_id: u64,
    rss_bytes: u64,
}

/// Long answers, which a caller reads to their end.
async fn talk(lab: &Lab, turns: usize) -> Talked {
    talk_at_length(lab, turns, ANSWER_BYTES).await
}

async fn talk_at_length(lab: &Lab, turns: usize, answer_bytes: usize) -> Talked {
    let mut last_id = 0;
    for _ in 0..turns {
        let seen = lab.say("s", "a long answer, please").await;
        assert_eq!(seen.status(), TurnStatus::Completed);
        assert_eq!(seen.answer().content.len(), answer_bytes);
        last_id = seen.ids().last().copied().unwrap();
    }
    Talked {
        last_id,
        rss_bytes: lab.server().rss_bytes(),
    }
}

fn assert_little(before_bytes: u64, after_bytes: u64) {
    let each_bytes = after_bytes.saturating_sub(before_bytes) / READERS;
    println!(
        "{READERS} stalled readers: {before_bytes} bytes before, {after_bytes} after, {each_bytes} for each"
    );
    assert!(
        each_bytes <= MAX_BYTES_PER_READER,
        "a stalled reader costs {each_bytes} bytes"
    );
}

/// As many as make `open` streams in all.
async fn stalled_readers(server: &Process, after: Option<u64>, open: u64) -> Vec<TcpStream> {
    let mut readers = Vec::new();
    for _ in open_streams(server).await..open {
        readers.push(stalled_reader(server, after).await);
    }
    open_streams_become(server, open).await;
    readers
}

/// An open event stream of a session of which only the first bytes are read.
async fn stalled_reader(server: &Process, after: Option<u64>) -> TcpStream {
    let place = after
        .map(|after| format!("\r\nLast-Event-ID: {after}"))
        .unwrap_or_default();
    stalled_stream(
        server,
        "/sessions/s/events",
        &format!("X-Internal-Auth: {INTERNAL_KEY}{place}"),
    )
    .await
}

async fn stalled_stream(server: &Process, path: &str, headers: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES).unwrap();
    let mut stream = socket
        .connect(server.host().parse().unwrap())
        .await
        .unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n\r\n",
        server.host()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 15];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200 OK");
    stream
}

async fn open_streams_become(server: &Process, count: u64) {
    eventually(&format!("{count} open streams"), async || {
        let open = open_streams(server).await;
        if open == count { Ok(()) } else { Err(open) }
    })
    .await;
}

async fn open_streams(server: &Process) -> u64 {
    let metrics = server.client.metrics().await.unwrap();
    let count = metrics
        .lines()
        .find_map(|line| line.strip_prefix("codelab_open_streams "));
    count.expect("streams are counted").parse().unwrap()
}

/// Everything after the last event that was seen, in order.
async fn come_back(lab: &Lab, last_seen: u64, newest: u64) {
    let stream = lab
        .client()
        .events(&id("s"), Some(last_seen), false)
        .await
        .unwrap();
    let ids = SeenEvents::all(stream).await.ids();
    assert_contiguous(&ids, last_seen + 1);
    assert!(ids.last().is_some_and(|last| *last >= newest), "{ids:?}");
}
