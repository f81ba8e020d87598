//! Walks a folder beneath the root by open handles, obeying `.gitignore` and `.ignore`. Links are
//! named and never entered, `.git` is left out, and what is private does not exist.

use std::ffi::OsString;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, FileType};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use tokio_util::sync::CancellationToken;

use crate::root::{Root, open_file};

const MAX_VISITED: usize = 200_000;
const MAX_DEPTH: usize = 64;
const MAX_IGNORE_FILE_BYTES: u64 = 1024 * 1024;

/// Later files win within a folder.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// How a walk came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    Complete,
    /// The visitor or a limit stopped it.
    Cut,
    Cancelled,
}

pub(crate) struct WalkEntry<'a> {
    pub folder: &'a Dir,
    pub name: &'a Path,
    /// From the root.
    pub real: &'a Path,
    pub kind: FileType,
}

/// Rules of the folders from the root down; the deepest that says something decides.
#[derive(Clone, Default)]
struct Rules(Vec<Arc<Gitignore>>);

struct Pending {
    folder: Arc<Dir>,
    name: OsString,
    real: PathBuf,
    kind: FileType,
    rules: Rules,
    depth: usize,
}

/// Visits what lies in `start`, in the order of names, folders before what they hold.
pub(crate) fn walk(
    root: &Root,
    start: Dir,
    start_real: &Path,
    is_recursive: bool,
    cancel: &CancellationToken,
    visit: &mut dyn FnMut(WalkEntry<'_>) -> ControlFlow<()>,
) -> io::Result<WalkEnd> {
    let rules = Rules::above(root, start_real);
    let (mut visited, mut is_cut) = (0, false);
    let mut pending = children(root, start, start_real, &rules, 0)?;
    pending.reverse();
    while let Some(next) = pending.pop() {
        if cancel.is_cancelled() {
            return Ok(WalkEnd::Cancelled);
        }
        visited += 1;
        if visited > MAX_VISITED {
            return Ok(WalkEnd::Cut);
        }
        let entry = WalkEntry {
            folder: &next.folder,
            name: next.name.as_ref(),
            real: &next.real,
            kind: next.kind,
        };
        if visit(entry).is_break() {
            return Ok(WalkEnd::Cut);
        }
        if !is_recursive || !next.kind.is_dir() {
            continue;
        }
        if next.depth >= MAX_DEPTH {
            is_cut = true;
            continue;
        }
        // What vanished, became a link or may not be read is passed over.
        let Ok(folder) = next.folder.open_dir_nofollow(&next.name) else {
            continue;
        };
        let Ok(mut found) = children(root, folder, &next.real, &next.rules, next.depth + 1) else {
            continue;
        };
        found.reverse();
        pending.append(&mut found);
    }
    Ok(if is_cut {
        WalkEnd::Cut
    } else {
        WalkEnd::Complete
    })
}

fn children(
    root: &Root,
    folder: Dir,
    real: &Path,
    rules: &Rules,
    depth: usize,
) -> io::Result<Vec<Pending>> {
    let rules = rules.beneath(&folder, real);
    let folder = Arc::new(folder);
    let mut found = Vec::new();
    for entry in folder.entries()?.take(MAX_VISITED) {
        let entry = entry?;
        let name = entry.file_name();
        let real = real.join(&name);
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if name == ".git" || root.is_private(&real) || rules.ignores(&real, kind.is_dir()) {
            continue;
        }
        found.push(Pending {
            folder: Arc::clone(&folder),
            name,
            real,
            kind,
            rules: rules.clone(),
            depth,
        });
    }
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

impl Rules {
    /// What the folders above `start` say. Who asks for an ignored folder by name wants to see into
    /// it: then nothing.
    fn above(root: &Root, start: &Path) -> Self {
        let mut rules = Self::default();
        if let Some(excluded) = root
            .dir()
            .open_dir(".git/info")
            .ok()
            .and_then(|info| Self::read(&info, Path::new(""), &["exclude"]))
        {
            rules.0.push(Arc::new(excluded));
        }
        let Ok(mut folder) = root.dir().try_clone() else {
            return rules;
        };
        let mut real = PathBuf::new();
        for name in start {
            rules = rules.beneath(&folder, &real);
            real.push(name);
            if rules.ignores(&real, true) {
                return Self::default();
            }
            match folder.open_dir_nofollow(name) {
                Ok(next) => folder = next,
                Err(_) => return rules,
            }
        }
        rules
    }

    fn beneath(&self, folder: &Dir, real: &Path) -> Self {
        let mut rules = self.clone();
        if let Some(own) = Self::read(folder, real, &IGNORE_FILES) {
            rules.0.push(Arc::new(own));
        }
        rules
    }

    fn ignores(&self, real: &Path, is_folder: bool) -> bool {
        for rules in self.0.iter().rev() {
            match rules.matched(real, is_folder) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }

    fn read(folder: &Dir, real: &Path, names: &[&str]) -> Option<Gitignore> {
        let mut builder = GitignoreBuilder::new(real);
        let mut is_empty = true;
        for name in names {
            let Ok(file) = open_file(folder, Path::new(name), name) else {
                continue;
            };
            let mut text = Vec::new();
            if file
                .take(MAX_IGNORE_FILE_BYTES)
                .read_to_end(&mut text)
                .is_err()
            {
                continue;
            }
            for line in String::from_utf8_lossy(&text).lines() {
                // A line that is no pattern ignores nothing, as in git.
                is_empty &= builder.add_line(None, line).is_err();
            }
        }
        if is_empty { None } else { builder.build().ok() }
    }
}
