//! What the policy protects inside a workspace that commands may otherwise write: before a command
//! it is found, after it is compared, and what the command changed is put back. What must not stay
//! moves to a folder of removed things, and the person is told.
//!
//! Behind bubblewrap what exists is read-only as well, so that comparing is for what a command
//! creates, or moves together with the folder around it.

mod baseline;
mod find;
mod rebase;
mod repositories;
mod restore;
mod stored;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use codelab_policy::Policy;
use serde::{Deserialize, Serialize};

pub(crate) use baseline::{Baseline, RecordLock};
use baseline::{BaselineRecord, Running};
use find::{FileIdentity, FoundPaths, Kept, MAX_ENTRIES};
use rebase::is_rebase_list;
pub(crate) use repositories::repositories;
use restore::Removed;

use super::git::{self, GIT, GitAccess};

/// Mounts that one command gets for protected paths. What is beyond is compared only.
const MAX_MOUNTS: usize = 512;
/// The kernel takes no longer path for a mount. A longer one is compared only.
const MAX_MOUNT_BYTES: usize = 4095;
/// Paths that a warning names.
const MAX_NAMED: usize = 10;

/// What is guarded for one command. Paths are relative to the root.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct GuardedPaths {
    pub root: PathBuf,
    /// Patterns beyond the policy's own.
    pub patterns: Vec<String>,
    /// Paths that are protected in this workspace only, such as the folder that `core.hooksPath`
    /// names.
    pub named: Vec<PathBuf>,
    /// Places that no command can reach, such as a data folder in the workspace. CodeLab itself
    /// writes there.
    pub left_out: Vec<PathBuf>,
    pub git: GitAccess,
    /// Where removed things go.
    pub removed_to: PathBuf,
    /// Where the records of workspaces are.
    pub baselines: PathBuf,
}

/// What was done about a change of a protected path, for the person and the model. Names need not
/// be text; here they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub path: String,
    pub done: GuardedChange,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuardedChange {
    /// The command created it.
    Removed(RemovedTo),
    /// The command changed or deleted it; it is as it was. With what was there instead.
    PutBack(Vec<RemovedTo>),
    Failed(String),
}

/// What became of something that must not stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RemovedTo {
    MovedTo(String),
    /// It was too much to be copied to another file system.
    Deleted,
}

/// What a comparison found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    pub changes: Vec<Change>,
    /// What the person should know, though the command need not have done it.
    pub warnings: Vec<String>,
}

pub(super) struct Guard {
    root: Dir,
    protected: GuardedPaths,
    policy: Policy,
    baseline: Baseline,
    running: Running,
    /// What this command began with. Others may have changed the record since.
    before: BaselineRecord,
    warnings: Vec<String>,
    /// The mode of the root itself.
    mode: u32,
    /// Of a linked worktree's repository, what makes git run programs.
    outer_parts: Vec<PathBuf>,
    /// What a mount keeps from being changed.
    mounted: BTreeMap<PathBuf, Vec<FileIdentity>>,
}

impl Guard {
    /// The gate is to be kept until the command has begun.
    pub fn look(protected: GuardedPaths) -> io::Result<(Self, RecordLock)> {
        let root = Dir::open_ambient_dir(&protected.root, ambient_authority())?;
        let policy = protected
            .patterns
            .iter()
            .fold(Policy::default(), |policy, pattern| policy.protect(pattern));
        let mode = find::mode_of(&root)?;
        let baseline = Baseline::of(&protected.baselines, &protected.root);
        let gate = baseline.gate()?;
        let outer_parts = outer_parts(&root, &protected)?;
        let (running, before, left) = gate.begin(protected.git, || {
            let mut found = find::find(&root, &policy, &protected, find::ReadContent::Kept);
            if is_cover(&root) {
                found.entries.remove(Path::new(GIT));
                return Ok((found, None));
            }
            Ok((found, find::identity_of(&root, Path::new(GIT)).ok()))
        })?;
        let warnings = left
            .and_then(|left| not_compared(&left.found, &before.found))
            .into_iter()
            .collect();
        let mounted = BTreeMap::new();
        Ok((
            Self {
                root,
                protected,
                policy,
                baseline,
                running,
                before,
                warnings,
                mode,
                outer_parts,
                mounted,
            },
            gate,
        ))
    }

