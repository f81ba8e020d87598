//! How a connection to PostgreSQL can fail.

use codelab_protocol::SessionKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codelab_store::{Commit, DatabaseUrl, SearchWords, Store, StoreError, StoreOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{
    Engine, FIRST, Harness, create, event, id, postgres_tls_url, project_session,
};
use crate::project_sessions::project_of;
use crate::users::user;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_are_made_again() {
    let Some(harness) = Harness::open(Engine::Postgres).await else {
        return;
    };
    let key = harness.session("steady").await;
    for seq in 2..8 {
        harness.cut_connections().await;
        let mut commit = Commit::new(key, FIRST);
        commit.events.push(event(seq, 1));
        harness.store.commit(commit).await.unwrap();
        assert_eq!(
            harness.store.events(key, 0, 100).await.unwrap().len() as u64,
            seq
        );
    }
    harness.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_read_waits_for_a_search() {
    let Some(harness) = Harness::open(Engine::Postgres).await else {
        return;
    };
    let (mine, project) = project_of(&harness, 1).await;
    let commit = project_session("found", user(1), project.id());
    harness.store.commit(commit).await.unwrap();
    let lock = harness.lock("session_texts").await;
    let search = {
        let mine = mine.clone();
        tokio::spawn(async move {
            let words = SearchWords::parse("hello").unwrap();
            mine.search_sessions(&words, None, None, 10, 0).await
        })
    };
    let waiting =
        "SELECT 1 FROM pg_locks WHERE relation = CAST('session_texts' AS REGCLASS) AND NOT granted";
    while lock.query(waiting, &[]).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..8 {
        let list = mine.sessions(None, None, 10, 0);
        let (_, total) = tokio::time::timeout(Duration::from_secs(5), list)
            .await
            .expect("it does not wait for the search")
            .unwrap();
        assert_eq!(total, 1);
    }
    drop(lock);
    assert_eq!(search.await.unwrap().unwrap().1, 1);
    harness.finish().await;
}

#[tokio::test]
async fn a_search_ends_at_its_time_limit() {
    let limit = |options: &mut StoreOptions| options.search_timeout_ms = 50;
    let Some(harness) = Harness::open_with(Engine::Postgres, limit).await else {
        return;
    };
    let (mine, _) = project_of(&harness, 1).await;
    let words = SearchWords::parse("hello").unwrap();
    let lock = harness.lock("session_texts").await;
    let late = mine.search_sessions(&words, None, None, 10, 0).await;
    assert!(matches!(late, Err(StoreError::Overloaded(_))), "{late:?}");
    assert_eq!(harness.store.reads().failure, None, "the database works");
    drop(lock);
    harness.finish().await;
}

/// Answers like a standby, or like a server that was made read-only.
#[tokio::test]
async fn a_server_that_takes_no_writes_is_an_outage() {
    let Some(harness) = Harness::open(Engine::Postgres).await else {
        return;
    };
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN RAISE EXCEPTION 'read-only' USING ERRCODE = '25006'; END $$; \
        CREATE TRIGGER refused BEFORE INSERT ON sessions EXECUTE FUNCTION refuse()";
    harness.tamper(refuse).await;
    let error = harness.store.commit(create("refused")).await.unwrap_err();
    assert!(error.is_outage(), "{error}");
    assert_eq!(
        harness.store.writes().failure,
        Some(error),
        "health says so"
    );
    harness.tamper("DROP TRIGGER refused ON sessions").await;
    harness.store.commit(create("taken")).await.unwrap();
    assert_eq!(harness.store.writes().failure, None);
    harness.finish().await;
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable() {
    let url = DatabaseUrl::parse("postgres://nobody:secret@127.0.0.1:1/none").unwrap();
    let error = Store::open(StoreOptions::new(url)).await.err().unwrap();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(!format!("{error} {error:?}").contains("secret"));
}

/// The server accepts this user only over TLS, with a certificate for `localhost`.
#[tokio::test]
async fn each_sslmode_asks_what_it_says() {
    let Some(url) = postgres_tls_url() else {
        eprintln!("skipped: CODELAB_TEST_POSTGRES_TLS_URL is not set");
        return;
    };
    let (address, parameters) = url.split_once('?').unwrap();
    let roots = parameters
        .split('&')
        .find(|parameter| parameter.starts_with("sslrootcert="))
        .unwrap();
    let by_number = address.replacen("@localhost:", "@127.0.0.1:", 1);
    let other = tempfile::NamedTempFile::new().unwrap();
    let other = format!("sslrootcert={}", other.path().display());
    for (address, parameters, refusal) in [
        (address, "", None),
        (address, "sslmode=prefer", None),
        (address, "sslmode=require", None),
        (address, &format!("sslmode=require&{roots}"), None),
        (address, &format!("sslmode=verify-ca&{roots}"), None),
        (address, &format!("sslmode=verify-full&{roots}"), None),
        (&by_number, "sslmode=require", None),
        (&by_number, &format!("sslmode=verify-ca&{roots}"), None),
        (
            &by_number,
            &format!("sslmode=verify-full&{roots}"),
            Some("it is only for localhost"),
        ),
        (address, "sslmode=disable", Some("another sslmode")),
        (
            address,
            "sslmode=verify-full&sslrootcert=system",
            Some("not trusted: unknown issuer"),
        ),
        (
            address,
            &format!("sslmode=verify-ca&{other}"),
            Some("holds no PEM certificate"),
        ),
    ] {
        let url = DatabaseUrl::parse(&format!("{address}?{parameters}")).unwrap();
        let found = codelab_store::inspect(StoreOptions::new(url)).await;
        match refusal {
            None => assert!(found.is_ok(), "{parameters}: {:?}", found.err()),
            Some(refusal) => {
                let error = found.err().unwrap().to_string();
                assert!(error.contains(refusal), "{parameters}: {error}");
            }
        }
    }
}

/// A proxy between store and server that cuts the connection when a commit passes.
struct Cutter {
    armed: Arc<AtomicBool>,
    /// Whether the commit still reaches the server.
    deliver: bool,
}

impl Cutter {
    async fn listen(self, server: String) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(carry(near, far, Arc::clone(&self.armed), self.deliver));
            }
        });
        port
    }
}

