//! Whether an agent may replace a file: what it has seen of it, what is there now, and what a person
//! agreed to. Decided directly before the write, with nothing of ours in between.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use codelab_policy::{Policy, visible};
use codelab_protocol::{FileBase, FilePreview, MAX_PREVIEW_BYTES, Timestamp, WriteFile};
use serde_json::{Value, json};

use crate::difference::{as_text, between, excerpt};
use crate::error::{PathAction, ToolRefusal};
use crate::options::WorkspaceLimits;
use crate::root::{Root, TargetPath};
use crate::seen::{Present, ReadingAgent, Readings};

use super::refused;
use super::write::{check_visible, new_content};

/// What a model is told of the changes that it has not seen.
const MAX_DIFFERENCE_BYTES: usize = 16 * 1024;

/// Who writes, and what a person agreed to replace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    /// `None` is the person at this machine, who may write what they like.
    pub reader: Option<&'a ReadingAgent>,
    pub base: Option<&'a FileBase>,
}

/// A write that a person must see first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteQuestion {
    pub reason: String,
    pub preview: FilePreview,
}

/// What is where a write goes.
pub(crate) struct Replaced<'a> {
    pub readings: &'a Readings,
    pub limits: &'a WorkspaceLimits,
    pub real: &'a Path,
    /// Absent: there is no file.
    pub present: Option<&'a Present>,
}

impl Replaced<'_> {
    /// Refuses what the agent has seen otherwise. What nobody has seen is a question.
    pub fn check(&self, call: &WriteFile, writer: Writer<'_>) -> Result<(), ToolRefusal> {
        let seen = self.readings.of(writer.reader, self.real);
        let now = self.present.map(|present| &present.fingerprint);
        if let Some(seen) = &seen
            && now != Some(seen)
        {
            return Err(self.outdated(call, writer.reader));
        }
        let base = now.map_or(FileBase::Missing, |now| now.base());
        let asks = |reason: &str| {
            let path = visible(&call.path);
            ToolRefusal::Asks(Box::new(WriteQuestion {
                reason: format!("File modification requires approval: {path} {reason}"),
                preview: self.preview(call, writer.reader),
            }))
        };
        match writer.base {
            Some(agreed) if *agreed != base => Err(asks("changed since this write was approved")),
            Some(_) => Ok(()),
            None if seen.is_none() && now.is_some() && writer.reader.is_some() => {
                Err(asks("exists, and the agent has not read it"))
            }
            None => Ok(()),
        }
    }

    /// The file is not what the agent saw.
    pub fn outdated(&self, call: &WriteFile, reader: Option<&ReadingAgent>) -> ToolRefusal {
        let path = call.path.clone();
        let Some(present) = self.present else {
            return ToolRefusal::Gone(path);
        };
        let seen = self.readings.of(reader, self.real);
        let seen = seen.and_then(|seen| self.readings.content(&seen));
        let shown = match (&seen, &present.bytes) {
            (Some(seen), Some(now)) => between(
                ("as it was read", seen.as_ref()),
                ("as it is now", now),
                MAX_DIFFERENCE_BYTES,
            ),
            (None, Some(now)) => excerpt(now, MAX_DIFFERENCE_BYTES),
            (_, None) => Default::default(),
        };
        let mut difference = match (shown.note, &seen) {
            (Some(note), _) => format!("({note})"),
            (None, None) => format!("(the file as it is now)\n{}", shown.text),
            (None, Some(_)) => shown.text,
        };
        if shown.is_truncated {
            difference.push_str("(the rest is left out)\n");
        }
        ToolRefusal::Outdated { path, difference }
    }

    /// What the write would do to the file as it is now.
    pub fn preview(&self, call: &WriteFile, reader: Option<&ReadingAgent>) -> FilePreview {
        let seen = self.readings.of(reader, self.real);
        let now = self.present.map(|present| &present.fingerprint);
        let mut preview = FilePreview {
            base: now.map_or(FileBase::Missing, |now| now.base()),
            diff: String::new(),
            is_unread: seen.is_none() && now.is_some(),
            is_outdated: seen.is_some() && seen.as_ref() != now,
            truncated: false,
            note: None,
        };
        let bytes = match self.present {
            Some(Present { bytes: None, .. }) => {
                preview.note = Some("the file is too large to be compared".to_owned());
                return preview;
            }
            Some(Present { bytes, .. }) => bytes.as_deref(),
            None => None,
        };
        match new_content(bytes, call, self.limits) {
            Ok(new) => {
                let path = visible(&call.path);
                let old = match bytes {
                    Some(bytes) => (format!("a/{path}"), bytes),
                    None => ("/dev/null".to_owned(), &[][..]),
                };
                let shown = between(
                    (&old.0, old.1),
                    (&format!("b/{path}"), &new),
                    MAX_PREVIEW_BYTES,
                );
                (preview.diff, preview.truncated) = (shown.text, shown.is_truncated);
                preview.note = shown.note.map(str::to_owned);
            }
            Err(refusal) => preview.note = Some(refusal.to_string()),
        }
        preview
    }
}

