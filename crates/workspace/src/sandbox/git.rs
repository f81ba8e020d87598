//! A workspace's git folder behind the wall. It is read-only, whether it exists yet or not. A
//! command that consists of git alone and that a person approved may write it, but not the parts
//! that make git run programs.

pub(crate) mod settings;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};

/// In every git folder: what names programs, or leads git to other settings.
pub(super) const RUNS_PROGRAMS: [&str; 5] = [
    "config",
    "config.worktree",
    "hooks",
    "commondir",
    "info/attributes",
];

/// Submodules keep their git folders here.
pub(super) const SUBMODULES: &str = "modules";
const MAX_SUBMODULES: usize = 256;
pub(super) const MAX_SUBMODULE_DEPTH: usize = 8;

pub(super) const GIT: &str = ".git";
/// The longest `.git` file.
const MAX_NAME_BYTES: u64 = 4096;

/// What a command may do to the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GitAccess {
    #[default]
    Read,
    /// For a git command that a person approved.
    Write,
}

/// Paths relative to the root; those of a linked worktree's repository are absolute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Protection {
    /// The repository of a linked worktree, which lies elsewhere.
    pub elsewhere: Option<PathBuf>,
    pub pinned: Vec<PathBuf>,
    pub read_only: Vec<PathBuf>,
    /// Not there, and not to be created. Bubblewrap can cover it meanwhile.
    pub covered: Vec<PathBuf>,
}

/// Looks at the workspace as it is before a command.
pub(crate) fn protect(root: &Dir, path: &Path, access: GitAccess) -> io::Result<Protection> {
    let mut protection = Protection::default();
    let git = PathBuf::from(GIT);
    match root.symlink_metadata(GIT) {
        Ok(metadata) if metadata.is_symlink() => {
            return Err(io::Error::other(
                ".git is a symbolic link, which a command could replace",
            ));
        }
        // A file that says where the repository is: it must go on saying the same.
        Ok(metadata) if !metadata.is_dir() => {
            protection.read_only.push(git);
            if let Some(linked) = Linked::find(root, path) {
                protection.add_linked(linked, access)?;
            }
        }
        // What another command's wall covers at this moment, or a broken repository: nothing may
        // get into it.
        Ok(_) if is_empty(root)? => protection.covered.push(git),
        Ok(_) => match access {
            GitAccess::Read => protection.read_only.push(git),
            GitAccess::Write => protection.open(&root.open_dir_nofollow(GIT)?, &git)?,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => protection.covered.push(git),
        Err(error) => return Err(error),
    }
    Ok(protection)
}

fn is_empty(root: &Dir) -> io::Result<bool> {
    Ok(root.open_dir_nofollow(GIT)?.entries()?.next().is_none())
}

/// A worktree that `git worktree add` made: its repository is another folder's.
struct Linked {
    /// What only this worktree has, in the repository.
    own: PathBuf,
    repository: PathBuf,
}

impl Linked {
    /// The repository must name this worktree in turn. A `.git` file alone could name any folder of
    /// the person.
    fn find(root: &Dir, path: &Path) -> Option<Self> {
        let named = read_name(root, GIT)?;
        let own = path
            .join(named.strip_prefix("gitdir:")?.trim())
            .canonicalize()
            .ok()?;
        let own_folder = Dir::open_ambient_dir(&own, ambient_authority()).ok()?;
        let back = read_name(&own_folder, "gitdir")?;
        let is_named_back = Path::new(back.trim())
            .canonicalize()
            .is_ok_and(|back| back == path.join(GIT));
        let repository = own
            .join(read_name(&own_folder, "commondir")?.trim())
            .canonicalize()
            .ok()?;
        let is_worktree = own.parent() == Some(repository.join("worktrees").as_path())
            && repository.join("HEAD").is_file();
        (is_named_back && is_worktree).then_some(Self { own, repository })
    }
}

/// A small file with a name in it. Whoever made it may have made it a pipe, or endless.
fn read_name(folder: &Dir, file: &str) -> Option<String> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = folder.open_with(file, &options).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_NAME_BYTES + 1)
        .read_to_string(&mut text)
        .ok()
        .filter(|length| *length as u64 <= MAX_NAME_BYTES)?;
    Some(text)
}

impl Protection {
    fn add_linked(&mut self, linked: Linked, access: GitAccess) -> io::Result<()> {
        if access == GitAccess::Write {
            for folder in [&linked.repository, &linked.own] {
                self.open(&Dir::open_ambient_dir(folder, ambient_authority())?, folder)?;
            }
        }
        self.elsewhere = Some(linked.repository);
        Ok(())
    }

    fn open(&mut self, folder: &Dir, path: &Path) -> io::Result<()> {
        let mut left = MAX_SUBMODULES;
        self.add_repository(folder, path);
        self.add_submodules(folder, path, MAX_SUBMODULE_DEPTH, &mut left)
    }

    fn add_repository(&mut self, folder: &Dir, path: &Path) {
        let metadata = RUNS_PROGRAMS.map(|name| (path.join(name), folder.symlink_metadata(name)));
        // What a link leads to could be made read-only, but not the link.
        if metadata.iter().any(|(_, metadata)| {
            metadata
                .as_ref()
                .is_ok_and(|metadata| metadata.is_symlink())
        }) {
            self.read_only.push(path.to_owned());
            return;
        }
        self.pinned.push(path.to_owned());
        // What does not exist cannot be made read-only; whatever appears is found when the command
        // has ended.
        self.read_only.extend(
            metadata
                .into_iter()
                .filter(|(_, metadata)| metadata.is_ok())
                .map(|(path, _)| path),
        );
    }

    /// Submodules may be nested by name (`modules/a/b`) and in each other (`modules/a/modules/b`).
    fn add_submodules(
        &mut self,
        folder: &Dir,
        path: &Path,
        depth: usize,
        left: &mut usize,
    ) -> io::Result<()> {
        match folder.open_dir_nofollow(SUBMODULES) {
            Ok(modules) => self.add_named(&modules, &path.join(SUBMODULES), depth, left),
            Err(_) => Ok(()),
        }
    }

    fn add_named(
        &mut self,
        modules: &Dir,
        path: &Path,
        depth: usize,
        left: &mut usize,
    ) -> io::Result<()> {
        if depth == 0 {
            return Err(io::Error::other("submodules are nested too deeply"));
        }
        for entry in modules.entries()? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            *left = left
                .checked_sub(1)
                .ok_or_else(|| io::Error::other("there are too many submodules"))?;
            let folder = modules.open_dir_nofollow(entry.file_name())?;
            let path = path.join(entry.file_name());
            if folder.symlink_metadata("HEAD").is_ok() {
                self.add_repository(&folder, &path);
                self.add_submodules(&folder, &path, depth - 1, left)?;
            } else {
                self.add_named(&folder, &path, depth - 1, left)?;
            }
        }
        Ok(())
    }
}
