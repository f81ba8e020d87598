//! The program, the system it runs on, and how many files it may open.

use rustix::process::{Resource, getrlimit};

use super::report::DoctorFinding;
use crate::commands::serve::{FEW_OPEN_FILES, MAX_OPEN_FILES};

/// Below this a server has no room for its own files and some connections.
const TOO_FEW_OPEN_FILES: u64 = 256;

pub fn version() -> DoctorFinding {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let system = format!("{system} {}", release.trim());
    DoctorFinding::ok(
        "version",
        format!(
            "CodeLab {} on {} ({machine}).",
            env!("CARGO_PKG_VERSION"),
            system.trim_end()
        ),
    )
}

/// A server raises its limit as far as the system lets it.
pub fn open_files() -> DoctorFinding {
    let limit = getrlimit(Resource::Nofile)
        .maximum
        .unwrap_or(MAX_OPEN_FILES);
    let found = format!("A server may open {limit} files at once.");
    let why = "Every connection is one.";
    let advice = "Raise the hard limit: `LimitNOFILE=65536` in a systemd unit, `--ulimit nofile=65536` for a container, \
                  or `ulimit -Hn 65536` as root.";
    match limit {
        0..TOO_FEW_OPEN_FILES => DoctorFinding::problem(
            "open files",
            format!("{found} {why} That is too few."),
            advice,
        ),
        TOO_FEW_OPEN_FILES..FEW_OPEN_FILES => DoctorFinding::warning(
            "open files",
            format!("{found} {why} That is few for a server."),
            advice,
        ),
        _ => DoctorFinding::ok("open files", found),
    }
}
