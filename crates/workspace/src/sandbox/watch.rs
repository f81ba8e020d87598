//! Watches what all processes of a command use together, and ends them when it is too much. The
//! kernel counts only per process, and a limit on addresses would break programs that reserve many
//! and use few.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::processes::{self, Reap};
use crate::options::Bounds;

/// Between two looks at what is used.
const INTERVAL: Duration = Duration::from_millis(100);
/// Between two looks at the number of processes of the whole machine, which costs next to nothing.
/// A superuser's processes have no limit in the kernel and can multiply by thousands between two
/// real looks.
const GLANCE: Duration = Duration::from_millis(10);

/// Looks at the memory of processes that come and go meanwhile, before it is believed to be too
/// much.
const MAX_LOOKS: usize = 5;
const NANOSECONDS: u64 = 1_000_000_000;

/// What the kernel counts the size of files in.
const BLOCK_BYTES: u64 = 512;

pub(super) struct Watch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Option<String>>,
}

impl Watch {
    /// `first` is the process that everything else began with; where it is bubblewrap, its end is
    /// the end of all.
    pub fn start(bounds: Bounds, first: Option<Pid>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let usual = machine_processes().unwrap_or_default();
            let own = Used::of_ended();
            let mut seen = Seen::default();
            let mut looked = Instant::now();
            while stopped.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
                let is_crowded = machine_processes()
                    .is_some_and(|now| now > usual.saturating_add(bounds.processes));
                if !is_crowded && looked.elapsed() < INTERVAL {
                    continue;
                }
                looked = Instant::now();
                processes::reap_orphans(first);
                if let Some(passed) = passed(&bounds, &own, &mut seen) {
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
    load.split_whitespace()
        .nth(3)?
        .split_once('/')?
        .1
        .parse()
        .ok()
}

/// `own` is what this process and those it waited for had used before the command.
fn passed(bounds: &Bounds, own: &Used, seen: &mut Seen) -> Option<String> {
    let living = processes::descendants();
    if living.len() as u64 > bounds.processes {
        return Some(bounds.processes_passed());
    }
    // Orphans that ended were waited for by this process: what they used counts as its own.
    let mut used = Used::of_ended().less(own);
    let mut running = BTreeMap::new();
    for pid in &living {
        running.extend(used.add(*pid));
    }
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    let most_nanoseconds = bounds.cpu_seconds.saturating_mul(NANOSECONDS);
    if used.cpu_ticks > bounds.cpu_seconds.saturating_mul(ticks_per_second)
        || seen.add(running) > most_nanoseconds
    {
        return Some(bounds.cpu_passed());
    }
    if used.written_bytes > bounds.written_bytes {
        return Some(bounds.written_passed());
    }
    // Pages that processes share are counted for each of them, so the sum is only a reason to look
    // closely.
    let most = used.resident_bytes.saturating_add(memory_files(&living));
    (most > bounds.memory_bytes && takes_more_memory_than(bounds.memory_bytes))
        .then(|| bounds.memory_passed())
}

/// A page that many processes shared when one of them was looked at may belong to the next one
/// alone, if the others have ended in between: then it counts more than once. So only a look counts
/// during which nobody came or went.
fn takes_more_memory_than(most: u64) -> bool {
    let numbers = |pids: &[Pid]| {
        pids.iter()
            .map(|pid| pid.as_raw_nonzero())
            .collect::<BTreeSet<_>>()
    };
    let mut living = processes::descendants();
    for _ in 0..MAX_LOOKS {
        if proportional_bytes(&living, memory_files(&living)) <= most {
            return false;
        }
        let now = processes::descendants();
        if numbers(&now) == numbers(&living) {
            return true;
        }
        living = now;
    }
    true
}

/// The processor time of every process that was seen, with those that ended since. Nobody waits for
/// the child of a process that ignores its end, so the kernel adds its time nowhere.
#[derive(Default)]
struct Seen {
    /// By number and start, in nanoseconds.
    running: BTreeMap<(i32, u64), u64>,
    ended: u64,
}

impl Seen {
    /// Returns the time of all together.
    fn add(&mut self, running: BTreeMap<(i32, u64), u64>) -> u64 {
        let before = std::mem::replace(&mut self.running, running);
        let ended = before
            .iter()
            .filter(|(process, _)| !self.running.contains_key(process));
        self.ended = ended.fold(self.ended, |sum, (_, time)| sum.saturating_add(*time));
        self.running
            .values()
            .fold(self.ended, |sum, time| sum.saturating_add(*time))
    }
}

#[derive(Default)]
struct Used {
    /// Of the living, and of those that ended and were waited for.
    cpu_ticks: u64,
    written_bytes: u64,
    resident_bytes: u64,
}

impl Used {
    /// By processes that this one has waited for.
    fn of_ended() -> Self {
        let stat = fs::read_to_string("/proc/self/stat")
            .ok()
            .and_then(|stat| times_and_pages(&stat));
        let cpu_ticks = stat.map(|times| times.children_ticks).unwrap_or_default();
        Self {
            cpu_ticks,
            written_bytes: written_bytes("/proc/self"),
            resident_bytes: 0,
        }
    }

    fn less(self, other: &Self) -> Self {
        Self {
            cpu_ticks: self.cpu_ticks.saturating_sub(other.cpu_ticks),
            written_bytes: self.written_bytes.saturating_sub(other.written_bytes),
            resident_bytes: self.resident_bytes,
        }
    }

    /// Returns which process it is and its own time in nanoseconds.
    fn add(&mut self, pid: Pid) -> Option<((i32, u64), u64)> {
        let number = pid.as_raw_nonzero().get();
        let folder = format!("/proc/{number}");
        self.written_bytes = self.written_bytes.saturating_add(written_bytes(&folder));
        let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
        let times = times_and_pages(&stat)?;
        self.cpu_ticks = self
            .cpu_ticks
            .saturating_add(times.own_ticks)
            .saturating_add(times.children_ticks);
        self.resident_bytes = self.resident_bytes.saturating_add(times.resident_bytes());
        // Of the first thread alone, but exact: a short life may be shorter than a tick.
        let exact = fs::read_to_string(format!("{folder}/schedstat")).ok();
        let exact = exact
            .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or_default();
        let tick = NANOSECONDS / rustix::param::clock_ticks_per_second().max(1);
        Some((
            (number, times.started),
            times.own_ticks.saturating_mul(tick).max(exact),
        ))
    }
}

fn written_bytes(folder: &str) -> u64 {
    let io = fs::read_to_string(format!("{folder}/io")).unwrap_or_default();
    io.lines()
        .find_map(|line| line.strip_prefix("write_bytes: ")?.parse::<u64>().ok())
        .unwrap_or_default()
}

/// Bytes in memory files (`memfd`). They may be mapped by no process, so they are found by their
/// open descriptors.
fn memory_files(pids: &[Pid]) -> u64 {
    let mut sizes = BTreeMap::new();
    for pid in pids {
        let files = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))
            .into_iter()
            .flatten()
            .flatten();
        for path in files.map(|entry| entry.path()) {
            let is_memory = fs::read_link(&path)
                .is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"/memfd:"));
            if let (true, Ok(metadata)) = (is_memory, fs::metadata(&path)) {
                sizes.insert(
                    (metadata.dev(), metadata.ino()),
                    metadata.blocks().saturating_mul(BLOCK_BYTES),
                );
            }
        }
    }
    sizes.values().copied().fold(0, u64::saturating_add)
}

