//! A PostgreSQL of a test's own, which can be frozen, restarted, killed, copied and promoted.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use codelab_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

const DEBIAN: &str = "/usr/lib/postgresql";
const MAX_CONNECTIONS: u32 = 200;
/// Between attempts on other ports, when another program took the one that was free.
const START_ATTEMPTS: u32 = 5;

pub struct Postgres {
    pub port: u16,
    programs: PathBuf,
    user: Option<&'static str>,
    home: PathBuf,
}

impl Postgres {
    /// A new one in `home`, which must not exist.
    pub async fn start(home: &Path) -> Self {
        let mut postgres = Self::prepare(home);
        let db = postgres.db();
        let initdb = [
            "--username=codelab",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
            "--pgdata",
            &db,
        ];
        postgres.must("initdb", &initdb).await;
        postgres.launch().await;
        postgres
    }

    /// A copy of `primary` that follows it, and whose word the primary waits for at every commit.
    pub async fn standby_of(primary: &Self, home: &Path) -> Self {
        let mut standby = Self::prepare(home);
        let (port, db) = (primary.port.to_string(), standby.db());
        let copy = [
            "--host=127.0.0.1",
            "--port",
            &port,
            "--username=codelab",
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
            "--pgdata",
            &db,
        ];
        standby.must("pg_basebackup", &copy).await;
        standby.launch().await;
        primary
            .execute("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
            .await;
        primary.execute("SELECT pg_reload_conf()").await;
        let waited_for = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'";
        eventually("the standby is synchronous", async || {
            match primary.ask(waited_for).await.as_str() {
                "1" => Ok(()),
                other => Err(other.to_owned()),
            }
        })
        .await;
        standby
    }

    fn prepare(home: &Path) -> Self {
        std::fs::create_dir(home).unwrap();
        // PostgreSQL refuses to run as root.
        let user = rustix::process::geteuid().is_root().then_some("postgres");
        if let Some(user) = user {
            std::fs::set_permissions(home, std::fs::Permissions::from_mode(0o755)).unwrap();
            let owned = std::process::Command::new("chown")
                .arg(user)
                .arg(home)
                .status();
            assert!(owned.unwrap().success(), "there is a user {user}");
        }
        Self {
            port: 0,
            programs: programs().expect("PostgreSQL is installed"),
            user,
            home: home.to_owned(),
        }
    }

    async fn launch(&mut self) {
        for _ in 0..START_ATTEMPTS {
            let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            self.port = free.local_addr().unwrap().port();
            drop(free);
            if self.start_again().await {
                return;
            }
        }
        panic!("PostgreSQL did not start: {}", self.log());
    }

    async fn start_again(&self) -> bool {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
             -c max_connections={MAX_CONNECTIONS}",
            self.port
        );
        let (log, db) = (self.log_path(), self.db());
        let start = [
            "--wait",
            "--log",
            &log,
            "--options",
            &options,
            "start",
            "--pgdata",
            &db,
        ];
        self.run("pg_ctl", &start).await
    }

    pub fn url(&self) -> String {
        format!("postgres://codelab@127.0.0.1:{}/postgres", self.port)
    }

    /// As after a loss of power, and back at once.
    pub async fn restart(&self) {
        let db = self.db();
        let options = ["--mode=immediate", "--wait", "restart", "--pgdata", &db];
        self.must("pg_ctl", &options).await;
    }

    /// Nothing of it runs any more, until `thaw`.
    pub fn freeze(&self) {
        self.signal_all(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal_all(Signal::CONT);
    }

    /// SIGKILL for all its processes.
    pub fn kill(&self) {
        self.signal_all(Signal::KILL);
    }

    /// The standby becomes the primary.
    pub async fn promote(&self) {
        let db = self.db();
        self.must("pg_ctl", &["--wait", "promote", "--pgdata", &db])
            .await;
    }

    /// One value, as text.
    pub async fn ask(&self, sql: &str) -> String {
        let output = self.psql(sql).output().await.unwrap();
        assert!(output.status.success(), "{sql}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    async fn execute(&self, sql: &str) {
        self.ask(sql).await;
    }

    fn psql(&self, sql: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--host=127.0.0.1", "--username=codelab", "--port"])
            .arg(self.port.to_string())
            .args(["--command", sql, "postgres"])
            .stdin(Stdio::null());
        command
    }

    /// The first process before its children, so that it cannot start new ones meanwhile.
    fn signal_all(&self, signal: Signal) {
        let file = self.home.join("db/postmaster.pid");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let Some(first) = text.lines().next().and_then(|line| line.parse().ok()) else {
            return;
        };
        let children = children_of(first);
        for pid in std::iter::once(first).chain(children) {
            let pid = Pid::from_raw(pid).unwrap();
            // One that ended meanwhile needs no signal.
            let _sent = kill_process(pid, signal);
        }
    }

    async fn must(&self, program: &str, arguments: &[&str]) {
        assert!(
            self.run(program, arguments).await,
            "{program} works: {}",
            self.log()
        );
    }

    async fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let path = self.programs.join(program);
        let mut command = match self.user {
            Some(user) => {
                let mut as_user = Command::new("runuser");
                as_user.args(["-u", user, "--"]).arg(path);
                as_user
            }
            None => Command::new(path),
        };
        // The server keeps inherited file descriptors, so a pipe would never end.
        command
            .args(arguments)
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().await.unwrap().success()
    }

    fn db(&self) -> String {
        self.home.join("db").display().to_string()
    }

    fn log_path(&self) -> String {
        self.home.join("log").display().to_string()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.signal_all(Signal::KILL);
    }
}

/// The ids of the processes that this one started.
fn children_of(parent: i32) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let of = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        of.and_then(|of| of.trim().parse::<i32>().ok()) == Some(parent)
    })
    .collect()
}

/// The folder of the newest version.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).ok()?.flatten();
    let newest = versions.filter_map(|entry| {
        let version = entry.file_name().to_str()?.parse::<u32>().ok()?;
        Some((version, entry.path()))
    });
    newest.max().map(|(_, path)| path.join("bin"))
}
