//! `write_file` and `create_directory`. A file is replaced as a whole by a rename in its own
//! folder. So a reader sees the old or the new text, and a crash leaves no half of it. A file that
//! somebody else changed since the agent read it is not overwritten, and what is replaced is
//! compared at the moment when it is.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions};
use codelab_policy::{Policy, visible};
use codelab_protocol::{FileEdit, Timestamp, WriteFile};
use serde_json::{Value, json};

use crate::before::{Keeping, folders_beneath};
use crate::error::{PathAction, ToolRefusal};
use crate::options::WorkspaceLimits;
use crate::root::{ExistingPath, Root, TargetPath, open_file};
use crate::seen::{Fingerprint, Present, Readings};
use crate::swap::{self, Swapped, name_new};
use crate::text::{Encoding, decode, encode, is_binary};

use super::judge::{Replaced, Writer};

/// A name that is taken is tried again with another.
const TEMPORARY_NAME_ATTEMPTS: usize = 8;

pub(crate) fn write_file(
    root: &Root,
    readings: &Readings,
    policy: &Policy,
    limits: &WorkspaceLimits,
    call: &WriteFile,
    writer: Writer<'_>,
    keeping: &Keeping<'_>,
) -> Result<(Value, WrittenPath), ToolRefusal> {
    let target = root.target(&call.path)?;
    let real = target.real();
    check_visible(policy, &call.path, &real)?;
    let Stored {
        bytes,
        mode,
        modified,
    } = match target {
        TargetPath::Existing(place) => replace(&place, call, (readings, limits), writer, keeping)?,
        TargetPath::New {
            base,
            base_real,
            missing,
        } => {
            let nothing = Replaced {
                readings,
                limits,
                real: &real,
                present: None,
            };
            nothing.check(call, writer)?;
            let content = new_content(None, call, limits)?;
            let (name, folders) = missing
                .split_last()
                .ok_or_else(|| ToolRefusal::Missing(call.path.clone()))?;
            if !folders.is_empty() && !call.create_dirs {
                let parent = Path::new(&call.path).parent().unwrap_or(Path::new(""));
                return Err(ToolRefusal::MissingParent(parent.display().to_string()));
            }
            let created = folders_beneath(&base_real, folders);
            keeping.file(&real, None, &content, created);
            let folder =
                create_folders(base, folders).map_err(|error| write_refused(&call.path, error))?;
            let real: PathBuf = base_real
                .iter()
                .chain(missing.iter().map(OsString::as_os_str))
                .collect();
            let place = ExistingPath {
                folder,
                name: name.clone(),
                real,
            };
            store(&place, &call.path, content, None, keeping)?
        }
    };
    readings.remember(writer.reader, &real, &Present::of_bytes(&bytes));
    let value =
        json!({"success": true, "size": bytes.len(), "timestamp": Timestamp::from(modified)});
    Ok((
        value,
        WrittenPath {
            real,
            content: Some(bytes),
            mode,
        },
    ))
}

/// What a tool wrote, for whoever compares protected paths.
pub(crate) struct WrittenPath {
    /// From the root.
    pub real: PathBuf,
    /// None for a folder.
    pub content: Option<Vec<u8>>,
    pub mode: u32,
}

pub(crate) fn create_directory(
    root: &Root,
    policy: &Policy,
    path: &str,
    keeping: &Keeping<'_>,
) -> Result<(Value, WrittenPath), ToolRefusal> {
    let target = root.target(path)?;
    let real = target.real();
    check_visible(policy, path, &real)?;
    match target {
        TargetPath::Existing(place) => {
            let is_folder = place.metadata().is_ok_and(|metadata| metadata.is_dir());
            if !is_folder {
                return Err(ToolRefusal::NotAFolder(path.to_owned()));
            }
            keeping.folders(&real, Vec::new());
        }
        TargetPath::New {
            base,
            base_real,
            missing,
        } => {
            keeping.folders(&real, folders_beneath(&base_real, &missing));
            create_folders(base, &missing).map_err(|error| write_refused(path, error))?;
        }
    }
    Ok((
        json!({"success": true}),
        WrittenPath {
            real,
            content: None,
            mode: 0,
        },
    ))
}

impl TargetPath {
    pub fn real(&self) -> PathBuf {
        match self {
            Self::Existing(place) => place.real.clone(),
            Self::New {
                base_real, missing, ..
            } => base_real
                .iter()
                .chain(missing.iter().map(OsString::as_os_str))
                .collect(),
        }
    }
}

/// The policy judged the path as written. If a link leads to something protected, nobody was asked
/// about that.
pub(super) fn check_visible(policy: &Policy, path: &str, real: &Path) -> Result<(), ToolRefusal> {
    let real = real.to_string_lossy();
    if policy.protects(&real) && !policy.protects(path) {
        return Err(ToolRefusal::HiddenProtected {
            path: path.to_owned(),
            real: visible(&real),
        });
    }
    Ok(())
}

