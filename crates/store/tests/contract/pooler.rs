//! A pooler between the store and PostgreSQL that nobody named, and transactions that must be run
//! again.

use codelab_protocol::SessionKind;
use codelab_store::{Commit, DatabaseUrl, Store, StoreError};

use crate::harness::{Engine, FIRST, Harness, create, event, id};

/// Two servers share the processes of PostgreSQL. Nothing of one may stay there for the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_is_found_and_nothing_stays_in_it() {
    let Some(mut harness) = Harness::open(Engine::PostgresPooled).await else {
        eprintln!("skipped: CODELAB_TEST_PGBOUNCER_URL is not set");
        return;
    };
    let DatabaseUrl::Postgres(named) = harness.options.url.clone() else {
        unreachable!()
    };
    let unnamed = named.replacen("?pgbouncer=true", "", 1);
    harness.options.url = DatabaseUrl::parse(&unnamed).unwrap();
    harness.restart().await;
    let other = Store::open(harness.options.clone()).await.unwrap();
    for round in 0..20 {
        for (store, name) in [(&harness.store, "one"), (&other, "other")] {
            let name = format!("{name}-{round}");
            store.commit(create(&name)).await.unwrap();
            let found = store.session(SessionKind::Runtime, &id(&name)).await;
            assert!(found.unwrap().is_some());
        }
    }
    let settings = "SELECT (SELECT COUNT(*) FROM pg_prepared_statements), \
         current_setting('default_transaction_read_only'), \
         (SELECT source FROM pg_settings WHERE name = 'synchronous_commit')";
    // A transaction holds one process, so each client sees another one.
    let mut clients = Vec::new();
    for _ in 0..2 {
        let (client, driver) = tokio_postgres::connect(&unnamed, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(driver);
        client.batch_execute("BEGIN").await.unwrap();
        let row = client.query_typed_one(settings, &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 0, "no statement has a name");
        assert_eq!(row.get::<_, &str>(1), "off", "writers can use it");
        assert_ne!(row.get::<_, &str>(2), "session", "no setting stays");
        clients.push(client);
    }
    drop(clients);
    other.close().await;
    harness.finish().await;
}

/// As behind a pooler that was not found at the start: the statements of the writer vanish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vanishing_statements_are_sent_without_a_name() {
    let Some(harness) = Harness::open(Engine::Postgres).await else {
        return;
    };
    let forget = "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN EXECUTE 'DEALLOCATE ALL'; RETURN NULL; END $$; \
        CREATE TRIGGER forgets AFTER INSERT ON sessions EXECUTE FUNCTION forget()";
    harness.tamper(forget).await;
    for name in ["first", "second", "third"] {
        harness.store.commit(create(name)).await.unwrap();
    }
    harness.finish().await;
}

/// A sequence counts attempts, because a rollback does not set it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_that_others_made_fail_are_run_again() {
    for engine in [Engine::Postgres, Engine::PostgresPooled] {
        let Some(harness) = Harness::open(engine).await else {
            eprintln!("skipped: there is no such PostgreSQL");
            continue;
        };
        for (code, failures, expected) in
            [("40001", 3, true), ("40P01", 3, true), ("40001", 99, false)]
        {
            let fail = format!(
                "CREATE SEQUENCE attempts; CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN IF nextval('attempts') <= {failures} THEN \
                 RAISE EXCEPTION 'conflict' USING ERRCODE = '{code}'; END IF; RETURN NULL; END $$; \
                 CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON sessions \
                 DEFERRABLE INITIALLY IMMEDIATE FOR EACH ROW EXECUTE FUNCTION fail()"
            );
            harness.tamper(&fail).await;
            let name = format!("s{code}-{failures}");
            let outcome = harness.store.commit(create(&name)).await;
            match expected {
                true => outcome.unwrap(),
                false => assert!(matches!(outcome, Err(StoreError::Unavailable(_)))),
            }
            let remove = "DROP FUNCTION fail() CASCADE; DROP SEQUENCE attempts";
            harness.tamper(remove).await;
            let found = harness
                .store
                .session(SessionKind::Runtime, &id(&name))
                .await;
            assert_eq!(found.unwrap().is_some(), expected);
        }
        harness.finish().await;
    }
}

