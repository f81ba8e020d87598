//! Runs a job beneath a supervising process: keeps its output within bounds, its time within the limit, and its end in
//! sight. Dropping the future ends the command too, since the supervisor then loses its line to this program.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::boundary::Report;
use super::{Job, Launcher, Sandbox};
use crate::options::Limits;
use crate::output::HeadTail;

/// How long a supervisor gets to end a command's processes and itself.
const ENDING_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the last output may take to arrive once everything that could write it has ended.
const DRAINING_TIMEOUT: Duration = Duration::from_secs(2);
const OUTPUT_PIECE_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(crate) struct Finished {
    pub ending: Ending,
    pub stdout: String,
    pub stderr: String,
    pub is_truncated: bool,
    /// What the command left where nothing may be.
    pub removed: Vec<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    Cancelled,
    NotStarted(String),
    /// The supervisor went away without a word.
    Lost,
}

pub(crate) async fn run(
    launcher: &Launcher,
    job: &Job,
    time_limit: Duration,
    cancel: &CancellationToken,
    limits: &Limits,
) -> Finished {
    match start(launcher) {
        Ok((child, line)) => follow(child, line, job, time_limit, cancel, limits).await,
        Err(error) => Finished {
            ending: Ending::NotStarted(format!("{}: {error}", launcher.program.display())),
            stdout: String::new(),
            stderr: String::new(),
            is_truncated: false,
            removed: Vec::new(),
        },
    }
}

fn start(launcher: &Launcher) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let child = Command::new(&launcher.program)
        .args(&launcher.arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok((child, UnixStream::from_std(ours)?))
}

async fn follow(
    mut child: Child,
    mut line: UnixStream,
    job: &Job,
    time_limit: Duration,
    cancel: &CancellationToken,
    limits: &Limits,
) -> Finished {
    let stdout = collect(child.stdout.take(), limits);
    let stderr = collect(child.stderr.take(), limits);
    let mut removed = Vec::new();
    let ending = tokio::select! {
        ending = converse(&mut line, job, &mut removed) => ending,
        () = tokio::time::sleep(time_limit) => Ending::TimedOut,
        () = cancel.cancelled() => Ending::Cancelled,
    };
    drop(line);
    end(&mut child).await;
    let (stdout, is_stdout_cut) = stdout.finish().await;
    let (stderr, is_stderr_cut) = stderr.finish().await;
    let ending = match ending {
        // Bubblewrap itself fails like a command would; only it speaks like this.
        Ending::Exited(1) if matches!(job.sandbox, Sandbox::Bwrap { .. }) && stderr.starts_with("bwrap: ") => {
            Ending::NotStarted(stderr.lines().next().unwrap_or_default().to_owned())
        }
        ending => ending,
    };
    Finished { ending, stdout, stderr, is_truncated: is_stdout_cut || is_stderr_cut, removed }
}

async fn converse(line: &mut UnixStream, job: &Job, removed: &mut Vec<PathBuf>) -> Ending {
    let mut text = match serde_json::to_string(job) {
        Ok(text) => text,
        Err(error) => return Ending::NotStarted(error.to_string()),
    };
    text.push('\n');
    let (reading, mut writing) = line.split();
    if let Err(error) = writing.write_all(text.as_bytes()).await {
        return Ending::NotStarted(error.to_string());
    }
    let mut reports = BufReader::new(reading).lines();
    let mut is_started = false;
    while let Ok(Some(text)) = reports.next_line().await {
        match serde_json::from_str(&text) {
            Ok(Report::Started) => is_started = true,
            Ok(Report::NotStarted(reason)) => return Ending::NotStarted(reason),
            Ok(Report::Removed(paths)) => removed.extend(paths),
            Ok(Report::Exited(code)) => return Ending::Exited(code),
            Ok(Report::Signalled(signal)) => return Ending::Signalled(signal),
            Err(error) => return Ending::NotStarted(error.to_string()),
        }
    }
    if is_started { Ending::Lost } else { Ending::NotStarted("the supervising process ended".to_owned()) }
}

/// Waits for the supervisor, which has lost its line by now; one that does not end is ended with its whole group.
async fn end(child: &mut Child) {
    if timeout(ENDING_TIMEOUT, child.wait()).await.is_ok() {
        return;
    }
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    if let Err(error) = child.kill().await {
        tracing::warn!(%error, "a supervising process could not be ended");
    }
}

struct Collected {
    output: Arc<Mutex<HeadTail>>,
    task: JoinHandle<()>,
    limits: (usize, usize),
}

fn collect(pipe: Option<impl AsyncRead + Unpin + Send + 'static>, limits: &Limits) -> Collected {
    let limits = (limits.output_head_bytes, limits.output_tail_bytes);
    let output = Arc::new(Mutex::new(HeadTail::new(limits.0, limits.1)));
    let task = tokio::spawn(read_all(pipe, Arc::clone(&output)));
    Collected { output, task, limits }
}

async fn read_all(pipe: Option<impl AsyncRead + Unpin + Send + 'static>, output: Arc<Mutex<HeadTail>>) {
    let Some(mut pipe) = pipe else { return };
    let mut piece = vec![0; OUTPUT_PIECE_BYTES];
    while let Ok(length) = pipe.read(&mut piece).await {
        if length == 0 {
            return;
        }
        output.lock().unwrap_or_else(PoisonError::into_inner).push(&piece[..length]);
    }
}

impl Collected {
    async fn finish(mut self) -> (String, bool) {
        if timeout(DRAINING_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
        }
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *output, HeadTail::new(self.limits.0, self.limits.1)).finish()
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        self.task.abort();
    }
}
