//! Finds what is protected beneath a root. Links are not followed, so nothing outside the root is ever looked at.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_fs_ext::{DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt};
use cap_std::fs::{Dir, Metadata, MetadataExt as _, OpenOptions};
use codelab_policy::Policy;

use super::Protected;

/// Entries that are looked at. The walk goes from the top downwards, so what is left out lies deep.
const MAX_ENTRIES: usize = 400_000;
/// Of protected files, what is kept to put them back.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
const MAX_TOTAL_BYTES: u64 = 64 * 1024 * 1024;

/// Packages that were installed: whatever runs them runs their code anyway, and editors do not look for projects there.
const PACKAGES: [&str; 4] = ["node_modules", "site-packages", "dist-packages", "__pycache__"];

/// In a nested git folder, what makes git run something. The rest is large and changes with every commit.
const OF_REPOSITORY: [&str; 6] = ["config", "config.worktree", "hooks", "info/attributes", "commondir", "modules"];

/// In a submodule's git folder, what holds no further submodules.
const OF_OBJECTS: [&str; 5] = ["hooks", "info", "logs", "objects", "refs"];

/// Device and number of a file or folder: the same name with another one is another thing.
pub(super) type Identity = (u64, u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    File {
        stamp: Stamp,
        content: Option<Vec<u8>>,
        mode: u32,
    },
    Link(PathBuf),
    /// What is in it is listed by itself.
    Folder,
    /// A pipe, a socket, a device.
    Other,
}

/// A file with the same stamp has the same content: the kernel sets the last field at every change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    identity: Identity,
    size: u64,
    changed: (i64, i64),
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub entries: BTreeMap<PathBuf, Kept>,
    /// Those not beneath another one, in the order in which they were found.
    pub tops: Vec<PathBuf>,
}

/// Whether the content of files is read.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Kept,
    /// Only of files whose stamp differs from what was found before.
    Compared(&'a Found),
}

impl Kept {
    pub fn is_same_as(&self, before: &Self) -> bool {
        match (self, before) {
            (Self::File { stamp, mode, content }, Self::File { stamp: old_stamp, mode: old_mode, content: old }) => {
                mode == old_mode && (stamp == old_stamp || (content.is_some() && content == old))
            }
            (now, before) => now == before,
        }
    }
}

pub(super) fn find(root: &Dir, policy: &Policy, protected: &Protected, content: Content<'_>) -> io::Result<Found> {
    let mut search = Search { policy, protected, content, found: Found::default(), left: MAX_ENTRIES, kept_bytes: 0 };
    for path in &protected.named {
        search.add_named(root, path)?;
    }
    let mut open = VecDeque::from([PathBuf::new()]);
    while let Some(folder) = open.pop_front() {
        let subfolders = match open_folder(root, &folder) {
            Ok(dir) => search.look_into(&dir, &folder)?,
            // Gone, or not ours to read: then nothing in it can be protected by us.
            Err(_) => continue,
        };
        open.extend(subfolders);
    }
    Ok(search.found)
}

/// Every `.git` beneath the root, and the git folders of its submodules, from the top downwards.
pub(crate) fn repositories(root: &Dir, max_repositories: usize, max_entries: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = VecDeque::from([PathBuf::new()]);
    let mut left = max_entries;
    while let Some(folder) = open.pop_front() {
        let is_submodule = folder.components().any(|name| name.as_os_str() == ".git");
        let Ok(dir) = open_folder(root, &folder) else { continue };
        if is_submodule && dir.symlink_metadata("HEAD").is_ok() {
            found.push(folder.clone());
        }
        for entry in dir.entries().into_iter().flatten().flatten() {
            left = left.saturating_sub(1);
            if left == 0 || found.len() >= max_repositories {
                return found;
            }
            let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if name == ".git" {
                found.push(path.clone());
                open.push_back(path.join("modules"));
                continue;
            }
            let is_passed_over = match is_submodule {
                true => OF_OBJECTS.iter().any(|known| name == *known),
                false => is_package_folder(&name),
            };
            if is_dir && !is_passed_over {
                open.push_back(path);
            }
        }
    }
    found
}

/// The folders from the root to the one that holds `path`.
pub(super) fn folders_above(root: &Dir, path: &Path) -> io::Result<Vec<Identity>> {
    let mut above: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_owned).collect();
    above.reverse();
    above.iter().map(|folder| Ok(identity(&open_folder(root, folder)?.dir_metadata()?))).collect()
}

