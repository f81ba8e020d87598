//! What can be read, and that reading changes nothing.

use codelab_protocol::{CallId, SessionKind, TaskId, TurnId};
use codelab_store::{Commit, MessageRange, Store, StoreError, StoredEvent};
use futures_util::FutureExt as _;

use crate::harness::{FIRST, Harness, at, create, event, message};

pub async fn ranges_of_messages(harness: Harness) -> Harness {
    let key = harness.session("history").await;
    let mut commit = Commit::new(key, FIRST);
    commit
        .messages
        .extend((2..=9).map(|ord| message(ord, ord.div_ceil(3), "more")));
    // A message of the last turn that was queued while an earlier turn still ran.
    commit.messages[6].turn = TurnId(4);
    let noted = &mut commit.messages[7].message;
    noted.answers = CallId::parse("call-1").ok();
    noted.task_id = TaskId::parse("a").ok();
    noted.warnings = vec!["cut".to_owned()];
    let noted = noted.clone();
    harness.store.commit(commit).await.unwrap();
    harness.session("another").await;
    let last = |before, limit| MessageRange::Last { before, limit };
    for (range, expected) in [
        (MessageRange::FromTurn(TurnId(3)), 7..=9),
        // Includes what arrived late of an earlier turn.
        (MessageRange::FromTurn(TurnId(4)), 8..=9),
        (last(None, 4), 6..=9),
        (last(Some(4), 2), 2..=3),
        (last(Some(3), 10), 1..=2),
    ] {
        let found = harness.store.messages(key, range.clone()).await.unwrap();
        let ords: Vec<_> = found.iter().map(|message| message.ord).collect();
        assert_eq!(ords, expected.collect::<Vec<_>>(), "{range:?}");
    }
    assert_eq!(
        harness.store.messages(key, last(None, 1)).await.unwrap()[0].message,
        noted
    );
    assert!(
        harness
            .store
            .messages(key, last(None, 0))
            .await
            .unwrap()
            .is_empty()
    );
    for (after, expected) in [(0, 1..=9), (3, 4..=9)] {
        let found = harness.store.history(key, after).await.unwrap();
        assert_eq!(
            found.iter().map(|message| message.ord).collect::<Vec<_>>(),
            expected.collect::<Vec<_>>()
        );
    }
    harness
}

pub async fn events_by_position(harness: Harness) -> Harness {
    let key = harness.session("log").await;
    let mut commit = Commit::new(key, FIRST);
    commit.events.extend((2..=6).map(|seq| event(seq, 1)));
    harness.store.commit(commit).await.unwrap();
    harness.session("another").await;
    let seqs = |events: Vec<codelab_store::StoredEvent>| {
        events.iter().map(|event| event.seq).collect::<Vec<_>>()
    };
    for (after, limit, expected) in [
        (0, 100, vec![1, 2, 3, 4, 5, 6]),
        (2, 2, vec![3, 4]),
        (6, 9, vec![]),
    ] {
        assert_eq!(
            seqs(harness.store.events(key, after, limit).await.unwrap()),
            expected
        );
    }
    let mut commit = Commit::new(key, FIRST);
    commit.events.push(StoredEvent {
        body: "aйb😀cd".into(),
        ..event(7, 1)
    });
    harness.store.commit(commit).await.unwrap();
    for (skipped, chars, expected) in [
        (0, 3, Some("aйb")),
        (3, 1, Some("😀")),
        (4, 9, Some("cd")),
        (6, 9, Some("")),
        (99, 1, Some("")),
    ] {
        let piece = harness
            .store
            .event_piece(key, 7, skipped, chars)
            .await
            .unwrap();
        assert_eq!(piece.as_deref(), expected, "{chars} after {skipped}");
    }
    assert_eq!(harness.store.event_piece(key, 8, 0, 9).await.unwrap(), None);
    harness
}

pub async fn sessions_are_listed_by_activity(harness: Harness) -> Harness {
    for (name, activity) in [("old", 1), ("new", 30), ("middle", 20)] {
        let mut commit = create(name);
        commit.last_activity = Some(at(activity));
        harness.store.commit(commit).await.unwrap();
    }
    let mut elsewhere = create("elsewhere");
    elsewhere.create.as_mut().unwrap().kind = SessionKind::Project;
    harness.store.commit(elsewhere).await.unwrap();
    let gone = harness.session("gone").await;
    harness.store.soft_delete(gone, at(2)).await.unwrap();
    for (limit, offset, expected) in [
        (10, 0, vec!["new", "middle", "old"]),
        (1, 1, vec!["middle"]),
        (10, 3, vec![]),
        (0, 0, vec![]),
    ] {
        let (page, total) = harness
            .store
            .list_sessions(SessionKind::Runtime, limit, offset)
            .await
            .unwrap();
        assert_eq!(
            page.iter()
                .map(|info| info.session_id.as_str())
                .collect::<Vec<_>>(),
            expected
        );
        assert_eq!(total, 3);
    }
    harness
}

pub async fn abandoned_reads_do_no_harm(mut harness: Harness) -> Harness {
    harness.options.readers = 1;
    harness.restart().await;
    let mut keys = Vec::new();
    for n in 0..8 {
        keys.push((n, harness.session(&format!("r{n}")).await));
        let mut commit = Commit::new(keys[n as usize].1, FIRST);
        commit.messages.push(message(2, 1, &format!("of {n}")));
        harness.store.commit(commit).await.unwrap();
    }
    for round in 0..400 {
        let (n, key) = keys[round % keys.len()];
        let _ = harness.store.history(key, 0).now_or_never();
        if round % 20 == 0 {
            let found = harness.store.history(key, 0).await.unwrap();
            assert_eq!(found[1].message.content, format!("of {n}"));
        }
    }
    harness.session("still-writable").await;
    harness
}

pub async fn a_read_only_store_reads_and_never_writes(harness: Harness) -> Harness {
    let key = harness.session("looked-at").await;
    for stopped in [false, true] {
        if stopped {
            harness.store.close().await;
        }
        let reader = Store::open_read_only(harness.options.clone())
            .await
            .unwrap();
        reader.ping().await.unwrap();
        assert_eq!(reader.events(key, 0, 10).await.unwrap().len(), 1);
        assert_eq!(
            reader.commit(create("written")).await,
            Err(StoreError::ReadOnly)
        );
        assert_eq!(
            reader.soft_delete(key, at(1)).await,
            Err(StoreError::ReadOnly)
        );
        reader.close().await;
    }
    harness
}
