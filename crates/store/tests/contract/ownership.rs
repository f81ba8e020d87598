//! Several servers on one database.

use codelab_protocol::SessionKind;
use codelab_store::{Commit, Epoch, Schedule, SessionKey, StoreError};
use futures_util::future::join_all;

use crate::harness::{FIRST, Harness, at, create, id, new_key};

pub async fn a_session_is_claimed_by_one_living_server(harness: Harness) -> Harness {
    let store = &harness.store;
    let key = harness.session("claimed").await;
    store.register_server("a", at(0), at(100)).await.unwrap();
    store.register_server("b", at(0), at(1000)).await.unwrap();

    // (server, time, whether it becomes the owner)
    let mut epoch = FIRST;
    for (server, now, taken) in [
        ("a", 1, true),
        ("b", 2, false),
        ("a", 3, true),
        ("b", 99, false),
        ("b", 100, true),
        ("a", 101, false),
        ("b", 102, true),
    ] {
        let claimed = store.claim_session(key, server, at(now)).await.unwrap();
        assert_eq!(claimed.is_some(), taken, "{server} at {now}");
        if let Some(next) = claimed {
            assert_eq!(next, Epoch(epoch.0 + 1));
            assert_eq!(
                store.commit(Commit::new(key, epoch)).await,
                Err(StoreError::Conflict)
            );
            store.commit(Commit::new(key, next)).await.unwrap();
            epoch = next;
        }
    }
    store.renew_lease("a", at(5000)).await.unwrap();
    store.end_lease("b", at(103)).await.unwrap();
    assert!(
        store
            .claim_session(key, "a", at(103))
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(
        store.renew_lease("nobody", at(5000)).await,
        Err(StoreError::Conflict)
    );
    assert_eq!(
        store.claim_session(new_key(), "a", at(104)).await,
        Err(StoreError::NotFound)
    );

    // Many servers claim a free session at once. The first owner is alive, so nobody else gets the
    // session.
    let free = harness.session("free").await;
    for n in 0..8 {
        store
            .register_server(&format!("s{n}"), at(0), at(1000))
            .await
            .unwrap();
    }
    let names: Vec<_> = (0..8).map(|n| format!("s{n}")).collect();
    let claims = join_all(
        names
            .iter()
            .map(|name| store.claim_session(free, name, at(5))),
    )
    .await;
    assert_eq!(
        claims
            .iter()
            .filter(|claim| matches!(claim, Ok(Some(_))))
            .count(),
        1
    );
    let row = store
        .session(SessionKind::Runtime, &id("free"))
        .await
        .unwrap()
        .unwrap();
    assert!(names.contains(&row.owner.unwrap()));
    harness
}

pub async fn due_and_running_sessions_are_found(harness: Harness) -> Harness {
    let store = &harness.store;
    store.register_server("me", at(0), at(1000)).await.unwrap();
    store
        .register_server("other", at(0), at(500))
        .await
        .unwrap();
    for (name, owner, wake_at, running) in [
        ("free", None, Some(30), true),
        ("mine", Some("me"), Some(10), true),
        ("theirs", Some("other"), Some(20), true),
        ("orphan", Some("gone"), Some(40), false),
        ("later", None, Some(400), false),
        ("quiet", None, None, false),
        ("deleted", None, Some(5), true),
    ] {
        let mut commit = create(name);
        let key = commit.key;
        commit.create.as_mut().unwrap().owner = owner.map(str::to_owned);
        commit.schedule = Some(Schedule {
            wake_at: wake_at.map(at),
            running,
        });
        store.commit(commit).await.unwrap();
        if name == "deleted" {
            store.soft_delete(key, at(1)).await.unwrap();
        }
    }
    let names = |found: Vec<codelab_store::SessionRef>| {
        found
            .iter()
            .map(|session| session.session_id.to_string())
            .collect::<Vec<_>>()
    };
    for (until, now, limit, expected) in [
        (100, 100, 10, vec!["mine", "free", "orphan"]),
        (100, 500, 10, vec!["mine", "theirs", "free", "orphan"]),
        (400, 100, 10, vec!["mine", "free", "orphan", "later"]),
        (100, 100, 1, vec!["mine"]),
        (9, 100, 10, vec![]),
    ] {
        assert_eq!(
            names(
                store
                    .due_sessions(at(until), "me", at(now), limit)
                    .await
                    .unwrap()
            ),
            expected
        );
    }
    let mut after: Option<SessionKey> = None;
    let mut paged = Vec::new();
    while let [next] = store
        .running_sessions(after, "me", at(100), 1)
        .await
        .unwrap()
        .as_slice()
    {
        after = Some(next.key);
        paged.push(next.session_id.to_string());
    }
    paged.sort();
    assert_eq!(paged, ["free", "mine"]);
    let mut later = names(
        store
            .running_sessions(None, "me", at(500), 10)
            .await
            .unwrap(),
    );
    later.sort();
    assert_eq!(later, ["free", "mine", "theirs"]);
    harness
}

pub async fn it_is_known_when_servers_were_there(harness: Harness) -> Harness {
    let store = &harness.store;
    for (server, started, until) in [("third", 300, 400), ("first", 0, 100), ("second", 150, 200)] {
        store
            .register_server(server, at(started), at(until))
            .await
            .unwrap();
    }
    store.end_lease("third", at(350)).await.unwrap();
    let second_and_third = [(at(150), at(200)), (at(300), at(350))];
    assert_eq!(store.leases_after(at(100)).await.unwrap(), second_and_third);
    assert_eq!(store.leases_after(at(99)).await.unwrap().len(), 3);
    assert!(store.leases_after(at(350)).await.unwrap().is_empty());
    harness
}

pub async fn dead_servers_are_removed_when_no_deadline_needs_them(harness: Harness) -> Harness {
    let store = &harness.store;
    for (server, until) in [
        ("first", 100),
        ("owner", 200),
        ("later", 300),
        ("recent", 5_000),
        ("living", 90_000),
    ] {
        store
            .register_server(server, at(0), at(until))
            .await
            .unwrap();
    }
    let mut waiting = create("waiting");
    let key = waiting.key;
    waiting.create.as_mut().unwrap().owner = Some("owner".to_owned());
    waiting.schedule = Some(Schedule {
        wake_at: Some(at(80_000)),
        running: false,
    });
    store.commit(waiting).await.unwrap();
    // Without a deadline, the time without a server does not matter.
    let mut quiet = create("quiet");
    quiet.create.as_mut().unwrap().owner = Some("first".to_owned());
    store.commit(quiet).await.unwrap();

    // The rows of the session's owner and of later servers are needed, and no earlier ones.
    assert_eq!(store.remove_dead_servers(at(1_000)).await.unwrap(), 1);
    assert_eq!(store.server_lease("first").await.unwrap(), None);
    assert_eq!(store.leases_after(at(199)).await.unwrap().len(), 4);
    for running in [true, false] {
        let mut commit = Commit::new(key, FIRST);
        commit.schedule = Some(Schedule {
            wake_at: None,
            running,
        });
        store.commit(commit).await.unwrap();
        assert_eq!(
            store.remove_dead_servers(at(1_000)).await.unwrap(),
            if running { 0 } else { 2 }
        );
    }
    assert_eq!(
        store.leases_after(at(0)).await.unwrap().len(),
        2,
        "those that were there lately stay"
    );
    assert!(
        store
            .claim_session(key, "living", at(2_000))
            .await
            .unwrap()
            .is_some()
    );
    harness
}

pub async fn chat_ids_never_go_back_and_are_given_once(mut harness: Harness) -> Harness {
    assert_eq!(
        harness.store.reserve_chat_ids(5_000, 100).await.unwrap(),
        (5_000, 5_100)
    );
    harness.restart().await;
    let store = &harness.store;
    // The clock was set back, then it stands still, then it continues.
    assert_eq!(
        store.reserve_chat_ids(1_000, 100).await.unwrap(),
        (5_100, 5_200)
    );
    assert_eq!(
        store.reserve_chat_ids(5_200, 100).await.unwrap(),
        (5_200, 5_300)
    );
    assert_eq!(
        store.reserve_chat_ids(9_000, 100).await.unwrap(),
        (9_000, 9_100)
    );
    let mut blocks = join_all((0..20).map(|_| store.reserve_chat_ids(0, 10))).await;
    blocks.sort_by_key(|block| block.as_ref().ok().copied());
    let starts: Vec<_> = blocks.into_iter().map(|block| block.unwrap().0).collect();
    assert_eq!(starts, (0..20).map(|n| 9_100 + 10 * n).collect::<Vec<_>>());
    harness
}
