//! What only a database in a file can do, and how it can fail.

use codelab_protocol::SessionKind;
use std::path::Path;

use codelab_store::{
    Commit, DatabaseUrl, MessageRange, Store, StoreError, StoreOptions, StoredEvent, restore_sqlite,
};
use futures_util::future::join_all;

use crate::harness::{Engine, FIRST, Harness, create, event, id, message};
use crate::users::user;

async fn harness() -> Harness {
    Harness::open(Engine::Sqlite).await.unwrap()
}

fn file(harness: &Harness) -> &Path {
    match &harness.options.url {
        DatabaseUrl::SqliteFile(path) => path,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_second_process_is_kept_out_until_the_first_is_gone() {
    let harness = harness().await;
    let refused = Store::open(harness.options.clone()).await.err().unwrap();
    assert_eq!(refused, StoreError::Locked(file(&harness).to_owned()));
    assert!(refused.to_string().contains("in use by another process"));
    harness.store.close().await;
    let again = Store::open(harness.options.clone()).await.unwrap();
    again.ping().await.unwrap();
    again.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn the_files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let harness = harness().await;
    harness.session("private").await;
    let copy = file(&harness).with_extension("copy");
    harness.store.backup(&copy).await.unwrap();
    let folder = file(&harness).parent().unwrap();
    let files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(files.len() >= 4, "database, log, shared memory, lock, copy");
    for entry in files {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
    harness.finish().await;
}

#[tokio::test]
async fn a_database_in_memory_behaves_the_same_and_is_its_own() {
    let options = StoreOptions::new(DatabaseUrl::parse("sqlite::memory:").unwrap());
    let (one, two) = (
        Store::open(options.clone()).await.unwrap(),
        Store::open(options).await.unwrap(),
    );
    let results = join_all((0..40).map(|n| one.commit(create(&format!("m{n}"))))).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(
        one.list_sessions(SessionKind::Runtime, 100, 0)
            .await
            .unwrap()
            .1,
        40
    );
    assert_eq!(
        two.list_sessions(SessionKind::Runtime, 100, 0)
            .await
            .unwrap()
            .1,
        0
    );
    one.close().await;
    assert!(matches!(one.ping().await, Err(StoreError::Unavailable(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_whole_commits_and_recovers() {
    let mut harness = Harness::open_with(Engine::Sqlite, |options| options.max_pages = Some(200))
        .await
        .unwrap();
    let filler = harness.session("filler").await;
    let text = "x".repeat(20_000);
    let mut stored = 1;
    let error = loop {
        let mut commit = Commit::new(filler, FIRST);
        commit.messages.push(message(stored + 1, 1, &text));
        match harness.store.commit(commit).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1000, "the limit has no effect");
    };
    assert_eq!(error, StoreError::DiskFull);

    // Commits that arrive together. The large ones fail completely and leave nothing behind.
    let commits = (0..16).map(|n| {
        let mut commit = create(&format!("full-{n}"));
        commit.messages.push(message(2, 1, &text));
        harness.store.commit(commit)
    });
    let results = join_all(commits).await;
    assert!(results.contains(&Err(StoreError::DiskFull)));
    for (n, result) in results.iter().enumerate() {
        let found = harness
            .store
            .session(SessionKind::Runtime, &id(&format!("full-{n}")))
            .await
            .unwrap();
        assert_eq!(found.is_some(), result.is_ok(), "{n}");
    }
    let all = MessageRange::Last {
        before: None,
        limit: 1_000_000,
    };
    assert_eq!(
        harness.store.messages(filler, all).await.unwrap().len() as u64,
        stored
    );

    harness.store.purge(filler).await.unwrap();
    harness.session("after").await;
    harness.restart().await;
    assert!(
        harness
            .store
            .session(SessionKind::Runtime, &id("after"))
            .await
            .unwrap()
            .is_some()
    );
    harness.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_busy_database_is_whole_and_can_be_put_back() {
    let harness = harness().await;
    let key = harness.session("saved").await;
    let copy = file(&harness).with_file_name("backup.db");
    let writing = async {
        for seq in 2..60 {
            let mut commit = Commit::new(key, FIRST);
            commit.events.push(event(seq, 1));
            harness.store.commit(commit).await.unwrap();
        }
    };
    let (backed_up, ()) = tokio::join!(harness.store.backup(&copy), writing);
    backed_up.unwrap();
    assert!(
        matches!(
            harness.store.backup(&copy).await,
            Err(StoreError::Invalid(_))
        ),
        "overwrites"
    );

    let options = StoreOptions::new(DatabaseUrl::SqliteFile(copy.clone()));
    let reader = Store::open_read_only(options).await.unwrap();
    let row = reader
        .session(SessionKind::Runtime, &id("saved"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        reader.events(key, 0, 100).await.unwrap().len() as u64,
        row.last_seq
    );
    reader.close().await;

    let database = file(&harness).to_owned();
    assert_eq!(
        restore_sqlite(&copy, &database),
        Err(StoreError::Locked(database.clone()))
    );
    harness.session("made-after-the-backup").await;
    harness.store.close().await;
    restore_sqlite(&copy, &database).unwrap();
    let store = Store::open(harness.options.clone()).await.unwrap();
    assert_eq!(
        store
            .list_sessions(SessionKind::Runtime, 10, 0)
            .await
            .unwrap()
            .1,
        1
    );
    assert_eq!(
        store.events(key, 0, 100).await.unwrap().len() as u64,
        row.last_seq
    );
    assert!(copy.exists());
    store.close().await;
}

#[tokio::test]
async fn a_bad_backup_is_never_put_in_place() {
    let harness = harness().await;
    harness.session("precious").await;
    let folder = file(&harness).parent().unwrap().to_owned();
    let sound = folder.join("sound.db");
    harness.store.backup(&sound).await.unwrap();
    harness.store.close().await;

    let (missing, noise, empty, torn, newer) = (
        folder.join("missing"),
        folder.join("noise"),
        folder.join("empty"),
        folder.join("torn"),
        folder.join("newer"),
    );
    std::fs::write(&noise, [7_u8; 9000]).unwrap();
    std::fs::write(&empty, []).unwrap();
    let mut bytes = std::fs::read(&sound).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle - 4096..middle + 4096].fill(0xA5);
    std::fs::write(&torn, bytes).unwrap();
    std::fs::copy(&sound, &newer).unwrap();
    let connection = rusqlite::Connection::open(&newer).unwrap();
    connection
        .execute(
            "INSERT INTO schema_migrations (version, name) VALUES (99, 'future')",
            [],
        )
        .unwrap();
    drop(connection);
    for bad in [missing, noise, empty, torn, newer] {
        assert!(
            restore_sqlite(&bad, file(&harness)).is_err(),
            "{}",
            bad.display()
        );
    }
    let store = Store::open(harness.options.clone()).await.unwrap();
    assert!(
        store
            .session(SessionKind::Runtime, &id("precious"))
            .await
            .unwrap()
            .is_some()
    );
    store.close().await;
}

/// SQLite moves rows between pages and leaves copies behind, which `secure_delete` alone does not
/// overwrite.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_deleted_is_in_no_file_any_more() {
    let mut harness = Harness::open_with(Engine::Sqlite, |options| options.erase_delay_ms = 1)
        .await
        .unwrap();
    let mut keys = Vec::new();
    for n in 0..40 {
        let mut commit = create(&format!("s{n}"));
        // Their words are also in the index of the search.
        commit.search_user = Some(user(1));
        keys.push(commit.key);
        harness.store.commit(commit).await.unwrap();
    }
    let canary = |n: usize| format!("canary-{n:03}-");
    // The index stores of a word what differs from the word before it.
    let word = |n: usize| format!("secret{n:03}");
    // Rows of many sizes in changing places, so that pages are split and filled again.
    for round in 0..8_u64 {
        let commits = keys.iter().enumerate().map(|(n, key)| {
            let mut commit = Commit::new(*key, FIRST);
            commit.search_user = Some(user(1));
            for part in 0..8 {
                let (number, size) = (
                    2 + round * 8 + part,
                    [2, 18, 50, 120][(n + (round + part) as usize) % 4],
                );
                commit.messages.push(message(
                    number,
                    1,
                    &format!("{}{n:03}{}", canary(n).repeat(size), word(n)),
                ));
                commit.events.push(StoredEvent {
                    body: canary(n).repeat(size).into(),
                    ..event(number, 1)
                });
            }
            harness.store.commit(commit)
        });
        assert!(join_all(commits).await.iter().all(Result::is_ok));
    }
    // Some rows are deleted, the file is searched for all of them, and the others are complete.
    for doomed in [0..5, 5..20, 20..39] {
        for n in doomed.clone() {
            harness.store.purge(keys[n]).await.unwrap();
        }
        let deleted = 0..doomed.end;
        let deleted = deleted.clone().map(canary).chain(deleted.map(word));
        gone(&harness, &deleted.collect::<Vec<_>>()).await;
        let all = MessageRange::Last {
            before: None,
            limit: 100,
        };
        assert_eq!(
            harness.store.messages(keys[39], all).await.unwrap().len(),
            65
        );
    }
    // The setting is for the whole process.
    let any = rusqlite::Connection::open_in_memory().unwrap();
    let copies: String = any
        .query_row("PRAGMA temp_store_directory", [], |row| row.get(0))
        .unwrap();
    assert!(
        !copies.is_empty(),
        "copies are made in a folder of the database, and not in that of all users"
    );
    // A deletion that a crash interrupted is completed at the next start.
    harness.options.erase_delay_ms = 60_000;
    harness.restart().await;
    harness.store.purge(keys[39]).await.unwrap();
    harness.options.erase_delay_ms = 1;
    harness.restart().await;
    gone(&harness, &[canary(39), word(39)]).await;
    harness.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_watches_learns_that_commits_wait_for_a_rewriting() {
    let adjust = |options: &mut StoreOptions| {
        (options.erase_delay_ms, options.busy_timeout_ms) = (500, 20_000)
    };
    let harness = Harness::open_with(Engine::Sqlite, adjust).await.unwrap();
    let key = harness.session("doomed").await;
    assert_eq!(harness.store.rewrites_for(), None);
    harness.store.purge(key).await.unwrap();
    // The rewriting continues until this is gone.
    let lock = rusqlite::Connection::open(file(&harness)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(15);
    while harness.store.rewrites_for().is_none() {
        assert!(
            std::time::Instant::now() < deadline,
            "nobody says that the file is rewritten"
        );
        tokio::task::yield_now().await;
    }
    lock.execute_batch("ROLLBACK").unwrap();
    harness.session("afterwards").await;
    assert_eq!(harness.store.rewrites_for(), None);
    harness.finish().await;
}

/// Waits until no file beside the database contains any of these.
async fn gone(harness: &Harness, canaries: &[String]) {
    let folder = file(harness).parent().unwrap();
    let found = || -> Vec<String> {
        // The copy that a rewriting makes has a name only for a moment.
        let files = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| std::fs::read(entry.unwrap().path()).ok());
        let text: Vec<String> = files
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect();
        canaries
            .iter()
            .filter(|canary| text.iter().any(|text| text.contains(canary.as_str())))
            .cloned()
            .collect()
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !found().is_empty() {
        assert!(
            std::time::Instant::now() < deadline,
            "still there: {:?}",
            found()
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
