//! The process that owns a server. It is this program, started again. It adopts everything that the
//! server starts, and ends all of it when the server ends, when it is told to, or when the program
//! that wanted the server is gone: then nobody holds the other end of its standard input.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use super::{KEPT_VARIABLES, MAX_JOB_BYTES, ServerJob, descendants};

/// A server whose input is closed may end by itself before it is told to.
const GRACE_AFTER_INPUT: Duration = Duration::from_millis(300);
/// From the request to end until it is ended.
const GRACE_AFTER_TERM: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);
/// The exit code of a server that could not be started.
const NOT_STARTED: u8 = 127;

/// What the hidden subcommand does. Not for people. Without arguments it is the supervisor and reads
/// its job from standard input; with arguments it becomes the server.
pub fn supervise(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let done = match arguments.next() {
        Some(command) => Err(become_server(command, arguments)),
        None => run(),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // There is nobody to report to but whoever reads the server's errors.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::from(NOT_STARTED)
        }
    }
}

/// Returns only if it failed. The kernel ends the server if the supervisor dies.
fn become_server(command: OsString, arguments: impl Iterator<Item = OsString>) -> io::Error {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    let shown = command.to_string_lossy().into_owned();
    let error = Command::new(command).args(arguments).exec();
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "; install it, or write its whole path",
        _ => "",
    };
    io::Error::other(format!("{shown} cannot be started: {error}{advice}"))
}

fn run() -> io::Result<ExitCode> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let job = read_job(&input)?;
    // A session of its own, without a terminal: an interrupt on the keyboard is not for it, and a
    // server cannot ask the user for a password.
    rustix::process::setsid().map_err(io::Error::from)?;
    descendants::adopt_orphans()?;
    let ordered = ordered_to_end()?;
    let server = start(job)?;
    thread::spawn(move || {
        await_closed(&input);
        end_server();
    });
    thread::spawn(move || {
        ordered.wait();
        end_server();
    });
    let code = await_server(server);
    end_rest();
    Ok(code)
}

/// Reads the job and not one byte more: what follows is the server's.
fn read_job(mut input: &File) -> io::Result<ServerJob> {
    let mut head = [0; 9];
    input.read_exact(&mut head)?;
    let malformed = || io::Error::other("the job is malformed; this is not a command for people");
    let length = std::str::from_utf8(&head[..8]).map_err(|_| malformed())?;
    let length = usize::from_str_radix(length, 16).map_err(|_| malformed())?;
    if head[8] != b'\n' || length > MAX_JOB_BYTES {
        return Err(malformed());
    }
    let mut job = vec![0; length];
    input.read_exact(&mut job)?;
    serde_json::from_slice(&job).map_err(|_| malformed())
}

/// This program again, in the mode that becomes the server: only a process itself can ask the
/// kernel to be ended with its parent.
fn start(job: ServerJob) -> io::Result<Pid> {
    let program = std::env::current_exe()?;
    let own: Vec<OsString> = std::env::args_os().skip(1).collect();
    let kept = KEPT_VARIABLES.map(|name| (name, std::env::var_os(name)));
    let kept = kept
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let mut command = Command::new(program);
    command
        .args(own)
        .arg(&job.command)
        .args(&job.args)
        .env_clear()
        .envs(kept)
        .envs(&job.env)
        .current_dir(&job.folder);
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the server has no process id"))
}

/// Waits until nobody holds the other end of the input. What arrives there is left to the server.
fn await_closed(input: &File) {
    loop {
        let mut watched = [PollFd::new(input, PollFlags::empty())];
        match poll(&mut watched, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let seen = watched[0].revents();
        if seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// Signals that ask this process to end.
struct Orders {
    runtime: tokio::runtime::Runtime,
    signals: Vec<tokio::signal::unix::Signal>,
}

/// From here on such a signal does not end this process before it has ended the server.
fn ordered_to_end() -> io::Result<Orders> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let entered = runtime.enter();
    let signals = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ];
    let signals = signals.map(signal).into_iter().collect::<io::Result<_>>()?;
    drop(entered);
    Ok(Orders { runtime, signals })
}

impl Orders {
    fn wait(mut self) {
        self.runtime.block_on(async {
            let waits = self
                .signals
                .iter_mut()
                .map(|signal| Box::pin(signal.recv()));
            futures_util::future::select_all(waits).await;
        });
    }
}

/// Asks everything to end, and ends it if it does not. The main thread notices that the server has
/// ended, and this process ends with it.
fn end_server() {
    thread::sleep(GRACE_AFTER_INPUT);
    descendants::signal_all(Signal::TERM);
    thread::sleep(GRACE_AFTER_TERM);
    loop {
        descendants::end_all();
        thread::sleep(PAUSE);
    }
}

/// Reaps adopted processes until the server itself has ended.
fn await_server(server: Pid) -> ExitCode {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == server => {
                let code = status
                    .exit_status()
                    .and_then(|code| u8::try_from(code).ok());
                return code.map_or(ExitCode::FAILURE, ExitCode::from);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return ExitCode::FAILURE,
        }
    }
}

/// What the server left behind gets the same grace as a server.
fn end_rest() {
    descendants::signal_all(Signal::TERM);
    let patient_until = Instant::now() + GRACE_AFTER_TERM;
    while descendants::reap_ended() && Instant::now() < patient_until {
        thread::sleep(PAUSE);
    }
    descendants::end_all();
}
