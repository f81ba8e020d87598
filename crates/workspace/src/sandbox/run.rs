//! Runs a job beneath a supervising process: keeps its output within bounds, its time within the limit, and its end in
//! sight. Dropping the future ends the command too, since the supervisor then loses its line to this program.

use std::collections::BTreeSet;
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
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::boundary::{ENTER_FAILED, ENTER_FAILED_CODE, Errand, Report};
use super::guard::Change;
use super::{Job, Launcher, Sandbox};
use crate::options::Limits;
use crate::output::HeadTail;

/// How long a supervisor gets to end a command's processes and itself.
const ENDING_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the last output may take to arrive once everything that could write it has ended.
const DRAINING_TIMEOUT: Duration = Duration::from_secs(2);
const OUTPUT_PIECE_BYTES: usize = 16 * 1024;

/// What a command and the rest of the client tell each other.
pub(crate) struct Meanwhile {
    /// Gets the protected paths that were there when the command began; dropped if it does not begin.
    pub started: oneshot::Sender<BTreeSet<PathBuf>>,
    /// Protected paths that a tool writes with a person's approval: the command did not change these.
    pub allowed: broadcast::Receiver<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Finished {
    pub ending: Ending,
    pub stdout: String,
    pub stderr: String,
    pub is_truncated: bool,
    /// The limit that the command passed.
    pub limited: Option<String>,
    /// What it changed of protected paths, and what was done about that.
    pub changes: Vec<Change>,
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
    meanwhile: Meanwhile,
) -> Finished {
    match start(launcher) {
        Ok((child, line)) => follow(child, line, job, time_limit, cancel, limits, meanwhile).await,
        Err(error) => Finished {
            ending: Ending::NotStarted(format!("{}: {error}", launcher.program.display())),
            stdout: String::new(),
            stderr: String::new(),
            is_truncated: false,
            limited: None,
            changes: Vec::new(),
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
    meanwhile: Meanwhile,
) -> Finished {
    let Meanwhile { started, allowed } = meanwhile;
    let stdout = collect(child.stdout.take(), limits);
    let stderr = collect(child.stderr.take(), limits);
    let mut told = Told { is_started: false, started: Some(started), limited: None, changes: Vec::new() };
    let stopped = async {
        tokio::select! {
            () = tokio::time::sleep(time_limit) => Ending::TimedOut,
            () = cancel.cancelled() => Ending::Cancelled,
        }
    };
    let ending = converse(&mut line, job, &mut told, stopped, allowed).await;
    drop(line);
    end(&mut child).await;
    let (stdout, is_stdout_cut) = stdout.finish().await;
    let (stderr, is_stderr_cut) = stderr.finish().await;
    let ending = match ending {
        // Bubblewrap itself fails like a command would; only it speaks like this.
        Ending::Exited(1) if matches!(job.sandbox, Sandbox::Bwrap { .. }) && stderr.starts_with("bwrap: ") => {
            Ending::NotStarted(stderr.lines().next().unwrap_or_default().to_owned())
        }
        Ending::Exited(code) if code == i32::from(ENTER_FAILED_CODE) && stderr.starts_with(ENTER_FAILED) => {
            Ending::NotStarted(stderr.trim_start_matches(ENTER_FAILED).trim_end().to_owned())
        }
        ending => ending,
    };
    let Told { limited, changes, .. } = told;
    Finished { ending, stdout, stderr, is_truncated: is_stdout_cut || is_stderr_cut, limited, changes }
}

struct Told {
    is_started: bool,
    started: Option<oneshot::Sender<BTreeSet<PathBuf>>>,
    limited: Option<String>,
    changes: Vec<Change>,
}

impl Told {
    /// The end, if this report is the last one.
    fn hear(&mut self, report: &str) -> Option<Ending> {
        match serde_json::from_str(report) {
            Ok(Report::Started(known)) => {
                self.is_started = true;
                if let Some(started) = self.started.take() {
                    let _ = started.send(known);
                }
            }
            Ok(Report::NotStarted(reason)) => return Some(Ending::NotStarted(reason)),
            Ok(Report::Limited(limit)) => self.limited = Some(limit),
            Ok(Report::PutBack(changes)) => self.changes.extend(changes),
            Ok(Report::Exited(code)) => return Some(Ending::Exited(code)),
            Ok(Report::Signalled(signal)) => return Some(Ending::Signalled(signal)),
            Err(error) => return Some(Ending::NotStarted(error.to_string())),
        }
        None
    }
}

async fn converse(
    line: &mut UnixStream,
    job: &Job,
    told: &mut Told,
    stopped: impl Future<Output = Ending>,
    mut allowed: broadcast::Receiver<PathBuf>,
) -> Ending {
    let mut text = match serde_json::to_string(&Errand::Supervise(Box::new(job.clone()))) {
        Ok(text) => text,
        Err(error) => return Ending::NotStarted(error.to_string()),
    };
    text.push('\n');
    let (reading, mut writing) = line.split();
    if let Err(error) = writing.write_all(text.as_bytes()).await {
        return Ending::NotStarted(error.to_string());
    }
    let mut reports = BufReader::new(reading).lines();
    let mut listen = async || {
        while let Ok(Some(text)) = reports.next_line().await {
            if let Some(ending) = told.hear(&text) {
                return ending;
            }
        }
        if told.is_started { Ending::Lost } else { Ending::NotStarted("the supervising process ended".to_owned()) }
    };
    let tell = async {
        while let Ok(path) = allowed.recv().await {
            let Ok(text) = serde_json::to_string(&path) else { continue };
            // A supervisor that does not listen any more is noticed by what it says.
            let _ = writing.write_all(format!("{text}\n").as_bytes()).await;
        }
        std::future::pending::<()>().await;
    };
    let ending = tokio::select! {
        ending = listen() => return ending,
        ending = stopped => ending,
        () = tell => Ending::Lost,
    };
    // The supervisor ends the command now, and still tells what it put back.
    let _ = writing.shutdown().await;
    let _ = timeout(ENDING_TIMEOUT, listen()).await;
    ending
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
