//! Replaces or removes one file, and finds out afterwards what that really was: somebody may save
//! between the look and the change. What is not what was seen is put back.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, File, OpenOptions};
use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use super::place::state_in;
use super::record::PathState;
use crate::failpoint::ClientFailpoint;
use crate::tools::{name_new, sync_folder};

/// One name in a folder, and the name beside it where the other file is while both exist.
pub(super) struct Swap<'a> {
    pub folder: &'a Dir,
    pub name: &'a OsStr,
    /// Known to whoever goes on after a crash. A file with this name is complete.
    pub aside: &'a OsStr,
    pub failpoint: &'a ClientFailpoint,
}

impl Swap<'_> {
    /// A new file of which nobody has the name yet.
    pub fn draft(&self) -> io::Result<File> {
        let name = self.draft_name();
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .follow(FollowSymlinks::No);
        match self.folder.open_with(&name, &options) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.folder.remove_file(&name)?;
                self.folder.open_with(&name, &options)
            }
            opened => opened,
        }
    }

    fn draft_name(&self) -> OsString {
        let mut name = self.aside.to_owned();
        name.push(".draft");
        name
    }

    /// Fills the draft and puts it there, if `present` still is. Whether it was.
    pub fn place(
        &self,
        mut draft: File,
        bytes: &[u8],
        finish: impl FnOnce(&File) -> io::Result<()>,
        present: &PathState,
    ) -> io::Result<bool> {
        let placed = draft
            .write_all(bytes)
            .and_then(|()| finish(&draft))
            .and_then(|()| draft.sync_all())
            .and_then(|()| match present {
                PathState::Absent => self.name_draft(),
                _ => self.exchange_draft(present),
            });
        if !matches!(placed, Ok(true)) {
            // The next attempt removes it if this fails as well.
            let _ = self.folder.remove_file(self.draft_name());
        }
        sync_folder(self.folder)?;
        placed
    }

    fn name_draft(&self) -> io::Result<bool> {
        match name_new(self.folder, &self.draft_name(), &self.name.to_owned()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn exchange_draft(&self, present: &PathState) -> io::Result<bool> {
        let new = state_in(self.folder, &self.draft_name())?;
        if state_in(self.folder, self.name)? != *present {
            return Ok(false);
        }
        let Self { folder, aside, .. } = self;
        folder.rename(self.draft_name(), folder, aside)?;
        match self.exchange() {
            Ok(()) => {}
            // File systems that cannot exchange get the rename, after the look above.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                return folder.rename(aside, folder, self.name).map(|()| true);
            }
            Err(error) => {
                folder.remove_file(aside)?;
                return match error {
                    Errno::NOENT => Ok(false),
                    _ => Err(error.into()),
                };
            }
        }
        self.failpoint.pass("rewind_exchanged");
        if state_in(folder, aside)? == *present {
            return folder.remove_file(aside).map(|()| true);
        }
        self.exchange()?;
        if state_in(folder, aside)? == new {
            return folder.remove_file(aside).map(|()| false);
        }
        // Somebody saved once more in between, and that is what they want to see.
        self.exchange()?;
        Err(self.set_apart()?)
    }

    /// Removes the file, if `present` still is there. Whether it was.
    pub fn remove(&self, present: &PathState) -> io::Result<bool> {
        let Self { folder, aside, .. } = self;
        if state_in(folder, self.name)? != *present {
            return Ok(false);
        }
        folder.rename(self.name, folder, aside)?;
        self.failpoint.pass("rewind_exchanged");
        let was_it = state_in(folder, aside)? == *present;
        match was_it {
            true => folder.remove_file(aside)?,
            false => self.name_aside()?,
        }
        sync_folder(folder)?;
        Ok(was_it)
    }

    /// After a process that was killed: what it had moved aside goes, unless it is neither what it
    /// found nor what it wrote. Then somebody saved it meanwhile, and it gets its name back.
    pub fn tidy_up(&self, found: &PathState, target: &PathState) -> io::Result<()> {
        let Self { folder, aside, .. } = self;
        match folder.remove_file(self.draft_name()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let left = state_in(folder, aside)?;
        if left == PathState::Absent {
            return Ok(());
        }
        let here = state_in(folder, self.name)?;
        if left.is(found) || left.is(target) {
            folder.remove_file(aside)?;
        } else if here == PathState::Absent {
            self.name_aside()?;
        } else if here.is(target) {
            self.exchange()?;
            folder.remove_file(aside)?;
        } else {
            return Err(self.set_apart()?);
        }
        sync_folder(folder)
    }

    fn exchange(&self) -> Result<(), Errno> {
        let Self { folder, aside, .. } = self;
        renameat_with(folder, *aside, folder, self.name, RenameFlags::EXCHANGE)
    }

    fn name_aside(&self) -> io::Result<()> {
        match name_new(self.folder, &self.aside.to_owned(), &self.name.to_owned()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(self.set_apart()?),
            named => named,
        }
    }

    /// What is aside is somebody's, and its name is taken: it keeps another one.
    fn set_apart(&self) -> io::Result<io::Error> {
        let mut kept = self.aside.to_owned();
        kept.push(".kept");
        self.folder.rename(self.aside, self.folder, &kept)?;
        sync_folder(self.folder)?;
        let kept = kept.to_string_lossy();
        Ok(io::Error::other(format!(
            "somebody changed it at the same moment, and something else that was there is in {kept}"
        )))
    }
}
