//! Deleting, pruning, and databases of other versions.

use codelab_protocol::SessionKind;
use codelab_store::{Commit, Schedule, Store, StoreError};

use crate::harness::{FIRST, Harness, approval, at, call, create, event, id, project_session};
use crate::users::{new_project, user};

pub async fn deleted_restored_purged(harness: Harness) -> Harness {
    let store = &harness.store;
    let (key, kept) = (
        harness.session("doomed").await,
        harness.session("kept").await,
    );
    store.soft_delete(key, at(50)).await.unwrap();
    assert_eq!(
        store.soft_delete(key, at(51)).await,
        Err(StoreError::NotFound)
    );
    let row = store
        .session(SessionKind::Runtime, &id("doomed"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.deleted_at, Some(at(50)));
    let mut commit = Commit::new(key, FIRST);
    commit.approvals_opened.push(approval("c1"));
    assert_eq!(
        store.commit(commit.clone()).await,
        Err(StoreError::Conflict)
    );

    store.restore(key).await.unwrap();
    assert_eq!(store.restore(key).await, Err(StoreError::NotFound));
    store.commit(commit).await.unwrap();
    let row = store
        .session(SessionKind::Runtime, &id("doomed"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.deleted_at, row.message_count), (None, 1));

    store.purge(key).await.unwrap();
    assert_eq!(store.purge(key).await, Err(StoreError::NotFound));
    assert_eq!(
        store
            .session(SessionKind::Runtime, &id("doomed"))
            .await
            .unwrap(),
        None
    );
    assert!(store.history(key, 0).await.unwrap().is_empty());
    assert!(store.events(key, 0, 10).await.unwrap().is_empty());
    assert_eq!(store.approval(key, &call("c1")).await.unwrap(), None);
    assert_eq!(store.events(kept, 0, 10).await.unwrap().len(), 1);
    assert_eq!(
        store.commit(Commit::new(key, FIRST)).await,
        Err(StoreError::Conflict)
    );
    harness.session("doomed").await;
    harness
}

pub async fn events_are_pruned_by_age(harness: Harness) -> Harness {
    let store = &harness.store;
    let key = harness.session("long").await;
    let young = harness.session("young").await;
    let mut commit = Commit::new(key, FIRST);
    // Event n is from millisecond n. Once the clock went back, so event 6 looks older than event 4.
    commit.events.extend((2..=9).map(|seq| event(seq, 1)));
    commit.events[4].timestamp = at(3);
    store.commit(commit).await.unwrap();
    let mut commit = Commit::new(young, FIRST);
    commit.events.push(event(2, 1));
    store.commit(commit).await.unwrap();

    assert_eq!(
        store.prunable_sessions(at(2), None, 10).await.unwrap(),
        sorted([key, young])
    );
    let first = sorted([key, young])[0];
    assert_eq!(
        store
            .prunable_sessions(at(2), Some(first), 10)
            .await
            .unwrap(),
        [sorted([key, young])[1]]
    );
    assert_eq!(store.prune_events(key, at(5)).await.unwrap(), 4);
    let left: Vec<_> = store
        .events(key, 0, 10)
        .await
        .unwrap()
        .iter()
        .map(|event| event.seq)
        .collect();
    assert_eq!(left, [5, 6, 7, 8, 9]);
    let row = store
        .session(SessionKind::Runtime, &id("long"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.first_seq, row.last_seq), (5, 9));

    // After everything is gone, the numbering continues.
    assert_eq!(store.prune_events(key, at(1000)).await.unwrap(), 5);
    assert_eq!(
        store.prunable_sessions(at(1000), None, 10).await.unwrap(),
        [young]
    );
    let row = store
        .session(SessionKind::Runtime, &id("long"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.first_seq, row.last_seq), (10, 9));
    let mut commit = Commit::new(key, FIRST);
    commit.events.push(event(10, 2));
    store.commit(commit).await.unwrap();
    assert_eq!(store.events(key, 0, 10).await.unwrap().len(), 1);
    assert_eq!(store.events(young, 0, 10).await.unwrap().len(), 2);
    harness
}

fn sorted<const N: usize>(
    mut keys: [codelab_store::SessionKey; N],
) -> [codelab_store::SessionKey; N] {
    keys.sort();
    keys
}

pub async fn old_sessions_are_cleaned_up(harness: Harness) -> Harness {
    let mut running = create("running");
    running.schedule = Some(Schedule {
        wake_at: None,
        running: true,
    });
    harness.store.commit(running).await.unwrap();
    let mut active = create("active");
    active.last_activity = Some(at(100));
    harness.store.commit(active).await.unwrap();
    let old = harness.session("old").await;
    let mine = harness.store.of(user(1));
    let project = mine.create_project(new_project("p"), at(0)).await.unwrap();
    harness
        .store
        .commit(project_session("chat", user(1), project.id()))
        .await
        .unwrap();
    assert_eq!(
        harness
            .store
            .cleanup_older_than(at(50), at(60), 10)
            .await
            .unwrap(),
        [old]
    );
    assert!(
        harness
            .store
            .cleanup_older_than(at(50), at(60), 10)
            .await
            .unwrap()
            .is_empty()
    );
    let row = harness
        .store
        .session(SessionKind::Runtime, &id("old"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.deleted_at, Some(at(60)));
    assert_eq!(
        harness
            .store
            .list_sessions(SessionKind::Runtime, 10, 0)
            .await
            .unwrap()
            .1,
        2
    );
    assert!(
        mine.session(&id("chat")).await.unwrap().is_some(),
        "a user's own, which nobody could restore"
    );
    harness
}

pub async fn a_newer_database_is_refused_untouched(harness: Harness) -> Harness {
    harness.store.close().await;
    harness
        .tamper("INSERT INTO schema_migrations (version, name) VALUES (99, 'future')")
        .await;
    for refused in [
        Store::open(harness.options.clone()).await,
        Store::open_read_only(harness.options.clone()).await,
    ] {
        let error = refused.err().unwrap();
        assert!(
            matches!(error, StoreError::TooNew { found: 99, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("99"));
    }
    harness
        .tamper("DELETE FROM schema_migrations WHERE version = 99")
        .await;
    let store = Store::open(harness.options.clone()).await.unwrap();
    store.close().await;
    harness
}
