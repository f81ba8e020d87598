//! Several servers on one database.

use codelab_protocol::{ProjectId, SessionKind};
use codelab_store::{
    Commit, Epoch, NewServer, OwnedRow, Schedule, Search, SessionKey, Store, StoreError,
};
use futures_util::future::join_all;

use crate::harness::{FIRST, Harness, at, create, id, new_key};
use crate::project_sessions::project_of;

/// A server that joined at `started` and whose lease ends at `until`.
async fn joined(store: &Store, server_id: &str, started: i64, until: i64) {
    let address = format!("http://{server_id}");
    let server = NewServer {
        server_id,
        address: Some(&address),
        fingerprint: Some("same"),
        lease_ms: (until - started) as u64,
    };
    store.join(&server, Some(at(started))).await.unwrap();
}

/// As `server_id`, ends all servers whose lease has lapsed by then; gives their names.
async fn fence_lapsed(store: &Store, server_id: &str, now: i64) -> Vec<String> {
    let mut fenced = Vec::new();
    for server in store.servers(Some(at(now))).await.unwrap() {
        let is_fenced = server.lapsed
            && store
                .fence(server_id, &server, Some(at(now)))
                .await
                .unwrap();
        if is_fenced {
            fenced.push(server.server_id);
        }
    }
    fenced
}