fn replace(
    place: &ExistingPath,
    call: &WriteFile,
    readings: (&Readings, &WorkspaceLimits),
    writer: Writer<'_>,
    keeping: &Keeping<'_>,
) -> Result<Stored, ToolRefusal> {
    let path = &call.path;
    let metadata = place
        .metadata()
        .map_err(|error| write_refused(path, error))?;
    if !metadata.is_file() {
        return Err(ToolRefusal::NotAFile(path.clone()));
    }
    if metadata.permissions().readonly() {
        return Err(ToolRefusal::WriteDenied(path.clone()));
    }
    let mut file = place.open_file(path)?;
    let present = Present::of_file(&mut file)
        .map_err(|error| ToolRefusal::from_io(path, PathAction::Read, error))?;
    let replaced = Replaced {
        readings: readings.0,
        limits: readings.1,
        real: &place.real,
        present: Some(&present),
    };
    replaced.check(call, writer)?;
    let bytes = match &present.bytes {
        Some(bytes) => new_content(Some(bytes), call, readings.1)?,
        None if call.content.is_some() => new_content(None, call, readings.1)?,
        None => {
            return Err(ToolRefusal::TooLarge {
                path: path.clone(),
                size: metadata.len(),
                max_bytes: readings.1.write_bytes,
            });
        }
    };
    let replaced = Some((&metadata, &present.fingerprint));
    store(place, path, bytes, replaced, keeping)
}

/// The content of the file after the call. `present` is what it holds now, if it exists.
pub(super) fn new_content(
    present: Option<&[u8]>,
    call: &WriteFile,
    limits: &WorkspaceLimits,
) -> Result<Vec<u8>, ToolRefusal> {
    let path = &call.path;
    let new = match (&call.content, present) {
        (Some(content), _) => content.as_bytes().to_vec(),
        (None, Some(present)) => {
            let edits = call.edits.as_deref().unwrap_or_default();
            check_size(path, present.len() as u64, limits)?;
            edited(present, path, edits)?
        }
        (None, None) => return Err(ToolRefusal::Missing(path.clone())),
    };
    check_size(path, new.len() as u64, limits)?;
    Ok(new)
}

fn check_size(path: &str, size: u64, limits: &WorkspaceLimits) -> Result<(), ToolRefusal> {
    if size > limits.write_bytes {
        return Err(ToolRefusal::TooLarge {
            path: path.to_owned(),
            size,
            max_bytes: limits.write_bytes,
        });
    }
    Ok(())
}

fn edited(bytes: &[u8], path: &str, edits: &[FileEdit]) -> Result<Vec<u8>, ToolRefusal> {
    if is_binary(bytes) {
        return Err(ToolRefusal::Binary(path.to_owned()));
    }
    let (mut text, encoding) = decode(bytes);
    if encoding == Encoding::Unknown {
        return Err(ToolRefusal::UnknownEncoding(path.to_owned()));
    }
    for (index, edit) in edits.iter().enumerate() {
        text = apply(&text, edit).map_err(|count| match count {
            0 => ToolRefusal::EditMissing {
                path: path.to_owned(),
                number: index + 1,
            },
            _ => ToolRefusal::EditAmbiguous {
                path: path.to_owned(),
                number: index + 1,
                count,
            },
        })?;
    }
    Ok(encode(&text, encoding))
}

/// The text after one edit, or how often its old text occurs. Models see `\r\n` as `\n`, so an edit
/// of a file with Windows line ends is tried with them as well.
fn apply(text: &str, edit: &FileEdit) -> Result<String, usize> {
    match text.matches(&edit.old).count() {
        1 => Ok(text.replacen(&edit.old, &edit.new, 1)),
        0 if text.contains("\r\n") && edit.old.contains('\n') && !edit.old.contains('\r') => {
            let windows = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
            let (old, new) = (windows(&edit.old), windows(&edit.new));
            match text.matches(&old).count() {
                1 => Ok(text.replacen(&old, &new, 1)),
                count => Err(count),
            }
        }
        count => Err(count),
    }
}

struct Stored {
    bytes: Vec<u8>,
    mode: u32,
    modified: SystemTime,
}