    /// The absolute paths to make read-only, from the top of the tree downwards. None while other
    /// commands run: one of them could lead the name of such a path elsewhere before it is mounted.
    pub fn mount(&mut self) -> Vec<PathBuf> {
        if self.before.is_shared {
            return Vec::new();
        }
        let found = &self.before.found;
        let can_be_mounted = |path: &PathBuf| {
            matches!(
                found.entries.get(path),
                Some(Kept::File { .. } | Kept::Folder { .. })
            )
        };
        let is_own_git = |path: &&PathBuf| path.as_path() == Path::new(GIT);
        let outermost = found.outermost.iter().filter(|top| !is_own_git(top));
        let fits =
            |path: &PathBuf| self.protected.root.join(path).as_os_str().len() <= MAX_MOUNT_BYTES;
        let paths = outermost
            .flat_map(|top| self.read_only_parts(top))
            .filter(|path| can_be_mounted(path) && fits(path));
        for path in paths.take(MAX_MOUNTS).collect::<Vec<_>>() {
            if let Ok(identities) = find::identities(&self.root, &path) {
                self.mounted.insert(path, identities);
            }
        }
        self.mounted
            .keys()
            .map(|path| self.protected.root.join(path))
            .collect()
    }

    /// A nested repository that git may write is not read-only as a whole.
    fn read_only_parts(&self, top: &Path) -> Vec<PathBuf> {
        if self.protected.git == GitAccess::Write && top.ends_with(GIT) {
            let is_part = |path: &&PathBuf| path.parent() == Some(top);
            return self
                .before
                .found
                .entries
                .keys()
                .filter(is_part)
                .cloned()
                .collect();
        }
        vec![top.to_owned()]
    }

    /// Once nothing of the command runs any more.
    pub fn compare(self) -> Comparison {
        let mut compared = Comparison {
            changes: Vec::new(),
            warnings: self.warnings.clone(),
        };
        if let Err(error) = self.put_back(&mut compared) {
            let path = self.protected.root.to_string_lossy().into_owned();
            let done = GuardedChange::Failed(format!("protected paths were not compared: {error}"));
            compared.changes.push(Change { path, done });
        }
        compared
    }

    fn put_back(&self, compared: &mut Comparison) -> io::Result<()> {
        let gate = self.baseline.gate()?;
        let is_last = self.running.is_last();
        let missing = || io::Error::other("the record of what was there before is gone");
        let record = gate.record()?.ok_or_else(missing)?;
        if is_last && record.git.is_none() {
            // Bubblewrap leaves the folder that it covered. One that is not empty stays: it is
            // compared.
            let _ = self.root.remove_dir(GIT);
        }
        if find::mode_of(&self.root)? != self.mode {
            // Without it the next command may not even start.
            let done = find::set_mode(&self.root, self.mode)
                .map_or_else(failed, |()| GuardedChange::PutBack(Vec::new()));
            compared.changes.push(change(Path::new("."), done));
        }
        let before = &record.found;
        let find = || {
            find::find(
                &self.root,
                &self.policy,
                &self.protected,
                find::ReadContent::Compared(before),
            )
        };
        let mut after = find();
        let mut removed = Removed::new(&self.root, &self.protected.removed_to);
        if let Some(moved) = self.moved_git(&record, &after) {
            let done = removed
                .bring_back(&moved, Path::new(GIT))
                .map_or_else(failed, GuardedChange::PutBack);
            compared.changes.push(change(Path::new(GIT), done));
            after = find();
        }
        for path in self.appeared(&record, &after) {
            // Another command still needs it.
            if !is_last && path == Path::new(GIT) && is_cover(&self.root) {
                continue;
            }
            let done = removed
                .take(&path)
                .map_or_else(failed, GuardedChange::Removed);
            compared.changes.push(change(&path, done));
        }
        for (path, kept) in before
            .entries
            .iter()
            .filter(|(path, _)| !is_rebase_list(path))
        {
            let found = after.entries.get(path);
            if found.is_some_and(|found| found.is_same_as(kept))
                || self.is_held(&record, &after, path)
            {
                continue;
            }
            let done = removed
                .put_back(path, kept, found)
                .map_or_else(failed, GuardedChange::PutBack);
            compared.changes.push(change(path, done));
        }
        self.clear_rebase_lists(&record, &after, &mut removed, compared);
        for path in outer_parts(&self.root, &self.protected)?
            .iter()
            .filter(|part| !self.outer_parts.contains(part))
        {
            compared.changes.push(change(
                path,
                GuardedChange::Failed("it makes git run programs: look at it".to_owned()),
            ));
        }
        incomplete(before, &after, compared);
        if is_last {
            gate.forget();
        }
        Ok(())
    }