/// Each shared page as a part for each of those that share it. `files` are in memory whether they
/// are mapped or not.
fn proportional_bytes(pids: &[Pid], files: u64) -> u64 {
    let (mut all, mut shared, mut most_unreadable) = (0_u64, 0_u64, 0_u64);
    for pid in pids {
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero())).unwrap_or_default()
        };
        let rollup = read("smaps_rollup");
        if let Some(bytes) = kilobytes(&rollup, "Pss:") {
            all = all.saturating_add(bytes);
            shared = shared.saturating_add(kilobytes(&rollup, "Pss_Shmem:").unwrap_or_default());
            continue;
        }
        // A process can keep others from reading it, but not from seeing how large it is. One that
        // has ended has no size. What such processes share cannot be told apart, so that of the
        // largest counts for all.
        let status = read("status");
        all = all.saturating_add(kilobytes(&status, "RssAnon:").unwrap_or_default());
        most_unreadable = most_unreadable.max(kilobytes(&status, "RssShmem:").unwrap_or_default());
    }
    all.saturating_add(most_unreadable)
        .saturating_add(files.saturating_sub(shared.saturating_add(most_unreadable)))
}

/// A value of `/proc/*/status` and its like, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim()
        .strip_suffix(" kB")?
        .parse::<u64>()
        .ok()
        .map(|kilobytes| kilobytes.saturating_mul(1024))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    own_ticks: u64,
    /// Of children that ended and were waited for.
    children_ticks: u64,
    /// When, in ticks since the machine started.
    started: u64,
    resident_pages: u64,
}

impl Times {
    fn resident_bytes(self) -> u64 {
        self.resident_pages
            .saturating_mul(rustix::param::page_size() as u64)
    }
}

/// From a line of `/proc/*/stat`.
fn times_and_pages(stat: &str) -> Option<Times> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    // `proc(5)` counts from 1 and the name is the second: user, system, children's user, children's
    // system, start, resident.
    Some(Times {
        own_ticks: number(11)?.saturating_add(number(12)?),
        children_ticks: number(13)?.saturating_add(number(14)?),
        started: number(19)?,
        resident_pages: number(21)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_pages_are_read_whatever_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 200 0 0 11 12 13 14 20 0 1 0 5 1000 321 18446744073709551615 1";
        let expected = Times {
            own_ticks: 23,
            children_ticks: 27,
            started: 5,
            resident_pages: 321,
        };
        assert_eq!(times_and_pages(stat), Some(expected));
        assert_eq!(times_and_pages("7 (sh) S 1"), None);
    }

    #[test]
    fn processes_that_ended_go_on_to_count() {
        let mut seen = Seen::default();
        assert_eq!(seen.add([((1, 1), 10), ((2, 1), 5)].into()), 15);
        assert_eq!(
            seen.add([((1, 1), 12), ((2, 9), 1)].into()),
            18,
            "the same number, but another process"
        );
        assert_eq!(seen.add(BTreeMap::new()), 18);
    }

    #[test]
    fn sizes_are_read_by_name() {
        let status = "VmRSS:\t  12 kB\nRssAnon:\t       8 kB\nRssShmem:\t       x kB\n";
        assert_eq!(
            ["RssAnon:", "RssShmem:", "Pss:"].map(|name| kilobytes(status, name)),
            [Some(8192), None, None]
        );
    }
}
