//! The process that runs one command. It stands outside the wall, owns everything the command starts, and ends all of it
//! when the command is over or when the program that wanted it is gone: its standard input is a socket to that program,
//! whose end means the same as an order to stop.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;

use super::boundary::{Job, MAX_JOB_BYTES, Report};
use super::processes::{self, Reap};
use super::{Sandbox, bwrap};

const SHELLS: [(&str, &[&str]); 2] = [("/bin/bash", &["--noprofile", "--norc", "-c"]), ("/bin/sh", &["-c"])];

/// What the hidden subcommand `sandbox-exec` does. Not for people: it reads its job from standard input, which must be a
/// socket.
pub fn sandbox_exec() -> ExitCode {
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nobody to report to but whoever reads the command's errors.
            let _ = writeln!(io::stderr(), "sandbox-exec: {error}");
            ExitCode::FAILURE
        }
    }
}

fn supervise() -> io::Result<()> {
    let mut line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let job = read_job(&line)?;
    // A session without a terminal: a command can neither ask the user for a password nor type for them.
    rustix::process::setsid().map_err(io::Error::from)?;
    processes::adopt_orphans()?;
    let owner = line.try_clone()?;
    let swept = job.swept.clone();
    let mut child = match start(job) {
        Ok(child) => child,
        Err(error) => return report(&mut line, &Report::NotStarted(error.to_string())),
    };
    // From here to the end nothing may return early: the command runs. A client that is gone is noticed by the thread.
    let started = report(&mut line, &Report::Started);
    thread::spawn(move || {
        await_end(owner);
        processes::end_descendants(Reap::No);
    });
    let status = child.wait();
    processes::end_descendants(Reap::Yes);
    let removed = sweep(swept);
    started?;
    if !removed.is_empty() {
        report(&mut line, &Report::Removed(removed))?;
    }
    report(&mut line, &ended(status?))
}

fn read_job(line: &UnixStream) -> io::Result<Job> {
    let mut text = String::new();
    BufReader::new(line.take(MAX_JOB_BYTES)).read_line(&mut text)?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

fn report(line: &mut UnixStream, report: &Report) -> io::Result<()> {
    let mut text = serde_json::to_string(report).map_err(io::Error::other)?;
    text.push('\n');
    line.write_all(text.as_bytes())
}

/// Returns when the other end is closed; nothing more is ever sent.
fn await_end(mut line: UnixStream) {
    let mut byte = [0];
    while let Err(error) = line.read(&mut byte) {
        if error.kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// Here and not in the client, because this process is still there when the client is not.
fn sweep(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let appeared = paths.into_iter().filter(|path| fs::symlink_metadata(path).is_ok());
    appeared
        .inspect(|path| {
            if let Err(error) = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path)) {
                let _ = writeln!(io::stderr(), "sandbox-exec: {} could not be removed: {error}", path.display());
            }
        })
        .collect()
}

fn ended(status: ExitStatus) -> Report {
    match (status.code(), status.signal()) {
        (Some(code), _) => Report::Exited(code),
        (None, signal) => Report::Signalled(signal.unwrap_or_default()),
    }
}

fn start(job: Job) -> io::Result<Child> {
    let (shell, arguments) = shell(&job.command)?;
    let mut command = match &job.sandbox {
        Sandbox::Bwrap { program, is_recent } => {
            let walls = bwrap::arguments(&job.boundary, &job.folder, *is_recent)?;
            let mut command = Command::new(program);
            command.args(walls).arg("--").arg(shell).args(arguments);
            command.current_dir("/");
            command
        }
        Sandbox::Landlock | Sandbox::None => {
            let mut command = Command::new(shell);
            command.args(arguments).current_dir(&job.folder);
            command
        }
    };
    command.env_clear().envs(job.environment).stdin(Stdio::null());
    match job.sandbox {
        Sandbox::Landlock => start_restricted(command, job.boundary),
        Sandbox::Bwrap { .. } | Sandbox::None => command.spawn(),
    }
}

fn shell(command: &str) -> io::Result<(&'static str, Vec<String>)> {
    let found = SHELLS.into_iter().find(|(program, _)| Path::new(program).exists());
    let (program, options) = found.ok_or_else(|| io::Error::other("there is neither /bin/bash nor /bin/sh"))?;
    let options = options.iter().map(|option| (*option).to_owned());
    Ok((program, options.chain([command.to_owned()]).collect()))
}

/// Both restrictions hold for the thread that takes them and for what it starts, so a thread takes them, starts the
/// command and ends; this process stays free to supervise.
#[cfg(target_os = "linux")]
fn start_restricted(mut command: Command, boundary: super::Boundary) -> io::Result<Child> {
    let restricted = thread::spawn(move || {
        super::landlock::restrict(&boundary)?;
        super::seccomp::restrict(boundary.network)?;
        command.spawn()
    });
    restricted.join().unwrap_or_else(|_| Err(io::Error::other("the sandbox could not be put up")))
}

#[cfg(not(target_os = "linux"))]
fn start_restricted(_: Command, _: super::Boundary) -> io::Result<Child> {
    Err(io::Error::other("Landlock is for Linux"))
}
