//! A mode for all tests of a server: their requests enter at a server that owns nothing, and are
//! forwarded to the owner. `CODELAB_TEST_ENTRY=other` turns it on.
//!
//! Each test gets a PostgreSQL database with two servers. The one that the test knows was drained as
//! operators do it, so it forwards whatever has an owner. At the end it is checked that it never
//! owned anything.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use codelab_client::{Client, Method};
use codelab_server::StartError;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::OwnDatabase;
use crate::server::{OneServer, client, free_address, owned, shared_settings};

/// A free port can be lost to another program before the server listens.
const MAX_STARTS: u32 = 5;
/// A server looks at the others as soon as it has started.
const KNOWN_WITHIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);
/// Installations at the same time: each has about six connections to a PostgreSQL, which by default
/// allows 100. A test that needs several at once must not wait for others that do.
static ROOM: Semaphore = Semaphore::const_new(12);
const FORWARDS: &str = "codelab_cluster_forwards_total{outcome=\"answered\"}";
const CLAIMS: &str = "codelab_cluster_claims_total";

/// Whether the tests of this run enter at a server that owns nothing.
fn is_on() -> bool {
    std::env::var("CODELAB_TEST_ENTRY").is_ok_and(|entry| entry == "other")
}

/// For the first line of a test that cannot enter at another server: whether it must return. The
/// reason is printed and counted.
#[must_use]
pub fn skipped_through_another(reason: &str) -> bool {
    if is_on() {
        skip(reason);
    }
    is_on()
}

/// A server that has a database from its test stays as it is.
pub(crate) fn applies_to(settings: &[(&str, &str)]) -> bool {
    let has_database = settings.iter().any(|(name, _)| *name == "DATABASE_URL");
    if is_on() && has_database {
        skip("the test gives the server a database");
    }
    is_on() && !has_database
}

#[allow(clippy::print_stdout)]
fn skip(reason: &str) {
    println!("not through another server: {reason}");
}

pub(crate) struct ThroughAnother {
    /// Where requests enter.
    pub entry: OneServer,
    pub owner: OneServer,
    database: OwnDatabase,
    /// The servers live in a runtime of their own, so that they still answer when the test is over.
    runtime: Option<Runtime>,
    seen: Seen,
    _room: SemaphorePermit<'static>,
}

/// What the servers for requests did so far.
#[derive(Default)]
struct Seen {
    forwards: u64,
    claims: u64,
    /// Their names.
    entries: Vec<String>,
}

impl ThroughAnother {
    pub async fn start(
        mut environment: Vec<(String, String)>,
        settings: &[(&str, &str)],
    ) -> Result<Self, StartError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let room = ROOM.acquire().await.expect("nobody closes it");
        let name = format!("through_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let database = OwnDatabase::make(&name).await;
        let database = database.expect("CODELAB_TEST_ENTRY needs CODELAB_TEST_POSTGRES_URL");
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        environment.extend(shared_settings(&database.url));
        environment.extend(owned(settings));
        let server = || OneServer::living_in(runtime.handle().clone(), environment.clone());
        let mut this = Self {
            entry: server(),
            owner: server(),
            database,
            runtime: Some(runtime),
            seen: Seen::default(),
            _room: room,
        };
        this.boot().await?;
        Ok(this)
    }

    async fn boot(&mut self) -> Result<(), StartError> {
        boot(&mut self.owner).await?;
        boot(&mut self.entry).await?;
        let entry = client(&self.entry.url());
        let drained = entry.raw(Method::POST, "/cluster/drain", &[], "").await;
        assert_eq!(drained.unwrap().status, 204);
        let deadline = Instant::now() + KNOWN_WITHIN;
        let name = loop {
            match name_if_known(&entry, &self.owner.url()).await {
                Ok(name) => break name,
                Err(health) => assert!(Instant::now() < deadline, "{health}"),
            }
            tokio::time::sleep(PAUSE).await;
        };
        self.seen.entries.push(name);
        Ok(())
    }

    /// The owner goes first, so that streams end as it ends them.
    pub async fn stop(&mut self) {
        self.look().await;
        self.owner.stop().await;
        self.entry.stop().await;
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.boot().await.expect("the servers start again");
    }

    /// Adds up what the present server for requests did.
    async fn look(&mut self) {
        if !self.entry.is_running() {
            return;
        }
        let entry = client(&self.entry.url());
        let metrics = entry.raw(Method::GET, "/metrics", &[], "").await.unwrap();
        let text = String::from_utf8(metrics.body.to_vec()).unwrap();
        self.seen.forwards += sum_of(&text, FORWARDS);
        self.seen.claims += sum_of(&text, CLAIMS);
    }

    /// What the servers for requests own by the rows of the database.
    async fn owned_by_entries(&self) -> i64 {
        if self.seen.entries.is_empty() {
            // They did not start.
            return 0;
        }
        let names = self.seen.entries.join("','");
        let count = |table| format!("SELECT count(*) FROM {table} WHERE owner IN ('{names}')");
        let mut owned = 0;
        for table in ["owners", "sessions"] {
            owned += self.database.count(&count(table)).await;
        }
        owned
    }
}

/// The name of the server for requests, once it knows the owner. Else its health.
async fn name_if_known(entry: &Client, owner: &str) -> Result<String, Value> {
    let health = entry.raw(Method::GET, "/health", &[], "").await.unwrap();
    let health: Value = serde_json::from_slice(&health.body).unwrap();
    let servers = health["cluster"]["servers"].as_array();
    let is_owner = |server: &Value| server["address"] == *owner;
    match servers.is_some_and(|servers| servers.iter().any(is_owner)) {
        true => Ok(health["cluster"]["server"].as_str().unwrap().to_owned()),
        false => Err(health),
    }
}

/// Each start has another port.
async fn boot(server: &mut OneServer) -> Result<(), StartError> {
    let mut starts = 0;
    loop {
        starts += 1;
        server.configure(free_address().await);
        match server.boot().await {
            Err(StartError::Io { what, .. })
                if what.starts_with("addr ") && starts < MAX_STARTS => {}
            done => return done,
        }
    }
}

fn sum_of(metrics: &str, name: &str) -> u64 {
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    let counts = lines.filter_map(|line| line.rsplit_once(' '));
    counts.map(|(_, count)| count.parse::<u64>().unwrap()).sum()
}

impl Drop for ThroughAnother {
    #[allow(clippy::print_stdout)]
    fn drop(&mut self) {
        let runtime = self.runtime.take().expect("only dropping takes it");
        let this = &mut *self;
        let handle = runtime.handle().clone();
        // The test's own thread is inside of a runtime and cannot wait for another one.
        let owned = thread::scope(|scope| {
            let closing = scope.spawn(move || {
                handle.block_on(async {
                    this.look().await;
                    let owned = this.owned_by_entries().await;
                    this.database.remove().await;
                    owned
                })
            });
            closing.join()
        });
        runtime.shutdown_background();
        if thread::panicking() {
            return;
        }
        let owned = owned.expect("the servers were looked at");
        let Seen {
            forwards, claims, ..
        } = self.seen;
        println!("through another server: {forwards} forwards");
        assert_eq!(
            (claims, owned),
            (0, 0),
            "the server for requests owned something"
        );
    }
}
