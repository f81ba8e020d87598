//! Everything a server started, found and ended. Leaving the process group or the session does not
//! help a process: its ancestors are followed, and orphans come to the supervisor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

/// New processes are looked for until a round finds none, this often at most.
const MAX_ROUNDS: usize = 200;
/// A program may fork faster than it is found for this long.
const MAX_TIME: Duration = Duration::from_secs(5);

/// From now on a descendant whose parent dies becomes a child of this process.
pub fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

pub fn signal_all(signal: Signal) {
    send(&living(), signal);
}

/// Stops all descendants first, so that none can start another while it is looked for, then ends
/// them.
pub fn end_all() {
    let mut stopped = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        let fresh: Vec<Pid> = living()
            .into_iter()
            .filter(|pid| stopped.insert(pid.as_raw_nonzero()))
            .collect();
        if fresh.is_empty() {
            break;
        }
        send(&fresh, Signal::STOP);
    }
    // Whoever loses its parent becomes a child of this process: without children nothing is left.
    let ended_by = Instant::now() + MAX_TIME;
    while reap_ended() && Instant::now() < ended_by {
        let children = children().unwrap_or_else(living);
        send(&children, Signal::KILL);
        thread::yield_now();
    }
}

/// Those that the kernel names at once, which is faster than looking through the whole table.
fn children() -> Option<Vec<Pid>> {
    let mut found = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let pids = fs::read_to_string(thread.path().join("children")).ok()?;
        let pids = pids.split_whitespace().filter_map(|pid| pid.parse().ok());
        found.extend(pids.filter_map(Pid::from_raw));
    }
    Some(found)
}

fn send(pids: &[Pid], signal: Signal) {
    for pid in pids {
        // One that is gone already is what is wanted.
        let _ = rustix::process::kill_process(*pid, signal);
    }
}

/// Waits for children that have ended, so that they leave the table. Whether others are left.
pub fn reap_ended() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// The living ones, from the table of processes.
pub fn living() -> Vec<Pid> {
    let mut children = table();
    let mut found = Vec::new();
    let mut open = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        for (pid, is_living) in children.remove(&parent).into_iter().flatten() {
            open.push(pid);
            if is_living {
                found.extend(Pid::from_raw(pid));
            }
        }
    }
    found
}

/// Every process of the machine and whether it lives, by its parent.
fn table() -> BTreeMap<i32, Vec<(i32, bool)>> {
    let mut children: BTreeMap<i32, Vec<(i32, bool)>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process chooses its name, which need not be UTF-8.
        let Ok(stat) = fs::read(entry.path().join("stat")) else {
            continue;
        };
        if let Some((parent, is_living)) = parent_and_life(&String::from_utf8_lossy(&stat)) {
            children.entry(parent).or_default().push((pid, is_living));
        }
    }
    children
}

/// From a line of `/proc/*/stat`. The name in it may hold anything.
fn parent_and_life(stat: &str) -> Option<(i32, bool)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let is_living = !matches!(fields.next()?, "Z" | "X");
    Some((fields.next()?.parse().ok()?, is_living))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_whatever_the_name() {
        for (stat, expected) in [
            ("12 (sh) S 7 12 12 0", Some((7, true))),
            ("12 (a) Z 3 (b)) R 9 1", Some((9, true))),
            ("12 (sh) Z 7 12", Some((7, false))),
            ("12 (sh", None),
        ] {
            assert_eq!(parent_and_life(stat), expected, "{stat}");
        }
    }
}
