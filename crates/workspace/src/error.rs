//! Why a workspace cannot be opened, and why a call is refused. A refusal's text is what the model
//! reads.

use std::io;
use std::path::PathBuf;

use codelab_protocol::UserId;

use crate::before::RewindError;
use crate::tools::WriteQuestion;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open the workspace {path}: {source}")]
    Root { path: PathBuf, source: io::Error },
    #[error("{path} cannot be a workspace: it is the whole file system")]
    WholeFileSystem { path: PathBuf },
    #[error("{path} cannot be a workspace: its name is not UTF-8")]
    NotUtf8 { path: PathBuf },
}

/// Paths are shown as the caller wrote them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolRefusal {
    #[error("Path {0} is outside workspace bounds")]
    Outside(String),
    #[error("Path {0} does not exist")]
    Missing(String),
    #[error("Path {0} does not exist: give create_dirs to create missing folders")]
    MissingParent(String),
    #[error("Path {path} is too long: at most {max_bytes} bytes")]
    TooLong { path: String, max_bytes: usize },
    #[error("Path {0} contains a NUL character")]
    Nul(String),
    #[error("Path {0} is a symbolic link to nothing")]
    Dangling(String),
    #[error("Path {0} leads through links in a circle, or changed while it was being resolved")]
    Swapped(String),
    #[error("Path {0} belongs to CodeLab or holds credentials; it is not part of the workspace")]
    Private(String),
    #[error(
        "Path {path} leads to {real}, which is protected: name it directly, so that a person can see what is written"
    )]
    HiddenProtected { path: String, real: String },
    #[error("Path {0} is not a file")]
    NotAFile(String),
    #[error("Path {0} is not a folder")]
    NotAFolder(String),
    #[error("Permission denied to read {0}")]
    ReadDenied(String),
    #[error("Permission denied to write to {0}")]
    WriteDenied(String),
    #[error("User {0} is not authorized to access this path")]
    WrongUser(UserId),
    #[error("{0} is a binary file")]
    Binary(String),
    #[error("The image {path} has {size} bytes; at most {max_bytes} can be shown")]
    ImageTooLarge {
        path: String,
        size: u64,
        max_bytes: u64,
    },
    #[error("{path} has only {lines} lines")]
    PastTheEnd { path: String, lines: u64 },
    #[error("{path} has {size} bytes; at most {max_bytes} can be changed")]
    TooLarge {
        path: String,
        size: u64,
        max_bytes: u64,
    },
    #[error(
        "{0} is not UTF-8 or UTF-16 text, so it cannot be edited without damage; give the whole content"
    )]
    UnknownEncoding(String),
    #[error("{0} changed while it was being written: read it again")]
    Changed(String),
    #[error(
        "{path} changed while it was being written: read it again. What somebody else had put there meanwhile is in {kept}"
    )]
    Crossed { path: String, kept: String },
    #[error("{path} changed since you read it, so nothing was written: read it again")]
    Outdated { path: String, difference: String },
    #[error("{0} was there when you read it and is gone now, so nothing was written: look again")]
    Gone(String),
    #[error("{}; nothing was written", .0.reason)]
    Asks(Box<WriteQuestion>),
    #[error("edit {number}: the old text does not occur in {path}")]
    EditMissing { path: String, number: usize },
    #[error(
        "edit {number}: the old text occurs {count} times in {path}; it must occur exactly once"
    )]
    EditAmbiguous {
        path: String,
        number: usize,
        count: usize,
    },
    #[error("`{pattern}` is not a usable pattern: {reason}")]
    Pattern { pattern: String, reason: String },
    #[error("this client keeps nothing of what writes replaced, so no file was changed")]
    NothingKept,
    #[error("{0}")]
    Rewind(RewindError),
    #[error("the client ended before the rewind began; no file was changed")]
    NotBegun,
    #[error("cancelled")]
    Cancelled,
    #[error("{0} does not run in a workspace")]
    NotOurs(&'static str),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("the command could not be started: {0}")]
    NotStarted(String),
}

/// What was being done to a path when the system said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathAction {
    Read,
    Write,
}

impl ToolRefusal {
    pub fn from_io(path: &str, access: PathAction, source: io::Error) -> Self {
        let path = path.to_owned();
        match (source.kind(), access) {
            // Only an attempt to leave the root comes without a number from the system.
            (io::ErrorKind::PermissionDenied, _) if source.raw_os_error().is_none() => {
                Self::Outside(path)
            }
            (io::ErrorKind::PermissionDenied, PathAction::Read) => Self::ReadDenied(path),
            (
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem,
                PathAction::Write,
            ) => Self::WriteDenied(path),
            (io::ErrorKind::NotFound, _) => Self::Missing(path),
            (io::ErrorKind::NotADirectory, _) => Self::NotAFolder(path),
            (io::ErrorKind::IsADirectory, _) => Self::NotAFile(path),
            _ if source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                Self::Swapped(path)
            }
            _ => Self::Io { what: path, source },
        }
    }
}
