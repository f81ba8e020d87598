//! The process that runs one command. It stands outside the wall, owns everything the command starts, and ends all of it
//! when the command is over, passes a limit, or when the program that wanted it is gone: its standard input is a socket to
//! that program, whose end means the same as an order to stop.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::Pid;

use super::boundary::{ENTER_FAILED, ENTER_FAILED_CODE, Entry, Errand, Job, MAX_ERRAND_BYTES, Report, Rights};
use super::cgroup::Group;
use super::guard::Guard;
use super::processes::{self, Reap};
use super::watch::Watch;
use super::{Sandbox, bwrap, enter};

const HIGHEST_PRIORITY: i32 = -20;

/// What the hidden subcommand `sandbox-exec` does. Not for people: it reads its errand from standard input.
pub fn sandbox_exec() -> ExitCode {
    let done = match read_errand() {
        Ok(Errand::Supervise(job)) => supervise(*job),
        Ok(Errand::Enter(entry)) => Err(enter::enter(*entry)),
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nobody to report to but whoever reads the command's errors.
            let _ = writeln!(io::stderr(), "{ENTER_FAILED}{error}");
            ExitCode::from(ENTER_FAILED_CODE)
        }
    }
}

fn read_errand() -> io::Result<Errand> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut text = String::new();
    BufReader::new(input.take(MAX_ERRAND_BYTES)).read_line(&mut text)?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

fn supervise(mut job: Job) -> io::Result<()> {
    let mut line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // A session without a terminal: a command can neither ask the user for a password nor type for them.
    rustix::process::setsid().map_err(io::Error::from)?;
    processes::adopt_orphans()?;
    // Only a superuser may; only a superuser's processes have no limit in the kernel.
    let _ = rustix::process::setpriority_process(None, HIGHEST_PRIORITY);
    let owner = line.try_clone()?;
    let covered = job.boundary.covered.clone();
    let group = Group::make(&job.bounds);
    let (guard, mut child) = match begin(&mut job, group.as_ref()) {
        Ok(begun) => begun,
        Err(error) => {
            uncover(&covered);
            return report(&mut line, &Report::NotStarted(error.to_string()));
        }
    };
    // From here to the end nothing may return early: the command runs. A client that is gone is noticed by the thread.
    let known = guard.as_ref().map(Guard::known).unwrap_or_default();
    let started = report(&mut line, &Report::Started(known));
    let allowed = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&allowed);
    thread::spawn(move || {
        await_end(owner, &told);
        processes::end_descendants(Reap::No);
    });
    let first = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let watch = Watch::start(job.bounds, first);
    let status = child.wait();
    let passed = watch.stop();
    processes::end_descendants(Reap::Yes);
    let passed = passed.or_else(|| group.as_ref().and_then(|group| group.passed(&job.bounds)));
    drop(group);
    uncover(&covered);
    let allowed = std::mem::take(&mut *allowed.lock().unwrap_or_else(PoisonError::into_inner));
    let changes = guard.map(|guard| guard.settle(&allowed)).unwrap_or_default();
    started?;
    if let Some(limit) = passed.or_else(|| limit_of(status.as_ref().ok(), &job)) {
        report(&mut line, &Report::Limited(limit))?;
    }
    if !changes.is_empty() {
        report(&mut line, &Report::PutBack(changes))?;
    }
    report(&mut line, &ended(status?))
}

fn report(line: &mut UnixStream, report: &Report) -> io::Result<()> {
    let mut text = serde_json::to_string(report).map_err(io::Error::other)?;
    text.push('\n');
    line.write_all(text.as_bytes())
}

/// Returns when the other end is closed. Until then it tells which protected paths a person has let somebody else write
/// meanwhile, one JSON string in each line.
fn await_end(line: UnixStream, allowed: &Mutex<Vec<PathBuf>>) {
    for text in BufReader::new(line).lines() {
        let Ok(text) = text else { return };
        if let Ok(path) = serde_json::from_str(&text) {
            allowed.lock().unwrap_or_else(PoisonError::into_inner).push(path);
        }
    }
}

/// Bubblewrap leaves the folders that it mounted something on.
fn uncover(covered: &[PathBuf]) {
    for path in covered {
        // One that is not empty stays: it is compared with what was there before.
        let _ = fs::remove_dir(path);
    }
}

fn ended(status: ExitStatus) -> Report {
    match (status.code(), status.signal()) {
        (Some(code), _) => Report::Exited(code),
        (None, signal) => Report::Signalled(signal.unwrap_or_default()),
    }
}

/// The limits that the kernel enforces itself end a process by a signal of their own, which the shell passes on.
fn limit_of(status: Option<&ExitStatus>, job: &Job) -> Option<String> {
    let status = status?;
    let signal = status.signal().or_else(|| status.code().and_then(|code| code.checked_sub(128)))?;
    if signal == rustix::process::Signal::XFSZ.as_raw() {
        Some(job.bounds.file_passed())
    } else if signal == rustix::process::Signal::XCPU.as_raw() {
        Some(job.bounds.cpu_passed())
    } else {
        None
    }
}

fn begin(job: &mut Job, group: Option<&Group>) -> io::Result<(Option<Guard>, Child)> {
    let mut guard = match job.sandbox {
        Sandbox::None => None,
        Sandbox::Bwrap { .. } | Sandbox::Landlock => Some(Guard::look(std::mem::take(&mut job.protected))?),
    };
    if let (Sandbox::Bwrap { .. }, Some(guard)) = (&job.sandbox, &mut guard) {
        job.boundary.read_only.extend(guard.mount());
    }
    let child = match group {
        Some(group) => group.start_inside(|| start(job))?,
        None => start(job)?,
    };
    Ok((guard, child))
}

/// Starts this program once more; that process gives up its rights and becomes the command.
fn start(job: &Job) -> io::Result<Child> {
    let program = std::env::current_exe()?;
    let arguments = std::env::args_os().skip(1);
    let (mut command, rights) = match &job.sandbox {
        Sandbox::Bwrap { program: bwrap, is_recent, with_landlock } => {
            let mut command = Command::new(bwrap);
            command.args(bwrap::arguments(&job.boundary, &job.folder, &program, *is_recent)?);
            command.arg("--").arg(bwrap::ENTRANCE).args(arguments);
            let writable = job.boundary.writable.iter().cloned().chain(bwrap::own_folders(&job.boundary)).collect();
            let (with_landlock, network) = (*with_landlock, job.boundary.network);
            (command, Rights::InsideBwrap { writable, with_landlock, network })
        }
        Sandbox::Landlock => (plain(program, arguments), Rights::LandlockOnly(job.boundary.clone())),
        Sandbox::None => (plain(program, arguments), Rights::All),
    };
    let entry = Entry {
        rights,
        bounds: job.bounds,
        command: job.command.clone(),
        folder: job.folder.clone(),
        environment: job.environment.clone(),
    };
    let errand = as_input(&Errand::Enter(Box::new(entry)))?;
    command.env_clear().current_dir("/").stdin(Stdio::from(errand)).spawn()
}

fn plain(program: PathBuf, arguments: impl Iterator<Item = std::ffi::OsString>) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// A file without a name: neither its length nor its secrecy is that of an argument.
fn as_input(errand: &Errand) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    let mut text = serde_json::to_string(errand).map_err(io::Error::other)?;
    text.push('\n');
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}