    /// An interrupted rebase may go on, without programs that nobody put into its list before.
    fn clear_rebase_lists(
        &self,
        record: &BaselineRecord,
        after: &FoundPaths,
        removed: &mut Removed<'_>,
        compared: &mut Comparison,
    ) {
        for (path, now) in after
            .entries
            .iter()
            .filter(|(path, _)| is_rebase_list(path) && !self.is_held(record, after, path))
        {
            let before = record.found.entries.get(path);
            if before.is_some_and(|before| now.is_same_as(before)) {
                continue;
            }
            if let Some(rest) = rebase::without_programs(now, before) {
                let done = removed
                    .put_back(path, &rest, Some(now))
                    .map_or_else(failed, GuardedChange::PutBack);
                compared.changes.push(change(path, done));
            }
        }
    }

    /// What is there now and was not before; of a folder, the folder alone.
    fn appeared(&self, record: &BaselineRecord, after: &FoundPaths) -> Vec<PathBuf> {
        let before = &record.found.entries;
        let is_new = |path: &&PathBuf| {
            !before.contains_key(*path)
                && !is_rebase_list(path)
                && !self.is_held(record, after, path)
        };
        let mut fresh: Vec<PathBuf> = Vec::new();
        for path in after.entries.keys().filter(is_new) {
            if !fresh.iter().any(|above| path.starts_with(above)) {
                fresh.push(path.clone());
            }
        }
        fresh
    }

    /// Where the git folder is now, if the command gave it another name.
    fn moved_git(&self, record: &BaselineRecord, after: &FoundPaths) -> Option<PathBuf> {
        let identity = |path: &Path| find::identity_of(&self.root, path).ok();
        record
            .git
            .filter(|_| identity(Path::new(GIT)) != record.git)?;
        after
            .repositories
            .iter()
            .find(|path| identity(path) == record.git)
            .cloned()
    }

    /// Whether the command cannot have changed it, so that a change came from the person and stays.
    fn is_held(&self, record: &BaselineRecord, after: &FoundPaths, path: &Path) -> bool {
        let has_other_names =
            |found: &FoundPaths| found.entries.get(path).is_some_and(|kept| kept.names() > 1);
        if has_other_names(&record.found) || has_other_names(after) {
            return false;
        }
        // The git folder is read-only as a whole.
        if path.starts_with(GIT) && !record.is_git_writable {
            return record.git.is_some()
                && find::identity_of(&self.root, Path::new(GIT)).ok() == record.git;
        }
        // A mount holds as long as it and the folders above it are the same. Somebody outside can
        // replace what it lies on, and then it is gone. Other commands may not have it.
        let is_same = |mounted: &Path, then: &Vec<FileIdentity>| {
            find::identities(&self.root, mounted).is_ok_and(|now| now == *then)
        };
        !record.is_shared
            && self
                .mounted
                .iter()
                .any(|(mounted, then)| path.starts_with(mounted) && is_same(mounted, then))
    }
}

