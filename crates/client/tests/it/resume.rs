//! The resuming reader: each stored event once and in order, whatever happens to its connections.

use std::collections::HashMap;

use codelab_client::{Backoff, ClientError, EventData, FollowUntil, ResumingEvents, StreamEvent};
use codelab_protocol::{ChunkBody, SessionId, TurnStatus};
use serde_json::json;

use crate::scripted::{Answer, Server, open_stream, plain, whole_stream};

const QUICK: Backoff = Backoff {
    first_delay_ms: 1,
    max_delay_ms: 4,
    attempts: 20,
    max_retry_after_ms: 1,
};
const TIME: &str = "2026-01-13T20:00:00.000Z";

fn reader(server: &Server, after: Option<u64>, until: FollowUntil) -> ResumingEvents {
    ResumingEvents::new(
        server.client(),
        SessionId::parse("s1").unwrap(),
        after,
        until,
    )
    .with_backoff(QUICK)
}

fn message(id: u64, content: &str) -> String {
    let data = json!({"type": "assistant_message", "timestamp": TIME, "data": {
        "content": content, "agent": "coder", "message_id": format!("m{id}"), "timestamp": TIME}});
    format!("id: {id}\nevent: message\ndata: {data}\n\n")
}

fn delta(id: u64, attempt: u32, offset: usize, content: &str) -> String {
    let data = json!({"type": "assistant_delta", "timestamp": TIME, "data": {
        "content": content, "agent": "coder", "message_id": format!("m{id}"), "attempt": attempt, "offset": offset}});
    format!("event: message\ndata: {data}\n\n")
}

fn done(status: &str) -> String {
    format!("event: done\ndata: {{\"status\":\"{status}\"}}\n\n")
}