/// Writes a new file beside the old one and gives it the name. `replaced` is what the old file must
/// still be.
fn store(
    place: &ExistingPath,
    path: &str,
    bytes: Vec<u8>,
    replaced: Option<(&Metadata, &Fingerprint)>,
    keeping: &Keeping<'_>,
) -> Result<Stored, ToolRefusal> {
    let refused = |error| write_refused(path, error);
    let (temporary, file) = temporary(&place.folder).map_err(refused)?;
    let stored = fill(file, &bytes, replaced.map(|(metadata, _)| metadata))
        .map_err(refused)
        .and_then(|filled| {
            if let Some((metadata, before)) = replaced {
                let mut old = place.open_file(path)?;
                if Fingerprint::of_file(&mut old).map_err(refused)? != *before {
                    return Err(ToolRefusal::Changed(path.to_owned()));
                }
                keeping.file(&place.real, Some((old, metadata)), &bytes, Vec::new());
                take_place(place, path, &temporary, before, &bytes)?;
            } else {
                name_new(&place.folder, &temporary, &place.name).map_err(|error| {
                    match error.kind() {
                        io::ErrorKind::AlreadyExists => ToolRefusal::Changed(path.to_owned()),
                        _ => refused(error),
                    }
                })?;
            }
            // It is written, whatever the folder says.
            if let Err(error) = sync_folder(&place.folder) {
                tracing::warn!(%error, path, "a folder could not be synced after a write");
            }
            Ok(filled)
        });
    match stored {
        Ok((mode, modified)) => Ok(Stored {
            bytes,
            mode,
            modified,
        }),
        Err(refusal) => {
            if !matches!(refusal, ToolRefusal::Crossed { .. }) {
                swap::remove(&place.folder, &temporary);
            }
            Err(refusal)
        }
    }
}

/// Puts the new file where the old one is, if that is still what was judged.
fn take_place(
    place: &ExistingPath,
    path: &str,
    temporary: &OsStr,
    before: &Fingerprint,
    new: &[u8],
) -> Result<(), ToolRefusal> {
    let is = |name: &OsStr, wanted: &Fingerprint| {
        let file = open_file(&place.folder, name.as_ref(), path);
        let found = file
            .ok()
            .and_then(|mut file| Fingerprint::of_file(&mut file).ok());
        found.is_some_and(|found| found == *wanted)
    };
    if !is(&place.name, before) {
        return Err(ToolRefusal::Changed(path.to_owned()));
    }
    let swapped = swap::replace(
        &place.folder,
        &place.name,
        temporary,
        |name| is(name, before),
        |name| is(name, &Fingerprint::of_content(new)),
    );
    match swapped.map_err(|error| write_refused(path, error))? {
        Swapped::Done => Ok(()),
        Swapped::Refused => Err(ToolRefusal::Changed(path.to_owned())),
        Swapped::Kept(kept) => Err(ToolRefusal::Crossed {
            path: path.to_owned(),
            kept: kept.to_string_lossy().into_owned(),
        }),
    }
}

fn temporary(folder: &Dir) -> io::Result<(OsString, File)> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .follow(FollowSymlinks::No);
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..TEMPORARY_NAME_ATTEMPTS {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = OsString::from(format!(".codelab-{}.tmp", hex::encode(random)));
        match folder.open_with(&name, &options) {
            Ok(file) => return Ok((name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// The new file gets the old one's mode and, where this process may, its owner. Returns its mode
/// and time.
fn fill(
    mut file: File,
    bytes: &[u8],
    replaced: Option<&Metadata>,
) -> io::Result<(u32, SystemTime)> {
    file.write_all(bytes)?;
    if let Some(old) = replaced {
        keep_owner(&file, old)?;
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()?;
    let metadata = file.metadata()?;
    Ok((metadata.mode(), metadata.modified()?.into_std()))
}

/// Gives a new file the owner of the one that it will replace, where this process may.
pub(crate) fn keep_owner(file: &File, old: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        let owner = rustix::fs::Uid::from_raw(old.uid());
        let group = rustix::fs::Gid::from_raw(old.gid());
        if let Err(error) = rustix::fs::fchown(file, Some(owner), Some(group)) {
            tracing::debug!(%error, "the owner of a file was not kept");
        }
    }
    Ok(())
}

/// Creates missing folders one by one; one that somebody else creates meanwhile is used, a link is
/// not.
fn create_folders(base: Dir, names: &[OsString]) -> io::Result<Dir> {
    let mut folder = base;
    for name in names {
        match folder.create_dir(name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let next = folder.open_dir_nofollow(name)?;
        sync_folder(&folder)?;
        folder = next;
    }
    Ok(folder)
}

/// The new name is on disk.
pub(crate) fn sync_folder(folder: &Dir) -> io::Result<()> {
    // A folder handle may be good for names only; its own opening for reading can be synced.
    folder.open(".")?.sync_all()
}

fn write_refused(path: &str, error: io::Error) -> ToolRefusal {
    ToolRefusal::from_io(path, PathAction::Write, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_needs_exactly_one_place() {
        for (text, old, new, expected) in [
            ("a b c", "b", "x", Ok("a x c")),
            ("a b b", "b", "x", Err(2)),
            ("a", "b", "x", Err(0)),
            ("a\r\nb\r\n", "a\nb", "x\ny", Ok("x\r\ny\r\n")),
            ("a\r\nb\r\n", "a\r\nb", "x", Ok("x\r\n")),
            ("a\nb\n", "a\r\nb", "x", Err(0)),
            ("$1 $1x", "$1x", "$0", Ok("$1 $0")),
        ] {
            let edit = FileEdit {
                old: old.to_owned(),
                new: new.to_owned(),
            };
            assert_eq!(apply(text, &edit), expected.map(str::to_owned), "{text:?}");
        }
    }
}
