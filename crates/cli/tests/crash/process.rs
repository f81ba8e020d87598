//! The real server as a child process: start it, arm it, kill it, and see how it ended.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use codelab_client::{Client, ClientLimits, Credentials};
use codelab_testkit::announced_url;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const INTERNAL_KEY: &str = "crash-test-key";
const START_TIMEOUT: Duration = Duration::from_secs(20);
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that does not answer for this long hangs.
const ANSWER_TIMEOUT_MS: u64 = 15_000;
/// Few waiting messages, so that a full queue is met too.
const QUEUE_LENGTH: &str = "4";

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// What a server is started with.
pub struct Launch<'a> {
    pub data_dir: &'a Path,
    pub database_url: Option<&'a str>,
    pub model_url: &'a str,
    /// `name:n`: the process aborts there when it passes for the n-th time.
    pub failpoint: Option<&'a str>,
}

pub struct ServerProcess {
    pub client: Client,
    pub started_at: Instant,
    child: Child,
    /// Kept open: the server may write to it.
    _stdout: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
    is_armed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// By our SIGKILL.
    Killed,
    /// At its armed place.
    Aborted,
}

pub enum Started {
    Ready(Box<ServerProcess>),
    /// An armed server can die while it recovers, before anybody can reach it.
    Died,
}

impl ServerProcess {
    pub async fn start(launch: &Launch<'_>) -> Result<Started, String> {
        let log = launch.data_dir.join("server.log");
        let stderr =
            std::fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_codelab"));
        command
            .args(["serve", "--addr", "127.0.0.1:0", "--data-dir"])
            .arg(launch.data_dir)
            .env_clear()
            .env("INTERNAL_API_KEY", INTERNAL_KEY)
            .env("LLM_PROXY_URL", launch.model_url)
            .env("CODELAB_LIMITS__QUEUE_LENGTH", QUEUE_LENGTH)
            .env("RUST_LOG", "warn")
            .env("RUST_BACKTRACE", "1")
            .current_dir(launch.data_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true);
        if let Some(url) = launch.database_url {
            command.env("DATABASE_URL", url);
        }
        if let Some(failpoint) = launch.failpoint {
            command.env("CODELAB_FAILPOINT", failpoint);
        }
        let started_at = Instant::now();
        let mut child = command
            .spawn()
            .map_err(|error| format!("the server cannot be started: {error}"))?;
        let stdout = child.stdout.take().ok_or("the server has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let address = tokio::time::timeout(START_TIMEOUT, announced_url(&mut lines)).await;
        let Ok(address) = address else {
            return Err(format!(
                "the server was not ready after {START_TIMEOUT:?}: {}",
                read(&log)
            ));
        };
        let is_armed = launch.failpoint.is_some();
        let Some(url) = address else {
            let status = child.wait().await.map_err(|error| error.to_string())?;
            return judge(status, is_armed, &log).map(|_| Started::Died);
        };
        let limits = ClientLimits {
            answer_timeout_ms: ANSWER_TIMEOUT_MS,
            ..ClientLimits::default()
        };
        let client = Client::with_limits(
            &url,
            Credentials::InternalKey(INTERNAL_KEY.to_owned()),
            limits,
        )
        .map_err(|error| error.to_string())?;
        Ok(Started::Ready(Box::new(Self {
            client,
            started_at,
            child,
            _stdout: lines,
            log,
            is_armed,
        })))
    }

    /// Lets the server live for this long, or until it dies at its armed place, then kills it.
    pub async fn end_after(mut self, time: Duration) -> Result<Death, String> {
        if tokio::time::timeout(time, self.child.wait()).await.is_err() {
            self.child
                .start_kill()
                .map_err(|error| format!("the server cannot be killed: {error}"))?;
        }
        let ended = tokio::time::timeout(END_TIMEOUT, self.child.wait()).await;
        let status = ended
            .map_err(|_| "the server did not die")?
            .map_err(|error| error.to_string())?;
        judge(status, self.is_armed, &self.log)
    }
}

/// Any other end than ours is a fault, and so is whatever the server logged as an error before it.
fn judge(status: ExitStatus, is_armed: bool, log: &Path) -> Result<Death, String> {
    let text = read(log);
    if let Some(line) = text
        .lines()
        .find(|line| line.contains("panicked") || line.contains("\"level\":\"ERROR\""))
    {
        return Err(format!("the server logged an error: {line}"));
    }
    match status.signal() {
        Some(SIGKILL) => Ok(Death::Killed),
        Some(SIGABRT) if is_armed => Ok(Death::Aborted),
        _ => Err(format!("the server ended by itself ({status}): {text}")),
    }
}

fn read(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}
