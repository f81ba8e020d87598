//! A primary and its synchronous standby, both started here, and what a store does when they change
//! places.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use codelab_protocol::SessionKind;
use codelab_store::{DatabaseUrl, Store, StoreError, StoreOptions};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::harness::{audit_key, create, id, random};

const START_ATTEMPTS: usize = 5;
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const PASSWORD: &str = "secret";

/// The folder of the newest PostgreSQL's programs, as Debian lays them out.
fn programs() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        })
        .filter(|(_, programs)| programs.join("pg_basebackup").exists())
        .collect();
    versions.sort();
    versions.pop().map(|(_, programs)| programs)
}

struct Server {
    programs: PathBuf,
    data: PathBuf,
    port: u16,
}

impl Server {
    fn at(programs: &Path, data: PathBuf) -> Self {
        Self {
            programs: programs.to_owned(),
            data,
            port: 0,
        }
    }

    /// PostgreSQL refuses to run as root.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = match rustix::process::geteuid().is_root() {
            true => {
                let mut command = Command::new("runuser");
                command.args(["-u", "postgres", "--"]).arg(program);
                command
            }
            false => Command::new(program),
        };
        command
            .current_dir(self.data.parent().unwrap())
            .env("PGPASSWORD", PASSWORD)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .arg("-D")
            .arg(&self.data);
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let mut command = self.command(program);
        command.args(arguments).status().unwrap().success()
    }

    fn initialise(&self) {
        let password = self.data.with_extension("password");
        fs::write(&password, PASSWORD).unwrap();
        fs::set_permissions(&password, fs::Permissions::from_mode(0o644)).unwrap();
        let file = format!("--pwfile={}", password.display());
        let arguments = [
            "--no-sync",
            "-A",
            "scram-sha-256",
            "-U",
            "codelab",
            "-E",
            "UTF8",
        ];
        let arguments = [&arguments[..], &["--no-locale", &file]].concat();
        assert!(self.run("initdb", &arguments), "initdb works");
    }

    fn copy_of(&self, data: PathBuf) -> Server {
        let copy = Server::at(&self.programs, data);
        let port = self.port.to_string();
        let from = [
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "codelab",
            "-R",
            "-X",
            "stream",
        ];
        let arguments = [&from[..], &["-c", "fast", "--no-sync"]].concat();
        assert!(copy.run("pg_basebackup", &arguments), "pg_basebackup works");
        copy
    }

    /// Another program can take a free port at any moment, so several are tried.
    fn start(&mut self, settings: &str) {
        for _ in 0..START_ATTEMPTS {
            if self.port == 0 {
                let free = TcpListener::bind("127.0.0.1:0").unwrap();
                self.port = free.local_addr().unwrap().port();
            }
            let options = format!(
                "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off \
                 -c shared_buffers=8MB {settings}",
                self.port
            );
            let log = self.data.with_extension("log");
            let log = log.to_str().unwrap();
            if self.run("pg_ctl", &["-s", "-w", "-l", log, "-o", &options, "start"]) {
                return;
            }
            self.port = 0;
        }
        panic!("PostgreSQL starts");
    }

    fn stop(&self) {
        self.stopping().status().unwrap();
    }

    fn stopping(&self) -> Command {
        let mut command = self.command("pg_ctl");
        command.args(["-s", "-w", "-m", "immediate", "stop"]);
        command
    }

    fn promoting(&self) -> Command {
        let mut command = self.command("pg_ctl");
        command.args(["-s", "-w", "promote"]);
        command
    }

    fn url(&self) -> String {
        format!(
            "postgres://codelab:{PASSWORD}@127.0.0.1:{}/postgres",
            self.port
        )
    }

    /// One at a time, because some must not be in a transaction.
    async fn execute(&self, statements: &[&str]) {
        for sql in statements {
            crate::harness::execute_postgres(&self.url(), sql).await;
        }
    }

    async fn has_session(&self, name: &str) -> bool {
        let (client, driver) = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(driver);
        let sql = format!("SELECT 1 FROM sessions WHERE session_id = '{name}'");
        !client.query(&sql, &[]).await.unwrap().is_empty()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.data.join("postmaster.pid").exists() {
            self.stop();
        }
    }
}

struct Pair {
    primary: Server,
    standby: Server,
    // The servers are stopped before their folder goes.
    _folder: TempDir,
}

