//! What readers of all sessions are shown, whatever their sources leave out or repeat.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use codelab_protocol::{ProjectId, SessionId, SessionKind, TurnId};
use codelab_store::{
    Commit, DatabaseUrl, Epoch, NewProject, NewSessionRow, Store, StoreError, StoreOptions,
};

use super::cursor::{MAX_NAMED_SESSIONS, WINDOW_MS};
use super::*;
use crate::clock::now;

const WITHIN: std::time::Duration = std::time::Duration::from_secs(20);

/// A store with sessions of user 1, and who listens to them.
struct World {
    store: Store,
    metrics: Arc<Metrics>,
    events: UserEvents,
    project: ProjectId,
}

fn user(number: i64) -> UserId {
    UserId::new(number).expect("a user")
}

fn key(number: i64) -> SessionKey {
    SessionKey::from_raw(number)
}

fn event(number: i64, seq: u64) -> StoredEvent {
    StoredEvent {
        seq,
        turn: TurnId(1),
        kind: "tool_result".into(),
        body: format!("s{number} {seq}").into(),
        settled: None,
        timestamp: now(),
    }
}

fn large(seq: u64, bytes: usize) -> Arc<StoredEvent> {
    Arc::new(StoredEvent {
        body: "x".repeat(bytes).into(),
        ..event(1, seq)
    })
}

impl World {
    async fn new() -> Self {
        let store = Store::open(StoreOptions::new(DatabaseUrl::SqliteMemory))
            .await
            .expect("a store");
        let project = NewProject {
            name: "p".to_owned(),
            description: None,
            budget_micro_usd: None,
            budget_tokens: None,
            nonce: "n".to_owned(),
            agents: Vec::new(),
        };
        let project = store.of(user(1)).create_project(project, now()).await;
        let project = project.expect("a project").id();
        let metrics = Metrics::new();
        let events = UserEvents::new(&metrics);
        Self {
            store,
            metrics,
            events,
            project,
        }
    }

    /// Stores the next events of a session. The first ones make the session.
    async fn store(&self, number: i64, numbers: RangeInclusive<u64>) {
        self.store_at(number, numbers, now()).await;
    }

    async fn store_at(&self, number: i64, numbers: RangeInclusive<u64>, timestamp: Timestamp) {
        let mut commit = Commit::new(key(number), Epoch(1));
        if *numbers.start() == 1 {
            commit.state = Some("{}".to_owned());
            commit.create = Some(NewSessionRow {
                kind: SessionKind::Project,
                session_id: SessionId::parse(&format!("s{number}")).expect("an id"),
                user_id: Some(user(1)),
                project_id: Some(self.project),
                system_prompt: None,
                created_at: timestamp,
                owner: None,
            });
        }
        commit.events.extend(numbers.map(|seq| StoredEvent {
            timestamp,
            ..event(number, seq)
        }));
        self.store.commit(commit).await.expect("it is stored");
    }

    fn publish(&self, number: i64, seq: u64) {
        let events = [Arc::new(event(number, seq))];
        self.events.publish(user(1), key(number), &events);
    }

    fn publish_elsewhere(&self, number: i64, seq: u64) {
        let key = key(number);
        let reference = EventReference { key, seq };
        self.events.publish_elsewhere(user(1), reference);
    }

    /// What the owner of a session does.
    async fn happens(&self, number: i64, seq: u64) {
        self.store(number, seq..=seq).await;
        self.publish(number, seq);
    }

    async fn open(&self, after: Option<&str>, is_merged: bool) -> UserReader {
        let after = after.map(|text| UserCursor::parse(text, user(1), now()).expect("a cursor"));
        let who = (user(1), after);
        UserReader::open(&self.events, &self.store, &self.metrics, who, is_merged)
            .await
            .expect("it can be read")
    }
}

/// What is shown next, and the id to come back with.
async fn next(reader: &mut UserReader) -> (String, String) {
    let item = tokio::time::timeout(WITHIN, reader.next()).await;
    match item.expect("in time").expect("it can be read") {
        Some(UserItem::Event { event, cursor }) => (event.body.to_string(), cursor),
        Some(UserItem::Gap {
            session,
            gap,
            cursor,
        }) => (
            format!("{session} lacks {} to {}", gap.from, gap.to),
            cursor,
        ),
        other => panic!("{other:?}"),
    }
}

async fn shows(reader: &mut UserReader, expected: &[&str]) -> String {
    let mut last = String::new();
    for expected in expected {
        let (shown, cursor) = next(reader).await;
        assert_eq!(shown, *expected);
        last = cursor;
    }
    last
}

