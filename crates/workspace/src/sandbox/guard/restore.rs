//! Moves away what must not be there, and writes back what must. Every step is made in an open folder, so that a link that
//! somebody puts in the way leads nowhere.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};

use super::find::{Kept, open_folder};

/// A folder moved between file systems is copied; no deeper than this.
const MAX_DEPTH: usize = 64;

pub(super) struct Removed<'a> {
    root: &'a Dir,
    place: &'a Path,
    /// Made at the first need.
    folder: Option<(Dir, PathBuf)>,
    count: usize,
}

impl<'a> Removed<'a> {
    pub fn new(root: &'a Dir, place: &'a Path) -> Self {
        Self { root, place, folder: None, count: 0 }
    }

    /// Moves it out of the workspace; returns where it is now.
    pub fn take(&mut self, path: &Path) -> io::Result<PathBuf> {
        let (parent, name) = self.open_parent(path)?;
        self.count += 1;
        let mut new_name = OsString::from(format!("{}-", self.count));
        new_name.push(&name);
        let (folder, place) = self.folder()?;
        let new_place = place.join(&new_name);
        match parent.rename(&name, folder, &new_name) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                copy(&parent, &name, folder, &new_name, MAX_DEPTH)?;
                remove(&parent, &name)?;
            }
            Err(error) => return Err(error),
        }
        Ok(new_place)
    }

    /// Whatever is there now is taken away first.
    pub fn put_back(&mut self, path: &Path, kept: &Kept) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            self.make_folders(parent)?;
        }
        let (parent, name) = self.open_parent(path)?;
        match (kept, parent.symlink_metadata(&name)) {
            (Kept::Folder, Ok(metadata)) if metadata.is_dir() => return Ok(()),
            (_, Ok(_)) => {
                self.take(path)?;
            }
            (_, Err(_)) => {}
        }
        match kept {
            Kept::Folder => parent.create_dir(&name),
            Kept::Link(target) => parent.symlink_contents(target, &name),
            Kept::File { content: Some(content), mode, .. } => write(&parent, &name, content, *mode),
            Kept::File { content: None, .. } => Err(io::Error::other("it is too large to have been kept")),
            Kept::Other => Err(io::Error::other("it was not a file")),
        }
    }

    fn make_folders(&mut self, path: &Path) -> io::Result<()> {
        let mut folder = self.root.try_clone()?;
        let mut here = PathBuf::new();
        for name in path.components() {
            here.push(name);
            folder = match folder.open_dir_nofollow(name) {
                Ok(folder) => folder,
                Err(_) => {
                    if folder.symlink_metadata(name).is_ok() {
                        self.take(&here)?;
                    }
                    folder.create_dir(name)?;
                    folder.open_dir_nofollow(name)?
                }
            };
        }
        Ok(())
    }

    fn open_parent(&self, path: &Path) -> io::Result<(Dir, OsString)> {
        let name = path.file_name().ok_or_else(|| io::Error::other("the workspace itself cannot be replaced"))?;
        let folder = open_folder(self.root, path.parent().unwrap_or(Path::new("")))?;
        Ok((folder, name.to_owned()))
    }

    fn folder(&mut self) -> io::Result<(&Dir, &Path)> {
        if self.folder.is_none() {
            std::fs::create_dir_all(self.place)?;
            let named = tempfile::Builder::new().prefix("removed-").tempdir_in(self.place)?.keep();
            self.folder = Some((Dir::open_ambient_dir(&named, ambient_authority())?, named));
        }
        match &self.folder {
            Some((folder, path)) => Ok((folder, path)),
            None => Err(io::Error::other("there is no folder for removed things")),
        }
    }
}

fn write(folder: &Dir, name: &OsStr, content: &[u8], mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = folder.open_with(name, &options)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(mode & 0o7777))
}

fn copy(from: &Dir, name: &OsStr, to: &Dir, new_name: &OsStr, depth: usize) -> io::Result<()> {
    let kind = from.symlink_metadata(name)?.file_type();
    if kind.is_symlink() {
        return to.symlink_contents(from.read_link_contents(name)?, new_name);
    }
    if kind.is_file() {
        return from.copy(name, to, new_name).map(|_| ());
    }
    if !kind.is_dir() {
        return Ok(());
    }
    let depth = depth.checked_sub(1).ok_or_else(|| io::Error::other("it is nested too deeply"))?;
    to.create_dir(new_name)?;
    let (from, to) = (from.open_dir_nofollow(name)?, to.open_dir_nofollow(new_name)?);
    for entry in from.entries()? {
        let name = entry?.file_name();
        copy(&from, &name, &to, &name, depth)?;
    }
    Ok(())
}

fn remove(folder: &Dir, name: &OsStr) -> io::Result<()> {
    if folder.symlink_metadata(name)?.is_dir() { folder.remove_dir_all(name) } else { folder.remove_file(name) }
}
