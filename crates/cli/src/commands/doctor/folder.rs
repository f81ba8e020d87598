//! The data folder: whether it is the user's own, whether it can be written, and how much room its
//! disk has.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use codelab_server::Source;
use rustix::fs::{Access, Mode, OFlags};
use rustix::process::geteuid;

use super::name_of;
use super::report::DoctorFinding;

const FOLDER: &str = "data folder";
const DISK: &str = "disk";

/// What group and others may do.
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;
/// What a trial writes; a full disk refuses it.
const TRIAL_BYTES: usize = 64 * 1024;
/// Entries of the folder whose owners are looked at.
const MAX_ENTRIES: usize = 1000;

const MIB: u64 = 1024 * 1024;
/// Agents' memories are not written below this, and little else fits.
const FULL_BYTES: u64 = 128 * MIB;
const SCARCE_BYTES: u64 = 1024 * MIB;

/// Blocks on the disk.
pub fn check(folder: &Path, source: &Source) -> Vec<DoctorFinding> {
    let from = if *source == Source::Default {
        String::new()
    } else {
        format!(" ({})", name_of(source))
    };
    let shown = format!("{}{from}", folder.display());
    let (finding, location) = match fs::metadata(folder) {
        Ok(found) if found.is_dir() => (existing(folder, &shown, &found), Some(folder.to_owned())),
        Ok(_) => (
            DoctorFinding::problem(FOLDER, format!("{shown} is not a folder."), ANOTHER),
            None,
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => to_be_made(folder, &shown),
        Err(error) => (unusable(&shown, &error), None),
    };
    let disk = location.map(|location| disk(&location));
    [Some(finding), disk].into_iter().flatten().collect()
}

const ANOTHER: &str =
    "Name another folder with --data-dir or CODELAB_DATA_DIR, or correct this one.";

fn unusable(shown: &str, error: &io::Error) -> DoctorFinding {
    DoctorFinding::problem(
        FOLDER,
        format!("{shown} cannot be used: {}.", reason(error)),
        ANOTHER,
    )
}

fn existing(folder: &Path, shown: &str, found: &Metadata) -> DoctorFinding {
    if found.mode() & STICKY != 0 {
        let said = format!("{shown} is shared by all users of this machine.");
        return DoctorFinding::problem(
            FOLDER,
            said,
            "Name a folder of its own with --data-dir or CODELAB_DATA_DIR.",
        );
    }
    match try_to_write(folder) {
        Ok(()) => {}
        // The disk has a line of its own.
        Err(error) if is_full(&error) => {}
        Err(error) => {
            let advice = format!(
                "Make it yours: `chown -R \"$USER\" {}`, or name another with --data-dir.",
                folder.display()
            );
            return DoctorFinding::problem(
                FOLDER,
                format!("{shown} cannot be written: {}.", reason(&error)),
                advice,
            );
        }
    }
    if let Some((path, owner)) = foreign(folder, found) {
        return not_yours(shown, &path, owner);
    }
    if found.mode() & OTHERS != 0 {
        return DoctorFinding::warning(
            FOLDER,
            format!(
                "{shown} can be read by other users (mode {:03o}).",
                found.mode() & 0o777
            ),
            format!(
                "Type `chmod -R go= {}`; the next start does it as well.",
                folder.display()
            ),
        );
    }
    DoctorFinding::ok(
        FOLDER,
        format!("{shown} is yours alone and can be written."),
    )
}

/// What belongs to somebody else: the folder, or something in it.
fn foreign(folder: &Path, found: &Metadata) -> Option<(PathBuf, u32)> {
    let own = geteuid().as_raw();
    let is_foreign = |found: &Metadata| found.uid() != own;
    if is_foreign(found) {
        return Some((folder.to_owned(), found.uid()));
    }
    let entries = fs::read_dir(folder).ok()?.flatten().take(MAX_ENTRIES);
    let mut found = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    found
        .find(|(_, found)| is_foreign(found))
        .map(|(path, found)| (path, found.uid()))
}

fn not_yours(shown: &str, path: &Path, owner: u32) -> DoctorFinding {
    let said = format!(
        "{shown}: {} belongs to the user with number {owner}.",
        path.display()
    );
    match geteuid().is_root() {
        // Root can write, and then the owner's server cannot.
        true => DoctorFinding::warning(
            FOLDER,
            format!("{said} You are root, and what you make there its owner cannot use."),
            format!(
                "Run CodeLab as that user: `setpriv --reuid={owner} --clear-groups codelab …`, or `sudo -u '#{owner}'`."
            ),
        ),
        false => DoctorFinding::problem(
            FOLDER,
            format!("{said} A server that you start cannot use it."),
            format!("Type `sudo chown -R \"$USER\" {}`.", path.display()),
        ),
    }
}

/// The first start makes it, if it may.
fn to_be_made(folder: &Path, shown: &str) -> (DoctorFinding, Option<PathBuf>) {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let Some(above) = absolute.ancestors().skip(1).find(|path| path.exists()) else {
        let said = format!("{shown} does not exist, and neither does any folder above it.");
        return (DoctorFinding::problem(FOLDER, said, ANOTHER), None);
    };
    let finding = match try_to_write(above) {
        Ok(()) => DoctorFinding::ok(
            FOLDER,
            format!("{shown} does not exist yet; the first start makes it."),
        ),
        Err(error) if is_full(&error) => {
            DoctorFinding::ok(FOLDER, format!("{shown} does not exist yet."))
        }
        Err(error) => {
            let said = format!(
                "{shown} does not exist, and {} cannot be written: {}.",
                above.display(),
                reason(&error)
            );
            DoctorFinding::problem(FOLDER, said, ANOTHER)
        }
    };
    (finding, Some(above.to_owned()))
}

/// Writes a file without a name, which nobody sees and which is gone at once. Where the file system
/// has no such files, the permissions must do.
fn try_to_write(folder: &Path) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => {
            let mut file = fs::File::from(file);
            file.write_all(&vec![0; TRIAL_BYTES])?;
            file.sync_data()
        }
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
            Ok(rustix::fs::access(
                folder,
                Access::WRITE_OK | Access::EXEC_OK,
            )?)
        }
        Err(error) => Err(error.into()),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

