//! The `codelab` program as a child process.

use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use codelab_client::{Client, ClientLimits, Credentials};
use codelab_testkit::announced_url;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

pub const INTERNAL_KEY: &str = "faults-test-key";
/// Longer than anything here takes; a process that is still silent hangs.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// A server that said where it listens.
pub struct Process {
    pub url: String,
    pub client: Client,
    pub pid: u32,
    /// From the start of the process to its first answer on `/health`.
    pub healthy_after: Duration,
    child: Child,
    /// Kept open: the server may write to it.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Panics with the server's log when it does not come up. `prelude` is what a shell does
    /// before, such as `umask 000`.
    pub async fn start(
        data_dir: &Path,
        log: &Path,
        settings: &[(String, String)],
        prelude: &str,
    ) -> Self {
        let begun = Instant::now();
        let mut command = serve(settings, prelude);
        let log_file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        command
            .arg("--data-dir")
            .arg(data_dir)
            .stdout(Stdio::piped())
            .stderr(log_file)
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let pid = child.id().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = tokio::time::timeout(DEADLINE, announced_url(&mut stdout)).await;
        let url = url.expect("the server says where it is");
        let url = url.unwrap_or_else(|| {
            panic!(
                "no server: {}",
                std::fs::read_to_string(log).unwrap_or_default()
            )
        });
        let limits = ClientLimits {
            idle_timeout_ms: DEADLINE.as_millis() as u64,
            ..ClientLimits::default()
        };
        let client = Client::with_limits(
            &url,
            Credentials::InternalKey(INTERNAL_KEY.to_owned()),
            limits,
        )
        .unwrap();
        client
            .health()
            .await
            .expect("a server that says where it is answers");
        Self {
            url,
            client,
            pid,
            healthy_after: begun.elapsed(),
            child,
            _stdout: stdout,
        }
    }

    pub fn host(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    /// `kill -9`, and waits until it is gone.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// SIGTERM, the polite one.
    pub async fn terminate(&self) {
        let status = Command::new("kill")
            .args(["-TERM", &self.pid.to_string()])
            .status()
            .await
            .unwrap();
        assert!(status.success(), "the signal was sent");
    }

    pub async fn ended(mut self) -> ExitStatus {
        tokio::time::timeout(DEADLINE, self.child.wait())
            .await
            .expect("the process ends by itself")
            .unwrap()
    }

    /// Resident memory now.
    pub fn rss_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim()
            .strip_suffix(" kB")
            .unwrap()
            .parse::<u64>()
            .unwrap()
            * 1024
    }

    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid))
            .unwrap()
            .count()
    }
}

/// Runs one command to its end, with nothing of this test's own environment.
pub async fn run(arguments: &[&str], settings: &[(String, String)]) -> Output {
    let ended = codelab(arguments, settings).kill_on_drop(true).output();
    tokio::time::timeout(DEADLINE, ended)
        .await
        .expect("the command ends")
        .unwrap()
}

/// Its standard output, if it went well.
pub async fn ran(arguments: &[&str], settings: &[(String, String)]) -> String {
    let output = run(arguments, settings).await;
    assert!(output.status.success(), "codelab {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line with which it refused.
pub async fn refused(arguments: &[&str], settings: &[(String, String)]) -> String {
    let output = run(arguments, settings).await;
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        output.status.code(),
        Some(1),
        "codelab {arguments:?}: {complaint}"
    );
    // Log lines are for machines.
    let lines: Vec<&str> = complaint
        .lines()
        .filter(|line| !line.starts_with('{'))
        .collect();
    assert_eq!(
        lines.len(),
        1,
        "codelab {arguments:?} says one line: {complaint}"
    );
    assert!(
        output.stdout.is_empty(),
        "codelab {arguments:?}: {:?}",
        String::from_utf8_lossy(&output.stdout)
    );
    lines.concat()
}

/// `codelab serve` on a free port, in the place of a shell that has set its own limits.
pub fn serve(settings: &[(String, String)], prelude: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .arg("-c")
        .arg(format!("{prelude}\nexec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_codelab"));
    command
        .args(["serve", "--addr", "127.0.0.1:0"])
        .env_clear()
        .envs(settings.iter().cloned())
        .stdin(Stdio::null());
    command
}

fn codelab(arguments: &[&str], settings: &[(String, String)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codelab"));
    command
        .args(arguments)
        .env_clear()
        .envs(settings.iter().cloned())
        .stdin(Stdio::null());
    command
}
