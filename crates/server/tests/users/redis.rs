//! A Redis of the test's own, on a socket in its folder: it can be killed and started again.

use std::process::Stdio;

use codelab_testkit::eventually;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

pub struct Redis {
    folder: TempDir,
    process: Option<Child>,
}

impl Redis {
    /// `None`, said aloud, where Redis is not installed; with `CODELAB_TEST_REDIS_URL` set that is
    /// a failure.
    #[allow(clippy::print_stdout)]
    pub async fn start() -> Option<Self> {
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
        let mut redis = Self {
            folder: tempfile::tempdir().unwrap(),
            process: None,
        };
        redis.restart().await;
        Some(redis)
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.folder.path().join("redis.sock").display())
    }

    /// A new process, without the data of the last.
    pub async fn restart(&mut self) {
        self.kill().await;
        let socket = self.folder.path().join("redis.sock");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--unixsocket"]).arg(&socket);
        command
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(self.folder.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        self.process = Some(command.spawn().unwrap());
        eventually("Redis answers", async || {
            let mut stream = UnixStream::connect(&socket).await?;
            stream.write_all(b"PING\r\n").await?;
            let mut answer = [0; 7];
            stream.read_exact(&mut answer).await?;
            if &answer == b"+PONG\r\n" {
                Ok(())
            } else {
                Err(std::io::Error::other("no answer"))
            }
        })
        .await;
    }

    pub async fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().await.unwrap();
        }
    }
}
