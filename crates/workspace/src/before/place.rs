//! The workspace's own files, as a rewind looks at them and changes them. Every path is opened one
//! component at a time beneath the root, and links are never followed.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, File, MetadataExt, Permissions};
use sha2::{Digest as _, Sha256};

use super::keep::permissions;
use super::record::{Content, PathState};
use super::swap::RewindSwap;
use crate::failpoint::ClientFailpoint;
use crate::root::{Root, open_file};
use crate::swap::Swapped;
use crate::tools::{keep_owner, sync_folder};

const BUFFER_BYTES: usize = 64 * 1024;

/// Whether folders that are missing on the way are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Create,
    Leave,
}

/// Touches nothing but files of the workspace.
pub(crate) struct WorkspaceFiles<'a> {
    root: &'a Root,
}

impl<'a> WorkspaceFiles<'a> {
    pub fn new(root: &'a Root) -> Self {
        Self { root }
    }

    /// What is there now.
    pub fn look(&self, real: &Path) -> io::Result<PathState> {
        match self.parent(real, Missing::Leave)? {
            Some((folder, name)) => state_in(&folder, &name),
            None => Ok(PathState::Absent),
        }
    }

    /// A regular file, for reading.
    pub fn open(&self, real: &Path) -> io::Result<File> {
        match self.parent(real, Missing::Leave)? {
            Some((folder, name)) => opened(&folder, &name),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Gives the path this content in one step, if it is still what was seen there.
    pub fn write(
        &self,
        real: &Path,
        present: &PathState,
        (bytes, mode): (&[u8], Option<u32>),
        aside: Aside<'_>,
    ) -> io::Result<Swapped> {
        let Some((folder, name)) = self.parent(real, Missing::Create)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let swap = aside.swap(&folder, &name);
        let finish = |file: &File| {
            if let PathState::File { .. } = present {
                keep_owner(file, &folder.symlink_metadata(&name)?)?;
            }
            mode.map_or(Ok(()), |mode| file.set_permissions(mode_of(mode)))
        };
        swap.place(swap.draft()?, bytes, finish, present)
    }

    /// Removes the file, if it is still what was seen there.
    pub fn remove(
        &self,
        real: &Path,
        present: &PathState,
        aside: Aside<'_>,
    ) -> io::Result<Swapped> {
        match self.parent(real, Missing::Leave)? {
            Some((folder, name)) => aside.swap(&folder, &name).remove(present),
            None => Ok(Swapped::Done),
        }
    }

    /// Removes what a process that was killed left beside the path.
    pub fn tidy_up(
        &self,
        real: &Path,
        (found, target): (&PathState, &PathState),
        aside: Aside<'_>,
    ) -> io::Result<Swapped> {
        match self.parent(real, Missing::Leave)? {
            Some((folder, name)) => aside.swap(&folder, &name).tidy_up(found, target),
            None => Ok(Swapped::Done),
        }
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

/// The name that a file has beside its path while it is being replaced.
#[derive(Clone, Copy)]
pub(crate) struct Aside<'a> {
    pub name: &'a str,
    pub failpoint: &'a ClientFailpoint,
}

impl<'a> Aside<'a> {
    fn swap(self, folder: &'a Dir, name: &'a OsStr) -> RewindSwap<'a> {
        RewindSwap {
            folder,
            name,
            aside: OsStr::new(self.name),
            failpoint: self.failpoint,
        }
    }
}

/// What has this name in the folder.
pub(super) fn state_in(folder: &Dir, name: &OsStr) -> io::Result<PathState> {
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

fn mode_of(mode: u32) -> Permissions {
    Permissions::from_std(std::fs::Permissions::from_mode(mode))
}
