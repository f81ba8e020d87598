//! A server that is a program on this machine: starting it, speaking with it on its standard input
//! and output, and ending it with everything it started.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::StdioConfig;
use crate::failure::LastWords;
use crate::handle::McpLauncher;

mod descendants;
mod errors;
mod lines;
mod supervisor;

pub use lines::LineTransport;
pub use supervisor::supervise;

/// What a server gets of this program's environment.
const KEPT_VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];
/// The supervisor gives a server 2 seconds; it needs some more to find everything.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(6);
const MAX_JOB_BYTES: usize = 4 * 1024 * 1024;

/// What the supervisor is told on its standard input, before the server's own input begins.
#[derive(Serialize, Deserialize)]
struct ServerJob {
    command: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    folder: PathBuf,
}

/// A running server. Dropping it ends the server as well: the supervisor notices that its input is
/// closed.
pub struct ServerProcess {
    supervisor: Child,
    closing: CancellationToken,
    input: Arc<Mutex<Option<ChildStdin>>>,
    errors: JoinHandle<()>,
}

impl ServerProcess {
    pub async fn start(
        config: &StdioConfig,
        launcher: &McpLauncher,
        workspace: &Path,
        max_message_bytes: usize,
        last_words: &Arc<LastWords>,
    ) -> io::Result<(Self, LineTransport)> {
        let folder = match &config.cwd {
            Some(cwd) => workspace.join(cwd),
            None => workspace.to_owned(),
        };
        if !folder.is_dir() {
            let folder = folder.display();
            return Err(io::Error::other(format!(
                "its folder {folder} does not exist"
            )));
        }
        let job = job_bytes(&ServerJob {
            command: config.command.clone(),
            args: config.args.clone(),
            env: config.env.clone(),
            folder,
        })?;
        let mut supervisor = Command::new(&launcher.program)
            .args(&launcher.arguments)
            .env_clear()
            .envs(kept_environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let taken = "its standard streams are pipes";
        let mut input = supervisor
            .stdin
            .take()
            .ok_or_else(|| io::Error::other(taken))?;
        let output = supervisor
            .stdout
            .take()
            .ok_or_else(|| io::Error::other(taken))?;
        let errors = supervisor
            .stderr
            .take()
            .ok_or_else(|| io::Error::other(taken))?;
        input.write_all(&job).await?;
        let closing = CancellationToken::new();
        let errors = tokio::spawn(errors::keep_last(errors, last_words.clone()));
        let input = Arc::new(Mutex::new(Some(input)));
        let transport = LineTransport::new(
            input.clone(),
            output,
            max_message_bytes,
            closing.clone(),
            last_words.clone(),
        );
        let process = Self {
            supervisor,
            closing,
            input,
            errors,
        };
        Ok((process, transport))
    }

    /// Whether anything can still come on the server's output.
    pub async fn ended(&mut self) {
        let _ = self.supervisor.wait().await;
    }

    /// Ends the server and everything it started.
    pub async fn stop(mut self) {
        self.closing.cancel();
        // Whoever writes lets go of it now.
        drop(self.input.lock().await.take());
        if timeout(SUPERVISOR_GRACE, self.supervisor.wait())
            .await
            .is_err()
        {
            tracing::warn!("the supervisor of an MCP server did not end in time");
            let _ = self.supervisor.kill().await;
        }
        // Its last lines of error are read before anybody asks for them.
        let _ = timeout(Duration::from_millis(100), &mut self.errors).await;
        self.errors.abort();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

fn job_bytes(job: &ServerJob) -> io::Result<Vec<u8>> {
    let job = serde_json::to_vec(job).map_err(io::Error::other)?;
    if job.len() > MAX_JOB_BYTES {
        return Err(io::Error::other("its arguments and variables are too long"));
    }
    let mut bytes = format!("{:08x}\n", job.len()).into_bytes();
    bytes.extend_from_slice(&job);
    Ok(bytes)
}

fn kept_environment() -> impl Iterator<Item = (&'static str, OsString)> {
    KEPT_VARIABLES
        .into_iter()
        .filter_map(|name| env::var_os(name).map(|value| (name, value)))
}
