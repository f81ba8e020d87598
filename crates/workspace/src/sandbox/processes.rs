//! Everything a command started, found and ended. Leaving the process group or the session does not
//! help a process: its ancestors are followed, and orphans come back to the process that adopts
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

/// New processes are looked for until a round finds none, this often at most.
const MAX_ROUNDS: usize = 100;
/// The table is read line by line while parents end and orphans move, so one look may miss a
/// process; a second does not.
const EMPTY_ROUNDS: usize = 2;
const PAUSE: Duration = Duration::from_millis(5);

/// From now on a descendant whose parent dies becomes a child of this process.
pub(super) fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Whether ended descendants are also waited for. Not while another thread waits for one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reap {
    Yes,
    No,
}

/// Stops all descendants first, so that none can start another while it is looked for, then ends
/// them.
pub(super) fn end_descendants(reap: Reap) {
    let mut stopped = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        let fresh: Vec<Pid> = descendants()
            .into_iter()
            .filter(|pid| stopped.insert(pid.as_raw_nonzero()))
            .collect();
        if fresh.is_empty() {
            break;
        }
        signal(&fresh, Signal::STOP);
    }
    let mut empty_rounds = 0;
    for _ in 0..MAX_ROUNDS {
        let living = descendants();
        empty_rounds = if living.is_empty() {
            empty_rounds + 1
        } else {
            0
        };
        if empty_rounds >= EMPTY_ROUNDS {
            return;
        }
        signal(&living, Signal::KILL);
        if reap == Reap::Yes {
            reap_adopted(&living);
        }
        thread::sleep(PAUSE);
    }
}

fn signal(pids: &[Pid], signal: Signal) {
    for pid in pids {
        // One that is gone already is what is wanted.
        let _ = rustix::process::kill_process(*pid, signal);
    }
}

fn reap_adopted(pids: &[Pid]) {
    for pid in pids {
        let _ = rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG);
    }
}

/// Reaps adopted processes that have ended. Until then each of them counts towards the process
/// limit. `first` is reaped elsewhere.
pub(super) fn reap_orphans(first: Option<Pid>) {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    for (pid, state) in table().remove(&own).into_iter().flatten() {
        if let (State::Ended, Some(pid)) =
            (state, Pid::from_raw(pid).filter(|pid| Some(*pid) != first))
        {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// The living ones, from the table of processes.
pub(super) fn descendants() -> Vec<Pid> {
    let mut children = table();
    let mut found = Vec::new();
    let mut open = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        for (pid, state) in children.remove(&parent).into_iter().flatten() {
            open.push(pid);
            if state == State::Living {
                found.extend(Pid::from_raw(pid));
            }
        }
    }
    found
}

/// Every process of the machine, by its parent.
fn table() -> BTreeMap<i32, Vec<(i32, State)>> {
    let mut children: BTreeMap<i32, Vec<(i32, State)>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        if let Some((state, parent)) = state_and_parent(&stat) {
            children.entry(parent).or_default().push((pid, state));
        }
    }
    children
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Living,
    /// Not waited for yet.
    Ended,
}

/// A process and its parent's id, from a line of `/proc/*/stat`. The name in it may hold anything.
fn state_and_parent(stat: &str) -> Option<(State, i32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = if matches!(fields.next()?, "Z" | "X") {
        State::Ended
    } else {
        State::Living
    };
    Some((state, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_whatever_the_name() {
        for (stat, expected) in [
            ("12 (sh) S 7 12 12 0", Some((State::Living, 7))),
            ("12 (a) Z 3 (b)) R 9 1", Some((State::Living, 9))),
            ("12 (sh) Z 7 12", Some((State::Ended, 7))),
            ("12 (sh", None),
        ] {
            assert_eq!(state_and_parent(stat), expected, "{stat}");
        }
    }
}
