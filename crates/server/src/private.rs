//! The data folder is its owner's alone: folders are 0700 and files 0600, whatever the umask and
//! wherever the secrets come from. What an earlier version, or a person, made wider is narrowed at
//! the start.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// What group and others may do.
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;
/// Folders within folders; nothing of ours lies deeper.
const MAX_DEPTH: usize = 64;

/// Makes the data folder, or narrows the one that is there with everything beneath it. Blocks on
/// the disk.
pub fn private_data_folder(folder: &Path) -> io::Result<()> {
    let found = match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return make_folder(folder),
        found => found?,
    };
    let mode = found.permissions().mode();
    // A sticky folder such as /tmp is shared by all users of the machine: narrowing it would lock
    // the others out.
    if mode & STICKY != 0 {
        return Err(io::Error::other(
            "is shared by all users of this machine; name a folder of its own",
        ));
    }
    let mut narrowed = Narrowed::default();
    if mode & OTHERS != 0 {
        narrowed.note(fs::set_permissions(
            folder,
            Permissions::from_mode(mode & FOLDER_MODE),
        ));
    }
    let open = rustix::fs::open(
        folder,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    narrowed.beneath(&open, MAX_DEPTH);
    narrowed.tell(folder);
    Ok(())
}

/// A file for its owner only, replaced as a whole.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    file.write_all(text.as_bytes())
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(folder)?;
    // The umask may have removed permissions of the owner as well.
    fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE))
}

/// What was found open to others.
#[derive(Default)]
struct Narrowed {
    done: u64,
    refused: u64,
    error: Option<io::Error>,
}

impl Narrowed {
    fn note(&mut self, changed: io::Result<()>) {
        match changed {
            Ok(()) => self.done += 1,
            Err(error) => {
                self.refused += 1;
                self.error.get_or_insert(error);
            }
        }
    }

    /// Works on open handles and follows no links, because somebody who could write here before may
    /// still do so now.
    fn beneath(&mut self, folder: &OwnedFd, depth: usize) {
        let Ok(entries) = Dir::read_from(folder) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // What is gone by now needs nothing.
            let Ok(found) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let kind = FileType::from_raw_mode(found.st_mode);
            let is_wide = found.st_mode & OTHERS != 0;
            if !matches!(kind, FileType::Directory | FileType::RegularFile)
                || (kind.is_file() && !is_wide)
            {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            match rustix::fs::openat(folder, name, flags, Mode::empty()) {
                Ok(open) => {
                    if is_wide {
                        self.note(narrow(&open));
                    }
                    if kind.is_dir() && depth > 0 {
                        self.beneath(&open, depth - 1);
                    }
                }
                Err(error) if is_wide => self.note(Err(error.into())),
                Err(_) => {}
            }
        }
    }

    fn tell(&self, folder: &Path) {
        let folder = folder.display();
        if self.done > 0 {
            let narrowed = self.done;
            tracing::warn!(%folder, narrowed, "other users could read the data folder, now only its owner can");
        }
        if let Some(error) = &self.error {
            let left = self.refused;
            tracing::warn!(%folder, left, %error, "other users can read parts of the data folder, and changing its permissions failed");
        }
    }
}

/// Takes from the open file or folder whatever others may do with it.
fn narrow(open: &impl AsFd) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(open)?.st_mode);
    Ok(rustix::fs::fchmod(
        open,
        mode & Mode::from_raw_mode(FOLDER_MODE),
    )?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn everything_beneath_is_narrowed_and_nothing_outside() {
        let home = tempfile::tempdir().unwrap();
        let (data, outside) = (home.path().join("data"), home.path().join("outside"));
        let deep = data.join("memory/collection/segments");
        fs::create_dir_all(&deep).unwrap();
        for file in [
            data.join("codelab.db"),
            deep.join("vectors.dat"),
            outside.clone(),
        ] {
            fs::write(&file, "x").unwrap();
            set(&file, 0o644);
        }
        symlink(&outside, data.join("link")).unwrap();
        for folder in [&data, &data.join("memory"), &deep] {
            set(folder, 0o755);
        }
        set(&data.join("memory/collection"), 0o700);
        private_data_folder(&data).unwrap();
        for folder in [
            &data,
            &data.join("memory"),
            &data.join("memory/collection"),
            &deep,
        ] {
            assert_eq!(mode(folder), 0o700, "{}", folder.display());
        }
        for file in [data.join("codelab.db"), deep.join("vectors.dat")] {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
        assert_eq!(mode(&outside), 0o644, "a link is not followed");
    }

    #[test]
    fn a_folder_that_all_share_is_refused() {
        let home = tempfile::tempdir().unwrap();
        set(home.path(), 0o1777);
        let refused = private_data_folder(home.path()).unwrap_err().to_string();
        assert!(refused.contains("shared by all users"), "{refused}");
        assert_eq!(mode(home.path()), 0o1777);
    }
}