/// Whether the git folder is the empty one that bubblewrap needs to cover one that does not exist.
fn is_cover(root: &Dir) -> bool {
    root.open_dir_nofollow(GIT)
        .and_then(|folder| folder.entries())
        .is_ok_and(|mut inside| inside.next().is_none())
}

fn change(path: &Path, done: GuardedChange) -> Change {
    Change {
        path: path.to_string_lossy().into_owned(),
        done,
    }
}

/// What could not be looked at, where that may be the command's doing.
fn incomplete(before: &FoundPaths, after: &FoundPaths, compared: &mut Comparison) {
    for path in after.unreadable.difference(&before.unreadable) {
        let done = GuardedChange::Failed(
            "it cannot be read, so that nothing in it was compared".to_owned(),
        );
        compared.changes.push(change(path, done));
    }
    let text = format!(
        "there are more than {MAX_ENTRIES} entries, or submodules nested too deeply: the rest was not compared"
    );
    match (before.is_complete, after.is_complete) {
        (_, true) => {}
        (true, false) => compared
            .changes
            .push(change(Path::new("."), GuardedChange::Failed(text))),
        (false, false) => compared.warnings.push(text),
    }
}

/// What an earlier command may have changed whose supervisor was ended before it compared.
fn not_compared(left: &FoundPaths, now: &FoundPaths) -> Option<String> {
    let is_same = |path: &PathBuf, kept: &Kept| {
        now.entries
            .get(path)
            .is_some_and(|now| now.is_same_as(kept))
    };
    let changed = left
        .entries
        .iter()
        .filter(|(path, kept)| !is_same(path, kept))
        .map(|(path, _)| path);
    let appeared = now
        .entries
        .keys()
        .filter(|path| !left.entries.contains_key(*path));
    let names: Vec<String> = changed
        .chain(appeared)
        .take(MAX_NAMED)
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "an earlier command ended without being compared, and these protected paths are not as they were before it: {}",
            names.join(", ")
        )
    })
}

/// The repository of a linked worktree lies outside the root, so that only its parts by name can be
/// looked at.
fn outer_parts(root: &Dir, protected: &GuardedPaths) -> io::Result<Vec<PathBuf>> {
    if protected.git == GitAccess::Read {
        return Ok(Vec::new());
    }
    let parts = git::protect(root, &protected.root, GitAccess::Write)?.read_only;
    Ok(parts
        .into_iter()
        .filter(|part| part.is_absolute())
        .collect())
}

fn failed(error: io::Error) -> GuardedChange {
    GuardedChange::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_left_out_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let protected = GuardedPaths {
            root: folder.path().to_owned(),
            ..GuardedPaths::default()
        };
        let look = |max_entries| {
            find::find_up_to(
                &root,
                &Policy::default(),
                &protected,
                find::ReadContent::Kept,
                max_entries,
            )
        };
        for number in 0..5 {
            fs::write(folder.path().join(format!("{number}")), "").unwrap();
        }
        let (all, some) = (look(100), look(3));
        assert!(all.is_complete && !some.is_complete);
        let told = |before: &FoundPaths, after: &FoundPaths| {
            let mut compared = Comparison::default();
            incomplete(before, after, &mut compared);
            (compared.changes.len(), compared.warnings.len())
        };
        assert_eq!(
            [told(&all, &all), told(&all, &some), told(&some, &some)],
            [(0, 0), (1, 0), (0, 1)]
        );
        // Submodules in submodules, deeper than they are looked for.
        let deep: PathBuf =
            std::iter::repeat_n("modules/x", git::MAX_SUBMODULE_DEPTH + 1).collect();
        fs::create_dir_all(folder.path().join(".git").join(deep)).unwrap();
        assert!(!look(100).is_complete);
    }
}
