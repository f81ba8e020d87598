//! A collection's file: a header, then frames of entries. A frame is written at once and checked
//! when it is read.
//!
//! A frame holds the length of its body, the checksum of the body, a checksum of these two, and the
//! body. A body holds entries, each after its length. Numbers are little-endian. An incomplete
//! frame at the end of the file was never acknowledged and is dropped. Any other mismatch is
//! damage, and the collection is rebuilt from SQL.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::EmbeddedOptions;
use crate::{CollectionName, text};

const SUFFIX: &str = ".memory";
/// The suffix of a file that is being written and will replace the one without it.
const DRAFT_SUFFIX: &str = ".memory-draft";
const PROBE_FILE: &str = ".writable";
/// In earlier versions collections were folders, and names of their copies began with this.
const OLD_COPY_PREFIX: &str = ".copy-of-";

const FORMAT: &str = "codelab memory ";
const FORMAT_VERSION: u32 = 1;
const MAX_HEADER_BYTES: usize = 64;
const FRAME_HEAD_BYTES: usize = 12;
const READ_BUFFER_BYTES: usize = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum FileFailure {
    /// There is no file, or it is of another version of the format or of the text analysis.
    #[error("there is no such memory")]
    Missing,
    #[error("{0}")]
    Broken(String),
}

impl From<io::Error> for FileFailure {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// The position of an entry.
#[derive(Debug, Clone, Copy)]
pub struct Position {
    at: u64,
    pub len: u32,
}

pub struct CollectionFile {
    file: File,
    /// The position of the next frame.
    end: u64,
}

impl CollectionFile {
    /// Opens the file and passes on every entry in it.
    pub fn open(
        path: &Path,
        mut each: impl FnMut(Position, &[u8]) -> Result<(), FileFailure>,
    ) -> Result<Self, FileFailure> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(FileFailure::Missing),
            file => file?,
        };
        let len = file.metadata()?.len();
        let mut reader = BufReader::with_capacity(READ_BUFFER_BYTES, &file);
        let mut end = read_header(&mut reader)?;
        let mut body = Vec::new();
        while let Some(frame_len) = read_frame(&mut reader, len - end, &mut body)? {
            each_entry(&body, end + FRAME_HEAD_BYTES as u64, &mut each)?;
            end += frame_len;
        }
        if end < len {
            tracing::debug!(path = %path.display(), bytes = len - end, "incomplete record at the end of a memory file dropped");
            file.set_len(end)?;
        }
        Ok(Self { file, end })
    }

    /// Writes all entries as one frame. After a failure the file must be opened again, which drops
    /// an incomplete frame.
    pub fn append(&mut self, entries: &[Vec<u8>]) -> Result<Vec<Position>, FileFailure> {
        let mut frame = vec![0; FRAME_HEAD_BYTES];
        let mut positions = Vec::with_capacity(entries.len());
        for entry in entries {
            frame.extend(length(entry)?.to_le_bytes());
            positions.push(Position {
                at: self.end + frame.len() as u64,
                len: length(entry)?,
            });
            frame.extend(entry);
        }
        let body = &frame[FRAME_HEAD_BYTES..];
        let head = frame_head(length(body)?, crc32fast::hash(body));
        frame[..FRAME_HEAD_BYTES].copy_from_slice(&head);
        self.file.write_all_at(&frame, self.end)?;
        self.end += frame.len() as u64;
        Ok(positions)
    }

    pub fn read(&self, position: Position) -> io::Result<Vec<u8>> {
        let mut entry = vec![0; position.len as usize];
        self.file.read_exact_at(&mut entry, position.at)?;
        Ok(entry)
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    pub fn len(&self) -> u64 {
        self.end
    }
}

/// A new file that has not replaced the collection yet. If it is dropped before that, it stays on
/// the disk until `tidy` removes it.
pub struct Draft {
    pub file: CollectionFile,
    draft_path: PathBuf,
    path: PathBuf,
}

impl Draft {
    pub fn new(path: &Path) -> Result<Self, FileFailure> {
        let draft_path = path.with_extension(DRAFT_SUFFIX.trim_start_matches('.'));
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600);
        let file = options.open(&draft_path)?;
        let header = header();
        file.write_all_at(header.as_bytes(), 0)?;
        let file = CollectionFile {
            file,
            end: header.len() as u64,
        };
        Ok(Self {
            file,
            draft_path,
            path: path.to_owned(),
        })
    }

    /// Replaces the collection atomically.
    pub fn put_in_place(self) -> Result<CollectionFile, FileFailure> {
        self.file.file.sync_all()?;
        remove_old_folder(&self.path)?;
        fs::rename(&self.draft_path, &self.path)?;
        if let Some(root) = self.path.parent() {
            File::open(root)?.sync_all()?;
        }
        Ok(self.file)
    }
}

/// Removes a folder with the name of the file, because a rename cannot replace a folder.
fn remove_old_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        Ok(())
    }
}

fn header() -> String {
    format!("{FORMAT}{FORMAT_VERSION} {}\n", text::VECTOR_NAME)
}