#[tokio::test]
async fn a_reader_that_stalls_holds_a_bounded_number_of_bytes_and_others_read_on() {
    let world = World::new().await;
    let mut stalled = world.open(None, false).await;
    let mut reading = world.open(None, false).await;
    for seq in 1..=24 {
        let events = [large(seq, 100_000)];
        world.events.publish(user(1), key(1), &events);
        next(&mut reading).await;
    }
    let mut seen = 0;
    while let Some(item) = stalled.next().await.expect("it can be read") {
        let UserItem::Event { event, .. } = item else {
            panic!("{item:?}")
        };
        seen += 1;
        assert_eq!(event.seq, seen, "nothing is left out before the cut");
    }
    let room = MAX_BEHIND_BYTES / 100_000;
    assert_eq!(seen as usize, room, "it was cut when so much waited for it");
    assert_eq!(world.metrics.readers_cut.get(), 1);
}

#[tokio::test]
async fn an_event_of_any_size_takes_no_room_while_it_waits() {
    let world = World::new().await;
    let mut stalled = world.open(None, false).await;
    for seq in 1..=24 {
        let events = [large(seq, 8 << 20)];
        world.events.publish(user(1), key(1), &events);
    }
    let first = stalled.next().await.expect("it can be read");
    assert!(matches!(first, Some(UserItem::LargeBegins { .. })));
    // This test stored no such event. A reader that has half an event is cut off.
    let cut = stalled.next().await.expect_err("there is no such event");
    assert_eq!(cut, StoreError::NotFound);
    assert_eq!(world.metrics.readers_cut.get(), 0);
}

#[tokio::test]
async fn what_a_source_leaves_out_is_read_from_the_store_first() {
    let world = World::new().await;
    let mut reader = world.open(None, false).await;
    world.happens(1, 1).await;
    world.store(1, 2..=200).await;
    // Repeats, and late ones, are passed over.
    for seq in [1, 150, 149, 150, 200] {
        world.publish(1, seq);
    }
    world.happens(2, 1).await;
    for seq in 1..=200 {
        shows(&mut reader, &[&format!("s1 {seq}")]).await;
    }
    shows(&mut reader, &["s2 1"]).await;
}

#[tokio::test]
async fn a_reader_that_comes_back_after_any_event_misses_and_repeats_nothing() {
    let world = World::new().await;
    world.store(9, 1..=3).await;
    let mut reader = world.open(None, false).await;
    let mut last = reader.cursor();
    let (mut expected, mut seen) = (BTreeSet::new(), Vec::new());
    for round in 1..=20_u64 {
        // Some happen while it is away: before, between and after those it is there for.
        for (number, away) in [
            (1, round % 3 == 0),
            (2, round % 2 == 0),
            (3, round % 5 == 0),
        ] {
            if away {
                drop(reader);
                world.happens(number, round).await;
                reader = world.open(Some(&last), false).await;
            } else {
                world.happens(number, round).await;
            }
            expected.insert(format!("s{number} {round}"));
            let (shown, cursor) = next(&mut reader).await;
            seen.push(shown);
            last = cursor;
        }
    }
    let shown: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(shown.len(), seen.len(), "nothing twice: {seen:?}");
    assert_eq!(shown, expected, "and nothing from before");
    world.happens(9, 4).await;
    shows(&mut reader, &["s9 4"]).await;
}

#[tokio::test]
async fn references_of_other_servers_are_read_from_the_store() {
    let world = World::new().await;
    let mut others = world.events.references(user(1));
    let mut reader = world.open(None, true).await;
    world.store(1, 1..=70).await;
    world.publish_elsewhere(1, 70);
    for seq in 1..=70 {
        shows(&mut reader, &[&format!("s1 {seq}")]).await;
    }
    // The session moves here. Its old owner did not tell of its last events.
    world.store(1, 71..=72).await;
    world.happens(1, 73).await;
    let told = others.next().await;
    let moved = EventReference {
        key: key(1),
        seq: 73,
    };
    assert_eq!(told, Some(moved), "what others told is not told again");
    shows(&mut reader, &["s1 71", "s1 72", "s1 73"]).await;
    // A session that this reader has not met, of which not everything is told.
    world.store(2, 1..=2).await;
    world.happens(2, 3).await;
    shows(&mut reader, &["s2 1", "s2 2", "s2 3"]).await;
    // A server was cut off. Whatever it did is found.
    world.store(2, 4..=4).await;
    world.store(3, 1..=1).await;
    world.events.missed(user(1));
    world.events.missed(user(1));
    shows(&mut reader, &["s2 4", "s3 1"]).await;
    world.publish_elsewhere(3, 1);
    world.happens(3, 2).await;
    shows(&mut reader, &["s3 2"]).await;
}

