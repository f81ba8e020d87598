//! The wall as arguments of bubblewrap: another view of the file system, without network, other processes, capabilities
//! or further namespaces.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Boundary;
use crate::options::Network;

const TEMPORARY_MAX_BYTES: &str = "1073741824";

/// Shared by all programs of a machine: here are the sockets of its services (Docker, D-Bus, agents), which a read-only
/// view would still let a command talk to.
const REPLACED: [&str; 3] = ["/tmp", "/var/tmp", "/run"];

/// Of what is replaced, what programs cannot do without.
const KEPT: [&str; 2] = ["/run/current-system", "/run/opengl-driver"];
const KEPT_FOR_NETWORK: [&str; 3] =
    ["/run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf", "/run/NetworkManager/resolv.conf"];

/// Later arguments cover earlier ones, so the order is: everything, what is replaced, what may be written, what in it may
/// not, what is hidden.
pub(super) fn arguments(boundary: &Boundary, folder: &Path, is_recent: bool) -> io::Result<Vec<OsString>> {
    let mut arguments = Arguments(Vec::new());
    arguments.add(&["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]);
    arguments.add(&["--die-with-parent", "--cap-drop", "ALL"]);
    if is_recent {
        arguments.add(&["--disable-userns"]);
    }
    if boundary.network == Network::Off {
        arguments.add(&["--unshare-net"]);
    }
    arguments.add(&["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    for replaced in REPLACED {
        if fs::symlink_metadata(replaced).is_ok_and(|metadata| metadata.is_dir()) {
            if is_recent {
                arguments.add(&["--size", TEMPORARY_MAX_BYTES]);
            }
            arguments.add(&["--perms", "1777", "--tmpfs", replaced]);
        }
    }
    let for_network = KEPT_FOR_NETWORK.iter().filter(|_| boundary.network == Network::On);
    for kept in KEPT.iter().chain(for_network) {
        arguments.add(&["--ro-bind-try", kept, kept]);
    }
    for path in boundary.writable.iter().chain(&boundary.pinned) {
        arguments.bind("--bind", path, path);
    }
    for path in &boundary.read_only {
        arguments.bind("--ro-bind", path, path);
    }
    for path in visible(boundary) {
        arguments.hide(&path)?;
    }
    arguments.bind("--chdir", folder, Path::new(""));
    Ok(arguments.0)
}

/// What is hidden, exists, and is not out of sight already because it lies in what is replaced.
fn visible(boundary: &Boundary) -> Vec<PathBuf> {
    let is_gone = |path: &Path| {
        REPLACED.iter().any(|replaced| path.starts_with(replaced))
            && !boundary.writable.iter().any(|writable| path.starts_with(writable))
    };
    let mut paths: Vec<PathBuf> = boundary.hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
    paths.retain(|path| !is_gone(path));
    paths.sort_unstable();
    paths.dedup();
    // Beneath an empty folder there is nothing to hide, and nothing to mount upon.
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.iter().any(|above| path.starts_with(above)) {
            kept.push(path);
        }
    }
    kept
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn add(&mut self, arguments: &[&str]) {
        self.0.extend(arguments.iter().map(OsString::from));
    }

    fn bind(&mut self, option: &str, from: &Path, to: &Path) {
        self.0.push(option.into());
        self.0.push(from.into());
        if !to.as_os_str().is_empty() {
            self.0.push(to.into());
        }
    }

    fn hide(&mut self, path: &Path) -> io::Result<()> {
        if fs::metadata(path)?.is_dir() {
            self.add(&["--perms", "0000", "--tmpfs"]);
            self.0.push(path.into());
            self.0.push("--remount-ro".into());
            self.0.push(path.into());
        } else {
            self.bind("--ro-bind", Path::new("/dev/null"), path);
        }
        Ok(())
    }
}
