//! Collections as folders: which exist, in which layout, and what is left to do before the engine opens one. Knows files
//! only, and blocks: never call it on an async thread.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
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
    let mut file = File::create(&draft)?;
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
    fs::create_dir_all(folder)?;
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

pub fn check_root(options: &EdgeOptions) -> Result<(), Failure> {
    fs::create_dir_all(&options.root)?;
    check_free(options)?;
    let probe = options.root.join(PROBE_FILE);
    fs::write(&probe, b"")?;
    Ok(fs::remove_file(probe)?)
}

pub fn check_free(options: &EdgeOptions) -> Result<(), Failure> {
    let disk = rustix::fs::statvfs(&options.root).map_err(io::Error::from)?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < options.min_free_bytes {
        return Err(Failure::Broken("the disk is nearly full".into()));
    }
    Ok(())
}
