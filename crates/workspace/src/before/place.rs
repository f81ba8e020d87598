//! The workspace's own files, as a rewind looks at them and changes them. Every path is opened one
//! component at a time beneath the root, and links are never followed.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, File, MetadataExt, OpenOptions, Permissions};
use sha2::{Digest as _, Sha256};

use super::keep::permissions;
use super::record::{Content, PathState};
use crate::root::{Root, open_file};
use crate::swap::{self, Swapped, name_new};
use crate::tools::{keep_owner, sync_folder};

const BUFFER_BYTES: usize = 64 * 1024;

/// Whether folders that are missing on the way are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Create,
    Leave,
}

/// Names beside a file that one step uses, and after a crash uses again.
pub(crate) struct TemporaryNames {
    /// What is being written. Whatever is there is unfinished.
    pub draft: OsString,
    /// A whole file: the new one before it has its name, or what was there before.
    pub aside: OsString,
}

/// Touches nothing but files of the workspace.
pub(crate) struct FileHand<'a> {
    root: &'a Root,
}

impl<'a> FileHand<'a> {
    pub fn new(root: &'a Root) -> Self {
        Self { root }
    }

    /// What is there now.
    pub fn look(&self, real: &Path) -> io::Result<PathState> {
        let Some((folder, name)) = self.parent(real, Missing::Leave)? else {
            return Ok(PathState::Absent);
        };
        state(&folder, &name)
    }

