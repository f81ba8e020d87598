//! How a record is written to disk. Names and contents need not be text, so both are written as
//! hexadecimal digits.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::find::{FoundPaths, Kept, Stamp};

#[derive(Serialize, Deserialize)]
pub(super) struct StoredFound {
    entries: Vec<(String, StoredKept)>,
    outermost: Vec<String>,
    unreadable: Vec<String>,
    repositories: Vec<String>,
    links: Vec<(String, String)>,
    is_complete: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredKept {
    File {
        stamp: Option<Stamp>,
        content: Option<String>,
        mode: u32,
    },
    Link(String),
    Folder {
        mode: Option<u32>,
    },
    Other,
}

impl From<FoundPaths> for StoredFound {
    fn from(found: FoundPaths) -> Self {
        let FoundPaths {
            entries,
            outermost,
            unreadable,
            repositories,
            links,
            is_complete,
        } = found;
        Self {
            entries: entries
                .into_iter()
                .map(|(path, kept)| (text(&path), kept.into()))
                .collect(),
            outermost: outermost.iter().map(|path| text(path)).collect(),
            unreadable: unreadable.iter().map(|path| text(path)).collect(),
            repositories: repositories.iter().map(|path| text(path)).collect(),
            links: links
                .iter()
                .map(|(link, target)| (text(link), text(target)))
                .collect(),
            is_complete,
        }
    }
}

impl TryFrom<StoredFound> for FoundPaths {
    type Error = hex::FromHexError;

    fn try_from(stored: StoredFound) -> Result<Self, Self::Error> {
        let StoredFound {
            entries,
            outermost,
            unreadable,
            repositories,
            links,
            is_complete,
        } = stored;
        let entry = |(at, kept): (String, StoredKept)| Ok((path(&at)?, kept.try_into()?));
        Ok(Self {
            entries: entries
                .into_iter()
                .map(entry)
                .collect::<Result<_, Self::Error>>()?,
            outermost: outermost
                .iter()
                .map(|text| path(text))
                .collect::<Result<_, _>>()?,
            unreadable: unreadable
                .iter()
                .map(|text| path(text))
                .collect::<Result<_, _>>()?,
            repositories: repositories
                .iter()
                .map(|text| path(text))
                .collect::<Result<_, _>>()?,
            links: links
                .iter()
                .map(|(link, target)| Ok((path(link)?, path(target)?)))
                .collect::<Result<_, Self::Error>>()?,
            is_complete,
        })
    }
}

impl From<Kept> for StoredKept {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::File {
                stamp,
                content,
                mode,
            } => Self::File {
                stamp,
                content: content.map(hex::encode),
                mode,
            },
            Kept::Link(target) => Self::Link(text(&target)),
            Kept::Folder { mode } => Self::Folder { mode },
            Kept::Other => Self::Other,
        }
    }
}

impl TryFrom<StoredKept> for Kept {
    type Error = hex::FromHexError;

    fn try_from(stored: StoredKept) -> Result<Self, Self::Error> {
        Ok(match stored {
            StoredKept::File {
                stamp,
                content,
                mode,
            } => Self::File {
                stamp,
                content: content.map(hex::decode).transpose()?,
                mode,
            },
            StoredKept::Link(target) => Self::Link(path(&target)?),
            StoredKept::Folder { mode } => Self::Folder { mode },
            StoredKept::Other => Self::Other,
        })
    }
}

fn text(path: &Path) -> String {
    hex::encode(path.as_os_str().as_bytes())
}

fn path(text: &str) -> Result<PathBuf, hex::FromHexError> {
    Ok(PathBuf::from(OsString::from_vec(hex::decode(text)?)))
}