#[tokio::test]
async fn another_users_sessions_are_never_read() {
    let world = World::new().await;
    world.store(1, 1..=1).await;
    let who = (user(2), None);
    let mut reader = UserReader::open(&world.events, &world.store, &world.metrics, who, true)
        .await
        .expect("it can be read");
    world.happens(1, 2).await;
    let reference = EventReference {
        key: key(1),
        seq: 2,
    };
    world.events.publish_elsewhere(user(2), reference);
    world.events.missed(user(2));
    world.events.stop();
    assert!(reader.next().await.expect("it can be read").is_none());
    // A cursor that names the session of another is no way to it either.
    let mut cursor = UserCursor::starting(user(2), now());
    cursor.note(key(1), 0, now());
    let who = (user(2), Some(cursor));
    let mut reader = UserReader::open(&world.events, &world.store, &world.metrics, who, true)
        .await
        .expect("it can be read");
    world.events.publish_elsewhere(user(2), reference);
    world.events.stop();
    assert!(reader.next().await.expect("it can be read").is_none());
}

#[tokio::test]
async fn with_more_sessions_than_a_cursor_names_events_come_twice_and_none_is_lost() {
    let world = World::new().await;
    let count = MAX_NAMED_SESSIONS as i64 + 20;
    let mut reader = world.open(None, false).await;
    let mut last = String::new();
    for number in 1..=count {
        world.happens(number, 1).await;
        (_, last) = next(&mut reader).await;
    }
    drop(reader);
    for number in 1..=count {
        world.store(number, 2..=2).await;
    }
    let mut reader = world.open(Some(&last), false).await;
    let mut seen = BTreeSet::new();
    // Also when it is cut again, while it is still reading what it missed.
    for _ in 0..10 {
        let (shown, cursor) = next(&mut reader).await;
        seen.insert(shown);
        last = cursor;
    }
    let mut reader = world.open(Some(&last), false).await;
    world.events.stop();
    while let Some(item) = reader.next().await.expect("it can be read") {
        let UserItem::Event { event, .. } = item else {
            panic!("{item:?}")
        };
        seen.insert(event.body.to_string());
    }
    for number in 1..=count {
        assert!(
            seen.contains(&format!("s{number} 2")),
            "s{number}: {seen:?}"
        );
    }
}

#[tokio::test]
async fn a_cut_in_the_middle_of_what_was_missed_loses_no_older_event() {
    let world = World::new().await;
    let long_ago = now().plus_millis(-10 * WINDOW_MS);
    let cursor = UserCursor::starting(user(1), long_ago).text();
    world.store_at(1, 1..=1, now()).await;
    world.store_at(2, 1..=2, long_ago.plus_millis(1)).await;
    let mut reader = world.open(Some(&cursor), false).await;
    let last = shows(&mut reader, &["s1 1"]).await;
    drop(reader);
    let mut reader = world.open(Some(&last), false).await;
    let last = shows(&mut reader, &["s2 1", "s2 2"]).await;
    world.happens(1, 2).await;
    shows(&mut reader, &["s1 2"]).await;
    let mut reader = world.open(Some(&last), false).await;
    shows(&mut reader, &["s1 2"]).await;
}

#[tokio::test]
async fn numbers_that_are_not_shown_become_a_gap() {
    let world = World::new().await;
    let long_ago = now().plus_millis(-3 * 24 * 60 * 60 * 1000);
    let cursor = UserCursor::starting(user(1), long_ago).text();
    world.store_at(1, 1..=5, long_ago.plus_millis(1)).await;
    world.store(1, 6..=6).await;
    let pruned = world.store.prune_events(key(1), now().plus_millis(-1000));
    assert_eq!(pruned.await, Ok(5));
    world.store(2, 1..=10_007).await;
    world.store(3, 1..=3).await;
    let mut reader = world.open(Some(&cursor), false).await;
    shows(&mut reader, &["s1 lacks 1 to 5", "s1 6"]).await;
    for seq in 1..10_000 {
        shows(&mut reader, &[&format!("s2 {seq}")]).await;
    }
    let too_many = ["s2 lacks 10000 to 10007", "s3 lacks 1 to 3"];
    let last = shows(&mut reader, &too_many).await;
    world.happens(3, 4).await;
    shows(&mut reader, &["s3 4"]).await;
    let mut reader = world.open(Some(&last), false).await;
    shows(&mut reader, &["s3 4"]).await;
    // The reader knows more than this log has: it is another log.
    let mut cursor = UserCursor::starting(user(1), now());
    cursor.note(key(1), 9, now());
    cursor.note(key(2), 10_007, now());
    cursor.note(key(3), 4, now());
    let mut reader = world.open(Some(&cursor.text()), false).await;
    shows(&mut reader, &["s1 lacks 7 to 9"]).await;
    world.happens(1, 7).await;
    shows(&mut reader, &["s1 7"]).await;
    // A session that is gone has nothing to show.
    world.store.purge(key(3)).await.expect("it is purged");
    world.publish(3, 9);
    shows(&mut reader, &["s3 9"]).await;
}
