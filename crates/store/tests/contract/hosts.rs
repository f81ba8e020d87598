//! An address with several hosts: the dead ones, and whose certificate is checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use codelab_protocol::SessionKind;
use codelab_store::{DatabaseUrl, Store, StoreError, StoreOptions};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::{Engine, Harness, create, id, postgres_tls_url};

/// The address with other hosts.
fn with_hosts(url: &str, hosts: &str) -> String {
    let host = url.split('@').nth(1).unwrap().split('/').next().unwrap();
    url.replacen(&format!("@{host}/"), &format!("@{hosts}/"), 1)
}

fn host_of(options: &StoreOptions) -> (String, String) {
    let DatabaseUrl::Postgres(url) = &options.url else {
        unreachable!()
    };
    let config: tokio_postgres::Config = url.parse().unwrap();
    (url.clone(), format!("127.0.0.1:{}", config.get_ports()[0]))
}

/// Accepts connections and never answers, like a machine that hangs. Counts them.
async fn hanging_host() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let accepted = Arc::clone(&count);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            held.push(stream);
        }
    });
    (address, count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_hosts_are_passed_over() {
    let Some(harness) = Harness::open(Engine::Postgres).await else {
        eprintln!("skipped: CODELAB_TEST_POSTGRES_URL is not set");
        return;
    };
    let (url, living) = host_of(&harness.options);
    let (hanging, asked) = hanging_host().await;
    let refused = "127.0.0.1:1";
    for (round, hosts) in [
        format!("{refused},{living}"),
        format!("{hanging},{living}"),
        format!("{refused},{hanging},{living}"),
    ]
    .into_iter()
    .enumerate()
    {
        asked.store(0, Ordering::SeqCst);
        let mut options = harness.options.clone();
        options.connect_timeout_ms = 500;
        let url = with_hosts(&url, &hosts);
        let url = format!("{url}&target_session_attrs=read-write&sslmode=disable");
        options.url = DatabaseUrl::parse(&url).unwrap();
        let store = Store::open(options).await.unwrap();
        let name = format!("round-{round}");
        store.commit(create(&name)).await.unwrap();
        for _ in 0..4 {
            let found = store.session(SessionKind::Runtime, &id(&name)).await;
            assert!(found.unwrap().is_some());
        }
        assert!(
            asked.load(Ordering::SeqCst) <= 1,
            "only the first connection waits for the dead host"
        );
        store.close().await;
    }
    let mut options = harness.options.clone();
    options.url = DatabaseUrl::parse(&with_hosts(&url, "127.0.0.1:1,127.0.0.1:2")).unwrap();
    let error = Store::open(options).await.err().unwrap();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("host 1: ") && text.contains("host 2: "),
        "{text}"
    );
    harness.finish().await;
}

/// Carries connections to the server until it is told to hang. Then it cuts them, and new ones get
/// no answer.
async fn host_that_can_hang(server: String) -> (String, watch::Sender<bool>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (hang, hangs) = watch::channel(false);
    let count = Arc::new(AtomicUsize::new(0));
    let accepted = Arc::clone(&count);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut near, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            if *hangs.borrow() {
                held.push(near);
                continue;
            }
            let (server, mut hangs) = (server.clone(), hangs.clone());
            tokio::spawn(async move {
                let mut far = TcpStream::connect(server).await.unwrap();
                let carrying = tokio::io::copy_bidirectional(&mut near, &mut far);
                tokio::select! { _ = carrying => {}, _ = hangs.wait_for(|hangs| *hangs) => {} }
            });
        }
    });
    (address, hang, count)
}

/// Many reads wait for a connection, but only one of each reader tries to make one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_do_not_queue_for_a_server_that_hangs() {
    let Some(harness) = Harness::open(Engine::Postgres).await else {
        eprintln!("skipped: CODELAB_TEST_POSTGRES_URL is not set");
        return;
    };
    let (url, living) = host_of(&harness.options);
    let (through, hang, asked) = host_that_can_hang(living).await;
    let mut options = harness.options.clone();
    options.connect_timeout_ms = 500;
    options.readers = 2;
    let url = format!("{}&sslmode=disable", with_hosts(&url, &through));
    options.url = DatabaseUrl::parse(&url).unwrap();
    let store = Store::open(options).await.unwrap();
    let key = harness.session("read").await;
    for _ in 0..4 {
        store.events(key, 0, 10).await.unwrap();
    }
    hang.send_replace(true);
    asked.store(0, Ordering::SeqCst);
    let reads = (0..20).map(|_| store.events(key, 0, 10));
    for outcome in futures_util::future::join_all(reads).await {
        assert!(matches!(outcome, Err(StoreError::Unavailable(_))));
    }
    let attempts = asked.load(Ordering::SeqCst);
    assert!(attempts <= 4, "{attempts} attempts to connect");
    hang.send_replace(false);
    let started = std::time::Instant::now();
    while let Err(error) = store.events(key, 0, 10).await {
        assert!(started.elapsed().as_secs() < 30, "{error}");
        tokio::task::yield_now().await;
    }
    store.close().await;
    harness.finish().await;
}

/// The certificate is for `localhost`, so the same server is refused under its number.
#[tokio::test]
async fn the_certificate_of_the_host_that_answers_is_checked() {
    let Some(url) = postgres_tls_url() else {
        eprintln!("skipped: CODELAB_TEST_POSTGRES_TLS_URL is not set");
        return;
    };
    let config_url = url.split('?').next().unwrap();
    let config: tokio_postgres::Config = config_url.parse().unwrap();
    let port = config.get_ports()[0];
    for (hosts, is_accepted) in [
        (format!("127.0.0.1:{port},localhost:{port}"), true),
        (format!("127.0.0.1:1,localhost:{port}"), true),
        (format!("127.0.0.1:{port},127.0.0.1:{port}"), false),
        (format!("localhost:1,127.0.0.1:{port}"), false),
    ] {
        let url = DatabaseUrl::parse(&with_hosts(&url, &hosts)).unwrap();
        let found = codelab_store::inspect(StoreOptions::new(url)).await;
        match is_accepted {
            true => assert!(found.is_ok(), "{hosts}: {:?}", found.err()),
            false => {
                let error = found.err().unwrap().to_string();
                assert!(error.contains("only for localhost"), "{hosts}: {error}");
            }
        }
    }
}
