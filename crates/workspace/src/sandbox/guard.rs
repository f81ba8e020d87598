//! What the policy protects inside a workspace that commands may otherwise write: before a command it is found, after it is
//! compared, and what the command changed is put back. Nothing is thrown away: what must not stay moves to a folder of
//! removed things, and the person is told.
//!
//! Behind bubblewrap what exists is read-only as well, so that comparing is for what a command creates, or moves together with
//! the folder around it.

mod find;
mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use codelab_policy::Policy;
use serde::{Deserialize, Serialize};

pub(crate) use find::repositories;
use find::{Found, Identity, Kept};
use restore::Removed;

use super::git::{self, GitAccess};

/// Mounts that one command gets for protected paths. What is beyond is compared only.
const MAX_MOUNTS: usize = 512;

/// What is guarded for one command. Paths are relative to the root.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Protected {
    pub root: PathBuf,
    /// Patterns beyond the policy's own.
    pub patterns: Vec<String>,
    /// Paths that are protected in this workspace only, such as the folder that `core.hooksPath` names.
    pub named: Vec<PathBuf>,
    /// The repository at the root, where the wall guards it and it need not be looked at.
    pub left_out: Vec<PathBuf>,
    pub git: GitAccess,
    /// What was there when no command ran. Anything else may come from a command that still runs, and is never put back.
    pub known: Option<BTreeSet<PathBuf>>,
    /// Where removed things go.
    pub removed_to: PathBuf,
}

/// What was done about a change of a protected path, for the person and the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub path: PathBuf,
    pub done: Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Done {
    /// The command created it; it is now at this place.
    Removed(PathBuf),
    /// The command changed or deleted it; it is as it was.
    PutBack,
    Failed(String),
}

pub(super) struct Guard {
    root: Dir,
    protected: Protected,
    policy: Policy,
    before: Found,
    /// In the root's git folder, what makes git run programs, where the command may write the rest.
    git_parts: Vec<PathBuf>,
    /// What a mount keeps from being changed, with the folders above it.
    mounted: BTreeMap<PathBuf, Vec<Identity>>,
}

impl Guard {
    pub fn look(protected: Protected) -> io::Result<Self> {
        let root = Dir::open_ambient_dir(&protected.root, ambient_authority())?;
        let policy = protected.patterns.iter().fold(Policy::default(), |policy, pattern| policy.protect(pattern));
        let mut before = find::find(&root, &policy, &protected, find::Content::Kept)?;
        if let Some(known) = &protected.known {
            before.entries.retain(|path, _| known.contains(path));
            before.tops.retain(|path| known.contains(path));
        }
        let git_parts = git_parts(&root, &protected)?;
        Ok(Self { root, protected, policy, before, git_parts, mounted: BTreeMap::new() })
    }

    pub fn known(&self) -> BTreeSet<PathBuf> {
        self.before.entries.keys().cloned().collect()
    }

    /// The absolute paths to make read-only, from the top of the tree downwards.
    pub fn mount(&mut self) -> Vec<PathBuf> {
        let can_be_mounted =
            |path: &PathBuf| matches!(self.before.entries.get(path), Some(Kept::File { .. } | Kept::Folder));
        let paths = self.before.tops.iter().flat_map(|top| self.read_only_parts(top)).filter(can_be_mounted);
        let paths: Vec<PathBuf> = paths.take(MAX_MOUNTS).collect();
        for path in &paths {
            if let Ok(above) = find::folders_above(&self.root, path) {
                self.mounted.insert(path.clone(), above);
            }
        }
        self.mounted.keys().map(|path| self.protected.root.join(path)).collect()
    }

    /// A nested repository that git may write is not read-only as a whole.
    fn read_only_parts(&self, top: &Path) -> Vec<PathBuf> {
        if self.protected.git == GitAccess::Write && top.ends_with(".git") {
            let is_part = |path: &&PathBuf| path.parent() == Some(top);
            return self.before.entries.keys().filter(is_part).cloned().collect();
        }
        vec![top.to_owned()]
    }

    /// Once nothing of the command runs any more. What is `allowed` was written by a tool meanwhile, after a person said yes.
    pub fn settle(self, allowed: &[PathBuf]) -> Vec<Change> {
        let after = match find::find(&self.root, &self.policy, &self.protected, find::Content::Compared(&self.before)) {
            Ok(after) => after,
            Err(error) => {
                let done = Done::Failed(format!("the workspace could not be compared: {error}"));
                return vec![Change { path: PathBuf::from("."), done }];
            }
        };
        let mut removed = Removed::new(&self.root, &self.protected.removed_to);
        let mut changes = Vec::new();
        let is_allowed = |path: &Path| allowed.iter().any(|allowed| path.starts_with(allowed));
        for path in self.appeared(&after, &is_allowed) {
            let done = removed.take(&path).map_or_else(failed, Done::Removed);
            changes.push(Change { path, done });
        }
        for (path, kept) in &self.before.entries {
            let is_same = after.entries.get(path).is_some_and(|found| found.is_same_as(kept));
            if is_same || is_allowed(path) || self.is_held_by_mount(path) {
                continue;
            }
            let done = removed.put_back(path, kept).map_or_else(failed, |()| Done::PutBack);
            changes.push(Change { path: path.clone(), done });
        }
        changes
    }

    /// What is there now and was not before; of a folder, the folder alone.
    fn appeared(&self, after: &Found, is_allowed: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
        let is_known = |path: &Path| self.before.entries.contains_key(path) || is_allowed(path);
        // A folder that holds something allowed stays; what else is in it is looked at by itself.
        let is_around = |path: &Path| {
            after.entries.keys().any(|below| below != path && below.starts_with(path) && is_allowed(below))
        };
        let is_new = |path: &&PathBuf| !is_known(path) && !is_around(path) && !self.is_held_by_mount(path);
        let parts = git_parts(&self.root, &self.protected).unwrap_or_default();
        let new_parts = parts.iter().filter(|part| !self.git_parts.contains(part));
        let mut fresh: Vec<PathBuf> = Vec::new();
        for path in after.entries.keys().filter(is_new).chain(new_parts) {
            if !fresh.iter().any(|above| path.starts_with(above)) {
                fresh.push(path.clone());
            }
        }
        fresh
    }

    /// A mount holds as long as the folders above it are the same: it cannot be replaced itself. So a change beneath came from
    /// outside, for example from the person's editor, and stays.
    fn is_held_by_mount(&self, path: &Path) -> bool {
        self.mounted.iter().any(|(mounted, above)| {
            path.starts_with(mounted) && find::folders_above(&self.root, mounted).is_ok_and(|now| now == *above)
        })
    }
}

fn git_parts(root: &Dir, protected: &Protected) -> io::Result<Vec<PathBuf>> {
    match protected.git {
        GitAccess::Read => Ok(Vec::new()),
        GitAccess::Write => Ok(git::protect(root, &protected.root, GitAccess::Write)?.read_only),
    }
}

fn failed(error: io::Error) -> Done {
    Done::Failed(error.to_string())
}
