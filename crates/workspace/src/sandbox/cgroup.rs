//! A control group for one command, where this user may make one (cgroup v2 with the controllers
//! handed down: a systemd session, or root). The kernel then enforces what the watcher can only
//! notice afterwards.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::options::Bounds;

/// The kernel counts threads, a person thinks of processes.
const THREADS_PER_PROCESS: u64 = 4;
/// The group is free once the kernel has put away the last process.
const REMOVALS: usize = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

const PREFIX: &str = "codelab-";

pub(super) struct Group {
    path: PathBuf,
    /// Where this process belongs.
    own: PathBuf,
}

impl Group {
    /// `None` where it cannot be had.
    pub fn make(bounds: &Bounds) -> Option<Self> {
        let own = own_group()?;
        let parents = [own.parent().map(Path::to_owned), Some(own.clone())];
        parents
            .into_iter()
            .flatten()
            .find_map(|parent| Self::beneath(&parent, &own, bounds).ok())
    }

    fn beneath(parent: &Path, own: &Path, bounds: &Bounds) -> io::Result<Self> {
        let handed_down = fs::read_to_string(parent.join("cgroup.subtree_control"))?;
        let has = |controller: &str| {
            handed_down
                .split_whitespace()
                .any(|name| name == controller)
        };
        if !has("memory") && !has("pids") {
            return Err(io::Error::other("no controllers"));
        }
        sweep(parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path)?;
        let group = Self {
            path,
            own: own.to_owned(),
        };
        if has("memory") {
            fs::write(
                group.path.join("memory.max"),
                bounds.memory_bytes.to_string(),
            )?;
            // Not every kernel has it.
            let _ = fs::write(group.path.join("memory.swap.max"), "0");
        }
        if has("pids") {
            let threads = bounds.processes.saturating_mul(THREADS_PER_PROCESS);
            fs::write(group.path.join("pids.max"), threads.to_string())?;
        }
        Ok(group)
    }

    /// Runs `start` inside: what it starts stays there, this process comes back. Where the kernel
    /// refuses the move, the watcher is left.
    pub fn start_inside<T>(&self, start: impl FnOnce() -> T) -> T {
        let is_inside = enter(&self.path).is_ok();
        let started = start();
        if is_inside {
            let _ = enter(&self.own);
        }
        started
    }

    /// Which limit the kernel had to enforce, in words for the model.
    pub fn passed(&self, bounds: &Bounds) -> Option<String> {
        let happened = |file: &str, name: &str| {
            let events = fs::read_to_string(self.path.join(file)).unwrap_or_default();
            let count = events
                .lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
            count.is_some_and(|count| count > 0)
        };
        if happened("memory.events", "oom_kill ") {
            return Some(bounds.memory_passed());
        }
        happened("pids.events", "max ").then(|| {
            let threads = bounds.processes.saturating_mul(THREADS_PER_PROCESS);
            format!("the command had more than {threads} processes and threads together (sandbox.processes)")
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            thread::sleep(REMOVAL_PAUSE);
        }
    }
}

/// Removes the groups of supervisors that were ended before they could. The kernel keeps those in
/// which something runs.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

fn own_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    // The fields before the dash vary in number; the fifth is the place, the first after the dash
    // the kind.
    let mount = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ")
            .then(|| place.split(' ').nth(4).map(PathBuf::from))
            .flatten()
    })?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(if group.is_empty() {
        mount
    } else {
        mount.join(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plain folder in place of the kernel's: what is written, and what is understood of its
    /// counts.
    #[test]
    fn a_group_gets_its_limits_and_tells_which_was_passed() {
        let parent = tempfile::tempdir().unwrap();
        let bounds = Bounds {
            memory_bytes: 5000,
            processes: 7,
            ..Bounds::default()
        };
        fs::write(
            parent.path().join("cgroup.subtree_control"),
            "cpu memory pids\n",
        )
        .unwrap();
        // Numbers of processes end far below this one.
        let left = parent.path().join(format!("{PREFIX}4294967295"));
        fs::create_dir(&left).unwrap();
        let group = Group::beneath(parent.path(), parent.path(), &bounds).unwrap();
        assert!(!left.exists(), "a group that nobody owns is still there");
        let read = |name: &str| fs::read_to_string(group.path.join(name)).unwrap();
        assert_eq!(
            (read("memory.max"), read("pids.max")),
            ("5000".to_owned(), "28".to_owned())
        );
        assert_eq!(group.start_inside(|| read("cgroup.procs")), "0");
        assert_eq!(group.passed(&bounds), None);
        fs::write(
            group.path.join("memory.events"),
            "low 0\noom 3\noom_kill 0\n",
        )
        .unwrap();
        fs::write(group.path.join("pids.events"), "max 2\n").unwrap();
        assert!(
            group
                .passed(&bounds)
                .is_some_and(|text| text.contains("28 processes and threads"))
        );
        fs::write(group.path.join("memory.events"), "oom_kill 1\n").unwrap();
        assert_eq!(group.passed(&bounds), Some(bounds.memory_passed()));

        fs::write(parent.path().join("cgroup.subtree_control"), "cpu\n").unwrap();
        assert!(Group::beneath(parent.path(), parent.path(), &bounds).is_err());
    }
}