    /// A regular file, for reading.
    pub fn open(&self, real: &Path) -> io::Result<File> {
        match self.parent(real, Missing::Leave)? {
            Some((folder, name)) => opened(&folder, &name),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Ends what an earlier process began and did not end: what it exchanged or took aside is
    /// removed if it is one of `known`, and else it is somebody's and gets its place again.
    pub fn settle(
        &self,
        real: &Path,
        names: &TemporaryNames,
        known: &[&PathState],
    ) -> io::Result<Swapped> {
        let Some((folder, name)) = self.parent(real, Missing::Leave)? else {
            return Ok(Swapped::Done);
        };
        let found = state(&folder, &names.aside)?;
        if found == PathState::Absent {
            return Ok(Swapped::Done);
        }
        if known.iter().any(|known| found.content() == known.content()) {
            swap::remove(&folder, &names.aside);
            return Ok(Swapped::Done);
        }
        Ok(swap::put_back(&folder, &names.aside, &name))
    }

    /// Gives the path this content in one step, if `present` is still there.
    pub fn write(
        &self,
        real: &Path,
        present: &PathState,
        (bytes, mode): (&[u8], Option<u32>),
        names: &TemporaryNames,
    ) -> io::Result<Swapped> {
        let Some((folder, name)) = self.parent(real, Missing::Create)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut file = draft(&folder, &names.draft)?;
        let written = file.write_all(bytes).and_then(|()| {
            match present {
                PathState::File { .. } => {
                    keep_owner(&file, &folder.symlink_metadata(&name)?)?;
                }
                PathState::Absent | PathState::Folder { .. } | PathState::Other => {}
            }
            if let Some(mode) = mode {
                file.set_permissions(mode_of(mode))?;
            }
            file.sync_all()?;
            if *present == PathState::Absent {
                return match name_new(&folder, &names.draft, &name) {
                    Ok(()) => Ok(Swapped::Done),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        swap::remove(&folder, &names.draft);
                        Ok(Swapped::Refused)
                    }
                    Err(error) => Err(error),
                };
            }
            folder.rename(&names.draft, &folder, &names.aside)?;
            let hash = hex::encode(Sha256::digest(bytes));
            let is_new =
                |found: &PathState| found.content().is_some_and(|found| found.hash == hash);
            let look = |name: &OsStr| state(&folder, name).unwrap_or(PathState::Other);
            let swapped = swap::replace(
                &folder,
                &name,
                &names.aside,
                |name| look(name).is(present),
                |name| is_new(&look(name)),
            );
            if swapped.is_err() {
                swap::remove(&folder, &names.aside);
            }
            swapped
        });
        if written.is_err() {
            swap::remove(&folder, &names.draft);
        }
        let written = written?;
        sync_folder(&folder)?;
        Ok(written)
    }

    /// Takes the file away, if `present` is still there.
    pub fn remove(
        &self,
        real: &Path,
        present: &PathState,
        names: &TemporaryNames,
    ) -> io::Result<Swapped> {
        let Some((folder, name)) = self.parent(real, Missing::Leave)? else {
            return Ok(Swapped::Done);
        };
        let is_old = |name: &OsStr| state(&folder, name).is_ok_and(|found| found.is(present));
        let taken = swap::take_away(&folder, &name, &names.aside, is_old)?;
        sync_folder(&folder)?;
        Ok(taken)
    }

    /// Whether the folder was empty, and is gone.
    pub fn remove_folder(&self, real: &Path) -> io::Result<bool> {
        let Some((folder, name)) = self.parent(real, Missing::Leave)? else {
            return Ok(true);
        };
        match folder.remove_dir(&name) {
            Ok(()) => sync_folder(&folder).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn make_folder(&self, real: &Path, mode: Option<u32>) -> io::Result<()> {
        let Some((folder, name)) = self.parent(real, Missing::Create)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        folder.create_dir(&name)?;
        if let Some(mode) = mode {
            folder.set_permissions(&name, mode_of(mode))?;
        }
        sync_folder(&folder)
    }

    /// The folder of a path, and its name there. `None` if the folder does not exist.
    fn parent(&self, real: &Path, missing: Missing) -> io::Result<Option<(Dir, OsString)>> {
        let denied = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, why);
        if self.root.is_private(real) {
            return Err(denied("it belongs to CodeLab or holds credentials"));
        }
        let names: Option<Vec<&OsStr>> = real
            .components()
            .map(|component| match component {
                Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        let names = names.ok_or_else(|| denied("it is outside the workspace"))?;
        let Some((name, parents)) = names.split_last() else {
            return Err(denied("it is the workspace itself"));
        };
        let mut folder = self.root.dir().try_clone()?;
        for parent in parents {
            folder = match folder.open_dir_nofollow(parent) {
                Ok(next) => next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if missing == Missing::Leave {
                        return Ok(None);
                    }
                    folder.create_dir(parent)?;
                    sync_folder(&folder)?;
                    folder.open_dir_nofollow(parent)?
                }
                Err(error) => return Err(error),
            };
        }
        Ok(Some((folder, (*name).to_owned())))
    }
}

/// What a name leads to. A link is not followed.
fn state(folder: &Dir, name: &OsStr) -> io::Result<PathState> {
    let metadata = match folder.symlink_metadata(name) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PathState::Absent),
        Err(error) => return Err(error),
    };
    let mode = Some(permissions(metadata.mode()));
    if metadata.is_dir() {
        return Ok(PathState::Folder { mode });
    }
    if !metadata.is_file() {
        return Ok(PathState::Other);
    }
    let mut file = opened(folder, name)?;
    let mut digest = Sha256::new();
    let (mut size, mut buffer) = (0, vec![0; BUFFER_BYTES]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        size += read as u64;
        digest.update(&buffer[..read]);
    }
    let hash = hex::encode(digest.finalize());
    Ok(PathState::File {
        content: Content { hash, size },
        mode,
    })
}

fn opened(folder: &Dir, name: &OsStr) -> io::Result<File> {
    open_file(folder, name.as_ref(), &name.to_string_lossy()).map_err(io::Error::other)
}

fn draft(folder: &Dir, name: &OsStr) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .follow(FollowSymlinks::No);
    match folder.open_with(name, &options) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            folder.remove_file(name)?;
            folder.open_with(name, &options)
        }
        opened => opened,
    }
}

fn mode_of(mode: u32) -> Permissions {
    Permissions::from_std(std::fs::Permissions::from_mode(mode))
}