async fn read_all(mut reader: ResumingEvents) -> (Vec<StreamEvent>, Option<ClientError>) {
    let mut events = Vec::new();
    while let Some(event) = reader.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

/// Reproducible choices; the seed is in every assertion.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// A session whose turn goes on while its readers lose their connections.
struct LiveSession {
    dice: Dice,
    answers: Vec<Vec<String>>,
    /// How many answers are finished, and what of the next one is written: attempt, pieces.
    finished: usize,
    attempt: u32,
    pieces: usize,
    drops_left: usize,
}

impl LiveSession {
    fn new(seed: u64, drops_left: usize) -> Self {
        let mut dice = Dice(seed);
        let answers = (0..200)
            .map(|_| {
                (0..dice.below(6))
                    .map(|_| ["a", "слово ", "🦀", "two\nlines"][dice.below(4)].to_owned())
                    .collect()
            })
            .collect();
        Self {
            dice,
            answers,
            finished: 0,
            attempt: 1,
            pieces: 0,
            drops_left,
        }
    }

    fn content(&self, index: usize) -> String {
        self.answers[index].concat()
    }

    fn answer(&mut self, after: u64) -> Answer {
        let mut body = String::new();
        for index in after as usize..self.finished {
            body += &message(index as u64 + 1, &self.content(index));
        }
        if self.finished < self.answers.len() && self.pieces > 0 {
            let so_far = self.answers[self.finished][..self.pieces].concat();
            body += &delta(self.finished as u64 + 1, self.attempt, 0, &so_far);
        }
        let drop_here = self.drops_left > 0;
        self.drops_left = self.drops_left.saturating_sub(1);
        // The turn goes on while this reader is connected; with drops to come it does not get far.
        let steps = if drop_here {
            self.dice.below(4)
        } else {
            usize::MAX
        };
        for _ in 0..steps {
            let Some(line) = self.step() else { break };
            body += &line;
        }
        if drop_here {
            let cut = self.dice.below(body.len() + 2).min(body.len());
            let piece_bytes = 1 + self.dice.below(300);
            let parts: Vec<&[u8]> = body.as_bytes()[..cut].chunks(piece_bytes).collect();
            let proper = self.dice.below(3) == 0;
            return Answer::Cut(if proper {
                whole_stream(&parts)
            } else {
                open_stream(&parts)
            });
        }
        body += &done("completed");
        Answer::Keep(whole_stream(&[body.as_bytes()]))
    }

    fn step(&mut self) -> Option<String> {
        let id = self.finished as u64 + 1;
        let pieces = self.answers.get(self.finished)?;
        if self.pieces == pieces.len() {
            self.finished += 1;
            (self.attempt, self.pieces) = (1, 0);
            return Some(message(id, &self.content(self.finished - 1)));
        }
        if self.attempt < 3 && self.dice.below(8) == 0 {
            self.attempt += 1;
            self.pieces = 0;
            return Some(": the model call is made again\n\n".into());
        }
        let line = delta(
            id,
            self.attempt,
            pieces[..self.pieces].concat().len(),
            &pieces[self.pieces],
        );
        self.pieces += 1;
        Some(line)
    }
}

#[tokio::test]
async fn random_drops_lose_and_repeat_nothing() {
    for seed in [1, 2, 3, 0xC0DE] {
        const DROPS: usize = 250;
        let mut session = LiveSession::new(seed, DROPS);
        let contents: Vec<String> = (0..session.answers.len())
            .map(|index| session.content(index))
            .collect();
        let server = Server::start(move |request| {
            session.answer(
                request
                    .header("last-event-id")
                    .map_or(0, |id| id.parse().unwrap()),
            )
        })
        .await;
        // Some connections end before the first byte; they must not use up the reader's patience.
        let patient = Backoff {
            attempts: DROPS as u32 + 1,
            ..QUICK
        };
        let (events, error) =
            read_all(reader(&server, None, FollowUntil::Done).with_backoff(patient)).await;
        assert!(error.is_none(), "seed {seed}: {error:?}");
        assert_eq!(server.requests().len(), DROPS + 1, "seed {seed}");

        let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
        assert_eq!(
            ids,
            (1..=contents.len() as u64).collect::<Vec<_>>(),
            "seed {seed}"
        );
        let mut shown: HashMap<String, (u32, String)> = HashMap::new();
        for event in &events {
            let EventData::Chunk(chunk) = &event.data else {
                continue;
            };
            match &chunk.body {
                ChunkBody::AssistantDelta(delta) => {
                    let (attempt, text) = shown.entry(delta.message_id.to_string()).or_default();
                    if delta.attempt > *attempt {
                        *attempt = delta.attempt;
                        text.clear();
                    }
                    assert_eq!(
                        (delta.attempt, delta.offset),
                        (*attempt, text.len() as u64),
                        "seed {seed}"
                    );
                    text.push_str(&delta.content);
                }
                ChunkBody::AssistantMessage(message) => {
                    assert_eq!(
                        message.content,
                        contents[event.id.unwrap() as usize - 1],
                        "seed {seed}"
                    );
                    let (_, text) = shown
                        .remove(message.message_id.as_str())
                        .unwrap_or_default();
                    assert!(
                        message.content.starts_with(&text),
                        "seed {seed}: {text:?} of {:?}",
                        message.content
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(shown.is_empty(), "seed {seed}: deltas after their message");
        assert!(
            matches!(events.last().unwrap().data, EventData::Done(done) if done.status == TurnStatus::Completed)
        );
    }
}

#[tokio::test]
async fn a_reader_waits_for_a_server_that_is_away_and_obeys_one_that_refuses() {
    let busy = || plain("503 Service Unavailable", "retry-after: 1\r\n", "{}");
    let unknown = || {
        plain(
            "404 Not Found",
            "",
            r#"{"detail":"x","error_code":"SESSION_NOT_FOUND"}"#,
        )
    };
    let fine = || whole_stream(&[message(5, "x").as_bytes(), done("completed").as_bytes()]);
    let nonsense = || whole_stream(&[b"data: {\n\n"]);
    // The answers, how many events come, the status of the error at the end, how many requests are
    // made.
    type Script = Vec<Answer>;
    let cases: Vec<(Script, usize, Option<Option<u16>>, usize)> = vec![
        (
            vec![
                Answer::Keep(busy()),
                Answer::Cut(Vec::new()),
                Answer::Keep(fine()),
            ],
            2,
            None,
            3,
        ),
        (vec![Answer::Keep(unknown())], 0, Some(Some(404)), 1),
        (
            vec![
                Answer::Cut(open_stream(&[message(5, "x").as_bytes()])),
                Answer::Keep(unknown()),
            ],
            1,
            Some(Some(404)),
            2,
        ),
        (vec![Answer::Keep(nonsense())], 0, Some(None), 1),
        (
            (0..30).map(|_| Answer::Keep(busy())).collect(),
            0,
            Some(Some(503)),
            20,
        ),
        (
            (0..30).map(|_| Answer::Cut(open_stream(&[]))).collect(),
            0,
            Some(None),
            20,
        ),
    ];
    for (case, (answers, count, expected, requests)) in cases.into_iter().enumerate() {
        let mut answers = answers.into_iter();
        let server = Server::start(move |_| answers.next().unwrap()).await;
        let mut reader = reader(&server, Some(4), FollowUntil::Done);
        for _ in 0..count {
            reader.next().await.unwrap().unwrap();
        }
        let end = reader.next().await.map(|event| event.unwrap_err().status());
        assert_eq!(end, expected, "case {case}");
        assert!(
            reader.next().await.is_none(),
            "case {case}: nothing follows the end"
        );
        assert_eq!(server.requests().len(), requests, "case {case}");
        let id = if count == 0 { 4 } else { 5 };
        assert_eq!(reader.last_id(), Some(id), "case {case}");
        assert_eq!(
            server.requests()[0].header("last-event-id"),
            Some("4"),
            "case {case}"
        );
    }
}

#[tokio::test]
async fn a_reader_comes_back_no_sooner_than_it_was_told() {
    let mut answers = vec![
        whole_stream(&[done("completed").as_bytes()]),
        plain("429 Too Many Requests", "retry-after: 1\r\n", "{}"),
    ];
    let server = Server::start(move |_| Answer::Keep(answers.pop().unwrap())).await;
    let polite = Backoff {
        max_retry_after_ms: 80,
        ..QUICK
    };
    let started = std::time::Instant::now();
    let (events, error) =
        read_all(reader(&server, None, FollowUntil::Done).with_backoff(polite)).await;
    assert_eq!(
        (events.len(), error.map(|error| error.to_string())),
        (1, None)
    );
    assert!(
        started.elapsed().as_millis() >= 80,
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn heartbeats_keep_a_quiet_reader_alive() {
    let mut number = 0;
    let server = Server::start(move |_| {
        number += 1;
        let body = if number <= 2 * QUICK.attempts {
            ": beat\n\n".to_owned()
        } else {
            done("completed")
        };
        Answer::Cut(open_stream(&[body.as_bytes()]))
    })
    .await;
    let (events, error) = read_all(reader(&server, None, FollowUntil::Done)).await;
    assert_eq!(
        (events.len(), error.map(|error| error.to_string())),
        (1, None)
    );
}

#[tokio::test]
async fn a_reader_that_stays_sees_turn_after_turn() {
    let gap = "id: 7\nevent: gap\ndata: {\"from\":3,\"to\":7}\n\n".to_owned();
    // The closing `done` is said again to a reader that comes back, with or without an id; old
    // events and deltas may be too.
    let connections = [
        vec![message(1, "one"), done("completed")],
        vec![done("completed")],
        vec![
            format!("id: 1\n{}", done("completed")),
            message(1, "one"),
            delta(1, 2, 0, "on"),
            message(2, "two"),
            done("awaiting_answer"),
        ],
        vec![
            done("awaiting_answer"),
            done("cancelled"),
            gap,
            message(8, "eight"),
            done("cancelled"),
        ],
    ];
    let expected = [
        (Some(1), "message"),
        (None, "done"),
        (Some(2), "message"),
        (None, "done"),
        (None, "done"),
        (Some(7), "gap"),
        (Some(8), "message"),
        (None, "done"),
    ];
    let mut connections = connections.into_iter();
    let server = Server::start(move |_| match connections.next() {
        Some(events) => Answer::Cut(whole_stream(&[events.concat().as_bytes()])),
        None => Answer::Hold(open_stream(&[])),
    })
    .await;
    let mut reader = reader(&server, None, FollowUntil::Dropped);
    for (number, (id, kind)) in expected.into_iter().enumerate() {
        let event = reader.next().await.unwrap().unwrap();
        assert_eq!(
            (event.id, event.event.as_str()),
            (id, kind),
            "event {number}"
        );
    }
    assert_eq!(reader.last_id(), Some(8));
}

#[tokio::test]
async fn a_log_that_starts_over_is_read_from_its_start() {
    let start_over = json!({"type": "gap", "timestamp": TIME, "data": {"from": 2, "to": 9}});
    let start_over = format!("id: 0\nevent: message\ndata: {start_over}\n\n");
    let connections = [
        vec![
            message(8, "eight"),
            delta(1, 1, 0, "old"),
            message(9, "nine"),
            done("completed"),
        ],
        vec![
            start_over,
            delta(1, 1, 0, "new"),
            message(1, "one"),
            done("completed"),
        ],
        vec![message(2, "two")],
    ];
    let mut connections = connections.into_iter();
    let server = Server::start(move |_| match connections.next() {
        Some(events) => Answer::Cut(whole_stream(&[events.concat().as_bytes()])),
        None => Answer::Hold(open_stream(&[])),
    })
    .await;
    let mut reader = reader(&server, Some(7), FollowUntil::Dropped);
    let mut seen = Vec::new();
    while seen.last() != Some(&Some(2)) {
        seen.push(reader.next().await.unwrap().unwrap().id);
    }
    assert_eq!(
        seen,
        [
            Some(8),
            None,
            Some(9),
            None,
            Some(0),
            None,
            Some(1),
            None,
            Some(2)
        ]
    );
    let asked: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.header("last-event-id").map(str::to_owned))
        .collect();
    assert_eq!(asked, ["7", "9", "1"].map(|id| Some(id.to_owned())));
}