/// The preview of a write that nobody has begun. A place where nothing can be written is a note.
pub(crate) fn preview(
    root: &Root,
    readings: &Readings,
    limits: &WorkspaceLimits,
    call: &WriteFile,
    reader: Option<&ReadingAgent>,
) -> FilePreview {
    let refused = |refusal: ToolRefusal| FilePreview {
        base: FileBase::Missing,
        diff: String::new(),
        is_unread: false,
        is_outdated: false,
        truncated: false,
        note: Some(refusal.to_string()),
    };
    match look(root, &call.path) {
        Ok((real, present)) => {
            let replaced = Replaced {
                readings,
                limits,
                real: &real,
                present: present.as_ref(),
            };
            replaced.preview(call, reader)
        }
        Err(refusal) => refused(refusal),
    }
}

/// The result of a write that is certain without writing: it would be refused whoever approved it, or
/// the file has this content already.
pub(crate) fn certain_result(
    root: &Root,
    readings: &Readings,
    (limits, policy): (&WorkspaceLimits, &Policy),
    call: &WriteFile,
    reader: Option<&ReadingAgent>,
) -> Option<Value> {
    let (real, present) = match look(root, &call.path) {
        Ok(found) => found,
        Err(refusal) => return Some(refused(&refusal)),
    };
    if let Err(refusal) = check_visible(policy, &call.path, &real) {
        return Some(refused(&refusal));
    }
    let present = present.as_ref();
    let replaced = Replaced {
        readings,
        limits,
        real: &real,
        present,
    };
    let seen = readings.of(reader, &real);
    if seen.is_some() && seen.as_ref() != present.map(|present| &present.fingerprint) {
        return Some(refused(&replaced.outdated(call, reader)));
    }
    let bytes = match present {
        // It is too large to be looked at.
        Some(Present { bytes: None, .. }) => return None,
        Some(Present { bytes, .. }) => bytes.as_deref(),
        None => None,
    };
    match new_content(bytes, call, limits) {
        Ok(new) if bytes == Some(new.as_slice()) => Some(json!({
            "success": true,
            "size": new.len(),
            "timestamp": Timestamp::from(SystemTime::now()),
            "note": "The file has this content already; nothing was written",
        })),
        Ok(_) => None,
        Err(refusal) => Some(refused(&refusal)),
    }
}

/// Whether a person must see the write first. A write that would be refused is no question.
pub(crate) fn question(
    root: &Root,
    readings: &Readings,
    limits: &WorkspaceLimits,
    call: &WriteFile,
    writer: Writer<'_>,
) -> Option<WriteQuestion> {
    let (real, present) = look(root, &call.path).ok()?;
    let replaced = Replaced {
        readings,
        limits,
        real: &real,
        present: present.as_ref(),
    };
    match replaced.check(call, writer) {
        Err(ToolRefusal::Asks(question)) => Some(*question),
        Err(_) | Ok(()) => None,
    }
}

/// A file as a person sees it before they decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNow {
    pub base: FileBase,
    /// Absent where there is no file, and where it is not text or too large.
    pub text: Option<String>,
}

pub(crate) fn file_now(root: &Root, path: &str) -> Result<FileNow, ToolRefusal> {
    let (_, present) = look(root, path)?;
    let Some(present) = present else {
        return Ok(FileNow {
            base: FileBase::Missing,
            text: None,
        });
    };
    Ok(FileNow {
        base: present.fingerprint.base(),
        text: present.bytes.as_deref().and_then(as_text),
    })
}

fn look(root: &Root, path: &str) -> Result<(PathBuf, Option<Present>), ToolRefusal> {
    let target = root.target(path)?;
    let real = target.real();
    let present = match &target {
        TargetPath::Existing(place) => {
            let mut file = place.open_file(path)?;
            let present = Present::of_file(&mut file)
                .map_err(|error| ToolRefusal::from_io(path, PathAction::Read, error))?;
            Some(present)
        }
        TargetPath::New { .. } => None,
    };
    Ok((real, present))
}
