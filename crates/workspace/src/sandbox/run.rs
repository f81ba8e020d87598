//! Runs a job beneath a supervising process: keeps its output within bounds, its time within the
//! limit, and its end in sight. Dropping the future ends the command too, since the supervisor then
//! loses its line to this program.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::boundary::{ENTER_FAILED, ENTER_FAILED_CODE, Request, SupervisorReport};
use super::guard::Comparison;
use super::{Launcher, Sandbox, SupervisorJob};
use crate::options::WorkspaceLimits;
use crate::output::HeadTail;

/// How long a supervisor gets to end a command's processes and itself.
const ENDING_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it gets to compare protected paths and to put them back. The time of the command does
/// not count here.
const COMPARING_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the last output may take to arrive once everything that could write it has ended.
const DRAINING_TIMEOUT: Duration = Duration::from_secs(2);
const OUTPUT_PIECE_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(crate) struct Finished {
    pub ending: CommandEnd,
    pub stdout: String,
    pub stderr: String,
    pub is_truncated: bool,
    /// The limit that the command passed.
    pub limited: Option<String>,
    /// What it changed of protected paths, and what was done about that.
    pub compared: Comparison,
    /// It ran, and whether it changed protected paths is not known.
    pub is_not_compared: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommandEnd {
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
    job: &SupervisorJob,
    time_limit: Duration,
    cancel: &CancellationToken,
    limits: &WorkspaceLimits,
) -> Finished {
    match start(launcher) {
        Ok((child, line)) => follow(child, line, job, time_limit, cancel, limits).await,
        Err(error) => Finished {
            ending: CommandEnd::NotStarted(format!("{}: {error}", launcher.program.display())),
            stdout: String::new(),
            stderr: String::new(),
            is_truncated: false,
            limited: None,
            compared: Comparison::default(),
            is_not_compared: false,
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
    job: &SupervisorJob,
    time_limit: Duration,
    cancel: &CancellationToken,
    limits: &WorkspaceLimits,
) -> Finished {
    let stdout = collect(child.stdout.take(), limits);
    let stderr = collect(child.stderr.take(), limits);
    let mut reports = Reports::default();
    let stopped = async {
        tokio::select! {
            () = tokio::time::sleep(time_limit) => CommandEnd::TimedOut,
            () = cancel.cancelled() => CommandEnd::Cancelled,
        }
    };
    let ending = converse(&mut line, job, &mut reports, stopped).await;
    drop(line);
    end(&mut child).await;
    let (stdout, is_stdout_cut) = stdout.finish().await;
    let (stderr, is_stderr_cut) = stderr.finish().await;
    let ending = match ending {
        // Bubblewrap itself fails like a command would; only it speaks like this.
        CommandEnd::Exited(1)
            if matches!(job.sandbox, Sandbox::Bwrap { .. }) && stderr.starts_with("bwrap: ") =>
        {
            CommandEnd::NotStarted(stderr.lines().next().unwrap_or_default().to_owned())
        }
        CommandEnd::Exited(code)
            if code == i32::from(ENTER_FAILED_CODE) && stderr.starts_with(ENTER_FAILED) =>
        {
            CommandEnd::NotStarted(
                stderr
                    .trim_start_matches(ENTER_FAILED)
                    .trim_end()
                    .to_owned(),
            )
        }
        ending => ending,
    };
    let Reports {
        is_started,
        is_ended,
        limited,
        compared,
        ..
    } = reports;
    let is_not_compared = is_started && !is_ended && !job.sandbox.is_none();
    let is_truncated = is_stdout_cut || is_stderr_cut;
    Finished {
        ending,
        stdout,
        stderr,
        is_truncated,
        limited,
        compared,
        is_not_compared,
    }
}

/// What the supervisor has said so far.
#[derive(Default)]
struct Reports {
    is_started: bool,
    is_comparing: bool,
    /// The last report came.
    is_ended: bool,
    limited: Option<String>,
    compared: Comparison,
}

impl Reports {
    /// The end, if this report is the last one.
    fn add(&mut self, report: &str) -> Option<CommandEnd> {
        let ending = match serde_json::from_str(report) {
            Ok(SupervisorReport::Started) => {
                self.is_started = true;
                return None;
            }
            Ok(SupervisorReport::Comparing) => {
                self.is_comparing = true;
                return None;
            }
            Ok(SupervisorReport::Limited(limit)) => {
                self.limited = Some(limit);
                return None;
            }
            Ok(SupervisorReport::Compared(compared)) => {
                self.compared = compared;
                return None;
            }
            Ok(SupervisorReport::NotStarted(reason)) => CommandEnd::NotStarted(reason),
            Ok(SupervisorReport::Exited(code)) => CommandEnd::Exited(code),
            Ok(SupervisorReport::Signalled(signal)) => CommandEnd::Signalled(signal),
            Err(error) => return Some(CommandEnd::NotStarted(error.to_string())),
        };
        self.is_ended = true;
        Some(ending)
    }
}

/// A step of a conversation with the supervisor.
enum Step {
    Comparing,
    Over(CommandEnd),
}

async fn converse(
    line: &mut UnixStream,
    job: &SupervisorJob,
    reports: &mut Reports,
    stopped: impl Future<Output = CommandEnd>,
) -> CommandEnd {
    let mut text = match serde_json::to_string(&Request::Supervise(Box::new(job.clone()))) {
        Ok(text) => text,
        Err(error) => return CommandEnd::NotStarted(error.to_string()),
    };
    text.push('\n');
    let (reading, mut writing) = line.split();
    if let Err(error) = writing.write_all(text.as_bytes()).await {
        return CommandEnd::NotStarted(error.to_string());
    }
    let mut lines = BufReader::new(reading).lines();
    let mut next_step = async || {
        while let Ok(Some(text)) = lines.next_line().await {
            let was_comparing = reports.is_comparing;
            if let Some(ending) = reports.add(&text) {
                return Step::Over(ending);
            }
            if reports.is_comparing && !was_comparing {
                return Step::Comparing;
            }
        }
        let is_started = reports.is_started;
        Step::Over(match is_started {
            true => CommandEnd::Lost,
            false => CommandEnd::NotStarted("the supervising process ended".to_owned()),
        })
    };
    let stopped = tokio::select! {
        step = next_step() => match step {
            Step::Over(ending) => return ending,
            Step::Comparing => None,
        },
        ending = stopped => {
            // The supervisor ends the command now, and still tells what it put back.
            let _ = writing.shutdown().await;
            match timeout(ENDING_TIMEOUT, next_step()).await {
                Ok(Step::Comparing) => Some(ending),
                Ok(Step::Over(_)) | Err(_) => return ending,
            }
        }
    };
    match (timeout(COMPARING_TIMEOUT, next_step()).await, stopped) {
        (_, Some(stopped)) => stopped,
        (Ok(Step::Over(ending)), None) => ending,
        (Ok(Step::Comparing) | Err(_), None) => CommandEnd::Lost,
    }
}

/// Waits until the supervisor ends. Its connection is closed by now. If it does not end in time,
/// its whole process group is killed.
async fn end(child: &mut Child) {
    if timeout(ENDING_TIMEOUT, child.wait()).await.is_ok() {
        return;
    }
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(rustix::process::Pid::from_raw);
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

fn collect(
    pipe: Option<impl AsyncRead + Unpin + Send + 'static>,
    limits: &WorkspaceLimits,
) -> Collected {
    let limits = (limits.output_head_bytes, limits.output_tail_bytes);
    let output = Arc::new(Mutex::new(HeadTail::new(limits.0, limits.1)));
    let task = tokio::spawn(read_all(pipe, Arc::clone(&output)));
    Collected {
        output,
        task,
        limits,
    }
}

async fn read_all(
    pipe: Option<impl AsyncRead + Unpin + Send + 'static>,
    output: Arc<Mutex<HeadTail>>,
) {
    let Some(mut pipe) = pipe else { return };
    let mut piece = vec![0; OUTPUT_PIECE_BYTES];
    while let Ok(length) = pipe.read(&mut piece).await {
        if length == 0 {
            return;
        }
        output
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(&piece[..length]);
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
