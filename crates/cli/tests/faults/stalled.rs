//! Readers that stop reading: what they cost while the server goes on, and what they find when they come back.

use codelab_fakemodel::Reply;
use codelab_protocol::TurnStatus;
use codelab_testkit::{Seen, id};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::lab::{Lab, assert_contiguous, eventually};
use crate::process::{INTERNAL_KEY, Process};

const READERS: u64 = 64;
/// 24 MB of answers, each large for an answer and still a quarter of what a reader may cost.
const TURNS: usize = 96;
const ANSWER_BYTES: usize = 256 << 10;
const WORD_BYTES: usize = 4096;
const MAX_BYTES_PER_READER: u64 = 1 << 20;
/// Small, so that a reader stalls with its first events and not after megabytes in the system's buffers.
const RECEIVE_BUFFER_BYTES: u32 = 4096;

#[tokio::test]
async fn readers_that_stall_while_they_follow_cost_little_and_miss_nothing() {
    let lab = chatty_lab().await;
    talk(&lab).await;
    let before = talk(&lab).await;
    let readers = stalled_readers(lab.server(), Some(before.last_id)).await;
    let after = talk(&lab).await;
    assert_little(before.rss_bytes, after.rss_bytes);

    drop(readers);
    come_back(&lab, before.last_id, after.last_id).await;
}

#[tokio::test]
async fn readers_that_stall_far_behind_cost_little_and_miss_nothing() {
    let lab = chatty_lab().await;
    talk(&lab).await;
    let before = talk(&lab).await;
    // One that reads everything first, so that what reading itself needs is not counted for those who stall.
    lab.log("s").await;
    let rss_before_bytes = lab.server().rss_bytes().max(before.rss_bytes);
    let readers = stalled_readers(lab.server(), None).await;
    lab.say("s", "one more").await;
    assert_little(rss_before_bytes, lab.server().rss_bytes());

    drop(readers);
    come_back(&lab, 0, before.last_id).await;
}

async fn chatty_lab() -> Lab {
    let lab = Lab::start().await;
    let word = format!("{} ", "x".repeat(WORD_BYTES - 1));
    lab.model.default_reply(Reply::text(word.repeat(ANSWER_BYTES / WORD_BYTES)));
    lab
}

struct Talked {
    last_id: u64,
    rss_bytes: u64,
}

/// 24 MB of answers, which a caller reads to their end.
async fn talk(lab: &Lab) -> Talked {
    let mut last_id = 0;
    for _ in 0..TURNS {
        let seen = lab.say("s", "a long answer, please").await;
        assert_eq!(seen.status(), TurnStatus::Completed);
        assert_eq!(seen.answer().content.len(), ANSWER_BYTES);
        last_id = seen.ids().last().copied().unwrap();
    }
    Talked { last_id, rss_bytes: lab.server().rss_bytes() }
}

fn assert_little(before_bytes: u64, after_bytes: u64) {
    let each_bytes = after_bytes.saturating_sub(before_bytes) / READERS;
    println!("{READERS} stalled readers: {before_bytes} bytes before, {after_bytes} after, {each_bytes} for each");
    assert!(each_bytes <= MAX_BYTES_PER_READER, "a stalled reader costs {each_bytes} bytes");
}

/// Open event streams of which only the first bytes are ever read.
async fn stalled_readers(server: &Process, after: Option<u64>) -> Vec<TcpStream> {
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES).unwrap();
        let mut stream = socket.connect(server.host().parse().unwrap()).await.unwrap();
        let place = after.map(|after| format!("Last-Event-ID: {after}\r\n")).unwrap_or_default();
        let head = format!(
            "GET /sessions/s/events HTTP/1.1\r\nHost: {}\r\nX-Internal-Auth: {INTERNAL_KEY}\r\n{place}\r\n",
            server.host()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut status = [0; 15];
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 200 OK");
        readers.push(stream);
    }
    let open = format!("codelab_open_streams {READERS}");
    eventually("all readers are open", async || {
        let metrics = server.client.metrics().await.unwrap();
        let line = metrics.lines().find(|line| line.starts_with("codelab_open_streams ")).map(str::to_owned);
        if line.as_deref() == Some(&open) { Ok(()) } else { Err(line) }
    })
    .await;
    readers
}

/// Everything after the last event that was seen, in order.
async fn come_back(lab: &Lab, last_seen: u64, newest: u64) {
    let stream = lab.client().events(&id("s"), Some(last_seen), false).await.unwrap();
    let ids = Seen::all(stream).await.ids();
    assert_contiguous(&ids, last_seen + 1);
    assert!(ids.last().is_some_and(|last| *last >= newest), "{ids:?}");
}