async fn carry(near: TcpStream, far: TcpStream, armed: Arc<AtomicBool>, deliver: bool) {
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let (cut, mut is_cut) = tokio::sync::oneshot::channel();
    let back = tokio::spawn(async move {
        let copying = tokio::io::copy(&mut from_far, &mut to_near);
        tokio::select! { _ = copying => {}, _ = &mut is_cut => {} }
    });
    let mut buffer = vec![0; 65536];
    while let Ok(count @ 1..) = from_near.read(&mut buffer).await {
        let sent = &buffer[..count];
        if sent.windows(6).any(|window| window == b"COMMIT") && armed.swap(false, Ordering::SeqCst)
        {
            let _ = cut.send(());
            back.await.unwrap();
            if deliver {
                to_far.write_all(sent).await.unwrap();
                // The server closes the connection after it has executed what was sent.
                to_far.shutdown().await.unwrap();
            }
            return;
        }
        if to_far.write_all(sent).await.is_err() {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_cut_during_a_commit_leaves_the_outcome_unknown() {
    for deliver in [false, true] {
        let Some(harness) = Harness::open(Engine::Postgres).await else {
            return;
        };
        let key = harness.session("cut").await;
        let DatabaseUrl::Postgres(url) = harness.options.url.clone() else {
            unreachable!()
        };
        let config: tokio_postgres::Config = url.parse().unwrap();
        let server = format!("127.0.0.1:{}", config.get_ports()[0]);
        let armed = Arc::new(AtomicBool::new(false));
        let port = Cutter {
            armed: Arc::clone(&armed),
            deliver,
        }
        .listen(server.clone())
        .await;
        let mut options = harness.options.clone();
        let host = url.split('@').nth(1).unwrap().split('/').next().unwrap();
        let through = url.replacen(host, &format!("127.0.0.1:{port}"), 1);
        // The cutter must see the word COMMIT.
        let through = format!("{through}&sslmode=disable");
        options.url = DatabaseUrl::parse(&through).unwrap();
        let store = Store::open(options).await.unwrap();

        armed.store(true, Ordering::SeqCst);
        let mut commit = Commit::new(key, FIRST);
        commit.events.push(event(2, 1));
        assert_eq!(store.commit(commit.clone()).await, Err(StoreError::Unknown));
        // After a reload the same commit can be submitted again, and exactly one of the two is
        // stored.
        let again = loop {
            match store.commit(commit.clone()).await {
                Err(StoreError::Unavailable(_)) => tokio::task::yield_now().await,
                other => break other,
            }
        };
        let expected = if deliver {
            Err(StoreError::Conflict)
        } else {
            Ok(())
        };
        assert_eq!(again, expected, "delivered: {deliver}");
        assert_eq!(store.events(key, 0, 10).await.unwrap().len(), 2);
        store.commit(create("afterwards")).await.unwrap();
        assert!(
            harness
                .store
                .session(SessionKind::Runtime, &id("afterwards"))
                .await
                .unwrap()
                .is_some()
        );
        store.close().await;
        harness.finish().await;
    }
}
