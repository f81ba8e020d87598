//! One step of a rewind on the disk: puts a file in the place of another one or takes one away, with
//! names that whoever goes on after a crash knows.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, File, OpenOptions};

use super::place::state_in;
use super::record::PathState;
use crate::failpoint::ClientFailpoint;
use crate::swap::{self, Swapped, name_new};
use crate::tools::sync_folder;

/// One name in a folder, and the name beside it where the other file is while both exist.
pub(super) struct RewindSwap<'a> {
    pub folder: &'a Dir,
    pub name: &'a OsStr,
    /// Known to whoever goes on after a crash. A file with this name is complete.
    pub aside: &'a OsStr,
    pub failpoint: &'a ClientFailpoint,
}

impl RewindSwap<'_> {
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

    /// Fills the draft and puts it there, if `present` still is.
    pub fn place(
        &self,
        mut draft: File,
        bytes: &[u8],
        finish: impl FnOnce(&File) -> io::Result<()>,
        present: &PathState,
    ) -> io::Result<Swapped> {
        let placed = draft
            .write_all(bytes)
            .and_then(|()| finish(&draft))
            .and_then(|()| draft.sync_all())
            .and_then(|()| match present {
                PathState::Absent => self.name_draft(),
                _ => self.exchange_draft(present),
            });
        if !matches!(placed, Ok(Swapped::Done)) {
            swap::remove(self.folder, &self.draft_name());
        }
        let placed = placed?;
        sync_folder(self.folder)?;
        Ok(placed)
    }

    fn name_draft(&self) -> io::Result<Swapped> {
        match name_new(self.folder, &self.draft_name(), self.name) {
            Ok(()) => Ok(Swapped::Done),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Swapped::Refused),
            Err(error) => Err(error),
        }
    }

    fn exchange_draft(&self, present: &PathState) -> io::Result<Swapped> {
        let new = state_in(self.folder, &self.draft_name())?;
        if state_in(self.folder, self.name)? != *present {
            return Ok(Swapped::Refused);
        }
        let Self { folder, aside, .. } = self;
        folder.rename(self.draft_name(), folder, aside)?;
        let swapped = swap::replace(
            folder,
            self.name,
            aside,
            |name| self.was(name, present),
            |name| self.is(name, &new),
        );
        match swapped {
            Err(error) => {
                swap::remove(folder, aside);
                match error.kind() {
                    io::ErrorKind::NotFound => Ok(Swapped::Refused),
                    _ => Err(error),
                }
            }
            swapped => swapped,
        }
    }

    /// Removes the file, if `present` still is there.
    pub fn remove(&self, present: &PathState) -> io::Result<Swapped> {
        let Self { folder, aside, .. } = self;
        if !self.is(self.name, present) {
            return Ok(Swapped::Refused);
        }
        let taken = swap::take_away(folder, self.name, aside, |name| self.was(name, present))?;
        sync_folder(folder)?;
        Ok(taken)
    }

    /// After a process that was killed: what it had moved aside goes, unless it is neither what it
    /// found nor what it wrote. Then somebody saved it meanwhile, and it gets its name back.
    pub fn tidy_up(&self, found: &PathState, target: &PathState) -> io::Result<Swapped> {
        let Self { folder, aside, .. } = self;
        swap::remove(folder, &self.draft_name());
        let left = state_in(folder, aside)?;
        if left == PathState::Absent {
            return Ok(Swapped::Done);
        }
        let here = state_in(folder, self.name)?;
        let tidied = if left.is(found) || left.is(target) {
            swap::remove(folder, aside);
            Swapped::Done
        } else if here == PathState::Absent {
            swap::put_back(folder, aside, self.name)
        } else if here.is(target) {
            let is_target = |name: &OsStr| state_in(folder, name).is_ok_and(|it| it.is(target));
            swap::replace(folder, self.name, aside, is_target, |_| false)?
        } else {
            Swapped::Kept(swap::keep(folder, aside))
        };
        sync_folder(folder)?;
        Ok(tidied)
    }

    fn is(&self, name: &OsStr, wanted: &PathState) -> bool {
        state_in(self.folder, name).is_ok_and(|found| found == *wanted)
    }

    /// The same, directly after the files changed places.
    fn was(&self, name: &OsStr, wanted: &PathState) -> bool {
        self.failpoint.pass("rewind_exchanged");
        self.is(name, wanted)
    }
}
