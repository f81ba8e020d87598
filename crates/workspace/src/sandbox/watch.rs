//! Watches what all processes of a command use together, and ends them when it is too much. The kernel counts only per
//! process, and a limit on addresses would break programs that reserve many and use few.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::processes::{self, Reap};
use crate::options::Bounds;

/// Between two looks at what is used.
const INTERVAL: Duration = Duration::from_millis(100);
/// Between two looks at the number of processes of the whole machine, which costs next to nothing. A superuser's processes
/// have no limit in the kernel and can multiply by thousands between two real looks.
const GLANCE: Duration = Duration::from_millis(10);

pub(super) struct Watch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Option<String>>,
}

impl Watch {
    /// `first` is the process that everything else began with; where it is bubblewrap, its end is the end of all.
    pub fn start(bounds: Bounds, first: Option<Pid>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let usual = machine_processes().unwrap_or_default();
            let mut looked = Instant::now();
            while stopped.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
                let is_crowded = machine_processes().is_some_and(|now| now > usual.saturating_add(bounds.processes));
                if !is_crowded && looked.elapsed() < INTERVAL {
                    continue;
                }
                looked = Instant::now();
                processes::reap_orphans(first);
                if let Some(passed) = passed(&bounds) {
                    if let Some(first) = first {
                        let _ = rustix::process::kill_process(first, Signal::KILL);
                    }
                    processes::end_descendants(Reap::No);
                    return Some(passed);
                }
            }
            None
        });
        Self { stop, thread }
    }

    /// Which limit was passed, in words for the model.
    pub fn stop(self) -> Option<String> {
        let _ = self.stop.send(());
        self.thread.join().ok().flatten()
    }
}

/// Processes and threads of the whole machine.
fn machine_processes() -> Option<u64> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

fn passed(bounds: &Bounds) -> Option<String> {
    let living = processes::descendants();
    if living.len() as u64 > bounds.processes {
        return Some(bounds.processes_passed());
    }
    let mut used = Used::default();
    for pid in &living {
        used.add(*pid);
    }
    if used.cpu_ticks > bounds.cpu_seconds.saturating_mul(rustix::param::clock_ticks_per_second()) {
        return Some(bounds.cpu_passed());
    }
    if used.written_bytes > bounds.written_bytes {
        return Some(bounds.written_passed());
    }
    // Pages that processes share are counted for each of them, so the sum is only a reason to look closely.
    if used.resident_bytes > bounds.memory_bytes && proportional_bytes(&living) > bounds.memory_bytes {
        return Some(bounds.memory_passed());
    }
    None
}

#[derive(Default)]
struct Used {
    /// Of the living, and of those that ended and were waited for.
    cpu_ticks: u64,
    written_bytes: u64,
    resident_bytes: u64,
}

impl Used {
    fn add(&mut self, pid: Pid) {
        let folder = format!("/proc/{}", pid.as_raw_nonzero());
        if let Ok(stat) = fs::read_to_string(format!("{folder}/stat")) {
            let (ticks, pages) = cpu_and_pages(&stat).unwrap_or_default();
            self.cpu_ticks = self.cpu_ticks.saturating_add(ticks);
            self.resident_bytes =
                self.resident_bytes.saturating_add(pages.saturating_mul(rustix::param::page_size() as u64));
        }
        if let Ok(io) = fs::read_to_string(format!("{folder}/io")) {
            let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse::<u64>().ok());
            self.written_bytes = self.written_bytes.saturating_add(written.unwrap_or_default());
        }
    }
}

/// Each shared page as a part for each of those that share it.
fn proportional_bytes(pids: &[Pid]) -> u64 {
    let of = |pid: &Pid| {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero())).ok()?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes.saturating_mul(1024))
    };
    pids.iter().filter_map(of).fold(0, u64::saturating_add)
}

/// From a line of `/proc/*/stat`: the time of a process and of its children, and its resident pages.
fn cpu_and_pages(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    // `proc(5)` counts from 1 and the name is the second: user, system, children's user, children's system, resident.
    let ticks = (11..=14).map(number).sum::<Option<u64>>()?;
    Some((ticks, number(21)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_pages_are_read_whatever_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 200 0 0 11 12 13 14 20 0 1 0 5 1000 321 18446744073709551615 1";
        assert_eq!(cpu_and_pages(stat), Some((50, 321)));
        assert_eq!(cpu_and_pages("7 (sh) S 1"), None);
    }
}