fn disk(location: &Path) -> DoctorFinding {
    let disk = match rustix::fs::statvfs(location) {
        Ok(disk) => disk,
        Err(error) => {
            let said = format!(
                "The disk of {} cannot be looked at: {}.",
                location.display(),
                reason(&error.into())
            );
            return DoctorFinding::warning(DISK, said, "Check that it is mounted.");
        }
    };
    // Some blocks are kept for root.
    let blocks = if geteuid().is_root() {
        disk.f_bfree
    } else {
        disk.f_bavail
    };
    let free = blocks.saturating_mul(disk.f_frsize);
    let trial = try_to_write(location);
    if disk.f_files > 0 && disk.f_favail == 0 && !geteuid().is_root() {
        let said = format!(
            "The disk of {} has no room for another file (no free inodes).",
            location.display()
        );
        return DoctorFinding::problem(DISK, said, "Delete files there: many small ones count.");
    }
    judge(location, free, trial.as_ref().is_err_and(is_full))
}

fn judge(location: &Path, free: u64, is_refused: bool) -> DoctorFinding {
    let left = format!("{} free on the disk of {}", size(free), location.display());
    let advice = "Make room there, or move the data folder to a larger disk.";
    match free {
        _ if is_refused => {
            DoctorFinding::problem(DISK, format!("The disk is full: {left}."), advice)
        }
        0..FULL_BYTES => {
            DoctorFinding::problem(DISK, format!("The disk is nearly full: {left}."), advice)
        }
        FULL_BYTES..SCARCE_BYTES => {
            DoctorFinding::warning(DISK, format!("The disk has little room: {left}."), advice)
        }
        _ => DoctorFinding::ok(DISK, format!("{left}.")),
    }
}

fn size(bytes: u64) -> String {
    match bytes / MIB {
        mib @ 0..10_240 => format!("{mib} MiB"),
        mib => format!("{} GiB", mib / 1024),
    }
}

fn reason(error: &io::Error) -> String {
    error.to_string().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

    #[test]
    fn a_full_disk_is_a_problem_and_a_scarce_one_a_warning() {
        let judged = |free, is_refused| judge(Path::new("/data"), free, is_refused).status;
        assert_eq!(judged(100 * 1024 * MIB, false), Status::Ok);
        assert_eq!(judged(SCARCE_BYTES - 1, false), Status::Warning);
        assert_eq!(judged(FULL_BYTES - 1, false), Status::Problem);
        assert_eq!(
            judged(100 * 1024 * MIB, true),
            Status::Problem,
            "a quota counts as well"
        );
    }

    #[test]
    fn a_trial_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        try_to_write(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