pub async fn a_session_is_claimed_by_one_living_server(harness: Harness) -> Harness {
    let store = &harness.store;
    let key = harness.session("claimed").await;
    joined(store, "a", 0, 100).await;
    joined(store, "b", 0, 1000).await;

    // (server, whether "b" has ended the lapsed "a" before, whether it becomes the owner)
    let mut epoch = FIRST;
    for (server, fences, taken) in [
        ("a", None, true),
        ("b", None, false),
        ("a", None, true),
        ("b", Some(99), false),
        ("b", Some(100), true),
        ("a", None, false),
        ("b", None, true),
    ] {
        if let Some(now) = fences {
            fence_lapsed(store, "b", now).await;
        }
        let claimed = store.claim_session(key, server).await.unwrap();
        assert_eq!(claimed.is_some(), taken, "{server} {fences:?}");
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
    assert_eq!(
        store.renew_lease("a", 5000, Some(at(101))).await,
        Err(StoreError::Conflict),
        "a server that others ended does not come back"
    );
    joined(store, "c", 102, 5000).await;
    store.end_server("b", Some(at(103))).await.unwrap();
    assert!(store.claim_session(key, "c").await.unwrap().is_some());
    assert_eq!(
        store.claim_session(new_key(), "c").await,
        Err(StoreError::NotFound)
    );

    // Many servers claim a free session at once. The first owner is alive, so nobody else gets the
    // session.
    let free = harness.session("free").await;
    let names: Vec<_> = (0..8).map(|n| format!("s{n}")).collect();
    for name in &names {
        joined(store, name, 0, 1000).await;
    }
    let claims = join_all(names.iter().map(|name| store.claim_session(free, name))).await;
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

pub async fn servers_join_only_where_the_living_allow_it(harness: Harness) -> Harness {
    let store = &harness.store;
    // (id, address, fingerprint, joins at, whether it may)
    for (server_id, address, fingerprint, now, may_join) in [
        ("alone", None, None, 0, true),
        ("second", None, None, 5, false),
        ("beside", Some("http://a"), Some("x"), 9, false),
        ("a", Some("http://a"), Some("x"), 10, true),
        ("late", None, None, 11, false),
        ("same", Some("http://a"), Some("x"), 12, false),
        ("other", Some("http://b"), Some("y"), 13, false),
        ("b", Some("http://b"), Some("x"), 14, true),
        ("again", Some("http://a"), Some("x"), 20, true),
        ("changed", Some("http://c"), Some("y"), 23, false),
        ("anew", Some("http://c"), Some("y"), 30, true),
    ] {
        let server = NewServer {
            server_id,
            address,
            fingerprint,
            lease_ms: 10,
        };
        let joined = store.join(&server, Some(at(now))).await;
        let expected = if may_join {
            Ok(())
        } else {
            Err(StoreError::Conflict)
        };
        assert_eq!(joined, expected, "{server_id}");
    }
    assert_eq!(store.fingerprint().await.unwrap().as_deref(), Some("y"));
    store.drain("anew").await.unwrap();
    let living: Vec<_> = store
        .servers(Some(at(35)))
        .await
        .unwrap()
        .into_iter()
        .filter(|server| !server.lapsed)
        .map(|server| (server.server_id, server.address, server.draining))
        .collect();
    let anew = ("anew".to_owned(), Some("http://c".to_owned()), true);
    assert_eq!(living, [anew]);
    harness
}

pub async fn what_is_live_has_one_owner(harness: Harness) -> Harness {
    let store = &harness.store;
    joined(store, "a", 0, 100).await;
    joined(store, "b", 0, 1000).await;
    let nothing = OwnedRow::Project(ProjectId::new(7_777).unwrap());
    assert_eq!(store.claim_row(nothing, "a").await.unwrap(), None);
    assert_eq!(store.owner_of_row(nothing).await.unwrap(), None);
    let (_, project) = project_of(&harness, 1).await;
    for row in [OwnedRow::Chat, OwnedRow::Project(project.id())] {
        let owner = async || store.owner_of_row(row).await.unwrap();
        let claim = async |server| store.claim_row(row, server).await.unwrap();
        assert_eq!(owner().await, None);
        assert_eq!(claim("a").await, Some(Epoch(1)));
        assert_eq!(claim("b").await, None);
        let known = owner().await.unwrap();
        let of_a = known.owner.unwrap();
        assert_eq!((of_a.server_id.as_str(), known.epoch), ("a", Epoch(1)));
        assert_eq!(of_a.address.as_deref(), Some("http://a"));
        for (server, epoch) in [("b", Epoch(1)), ("a", Epoch(0))] {
            store.release_row(row, server, epoch).await.unwrap();
            assert_eq!(claim("b").await, None, "{server} does not own it so");
        }
        store.release_row(row, "a", Epoch(1)).await.unwrap();
        assert_eq!(owner().await.unwrap().owner, None);
        assert_eq!(claim("b").await, Some(Epoch(2)));
        store.release_row(row, "b", Epoch(2)).await.unwrap();
        assert_eq!(claim("a").await, Some(Epoch(3)));
    }
    fence_lapsed(store, "b", 100).await;
    assert_eq!(
        store
            .owner_of_row(OwnedRow::Chat)
            .await
            .unwrap()
            .unwrap()
            .owner,
        None
    );
    assert_eq!(
        store.claim_row(OwnedRow::Chat, "b").await.unwrap(),
        Some(Epoch(4))
    );
    harness
}

pub async fn a_server_is_ended_only_by_one_that_lives_and_saw_its_lease_lapse(
    harness: Harness,
) -> Harness {
    let store = &harness.store;
    joined(store, "a", 0, 100).await;
    joined(store, "b", 0, 200).await;
    let seen = store.servers(Some(at(100))).await.unwrap();
    let [a, _] = seen.as_slice() else {
        panic!("two servers: {seen:?}")
    };
    assert!(a.lapsed);
    // It was asked for in time, and the database did it only when the lease of "b" was over.
    assert!(!store.fence("b", a, Some(at(200))).await.unwrap());
    store.renew_lease("b", 1000, Some(at(200))).await.unwrap();
    store.renew_lease("a", 10, Some(at(200))).await.unwrap();
    // "a" came back meanwhile, and lapsed once more: that has to be seen first.
    assert!(!store.fence("b", a, Some(at(300))).await.unwrap());
    assert_eq!(fence_lapsed(store, "b", 300).await, ["a"]);
    assert_eq!(
        store.renew_lease("a", 10, Some(at(300))).await,
        Err(StoreError::Conflict)
    );
    assert!(fence_lapsed(store, "nobody", 5_000).await.is_empty());
    harness
}

pub async fn whoever_takes_the_place_of_a_lapsed_server_ends_it(harness: Harness) -> Harness {
    let store = &harness.store;
    joined(store, "one", 0, 100).await;
    joined(store, "two", 0, 100).await;
    let join = async |server_id, address, fingerprint, now| {
        let server = NewServer {
            server_id,
            address,
            fingerprint,
            lease_ms: 10,
        };
        store.join(&server, Some(at(now))).await
    };
    let living = async |now| {
        let servers = store.servers(Some(at(now))).await.unwrap();
        let names = servers.into_iter().map(|server| server.server_id);
        names.collect::<Vec<_>>()
    };
    let (same, other) = (Some("same"), Some("other"));
    let taken = join("three", Some("http://one"), same, 99).await;
    assert_eq!(taken, Err(StoreError::Conflict));
    join("three", Some("http://one"), same, 100).await.unwrap();
    assert_eq!(living(100).await, ["three", "two"]);
    join("four", Some("http://four"), other, 110).await.unwrap();
    assert_eq!(living(110).await, ["four"]);
    join("alone", None, None, 120).await.unwrap();
    assert_eq!(living(120).await, ["alone"]);
    harness
}

pub async fn a_server_that_others_ended_writes_nothing_to_a_shared_database(
    harness: Harness,
) -> Harness {
    let store = &harness.store;
    let key = harness.session("held").await;
    joined(store, "a", 0, 100).await;
    joined(store, "b", 0, 1000).await;
    store.write_as(&"a".into());
    store.commit(Commit::new(key, FIRST)).await.unwrap();
    fence_lapsed(store, "b", 100).await;
    let written = store.commit(Commit::new(key, FIRST)).await;
    let expected = match store.is_shared() {
        true => Err(StoreError::Conflict),
        false => Ok(()),
    };
    assert_eq!(written, expected);
    store.write_as(&"b".into());
    store.commit(Commit::new(key, FIRST)).await.unwrap();
    harness
}

pub async fn due_and_running_sessions_are_found(harness: Harness) -> Harness {
    let store = &harness.store;
    joined(store, "me", 0, 1000).await;
    joined(store, "other", 0, 500).await;
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
    for search in [Search::Alone, Search::Among] {
        for (until, limit, expected) in [
            (100, 10, vec!["mine", "free", "orphan"]),
            (400, 10, vec!["mine", "free", "orphan", "later"]),
            (100, 1, vec!["mine"]),
            (9, 10, vec![]),
        ] {
            let due = store.due_sessions(search, at(until), "me", limit).await;
            assert_eq!(names(due.unwrap()), expected);
        }
    }
    let mut after: Option<SessionKey> = None;
    let mut paged = Vec::new();
    while let [next] = store
        .running_sessions(Search::Among, after, "me", 1)
        .await
        .unwrap()
        .as_slice()
    {
        after = Some(next.key);
        paged.push(next.session_id.to_string());
    }
    paged.sort();
    assert_eq!(paged, ["free", "mine"]);
    fence_lapsed(store, "me", 500).await;
    for search in [Search::Alone, Search::Among] {
        let due = store.due_sessions(search, at(100), "me", 10).await.unwrap();
        assert_eq!(names(due), ["mine", "theirs", "free", "orphan"]);
        let running = store.running_sessions(search, None, "me", 10).await;
        let mut running = names(running.unwrap());
        running.sort();
        assert_eq!(running, ["free", "mine", "theirs"]);
    }
    harness
}

pub async fn it_is_known_when_servers_were_there(harness: Harness) -> Harness {
    let store = &harness.store;
    for (server, started, until) in [("third", 300, 400), ("first", 0, 100), ("second", 150, 200)] {
        joined(store, server, started, until).await;
    }
    store.end_server("third", Some(at(350))).await.unwrap();
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
        joined(store, server, 0, until).await;
    }
    fence_lapsed(store, "living", 1_000).await;
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
    assert!(store.claim_session(key, "living").await.unwrap().is_some());
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
