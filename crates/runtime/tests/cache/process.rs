//! A Redis of the test's own, on a socket in its folder: it can be killed, frozen and started
//! again.

use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::process::{Child, Command};

const START_LIMIT: Duration = Duration::from_secs(10);

pub struct Redis {
    folder: TempDir,
    process: Option<Child>,
}

impl Redis {
    /// `None`, said aloud, where Redis is not installed; with `CODELAB_TEST_REDIS_URL` set that is
    /// a failure.
    pub async fn start() -> Option<Self> {
        let mut redis = Self::stopped()?;
        redis.restart().await;
        Some(redis)
    }

    #[allow(clippy::print_stdout)]
    pub fn stopped() -> Option<Self> {
        let installed = std::process::Command::new("redis-server")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if installed.is_err() {
            assert!(
                std::env::var_os("CODELAB_TEST_REDIS_URL").is_none(),
                "redis-server is not installed"
            );
            println!("skipped: redis-server is not installed");
            return None;
        }
        Some(Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            process: None,
        })
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.folder.path().join("redis.sock").display())
    }

    /// A new process, without the data of the last.
    pub async fn restart(&mut self) {
        self.kill().await;
        let mut command = Command::new("redis-server");
        command
            .args(["--port", "0", "--unixsocket"])
            .arg(self.folder.path().join("redis.sock"));
        command
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(self.folder.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        self.process = Some(command.spawn().expect("redis-server starts"));
        let started = Instant::now();
        while self.try_connect().await.is_err() {
            assert!(
                started.elapsed() < START_LIMIT,
                "redis-server does not answer"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().await.expect("redis-server ends");
        }
    }

    /// Connections stay open, and nothing is answered.
    pub async fn freeze(&self) {
        self.signal("-STOP").await;
    }

    pub async fn thaw(&self) {
        self.signal("-CONT").await;
    }

    /// Sends a command as an outsider.
    pub async fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = self.try_connect().await.expect("Redis answers");
        redis::cmd(words[0])
            .arg(&words[1..])
            .query_async(&mut connection)
            .await
            .expect("the command succeeds")
    }

    async fn try_connect(&self) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
        redis::Client::open(self.url())?
            .get_multiplexed_async_connection()
            .await
    }

    async fn signal(&self, signal: &str) {
        let id = self
            .process
            .as_ref()
            .and_then(Child::id)
            .expect("a running process")
            .to_string();
        let status = Command::new("kill")
            .args([signal, &id])
            .status()
            .await
            .expect("kill runs");
        assert!(status.success());
    }
}