impl Pair {
    /// Commits on the primary wait for the standby.
    fn start() -> Option<Self> {
        let programs = programs()?;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let mut primary = Server::at(&programs, folder.path().join("primary"));
        primary.initialise();
        primary.start("-c synchronous_standby_names=*");
        let mut standby = primary.copy_of(folder.path().join("standby"));
        standby.start("");
        Some(Self {
            primary,
            standby,
            _folder: folder,
        })
    }

    /// The standby comes first, so that a store must look for the primary.
    fn options(&self) -> StoreOptions {
        let url = format!(
            "postgres://codelab:{PASSWORD}@127.0.0.1:{},127.0.0.1:{}/postgres\
             ?target_session_attrs=read-write",
            self.standby.port, self.primary.port
        );
        let mut options = StoreOptions::new(DatabaseUrl::parse(&url).unwrap());
        options.audit_key = Some(audit_key());
        options
    }
}

/// Stores new sessions until one is acknowledged for which `is_enough`. Returns those acknowledged.
async fn commit_until(store: &Store, mut is_enough: impl AsyncFnMut(&str) -> bool) -> Vec<String> {
    let started = Instant::now();
    let mut acknowledged = Vec::new();
    loop {
        let name = format!("s{:016x}", random());
        match store.commit(create(&name)).await {
            Ok(()) => {
                let enough = is_enough(&name).await;
                acknowledged.push(name);
                if enough {
                    return acknowledged;
                }
            }
            Err(StoreError::Unavailable(_) | StoreError::Unknown) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(started.elapsed() < LONGEST_WAIT, "{:?}", store.writes());
    }
}

async fn assert_all_there(store: &Store, names: &[String]) {
    for name in names {
        let started = Instant::now();
        let found = loop {
            match store.session(SessionKind::Runtime, &id(name)).await {
                Ok(found) => break found,
                Err(error) => assert!(started.elapsed() < LONGEST_WAIT, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert!(found.is_some(), "{name} was acknowledged");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_follows_the_primary_and_loses_nothing() {
    let Some(mut pair) = Pair::start() else {
        eprintln!("skipped: there is no PostgreSQL below /usr/lib/postgresql");
        return;
    };
    let store = Store::open(pair.options()).await.unwrap();
    let mut acknowledged = commit_until(&store, async |_| true).await;
    assert_all_there(&store, &acknowledged).await;

    no_standby_means_no_acknowledgement(&mut pair).await;
    acknowledged.extend(commit_until(&store, async |_| true).await);

    // The primary dies while commits are on their way.
    let steps = [pair.primary.stopping(), pair.standby.promoting()];
    let fail_over = tokio::task::spawn_blocking(move || {
        for mut step in steps {
            assert!(step.status().unwrap().success());
        }
    });
    let mut count = 0;
    let promoted = &pair.standby;
    let writes = commit_until(&store, async |name| {
        count += 1;
        count > 20 && promoted.has_session(name).await
    });
    let (stored, failed_over) = tokio::join!(writes, fail_over);
    failed_over.unwrap();
    acknowledged.extend(stored);
    assert_all_there(&store, &acknowledged).await;

    // A server that takes no writes any more, without ending its connections.
    pair.primary.start("-c synchronous_standby_names=");
    let no_writes = "ALTER SYSTEM SET default_transaction_read_only = on";
    pair.standby
        .execute(&[no_writes, "SELECT pg_reload_conf()"])
        .await;
    let other = &pair.primary;
    let moved = commit_until(&store, async |name| other.has_session(name).await).await;
    // Reads follow the writes.
    assert_all_there(&store, &moved[moved.len() - 1..]).await;
    store.close().await;
}

/// The server would acknowledge commits without its standby. The store's own setting prevents that.
async fn no_standby_means_no_acknowledgement(pair: &mut Pair) {
    let mut options = pair.options();
    options.query_timeout_ms = 1_000;
    let store = Store::open(options).await.unwrap();
    let hasty = "ALTER SYSTEM SET synchronous_commit = local";
    pair.primary
        .execute(&[hasty, "SELECT pg_reload_conf()"])
        .await;
    pair.standby.stop();
    let outcome = store.commit(create("alone")).await;
    assert_eq!(outcome, Err(StoreError::Unknown));
    store.close().await;
    pair.standby.start("");
}