/// The length of the header.
fn read_header(reader: &mut impl Read) -> Result<u64, FileFailure> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') {
        if line.len() == MAX_HEADER_BYTES || reader.read(&mut byte)? == 0 {
            return Err(FileFailure::Broken(
                "its file does not begin like a memory's".into(),
            ));
        }
        line.push(byte[0]);
    }
    if line == header().as_bytes() {
        return Ok(line.len() as u64);
    }
    let is_another_version = line.starts_with(FORMAT.as_bytes());
    Err(if is_another_version {
        FileFailure::Missing
    } else {
        FileFailure::Broken("its file is not a memory's".into())
    })
}

fn frame_head(len: u32, checksum: u32) -> [u8; FRAME_HEAD_BYTES] {
    let mut head = [0; FRAME_HEAD_BYTES];
    head[..4].copy_from_slice(&len.to_le_bytes());
    head[4..8].copy_from_slice(&checksum.to_le_bytes());
    let check = crc32fast::hash(&head[..8]);
    head[8..].copy_from_slice(&check.to_le_bytes());
    head
}

/// Reads the body of the next frame and returns the length of the frame. `None` at the end of the
/// file, or if the last frame is incomplete.
fn read_frame(
    reader: &mut impl Read,
    left: u64,
    body: &mut Vec<u8>,
) -> Result<Option<u64>, FileFailure> {
    if left < FRAME_HEAD_BYTES as u64 {
        return Ok(None);
    }
    let mut head = [0; FRAME_HEAD_BYTES];
    reader.read_exact(&mut head)?;
    let (len, checksum) = (number(&head[..4]), number(&head[4..8]));
    if head != frame_head(len, checksum) {
        return Err(FileFailure::Broken("its file is damaged".into()));
    }
    let frame_len = FRAME_HEAD_BYTES as u64 + u64::from(len);
    if frame_len > left {
        return Ok(None);
    }
    body.resize(len as usize, 0);
    reader.read_exact(body)?;
    if crc32fast::hash(body) != checksum {
        return Err(FileFailure::Broken("its file is damaged".into()));
    }
    Ok(Some(frame_len))
}

fn each_entry(
    mut body: &[u8],
    mut at: u64,
    each: &mut impl FnMut(Position, &[u8]) -> Result<(), FileFailure>,
) -> Result<(), FileFailure> {
    while let Some((len, rest)) = body.split_first_chunk::<4>() {
        let len = u32::from_le_bytes(*len);
        let Some((entry, rest)) = rest.split_at_checked(len as usize) else {
            return Err(FileFailure::Broken("its file is damaged".into()));
        };
        at += 4;
        each(Position { at, len }, entry)?;
        at += u64::from(len);
        body = rest;
    }
    Ok(())
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn length(bytes: &[u8]) -> Result<u32, FileFailure> {
    u32::try_from(bytes.len()).map_err(|_| FileFailure::Broken("an addition is too long".into()))
}

// ---- the folder of all collections ----

pub fn path_of(root: &Path, name: &CollectionName) -> PathBuf {
    root.join(format!("{name}{SUFFIX}"))
}

/// False if the file was moved or removed by another program. New writes would then be lost.
pub fn is_in_place(path: &Path) -> bool {
    path.is_file()
}

/// Whether there is a collection of this version. Reads its header only.
pub fn is_usable(path: &Path) -> Result<bool, FileFailure> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    match read_header(&mut file) {
        Ok(_) => Ok(true),
        Err(FileFailure::Missing) => Ok(false),
        Err(broken) => Err(broken),
    }
}

pub fn collections(root: &Path) -> Result<Vec<CollectionName>, FileFailure> {
    let names = file_names(root)?.into_iter();
    Ok(names
        .filter_map(|name| CollectionName::parse(name.strip_suffix(SUFFIX)?))
        .collect())
}

/// Removes the file, or a folder of the same name.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes unfinished files, and the folders of earlier versions.
pub fn tidy(root: &Path) -> Result<(), FileFailure> {
    for name in file_names(root)? {
        let path = root.join(&name);
        let is_old =
            CollectionName::parse(name.strip_prefix(OLD_COPY_PREFIX).unwrap_or(&name)).is_some();
        if name.ends_with(DRAFT_SUFFIX) || (is_old && path.is_dir()) {
            remove(&path)?;
        }
    }
    Ok(())
}

fn file_names(root: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_str().map(str::to_owned)));
    names.filter_map(io::Result::transpose).collect()
}

/// Files hold what people wrote, so only their owner may read them.
pub fn make_root(root: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(root)
}

pub fn check_root(options: &EmbeddedOptions) -> Result<(), FileFailure> {
    make_root(&options.root)?;
    check_free(options)?;
    let probe = options.root.join(PROBE_FILE);
    drop(
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&probe)?,
    );
    Ok(fs::remove_file(probe)?)
}

pub fn check_free(options: &EmbeddedOptions) -> Result<(), FileFailure> {
    let disk = rustix::fs::statvfs(&options.root).map_err(io::Error::from)?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < options.min_free_bytes {
        return Err(FileFailure::Broken("the disk is nearly full".into()));
    }
    Ok(())
}
