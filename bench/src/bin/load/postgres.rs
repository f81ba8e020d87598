//! A temporary PostgreSQL with its default durability settings.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

const MAX_CONNECTIONS: u32 = 200;
const MAINTENANCE: &str = "postgres";
const DEBIAN: &str = "/usr/lib/postgresql";

pub struct PostgresServer {
    /// The address of the database that always exists.
    url: String,
    made: AtomicUsize,
    programs: PathBuf,
    user: Option<&'static str>,
    home: TempDir,
}

impl PostgresServer {
    pub fn start(dir: &Path) -> anyhow::Result<Self> {
        let programs =
            programs().context("PostgreSQL is missing (on Debian: apt-get install postgresql)")?;
        let home = tempfile::Builder::new()
            .prefix("codelab-postgres")
            .tempdir_in(dir)?;
        // PostgreSQL refuses to run as root.
        let user = rustix::process::geteuid().is_root().then_some("postgres");
        if let Some(user) = user {
            std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755))?;
            let owned = Command::new("chown").arg(user).arg(home.path()).status()?;
            ensure!(owned.success(), "there is no user {user} to run PostgreSQL");
        }
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let url = format!("postgres://codelab@127.0.0.1:{port}/{MAINTENANCE}");
        let postgres = Self {
            url,
            made: AtomicUsize::new(0),
            programs,
            user,
            home,
        };
        let db = postgres.home.path().join("db");
        postgres.run(
            "initdb",
            &[
                "--username=codelab",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
                "--pgdata",
            ],
            &db,
        )?;
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections={MAX_CONNECTIONS}"
        );
        let log = postgres.home.path().join("log").display().to_string();
        postgres.run(
            "pg_ctl",
            &[
                "--wait",
                "--log",
                &log,
                "--options",
                &options,
                "start",
                "--pgdata",
            ],
            &db,
        )?;
        Ok(postgres)
    }

    /// Creates a database in it.
    pub async fn database(&self) -> anyhow::Result<String> {
        let name = format!("load_{}", self.made.fetch_add(1, Ordering::Relaxed));
        let (client, connection) =
            tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await?;
        let serving = tokio::spawn(connection);
        client
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await?;
        drop(client);
        serving.await??;
        Ok(format!(
            "{}{name}",
            self.url.strip_suffix(MAINTENANCE).unwrap_or(&self.url)
        ))
    }

    fn run(&self, program: &str, arguments: &[&str], db: &Path) -> anyhow::Result<()> {
        let path = self.programs.join(program);
        let mut command = match self.user {
            Some(user) => {
                let mut as_user = Command::new("runuser");
                as_user.args(["-u", user, "--"]).arg(path);
                as_user
            }
            None => Command::new(path),
        };
        command
            .args(arguments)
            .arg(db)
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        // The server keeps inherited file descriptors, so a pipe would never end.
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        let Output { status, .. } = command.output()?;
        ensure!(status.success(), "{program} failed");
        Ok(())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let db = self.home.path().join("db");
        if let Err(error) = self.run("pg_ctl", &["--mode=immediate", "stop", "--pgdata"], &db) {
            crate::say(&format!("PostgreSQL could not be stopped: {error}"));
        }
    }
}

/// The folder of the newest version.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).ok()?.flatten();
    let newest = versions.filter_map(|entry| {
        Some((
            entry.file_name().to_str()?.parse::<u32>().ok()?,
            entry.path(),
        ))
    });
    newest.max().map(|(_, path)| path.join("bin"))
}