/// One component at a time, never through a link.
pub(super) fn open_folder(root: &Dir, path: &Path) -> io::Result<Dir> {
    path.components().try_fold(root.try_clone()?, |folder, name| folder.open_dir_nofollow(name))
}

struct Search<'a> {
    policy: &'a Policy,
    protected: &'a Protected,
    content: Content<'a>,
    found: Found,
    left: usize,
    kept_bytes: u64,
}

impl Search<'_> {
    fn look_into(&mut self, dir: &Dir, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut subfolders = Vec::new();
        for entry in dir.entries()? {
            let Ok(entry) = entry else { continue };
            let Some(left) = self.left.checked_sub(1) else { return Ok(Vec::new()) };
            self.left = left;
            let name = entry.file_name();
            let path = folder.join(&name);
            if self.protected.left_out.contains(&path) || self.found.entries.contains_key(&path) {
                continue;
            }
            if path.to_str().is_some_and(|path| self.policy.protects(path)) {
                self.found.tops.push(path.clone());
                self.add(dir, &name, path)?;
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !is_package_folder(&name) {
                subfolders.push(path);
            }
        }
        Ok(subfolders)
    }

    fn add_named(&mut self, root: &Dir, path: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let Ok(folder) = open_folder(root, parent) else { return Ok(()) };
        if folder.symlink_metadata(name).is_err() {
            return Ok(());
        }
        self.found.tops.push(path.to_owned());
        self.add(&folder, name, path.to_owned())
    }

    fn add(&mut self, folder: &Dir, name: &OsStr, path: PathBuf) -> io::Result<()> {
        let metadata = match folder.symlink_metadata(name) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let kind = metadata.file_type();
        let kept = if kind.is_symlink() {
            Kept::Link(folder.read_link_contents(name)?)
        } else if kind.is_dir() {
            self.add_folder(folder, name, &path)?;
            Kept::Folder
        } else if kind.is_file() {
            let stamp = Stamp::of(&metadata);
            let content = if self.is_wanted(&path, &stamp) { self.read(folder, name, stamp.size) } else { None };
            Kept::File { stamp, content, mode: metadata.mode() }
        } else {
            Kept::Other
        };
        self.found.entries.insert(path, kept);
        Ok(())
    }

    fn add_folder(&mut self, folder: &Dir, name: &OsStr, path: &Path) -> io::Result<()> {
        let Ok(inside) = folder.open_dir_nofollow(name) else { return Ok(()) };
        if name == ".git" {
            return self.add_repository(&inside, path);
        }
        for entry in inside.entries()? {
            let Ok(entry) = entry else { continue };
            let Some(left) = self.left.checked_sub(1) else { return Ok(()) };
            self.left = left;
            let name = entry.file_name();
            self.add(&inside, &name, path.join(&name))?;
        }
        Ok(())
    }

    fn add_repository(&mut self, inside: &Dir, path: &Path) -> io::Result<()> {
        for relevant in OF_REPOSITORY {
            let relevant = Path::new(relevant);
            let parent = relevant.parent().unwrap_or(Path::new(""));
            let (Ok(folder), Some(name)) = (open_folder(inside, parent), relevant.file_name()) else { continue };
            self.add(&folder, name, path.join(relevant))?;
        }
        Ok(())
    }

    fn is_wanted(&self, path: &Path, stamp: &Stamp) -> bool {
        match self.content {
            Content::Kept => true,
            Content::Compared(before) => {
                !matches!(before.entries.get(path), Some(Kept::File { stamp: old, .. }) if old == stamp)
            }
        }
    }

    /// Nothing where it would be too much, or cannot be read.
    fn read(&mut self, folder: &Dir, name: &OsStr, size: u64) -> Option<Vec<u8>> {
        if size > MAX_FILE_BYTES || self.kept_bytes + size > MAX_TOTAL_BYTES {
            return None;
        }
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        let file = folder.open_with(name, &options).ok()?;
        let mut content = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut content).ok()?;
        self.kept_bytes += content.len() as u64;
        Some(content)
    }
}

fn is_package_folder(name: &OsStr) -> bool {
    PACKAGES.iter().any(|package| name == *package)
}

fn identity(metadata: &Metadata) -> Identity {
    (MetadataExt::dev(metadata), MetadataExt::ino(metadata))
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self { identity: identity(metadata), size: metadata.len(), changed: (metadata.ctime(), metadata.ctime_nsec()) }
    }
}
