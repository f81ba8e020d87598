//! Collections as folders: which exist, in which layout, and what is left to do before the engine opens one. Knows files
//! only, and blocks: never call it on an async thread.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::EdgeOptions;
use crate::point::DenseLayout;
use crate::{CollectionName, text};

/// A folder without it does not count: it is written last and removed first.
const MARKER_FILE: &str = "codelab-memory.json";
const MARKER_DRAFT: &str = "codelab-memory.tmp";
const WAL_FOLDER: &str = "wal";
const WAL_CLOSED_PREFIX: &str = "closed-";
const PROBE_FILE: &str = ".writable";
/// A copy that is being made; no collection has such a name.
const COPY_PREFIX: &str = ".copy-of-";

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No folder, half a folder, or one with another analysis of words.
    #[error("there is no such memory")]
    Missing,
    #[error("{0}")]
    Broken(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// What is in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marker {
    /// Nothing yet, whatever files a first addition that was cut short left behind.
    Empty,
    Filled(Layout),
}

/// What a collection's points carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    pub sparse: String,
    pub dense: Option<DenseLayout>,
}

impl Layout {
    pub fn new(dense: Option<&DenseLayout>) -> Self {
        Self { sparse: text::VECTOR_NAME.into(), dense: dense.cloned() }
    }
}

/// `Missing` for a folder that does not count.
pub fn read_marker(folder: &Path) -> Result<Marker, Failure> {
    let marker = match fs::read(folder.join(MARKER_FILE)) {
        Ok(marker) => marker,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Failure::Missing),
        Err(error) => return Err(error.into()),
    };
    match serde_json::from_slice(&marker) {
        Ok(Marker::Filled(layout)) if layout.sparse != text::VECTOR_NAME => Err(Failure::Missing),
        Ok(marker) => Ok(marker),
        Err(error) => Err(Failure::Broken(format!("{MARKER_FILE} cannot be read: {error}"))),
    }
}

/// Replaces the marker at once or not at all.
pub fn write_marker(folder: &Path, marker: &Marker) -> Result<(), Failure> {
    let text = serde_json::to_vec(marker).map_err(|error| Failure::Broken(error.to_string()))?;
    let draft = folder.join(MARKER_DRAFT);
    let mut file = private_file().open(&draft)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(draft, folder.join(MARKER_FILE))?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// False once the folder was moved or removed beneath us: what is written now would be lost.
pub fn is_in_place(folder: &Path) -> bool {
    folder.join(MARKER_FILE).is_file()
}

pub fn is_usable(folder: &Path) -> Result<bool, Failure> {
    match read_marker(folder) {
        Ok(_) => Ok(true),
        Err(Failure::Missing) => Ok(false),
        Err(broken) => Err(broken),
    }
}

/// Where a copy of a collection is made.
pub fn copy_of(root: &Path, name: &CollectionName) -> PathBuf {
    root.join(format!("{COPY_PREFIX}{name}"))
}

/// Puts a finished copy in the place of a collection. Cut short in between there is neither, and it is made from SQL.
pub fn replace(folder: &Path, copy: &Path) -> Result<(), Failure> {
    remove(folder)?;
    fs::rename(copy, folder)?;
    if let Some(root) = folder.parent() {
        File::open(root)?.sync_all()?;
    }
    Ok(())
}

/// Removes copies that were never finished.
pub fn remove_copies(root: &Path) -> Result<(), Failure> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(COPY_PREFIX)) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

pub fn collections(root: &Path) -> Result<Vec<CollectionName>, Failure> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_str().and_then(CollectionName::parse);
        names.extend(name.filter(|_| is_in_place(&entry.path())));
    }
    Ok(names)
}

/// Replaces whatever stands there by a folder without content.
pub fn make_empty(folder: &Path) -> Result<(), Failure> {
    remove(folder)?;
    make_folder(folder)?;
    write_marker(folder, &Marker::Empty)
}

/// Removes the folder, or whatever else stands in its place.
pub fn remove(folder: &Path) -> io::Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    match fs::symlink_metadata(folder) {
        Ok(found) if !found.is_dir() => return gone(fs::remove_file(folder)),
        found => gone(found.map(|_| ()))?,
    }
    gone(fs::remove_file(folder.join(MARKER_FILE)))?;
    gone(fs::remove_dir_all(folder))
}

/// Removes the closed files of the log but the last, from which the engine learns the number of its next write.
pub fn remove_flushed_log(folder: &Path) -> Result<(), Failure> {
    let mut closed = Vec::new();
    for entry in fs::read_dir(folder.join(WAL_FOLDER))? {
        let entry = entry?;
        let name = entry.file_name();
        let start = name.to_str().and_then(|name| name.strip_prefix(WAL_CLOSED_PREFIX)?.parse::<u64>().ok());
        closed.extend(start.map(|start| (start, entry.path())));
    }
    closed.sort();
    closed.pop();
    for (_, path) in closed {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Folders that hold what people wrote are their owner's alone.
fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
}

/// Takes from others what the umask gave them: the engine makes its files by itself. They lie in a folder that nobody else
/// can enter, so nobody can open one before this has run.
pub fn make_private(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = match entry.metadata() {
            // The engine has removed it meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            found => found?,
        };
        let mode = found.permissions().mode();
        let is_ours = found.is_dir() || found.is_file();
        if is_ours && mode & 0o077 != 0 {
            fs::set_permissions(entry.path(), Permissions::from_mode(mode & 0o700))?;
        }
        if found.is_dir() {
            make_private(&entry.path())?;
        }
    }
    Ok(())
}

pub fn check_root(options: &EdgeOptions) -> Result<(), Failure> {
    make_folder(&options.root)?;
    check_free(options)?;
    let probe = options.root.join(PROBE_FILE);
    drop(private_file().open(&probe)?);
    Ok(fs::remove_file(probe)?)
}

pub fn check_free(options: &EdgeOptions) -> Result<(), Failure> {
    let disk = rustix::fs::statvfs(&options.root).map_err(io::Error::from)?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < options.min_free_bytes {
        return Err(Failure::Broken("the disk is nearly full".into()));
    }
    Ok(())
}
