//! Finds what is protected beneath a root. Links are not followed on the way; of a protected link,
//! the place beneath the root that it leads to is protected as well. Nothing outside the root is
//! ever looked at.

mod kept;
mod repository;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use cap_fs_ext::{DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt};
use cap_std::fs::{Dir, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt};
use codelab_policy::Policy;
use serde::{Deserialize, Serialize};

use super::GuardedPaths;
use super::git::{GIT, MAX_SUBMODULE_DEPTH};
use super::stored::StoredFound;
pub(super) use kept::{FileIdentity, Kept, Stamp};

/// Entries that are looked at. The walk goes from the top downwards, so what is left out lies deep,
/// or comes late in a folder of very many entries.
pub(super) const MAX_ENTRIES: usize = 400_000;
/// Of protected files, what is kept to put them back.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
const MAX_TOTAL_BYTES: u64 = 32 * 1024 * 1024;
/// Hooks and settings are small. They have as much room again of their own, so that no cache of
/// packages takes it.
const SMALL_FILE_BYTES: u64 = 64 * 1024;
/// Protected links that are followed.
const MAX_LINKS: usize = 256;

/// Packages that were installed: whatever runs them runs their code anyway, and editors do not look
/// for projects there.
const PACKAGES: [&str; 4] = [
    "node_modules",
    "site-packages",
    "dist-packages",
    "__pycache__",
];

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "StoredFound", into = "StoredFound")]
pub(super) struct FoundPaths {
    pub entries: BTreeMap<PathBuf, Kept>,
    /// Those not beneath another one, in the order in which they were found.
    pub outermost: Vec<PathBuf>,
    /// Folders that could not be looked into.
    pub unreadable: BTreeSet<PathBuf>,
    /// Folders of any name that git takes for a repository.
    pub repositories: BTreeSet<PathBuf>,
    /// Protected links and settings, each with a place beneath the root that it leads to.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Nothing was left out for being too much.
    pub is_complete: bool,
}

/// Whether the content of files is read.
#[derive(Clone, Copy)]
pub(super) enum ReadContent<'a> {
    Kept,
    /// Only of files whose stamp differs from what was found before. Folders that a command made
    /// unreadable are made readable.
    Compared(&'a FoundPaths),
}

pub(super) fn find(
    root: &Dir,
    policy: &Policy,
    protected: &GuardedPaths,
    content: ReadContent<'_>,
) -> FoundPaths {
    find_up_to(root, policy, protected, content, MAX_ENTRIES)
}

pub(super) fn find_up_to(
    root: &Dir,
    policy: &Policy,
    protected: &GuardedPaths,
    content: ReadContent<'_>,
    left: usize,
) -> FoundPaths {
    let found = FoundPaths {
        entries: BTreeMap::new(),
        outermost: Vec::new(),
        unreadable: BTreeSet::new(),
        repositories: BTreeSet::new(),
        links: Vec::new(),
        is_complete: true,
    };
    let mut search = Search {
        root,
        root_path: &protected.root,
        left_out: &protected.left_out,
        policy,
        content,
        found,
        left,
        kept_bytes: 0,
        kept_small_bytes: 0,
    };
    for path in &protected.named {
        search.note_places(&Path::new(GIT).join("config"), [Some(path.clone()), None]);
    }
    let mut open = VecDeque::from([PathBuf::new()]);
    let mut near = Near {
        root,
        folders: Vec::new(),
    };
    while let Some(folder) = open.pop_front() {
        match near.open(&folder) {
            Ok(dir) => open.extend(search.look_into(&dir, &folder)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                search.found.unreadable.insert(folder);
            }
            // Gone, or not a folder any more.
            Err(_) => {}
        }
    }
    search.follow_links();
    search.found
}

