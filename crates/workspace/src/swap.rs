//! Puts a file in the place of another one, or takes one away, without losing what somebody saves
//! there at the same moment.

use std::ffi::{OsStr, OsString};
use std::io;

use cap_std::fs::Dir;
use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

/// What became of it.
pub(crate) enum Swapped {
    Done,
    /// Something else was there, and is there again.
    Refused,
    /// Somebody saved twice in between. What is not at its place any more has this name.
    Kept(OsString),
}

/// Gives the new file, which is at `temporary`, the name of the old one. The two are exchanged, so
/// that what was really replaced can be looked at, and put back. After an error nothing was changed.
pub(crate) fn replace(
    folder: &Dir,
    name: &OsStr,
    temporary: &OsStr,
    is_old: impl Fn(&OsStr) -> bool,
    is_new: impl Fn(&OsStr) -> bool,
) -> io::Result<Swapped> {
    let exchange = || renameat_with(folder, temporary, folder, name, RenameFlags::EXCHANGE);
    match exchange() {
        Ok(()) => {}
        // File systems that cannot exchange get the rename.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            folder.rename(temporary, folder, name)?;
            return Ok(Swapped::Done);
        }
        Err(error) => return Err(error.into()),
    }
    // From here on the temporary name can hold what somebody saved: it is removed only by who has
    // looked at it.
    if is_old(temporary) {
        remove(folder, temporary);
        return Ok(Swapped::Done);
    }
    if exchange().is_ok() {
        if is_new(temporary) {
            remove(folder, temporary);
            return Ok(Swapped::Refused);
        }
        // Somebody wrote once more: theirs gets its place again.
        let _ = exchange();
    }
    Ok(Swapped::Kept(keep(folder, temporary)))
}

/// Takes the old file away. `aside` is a name that nobody uses. After an error nothing was changed.
pub(crate) fn take_away(
    folder: &Dir,
    name: &OsStr,
    aside: &OsStr,
    is_old: impl Fn(&OsStr) -> bool,
) -> io::Result<Swapped> {
    folder.rename(name, folder, aside)?;
    if is_old(aside) {
        remove(folder, aside);
        return Ok(Swapped::Done);
    }
    Ok(put_back(folder, aside, name))
}

/// Gives a file that was taken away by mistake its name again.
pub(crate) fn put_back(folder: &Dir, aside: &OsStr, name: &OsStr) -> Swapped {
    match name_new(folder, aside, name) {
        Ok(()) => Swapped::Refused,
        Err(_) => Swapped::Kept(keep(folder, aside)),
    }
}

/// Gives a new file its name. A link fails where a rename would replace what somebody put there
/// meanwhile; file systems without links get the rename, after a look.
pub(crate) fn name_new(folder: &Dir, temporary: &OsStr, name: &OsStr) -> io::Result<()> {
    match folder.hard_link(temporary, folder, name) {
        Ok(()) => {
            remove(folder, temporary);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if folder.symlink_metadata(name).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => folder.rename(temporary, folder, name),
    }
}

pub(crate) fn remove(folder: &Dir, temporary: &OsStr) {
    if let Err(error) = folder.remove_file(temporary)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "a temporary file could not be removed");
    }
}

/// The name under which it is kept.
pub(crate) fn keep(folder: &Dir, temporary: &OsStr) -> OsString {
    let kept = OsString::from(format!("{}.kept", temporary.to_string_lossy()));
    match folder.rename(temporary, folder, &kept) {
        Ok(()) => kept,
        Err(error) => {
            tracing::warn!(%error, "a file is kept under its temporary name");
            temporary.to_owned()
        }
    }
}
