//! What makes git run programs: in `.git`, and in every folder that git takes for a repository,
//! whatever its name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::fs::Dir;

use super::super::git::{MAX_SUBMODULE_DEPTH, RUNS_PROGRAMS, SUBMODULES};
use super::super::rebase::REBASE_LIST;
use super::{Kept, ReadContent, Search, open_folder};

/// Without it no folder is a repository.
const HEAD: &str = "HEAD";
const COMMON_FOLDER: &str = "commondir";

/// Linked worktrees keep their parts here.
const WORKTREES: &str = "worktrees";
/// Of a linked worktree, what leads git to settings.
const OF_WORKTREE: [&str; 3] = [COMMON_FOLDER, "config.worktree", REBASE_LIST];
/// Where `git worktree add` says that the repository is.
const USUAL_COMMON_FOLDER: &[u8] = b"../..";

/// Whether git would take a folder with these entries for a repository, by their names alone.
pub(super) fn is_repository<'a>(names: impl Iterator<Item = &'a OsString>) -> bool {
    let (mut has_head, mut has_objects, mut has_refs, mut has_common) =
        (false, false, false, false);
    for name in names {
        // Some file systems take upper and lower case for the same.
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        has_head |= is(HEAD);
        has_objects |= is("objects");
        has_refs |= is("refs");
        has_common |= is(COMMON_FOLDER);
    }
    has_head && ((has_objects && has_refs) || has_common)
}

impl Search<'_> {
    /// Git finds a repository in every folder that looks like one, and runs what its settings name.
    /// One that was there before is guarded like `.git`; of one that a command made, what makes it
    /// a repository must not stay.
    pub(super) fn add_bare_repository(&mut self, inside: &Dir, path: &Path) {
        self.found.repositories.insert(path.to_owned());
        let is_new = matches!(self.content, ReadContent::Compared(before) if !before.repositories.contains(path));
        if is_new {
            let names = self.list(inside, path).into_iter().map(|(name, ..)| name);
            for name in names
                .filter(|name| name.eq_ignore_ascii_case(HEAD))
                .collect::<Vec<_>>()
            {
                self.add(inside, &name, path.join(&name));
            }
            return;
        }
        self.add_repository(inside, path, MAX_SUBMODULE_DEPTH);
        let parts = RUNS_PROGRAMS.iter().map(|name| path.join(name));
        let there: Vec<PathBuf> = parts
            .filter(|part| self.found.entries.contains_key(part))
            .collect();
        self.found.outermost.extend(there);
    }

    /// Of a git folder only what makes git run something. The rest is large and changes with every
    /// commit.
    pub(super) fn add_repository(&mut self, inside: &Dir, path: &Path, depth: usize) {
        self.open_up(inside, path);
        for relevant in RUNS_PROGRAMS.into_iter().chain([REBASE_LIST]) {
            self.add_part(inside, path, relevant);
        }
        self.note_hooks(path);
        if let Ok(worktrees) = inside.open_dir_nofollow(WORKTREES) {
            self.add_worktrees(&worktrees, &path.join(WORKTREES));
        }
        if let Ok(modules) = inside.open_dir_nofollow(SUBMODULES) {
            self.add_submodules(&modules, &path.join(SUBMODULES), depth);
        }
    }

    fn add_part(&mut self, inside: &Dir, path: &Path, part: &str) {
        let part = Path::new(part);
        let parent = part.parent().unwrap_or(Path::new(""));
        let (Ok(folder), Some(name)) = (open_folder(inside, parent), part.file_name()) else {
            return;
        };
        self.open_up(&folder, &path.join(parent));
        self.add(&folder, name, path.join(part));
    }

    /// A worktree that an approved command made names the repository that it is in, and stays.
    fn add_worktrees(&mut self, worktrees: &Dir, path: &Path) {
        for (name, ..) in self.list(worktrees, path) {
            let Ok(folder) = worktrees.open_dir_nofollow(&name) else {
                continue;
            };
            let path = path.join(&name);
            self.open_up(&folder, &path);
            for part in OF_WORKTREE {
                self.add_part(&folder, &path, part);
            }
            let common = path.join(COMMON_FOLDER);
            let is_new = matches!(self.content, ReadContent::Compared(before) if !before.entries.contains_key(&common));
            let names_its_own = matches!(
                self.found.entries.get(&common),
                Some(Kept::File { content: Some(content), .. }) if content.trim_ascii() == USUAL_COMMON_FOLDER
            );
            if is_new && names_its_own {
                self.found.entries.remove(&common);
            }
        }
    }

    /// Submodules may be nested by name (`modules/a/b`) and in each other (`modules/a/modules/b`).
    fn add_submodules(&mut self, modules: &Dir, path: &Path, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            self.found.is_complete = false;
            return;
        };
        for (name, is_folder, _) in self.list(modules, path) {
            let Ok(folder) = modules.open_dir_nofollow(&name) else {
                continue;
            };
            let path = path.join(&name);
            if is_folder && folder.symlink_metadata(HEAD).is_ok() {
                self.add_repository(&folder, &path, depth);
            } else if is_folder {
                self.add_submodules(&folder, &path, depth);
            }
        }
    }

    /// A repository inside the workspace can have its hooks beside its git folder, or in it.
    fn note_hooks(&mut self, path: &Path) {
        let config = path.join("config");
        let Some(Kept::File {
            content: Some(content),
            ..
        }) = self.found.entries.get(&config)
        else {
            return;
        };
        let folders: Vec<String> = String::from_utf8_lossy(content)
            .lines()
            .filter_map(hooks_folder)
            .collect();
        for folder in folders {
            let places = [path.parent().unwrap_or(Path::new("")), path]
                .map(|at| self.beneath(at, Path::new(&folder)));
            self.note_places(&config, places);
        }
    }
}

/// The value in a line of git's settings that names the folder of hooks.
fn hooks_folder(line: &str) -> Option<String> {
    let (name, value) = line.split_once('=')?;
    let is_hooks = name.trim().eq_ignore_ascii_case("hookspath");
    let value = value.trim();
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => value.split([';', '#']).next().unwrap_or_default().trim(),
    };
    (is_hooks && !value.is_empty()).then(|| value.to_owned())
}
