//! The wall as arguments of bubblewrap: a file system that holds only what is named, without
//! network, other processes, capabilities or further namespaces.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Boundary, view};
use crate::options::Network;

/// Folders in memory: their content ends with the command, and their sizes add up to what a command
/// can hide from the limit on memory.
const TEMPORARY: [(&str, &str); 4] = [
    ("/tmp", "1073741824"),
    ("/var/tmp", "268435456"),
    ("/run", "16777216"),
    ("/dev/shm", "268435456"),
];
const HOME_MAX_BYTES: &str = "536870912";

/// Of what is replaced, what programs cannot do without.
const KEPT: [&str; 2] = ["/run/current-system", "/run/opengl-driver"];
const KEPT_FOR_NETWORK: [&str; 3] = [
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/NetworkManager/resolv.conf",
];

/// Settings and switches of the kernel. Their owner is root, so root could write them even without
/// capabilities.
const KERNEL_READ_ONLY: [&str; 5] = [
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
];
/// What tells about the kernel's memory, keys and hardware.
const KERNEL_HIDDEN: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
];

/// Where the view has this very program, which becomes the command.
pub(super) const ENTRANCE: &str = "/run/codelab/sandbox-exec";

/// Folders that belong to the command alone.
pub(super) fn own_folders(boundary: &Boundary) -> Vec<PathBuf> {
    let temporary = TEMPORARY.iter().map(|(path, _)| PathBuf::from(path));
    temporary
        .chain([PathBuf::from("/dev")])
        .chain(boundary.home.clone())
        .collect()
}

/// Later arguments cover earlier ones, so the order is: the system, what is empty, what may be
/// read, what may be written, what in it may not, what is hidden.
pub(super) fn arguments(
    boundary: &Boundary,
    folder: &Path,
    program: &Path,
    is_recent: bool,
) -> io::Result<Vec<OsString>> {
    let mut arguments = Arguments {
        list: Vec::new(),
        is_recent,
    };
    arguments.add(&[
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]);
    arguments.add(&["--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    if is_recent {
        arguments.add(&["--disable-userns"]);
    }
    if boundary.network == Network::Off {
        arguments.add(&["--unshare-net"]);
    }
    // Of the rest of the home folder, not even names are seen.
    let is_at_home = |path: &&PathBuf| {
        boundary
            .home
            .as_ref()
            .is_some_and(|home| path.starts_with(home))
    };
    let is_temporary =
        |path: &&PathBuf| TEMPORARY.iter().any(|(folder, _)| path.starts_with(folder));
    let (at_home, elsewhere): (Vec<_>, Vec<_>) = boundary.readable.iter().partition(is_at_home);
    let (temporary, system): (Vec<_>, Vec<_>) = elsewhere.into_iter().partition(is_temporary);
    for path in system {
        arguments.show(path)?;
    }
    arguments.add(&["--dev", "/dev", "--proc", "/proc"]);
    arguments.guard_kernel();
    for (path, max_bytes) in TEMPORARY {
        arguments.empty(Path::new(path), "1777", max_bytes);
    }
    let for_network = KEPT_FOR_NETWORK
        .iter()
        .filter(|_| boundary.network == Network::On);
    for kept in KEPT.iter().chain(for_network) {
        arguments.add(&["--ro-bind-try", kept, kept]);
    }
    // The home folder is emptied after this, because it may be in one of them.
    for path in temporary {
        arguments.show(path)?;
    }
    if let Some(home) = &boundary.home {
        arguments.empty(home, "0700", HOME_MAX_BYTES);
    }
    // Whatever else is in there is not to be seen, and the file system behind it is not to be
    // filled.
    arguments.add(&["--remount-ro", "/dev"]);
    for path in at_home {
        arguments.show(path)?;
    }
    for path in boundary.writable.iter().chain(&boundary.pinned) {
        arguments.bind("--bind", path, path);
    }
    for path in &boundary.read_only {
        arguments.bind("--ro-bind", path, path);
    }
    for path in &boundary.covered {
        arguments.empty(path, "0555", "4096");
        arguments.bind("--remount-ro", path, Path::new(""));
    }
    for path in visible(boundary) {
        arguments.hide(&path)?;
    }
    arguments.bind("--ro-bind", program, Path::new(ENTRANCE));
    arguments.add(&["--remount-ro", "/"]);
    arguments.bind("--chdir", folder, Path::new(""));
    Ok(arguments.list)
}

/// What is hidden, exists, and would otherwise be seen.
fn visible(boundary: &Boundary) -> Vec<PathBuf> {
    let shown: Vec<&PathBuf> = boundary.readable.iter().chain(&boundary.writable).collect();
    let mut paths: Vec<PathBuf> = boundary
        .hidden
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    paths.retain(|path| shown.iter().any(|shown| path.starts_with(shown)));
    // Beneath an empty folder there is nothing to hide, and nothing to mount upon.
    view::outermost(paths)
}

struct Arguments {
    list: Vec<OsString>,
    is_recent: bool,
}

impl Arguments {
    fn add(&mut self, arguments: &[&str]) {
        self.list.extend(arguments.iter().map(OsString::from));
    }

    fn bind(&mut self, option: &str, from: &Path, to: &Path) {
        self.list.push(option.into());
        self.list.push(from.into());
        if !to.as_os_str().is_empty() {
            self.list.push(to.into());
        }
    }

    /// A link of the system, such as `/bin`, stays a link.
    fn show(&mut self, path: &Path) -> io::Result<()> {
        if fs::symlink_metadata(path)?.is_symlink() {
            self.bind("--symlink", &fs::read_link(path)?, path);
        } else {
            self.bind("--ro-bind", path, path);
        }
        Ok(())
    }

    fn empty(&mut self, path: &Path, mode: &str, max_bytes: &str) {
        if self.is_recent {
            self.add(&["--size", max_bytes]);
        }
        self.add(&["--perms", mode, "--tmpfs"]);
        self.list.push(path.into());
    }

    fn guard_kernel(&mut self) {
        for path in KERNEL_READ_ONLY {
            self.add(&["--ro-bind-try", path, path]);
        }
        for path in KERNEL_HIDDEN {
            match fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => self.empty(Path::new(path), "0000", "4096"),
                Ok(_) => self.add(&["--ro-bind", "/dev/null", path]),
                Err(_) => {}
            }
        }
    }

    fn hide(&mut self, path: &Path) -> io::Result<()> {
        if fs::metadata(path)?.is_dir() {
            self.empty(path, "0000", "4096");
            self.bind("--remount-ro", path, Path::new(""));
        } else {
            self.bind("--ro-bind", Path::new("/dev/null"), path);
        }
        Ok(())
    }
}
