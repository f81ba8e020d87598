//! The process that runs one command. It stands outside the wall, owns everything the command
//! starts, and ends all of it when the command is over, passes a limit, or when the program that
//! wanted it is gone: its standard input is a socket to that program, whose end means the same as
//! an order to stop.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;

use rustix::process::Pid;

use super::boundary::{
    CommandSetup, ENTER_FAILED, ENTER_FAILED_CODE, MAX_REQUEST_BYTES, Request, Rights,
    SupervisorJob, SupervisorReport,
};
use super::cgroup::Group;
use super::guard::{Comparison, Guard};
use super::processes::{self, Reap};
use super::watch::Watch;
use super::{Sandbox, bwrap, enter};

const HIGHEST_PRIORITY: i32 = -20;

/// What the hidden subcommand `sandbox-exec` does. Not for people: it reads its request from
/// standard input.
pub fn sandbox_exec() -> ExitCode {
    let done = match read_request() {
        Ok(Request::Supervise(job)) => supervise(*job),
        Ok(Request::Enter(entry)) => Err(enter::enter(*entry)),
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

fn read_request() -> io::Result<Request> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut text = String::new();
    BufReader::new(input.take(MAX_REQUEST_BYTES)).read_line(&mut text)?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

fn supervise(mut job: SupervisorJob) -> io::Result<()> {
    let mut line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // A session without a terminal: a command can neither ask the user for a password nor type for
    // them.
    rustix::process::setsid().map_err(io::Error::from)?;
    processes::adopt_orphans()?;
    // Only a superuser may; only a superuser's processes have no limit in the kernel.
    let _ = rustix::process::setpriority_process(None, HIGHEST_PRIORITY);
    let owner = line.try_clone()?;
    let group = Group::make(&job.bounds);
    let (guard, mut child) = match begin(&mut job, group.as_ref()) {
        Ok(begun) => begun,
        Err(error) => return report(&mut line, &SupervisorReport::NotStarted(error.to_string())),
    };
    // From here to the end nothing may return early: the command runs. A client that is gone is
    // noticed by the thread.
    let started = report(&mut line, &SupervisorReport::Started);
    thread::spawn(move || {
        await_end(owner);
        processes::end_descendants(Reap::No);
    });
    let first = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let watch = Watch::start(job.bounds, first);
    let status = child.wait();
    let passed = watch.stop();
    processes::end_descendants(Reap::Yes);
    let passed = passed.map(|limit| format!("{limit}; everything it started was ended"));
    // A command that goes on without what the kernel refused it is not told as one that failed.
    let is_failed = !status.as_ref().is_ok_and(ExitStatus::success);
    let passed = passed.or_else(|| {
        group
            .as_ref()
            .filter(|_| is_failed)
            .and_then(|group| group.passed(&job.bounds))
    });
    let passed = passed.or_else(|| limit_of(status.as_ref().ok(), &job));
    drop(group);
    // A client that is gone does not hear this; the comparing is done all the same.
    let _ = report(&mut line, &SupervisorReport::Comparing);
    let compared = guard.map(Guard::compare).unwrap_or_default();
    started?;
    if let Some(limit) = passed {
        report(&mut line, &SupervisorReport::Limited(limit))?;
    }
    if compared != Comparison::default() {
        report(&mut line, &SupervisorReport::Compared(compared))?;
    }
    report(&mut line, &ended(status?))
}

fn report(line: &mut UnixStream, report: &SupervisorReport) -> io::Result<()> {
    let mut text = serde_json::to_string(report).map_err(io::Error::other)?;
    text.push('\n');
    line.write_all(text.as_bytes())
}

/// Returns when the other end is closed.
fn await_end(mut line: UnixStream) {
    let mut nothing = [0; 64];
    while line.read(&mut nothing).is_ok_and(|length| length > 0) {}
}

fn ended(status: ExitStatus) -> SupervisorReport {
    match (status.code(), status.signal()) {
        (Some(code), _) => SupervisorReport::Exited(code),
        (None, signal) => SupervisorReport::Signalled(signal.unwrap_or_default()),
    }
}

/// The limits that the kernel enforces itself end a process by a signal of their own, which the
/// shell passes on.
fn limit_of(status: Option<&ExitStatus>, job: &SupervisorJob) -> Option<String> {
    let status = status?;
    let signal = status
        .signal()
        .or_else(|| status.code().and_then(|code| code.checked_sub(128)))?;
    if signal == rustix::process::Signal::XFSZ.as_raw() {
        Some(job.bounds.file_passed())
    } else if signal == rustix::process::Signal::XCPU.as_raw() {
        Some(job.bounds.cpu_passed())
    } else {
        None
    }
}

fn begin(job: &mut SupervisorJob, group: Option<&Group>) -> io::Result<(Option<Guard>, Child)> {
    let (mut guard, gate) = match job.sandbox {
        Sandbox::None => (None, None),
        Sandbox::Bwrap { .. } | Sandbox::Landlock => {
            let (guard, gate) = Guard::look(std::mem::take(&mut job.protected))?;
            (Some(guard), Some(gate))
        }
    };
    if let (Sandbox::Bwrap { .. }, Some(guard)) = (&job.sandbox, &mut guard) {
        job.boundary.read_only.extend(guard.mount());
    }
    let started = match group {
        Some(group) => group.start_inside(|| start(job)),
        None => start(job),
    };
    drop(gate);
    match started {
        Ok(child) => Ok((guard, child)),
        Err(error) => {
            guard.map(Guard::compare);
            Err(error)
        }
    }
}

/// Starts this program once more; that process gives up its rights and becomes the command.
fn start(job: &SupervisorJob) -> io::Result<Child> {
    let program = std::env::current_exe()?;
    let arguments = std::env::args_os().skip(1);
    let (mut command, rights) = match &job.sandbox {
        Sandbox::Bwrap {
            program: bwrap,
            is_recent,
            with_landlock,
        } => {
            let mut command = Command::new(bwrap);
            command.args(bwrap::arguments(
                &job.boundary,
                &job.folder,
                &program,
                *is_recent,
            )?);
            command.arg("--").arg(bwrap::ENTRANCE).args(arguments);
            let writable = job
                .boundary
                .writable
                .iter()
                .cloned()
                .chain(bwrap::own_folders(&job.boundary))
                .collect();
            let (with_landlock, network) = (*with_landlock, job.boundary.network);
            (
                command,
                Rights::InsideBwrap {
                    writable,
                    with_landlock,
                    network,
                },
            )
        }
        Sandbox::Landlock => (
            plain(program, arguments),
            Rights::LandlockOnly(job.boundary.clone()),
        ),
        Sandbox::None => (plain(program, arguments), Rights::All),
    };
    let entry = CommandSetup {
        rights,
        bounds: job.bounds,
        command: job.command.clone(),
        folder: job.folder.clone(),
        environment: job.environment.clone(),
    };
    let request = as_input(&Request::Enter(Box::new(entry)))?;
    command
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(request))
        .spawn()
}

fn plain(program: PathBuf, arguments: impl Iterator<Item = std::ffi::OsString>) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// A file without a name: neither its length nor its secrecy is that of an argument.
fn as_input(request: &Request) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    let mut text = serde_json::to_string(request).map_err(io::Error::other)?;
    text.push('\n');
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}