/// The server finds the conflict only when the transaction is committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_at_the_commit_is_no_unknown_outcome() {
    let Some(harness) = Harness::open(Engine::Postgres).await else {
        return;
    };
    let fail = "CREATE SEQUENCE attempts; CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN IF nextval('attempts') <= 2 THEN \
        RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END IF; RETURN NULL; END $$; \
        CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON sessions \
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()";
    harness.tamper(fail).await;
    harness.store.commit(create("late")).await.unwrap();
    harness.finish().await;
}

/// An advisory lock remembers the first attempt, because readers may change nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_others_made_fail_is_run_again() {
    let Some(harness) = Harness::open(Engine::Postgres).await else {
        return;
    };
    let key = harness.session("read").await;
    let fail = "CREATE FUNCTION fail() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN \
        IF NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) \
        THEN PERFORM pg_advisory_lock_shared(1); \
        RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END IF; RETURN TRUE; END $$; \
        ALTER TABLE events RENAME TO all_events; \
        CREATE VIEW events AS SELECT * FROM all_events WHERE fail()";
    harness.tamper(fail).await;
    assert_eq!(harness.store.events(key, 0, 10).await.unwrap().len(), 1);
    harness.tamper("DROP VIEW events").await;
    harness.finish().await;
}

/// How many commits are made for each figure. More take longer and vary less.
const COMMITS_VARIABLE: &str = "CODELAB_STORE_COMMITS";
const DEFAULT_COMMITS: u64 = 200;
const RATE_SESSIONS: u64 = 20;
const RATE_ROUNDS: usize = 3;

/// Prints what it costs to prepare nothing by name. Run it with `--nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_are_counted_with_and_without_names() {
    let commits =
        std::env::var(COMMITS_VARIABLE).map_or(DEFAULT_COMMITS, |text| text.parse().unwrap());
    let mut best = [
        ("prepared", 0.0_f64),
        ("pgbouncer=true", 0.0),
        ("through PgBouncer", 0.0),
    ];
    for _ in 0..RATE_ROUNDS {
        for (what, rate) in &mut best {
            let engine = match *what {
                "through PgBouncer" => Engine::PostgresPooled,
                _ => Engine::Postgres,
            };
            let is_pooled = *what == "pgbouncer=true";
            let harness = Harness::open_with(engine, |options| {
                if let (true, DatabaseUrl::Postgres(url)) = (is_pooled, &options.url) {
                    options.url = DatabaseUrl::parse(&format!("{url}&pgbouncer=true")).unwrap();
                }
            });
            if let Some(harness) = harness.await {
                *rate = rate.max(commits_per_second(&harness, commits).await);
                harness.finish().await;
            }
        }
    }
    for (what, rate) in best {
        match rate > 0.0 {
            true => eprintln!("{what}: {rate:.0} commits/s"),
            false => eprintln!("{what}: skipped, there is no such PostgreSQL"),
        }
    }
}

/// Every session commits one event after the other.
async fn commits_per_second(harness: &Harness, commits: u64) -> f64 {
    let each = commits / RATE_SESSIONS;
    let mut sessions = Vec::new();
    for number in 0..RATE_SESSIONS {
        sessions.push(harness.session(&format!("rate-{number}")).await);
    }
    let started = std::time::Instant::now();
    let all = sessions.iter().map(|key| async {
        for seq in 2..each + 2 {
            let mut commit = Commit::new(*key, FIRST);
            commit.events.push(event(seq, 1));
            harness.store.commit(commit).await.unwrap();
        }
    });
    futures_util::future::join_all(all).await;
    (each * RATE_SESSIONS) as f64 / started.elapsed().as_secs_f64()
}
