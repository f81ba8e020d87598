//! The last step before a command: this process gives up its rights and becomes the shell that runs
//! it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, setpriority_process, setrlimit};

use super::boundary::{CommandSetup, Rights};
use crate::options::Bounds;

const SHELLS: [(&str, &[&str]); 2] = [
    ("/bin/bash", &["--noprofile", "--norc", "-c"]),
    ("/bin/sh", &["-c"]),
];

/// How long a process may go on after the signal that tells it that its processor time is over.
const CPU_GRACE_SECONDS: u64 = 5;

const PROCESSES_BEYOND: u64 = 16;
const NICENESS: i32 = 10;
/// Where the machine runs out of memory, the kernel ends a command's processes before the
/// supervisor and most others.
const OUT_OF_MEMORY_SCORE: &str = "500";

/// Returns only if it failed.
pub(super) fn enter(entry: CommandSetup) -> io::Error {
    match prepared(entry) {
        Ok(mut command) => command.exec(),
        Err(error) => error,
    }
}

fn prepared(entry: CommandSetup) -> io::Result<Command> {
    let CommandSetup {
        rights,
        bounds,
        command,
        folder,
        environment,
    } = entry;
    let (shell, options) = shell()?;
    let mut shell = Command::new(shell);
    shell
        .args(options)
        .arg(command)
        .current_dir(folder)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null());
    limit(&bounds, &rights)?;
    restrict(&rights)?;
    Ok(shell)
}

fn shell() -> io::Result<(&'static str, &'static [&'static str])> {
    let found = SHELLS
        .into_iter()
        .find(|(program, _)| Path::new(program).exists());
    found.ok_or_else(|| io::Error::other("there is neither /bin/bash nor /bin/sh"))
}

/// What the kernel counts per process. The supervisor watches what all processes of the command use
/// together.
fn limit(bounds: &Bounds, rights: &Rights) -> io::Result<()> {
    let set = |resource, current: u64, maximum: u64| {
        setrlimit(
            resource,
            Rlimit {
                current: Some(current),
                maximum: Some(maximum),
            },
        )
        .map_err(io::Error::from)
    };
    set(Resource::Core, 0, 0)?;
    set(Resource::Fsize, bounds.file_bytes, bounds.file_bytes)?;
    set(
        Resource::Cpu,
        bounds.cpu_seconds,
        bounds.cpu_seconds.saturating_add(CPU_GRACE_SECONDS),
    )?;
    // A little more than the limit, so that the supervisor sees it passed and says so, while
    // processes cannot multiply faster than it looks. The kernel does not count a superuser's.
    let most = bounds
        .processes
        .saturating_add(bounds.processes / 4)
        .saturating_add(PROCESSES_BEYOND);
    let others = if matches!(rights, Rights::InsideBwrap { .. }) {
        0
    } else {
        threads_of_user()
    };
    set(
        Resource::Nproc,
        most.saturating_add(others),
        most.saturating_add(others),
    )?;
    // Lower than the supervisor's, which has to get a word in among a thousand of them.
    setpriority_process(None, NICENESS)?;
    // A container may forbid it; then the kernel decides by size.
    let _ = fs::write("/proc/self/oom_score_adj", OUT_OF_MEMORY_SCORE);
    Ok(())
}

/// What the kernel counts towards the limit on processes where a command has no namespace of its
/// own.
fn threads_of_user() -> u64 {
    let user = rustix::process::getuid().as_raw();
    let is_own = |entry: &fs::DirEntry| {
        entry
            .metadata()
            .is_ok_and(|metadata| metadata.uid() == user)
    };
    let processes = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter(is_own);
    processes
        .map(|entry| {
            fs::read_dir(entry.path().join("task")).map_or(0, |tasks| tasks.count() as u64)
        })
        .sum()
}

#[cfg(target_os = "linux")]
fn restrict(rights: &Rights) -> io::Result<()> {
    use super::landlock::{self, Scopes};
    use super::seccomp::{self, Others, Sockets};
    use crate::options::Network;
    match rights {
        Rights::All => Ok(()),
        Rights::InsideBwrap {
            writable,
            with_landlock,
            network,
        } => {
            let scopes = if *with_landlock {
                landlock::restrict_view(writable)?
            } else {
                Scopes::Missing
            };
            // Without a network of its own a command shares the abstract sockets of the machine's
            // services.
            let sockets = match (network, scopes) {
                (Network::Off, _) | (Network::On, Scopes::Enforced) => Sockets::InternetAndUnix,
                (Network::On, Scopes::Missing) => Sockets::Internet,
            };
            seccomp::restrict(sockets, Others::OutOfReach)
        }
        Rights::LandlockOnly(boundary) => {
            landlock::restrict(boundary)?;
            let sockets = match boundary.network {
                Network::Off => Sockets::None,
                Network::On => Sockets::Internet,
            };
            seccomp::restrict(sockets, Others::Reachable)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn restrict(rights: &Rights) -> io::Result<()> {
    match rights {
        Rights::All => Ok(()),
        Rights::InsideBwrap { .. } | Rights::LandlockOnly(_) => {
            Err(io::Error::other("this sandbox is for Linux"))
        }
    }
}
