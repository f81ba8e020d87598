//! `list_files`: what a folder holds, with type, size and time of change.

use std::ops::ControlFlow;

use codelab_protocol::{ListFiles, Timestamp};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::FilePattern;
use crate::error::{PathAction, ToolRefusal};
use crate::options::WorkspaceLimits;
use crate::root::Root;
use crate::walk::{WalkEnd, WalkEntry, walk};

pub(crate) fn list_files(
    root: &Root,
    limits: &WorkspaceLimits,
    call: &ListFiles,
    cancel: &CancellationToken,
) -> Result<Value, ToolRefusal> {
    let pattern = call.pattern.as_deref().map(FilePattern::new).transpose()?;
    let (folder, real) = root.folder(&call.path)?;
    let mut files = Vec::new();
    let end = walk(root, folder, &real, call.recursive, cancel, &mut |entry| {
        let from_start = entry.real.strip_prefix(&real).unwrap_or(entry.real);
        if pattern
            .as_ref()
            .is_some_and(|pattern| !pattern.matches(from_start))
        {
            return ControlFlow::Continue(());
        }
        if files.len() >= limits.listed_files {
            return ControlFlow::Break(());
        }
        files.extend(describe(root, &entry));
        ControlFlow::Continue(())
    });
    match end.map_err(|error| ToolRefusal::from_io(&call.path, PathAction::Read, error))? {
        WalkEnd::Complete => Ok(json!({"success": true, "files": files})),
        WalkEnd::Cut => Ok(json!({"success": true, "files": files, "truncated": true})),
        WalkEnd::Cancelled => Err(ToolRefusal::Cancelled),
    }
}

/// A link is described by what it leads to; one that leads nowhere or out of the workspace is left
/// out, as are pipes, sockets and devices.
fn describe(root: &Root, entry: &WalkEntry<'_>) -> Option<Value> {
    let metadata = if entry.kind.is_symlink() {
        root.dir().metadata(entry.real)
    } else {
        entry.folder.symlink_metadata(entry.name)
    };
    let metadata = metadata.ok()?;
    let (kind, size) = if metadata.is_dir() {
        ("directory", 0)
    } else if metadata.is_file() {
        ("file", metadata.len())
    } else {
        return None;
    };
    let modified = metadata
        .modified()
        .ok()
        .map(|time| Timestamp::from(time.into_std()));
    Some(
        json!({"path": entry.real.to_string_lossy(), "type": kind, "size": size, "modified": modified}),
    )
}