/// The folders from the root to `path`, and `path` itself.
pub(super) fn identities(root: &Dir, path: &Path) -> io::Result<Vec<FileIdentity>> {
    let mut above: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_owned).collect();
    above.reverse();
    let mut found = Vec::new();
    for folder in above {
        found.push(identity(&open_folder(root, &folder)?.dir_metadata()?));
    }
    found.push(identity_of(root, path)?);
    Ok(found)
}

pub(super) fn identity_of(root: &Dir, path: &Path) -> io::Result<FileIdentity> {
    let folder = open_folder(root, path.parent().unwrap_or(Path::new("")))?;
    Ok(identity(
        &folder.symlink_metadata(path.file_name().unwrap_or_default())?,
    ))
}

/// One component at a time, never through a link.
pub(super) fn open_folder(root: &Dir, path: &Path) -> io::Result<Dir> {
    path.components()
        .try_fold(root.try_clone()?, |folder, name| {
            folder.open_dir_nofollow(name)
        })
}

/// The folders opened last. One after the other, the folders of a walk lie in one of them: none has
/// to be opened from the root.
struct Near<'a> {
    root: &'a Dir,
    /// The folder around the last one, and the last one.
    folders: Vec<(PathBuf, Dir)>,
}

impl Near<'_> {
    fn open(&mut self, path: &Path) -> io::Result<Dir> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return self.root.try_clone();
        };
        let known = self.folders.iter().position(|(known, _)| known == parent);
        let (parent, around) = match known {
            Some(index) => self.folders.swap_remove(index),
            None => (parent.to_owned(), open_folder(self.root, parent)?),
        };
        self.folders.clear();
        let opened = around.open_dir_nofollow(name);
        self.folders.push((parent, around));
        let opened = opened?;
        self.folders.push((path.to_owned(), opened.try_clone()?));
        Ok(opened)
    }
}

/// Whether the owner of a folder has no right to read it. A superuser needs none.
fn is_closed(folder: &Dir) -> bool {
    let user = rustix::process::geteuid();
    !user.is_root()
        && folder.dir_metadata().is_ok_and(|metadata| {
            metadata.uid() == user.as_raw() && metadata.mode() & 0o500 != 0o500
        })
}

pub(super) fn mode_of(folder: &Dir) -> io::Result<u32> {
    Ok(folder.dir_metadata()?.mode() & 0o7777)
}

/// By the open handle: its name may lead elsewhere by now.
pub(super) fn set_mode(folder: &Dir, mode: u32) -> io::Result<()> {
    let handle = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
    std::fs::set_permissions(
        handle,
        std::os::unix::fs::PermissionsExt::from_mode(mode & 0o7777),
    )
}

/// Gives the owner all rights to a folder.
pub(super) fn make_usable(folder: &Dir) -> io::Result<()> {
    set_mode(folder, mode_of(folder)? | 0o700)
}

struct Search<'a> {
    root: &'a Dir,
    root_path: &'a Path,
    left_out: &'a [PathBuf],
    policy: &'a Policy,
    content: ReadContent<'a>,
    found: FoundPaths,
    left: usize,
    kept_bytes: u64,
    kept_small_bytes: u64,
}

impl Search<'_> {
    /// Returns the folders that are to be looked into.
    fn look_into(&mut self, dir: &Dir, folder: &Path) -> Vec<PathBuf> {
        let mut subfolders = Vec::new();
        let entries = self.list(dir, folder);
        if repository::is_repository(entries.iter().map(|(name, ..)| name)) {
            self.add_bare_repository(dir, folder);
        }
        for (name, is_folder, is_link) in entries {
            let path = folder.join(&name);
            if self.left_out.contains(&path) {
                continue;
            }
            let text = path.to_string_lossy();
            if self.policy.protects(&text) || (is_link && self.policy.may_hold_protected(&text)) {
                self.found.outermost.push(path.clone());
                self.add(dir, &name, path);
            } else if is_folder && !is_package_folder(&name) {
                subfolders.push(path);
            }
        }
        subfolders
    }

    /// The entries of a folder, as far as there is room for them.
    fn list(&mut self, dir: &Dir, path: &Path) -> Vec<(std::ffi::OsString, bool, bool)> {
        self.open_up(dir, path);
        let entries = dir.entries().ok().filter(|_| !is_closed(dir));
        let Some(entries) = entries else {
            self.found.unreadable.insert(path.to_owned());
            return Vec::new();
        };
        let mut found = Vec::new();
        for entry in entries {
            let Ok(entry) = entry else {
                self.found.unreadable.insert(path.to_owned());
                return found;
            };
            let Some(left) = self.left.checked_sub(1) else {
                self.found.is_complete = false;
                return found;
            };
            self.left = left;
            let kind = entry.file_type().ok();
            let (is_folder, is_link) = (
                kind.is_some_and(|kind| kind.is_dir()),
                kind.is_some_and(|kind| kind.is_symlink()),
            );
            found.push((entry.file_name(), is_folder, is_link));
        }
        found
    }

    /// A command can take away its own right to read a folder, and with it ours. A person's folder
    /// stays as it is.
    fn open_up(&self, dir: &Dir, path: &Path) {
        let ReadContent::Compared(before) = self.content else {
            return;
        };
        if is_closed(dir) && !before.unreadable.contains(path) {
            // Where it fails, the folder is told as one that cannot be read.
            let _ = make_usable(dir);
        }
    }

    fn add_named(&mut self, path: &Path) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        let Ok(folder) = open_folder(self.root, parent) else {
            return;
        };
        if self.found.entries.contains_key(path) || folder.symlink_metadata(name).is_err() {
            return;
        }
        self.found.outermost.push(path.to_owned());
        self.add(&folder, name, path.to_owned());
    }

    fn add(&mut self, folder: &Dir, name: &OsStr, path: PathBuf) {
        if self.left_out.contains(&path) {
            return;
        }
        match self.kept(folder, name, &path) {
            Ok(Some(kept)) => {
                self.found.entries.insert(path, kept);
            }
            Ok(None) => {}
            Err(_) => {
                self.found.unreadable.insert(path);
            }
        }
    }

    fn kept(&mut self, folder: &Dir, name: &OsStr, path: &Path) -> io::Result<Option<Kept>> {
        let metadata = match folder.symlink_metadata(name) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let kind = metadata.file_type();
        Ok(Some(if kind.is_symlink() {
            let target = folder.read_link_contents(name)?;
            self.note_link(path, &target);
            Kept::Link(target)
        } else if kind.is_dir() {
            self.add_folder(folder, name, path);
            Kept::Folder {
                mode: Some(metadata.mode()),
            }
        } else if kind.is_file() {
            let stamp = Stamp::of(&metadata);
            let content = if self.is_wanted(path, &stamp) {
                self.read(folder, name, stamp.size)
            } else {
                None
            };
            Kept::File {
                stamp: Some(stamp),
                content,
                mode: metadata.mode(),
            }
        } else {
            Kept::Other
        }))
    }

    fn add_folder(&mut self, folder: &Dir, name: &OsStr, path: &Path) {
        let inside = match folder.open_dir_nofollow(name) {
            Ok(inside) => inside,
            Err(_) => {
                self.found.unreadable.insert(path.to_owned());
                return;
            }
        };
        if name == ".git" {
            return self.add_repository(&inside, path, MAX_SUBMODULE_DEPTH);
        }
        for (name, ..) in self.list(&inside, path) {
            self.add(&inside, &name, path.join(&name));
        }
    }

    fn note_link(&mut self, path: &Path, target: &Path) {
        let next = self.beneath(path.parent().unwrap_or(Path::new("")), target);
        let last = self.root.canonicalize(path).ok();
        self.note_places(path, [next, last]);
    }

    /// Where a name leads that is written in `folder`, if that is beneath the root.
    fn beneath(&self, folder: &Path, name: &Path) -> Option<PathBuf> {
        match name.strip_prefix(self.root_path) {
            Ok(name) => normal(name),
            Err(_) => normal(&folder.join(name)),
        }
    }

    /// What something leads to is decided before the command: afterwards it may lead anywhere.
    fn note_places(&mut self, path: &Path, places: [Option<PathBuf>; 2]) {
        if matches!(self.content, ReadContent::Compared(_)) {
            return;
        }
        if self.found.links.len() >= MAX_LINKS {
            self.found.is_complete = false;
            return;
        }
        for place in places.into_iter().flatten() {
            let is_inside = !place.as_os_str().is_empty() && !path.starts_with(&place);
            // Two links may lead to one place, each with other names in it.
            let is_known = self
                .found
                .links
                .iter()
                .any(|(link, known)| link == path && *known == place);
            if is_inside && !is_known {
                self.found.links.push((path.to_owned(), place));
            }
        }
    }

    fn follow_links(&mut self) {
        if let ReadContent::Compared(before) = self.content {
            self.found.links.clone_from(&before.links);
        }
        let mut next = 0;
        // A link may lead to a link.
        while let Some((link, target)) = self.found.links.get(next).cloned() {
            next += 1;
            let is_link_of_link = self.found.links[..next].iter().any(|(_, to)| *to == link);
            if is_link_of_link || self.policy.protects(&link.to_string_lossy()) {
                self.add_named(&target);
                continue;
            }
            // A folder by another name: in it, what would be protected by that name.
            let Ok(folder) = open_folder(self.root, &target) else {
                continue;
            };
            for (name, is_folder, _) in self.list(&folder, &target) {
                let (other_name, path) = (link.join(&name), target.join(&name));
                let text = other_name.to_string_lossy();
                if self.policy.protects(&text) {
                    self.add_named(&path);
                } else if is_folder
                    && self.policy.may_hold_protected(&text)
                    && self.found.links.len() < MAX_LINKS
                {
                    self.found.links.push((other_name, path));
                }
            }
        }
    }

    fn is_wanted(&self, path: &Path, stamp: &Stamp) -> bool {
        match self.content {
            ReadContent::Kept => true,
            ReadContent::Compared(before) => {
                !matches!(before.entries.get(path), Some(Kept::File { stamp: Some(old), .. }) if old == stamp)
            }
        }
    }

    /// Nothing where it would be too much, or cannot be read.
    fn read(&mut self, folder: &Dir, name: &OsStr, size: u64) -> Option<Vec<u8>> {
        let is_small = size <= SMALL_FILE_BYTES;
        let kept = if is_small {
            &mut self.kept_small_bytes
        } else {
            &mut self.kept_bytes
        };
        if size > MAX_FILE_BYTES || *kept + size > MAX_TOTAL_BYTES {
            return None;
        }
        *kept += size;
        let mut options = OpenOptions::new();
        // Another command may put a pipe in its place, which would wait for somebody to write.
        options
            .read(true)
            .follow(FollowSymlinks::No)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let file = folder.open_with(name, &options).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut content = Vec::new();
        file.take(size.saturating_add(1))
            .read_to_end(&mut content)
            .ok()?;
        // It grew since its size was looked at.
        (content.len() as u64 <= size).then_some(content)
    }
}

pub(super) fn is_package_folder(name: &OsStr) -> bool {
    PACKAGES.iter().any(|package| name == *package)
}

/// Without `..`, as far as it stays beneath the root.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::Normal(name) => found.push(name),
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                if !found.pop() {
                    return None;
                }
            }
            std::path::Component::RootDir | std::path::Component::Prefix(_) => return None,
        }
    }
    Some(found)
}

fn identity(metadata: &Metadata) -> FileIdentity {
    (MetadataExt::dev(metadata), MetadataExt::ino(metadata))
}
