//! What a command may not change in a workspace it may otherwise write: git's hooks and configuration, which run
//! programs later and outside the wall, and CodeLab's own files.

use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, OpenOptions};

/// Files in a git folder that make git read its configuration from elsewhere. They cannot be forbidden by name while the
/// folder is writable, so what a command leaves there is removed after it.
const REDIRECTIONS: [&str; 2] = ["commondir", "config.worktree"];

/// Submodules keep their git folders here; each has hooks and a configuration of its own.
const SUBMODULES: &str = "modules";
const MAX_SUBMODULES: usize = 256;
const MAX_SUBMODULE_DEPTH: usize = 8;

const OWN_FILES: [&str; 2] = ["codelab.toml", ".codelab"];

/// Absolute paths.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    pub pinned: Vec<PathBuf>,
    pub read_only: Vec<PathBuf>,
    /// Not there before the command, and not to be there after it.
    pub absent: Vec<PathBuf>,
}

/// Looks at the workspace as it is before a command. Missing hooks and configuration of an existing repository are
/// created empty, because only what exists can be made read-only.
pub(crate) fn protect(root: &Dir, path: &Path) -> io::Result<Protection> {
    let mut protection = Protection::default();
    for name in OWN_FILES {
        if root.symlink_metadata(name).is_ok_and(|metadata| !metadata.is_symlink()) {
            protection.read_only.push(path.join(name));
        }
    }
    match root.symlink_metadata(".git") {
        Ok(metadata) if metadata.is_symlink() => {
            return Err(io::Error::other(".git is a symbolic link, which a command could replace"));
        }
        // A file that says where the repository is: it must go on saying the same.
        Ok(metadata) if !metadata.is_dir() => protection.read_only.push(path.join(".git")),
        Ok(_) => {
            let folder = root.open_dir_nofollow(".git")?;
            let mut left = MAX_SUBMODULES;
            protection.add_repository(&folder, Path::new(".git"), path)?;
            protection.add_submodules(&folder, Path::new(".git"), path, MAX_SUBMODULE_DEPTH, &mut left)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(protection)
}

impl Protection {
    fn add_repository(&mut self, folder: &Dir, relative: &Path, root: &Path) -> io::Result<()> {
        let is_link = |name| folder.symlink_metadata(name).is_ok_and(|metadata| metadata.is_symlink());
        if is_link("hooks") || is_link("config") {
            // What a link leads to could be made read-only, but not the link.
            self.read_only.push(root.join(relative));
            return Ok(());
        }
        match folder.create_dir("hooks") {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        match folder.open_with("config", OpenOptions::new().write(true).create_new(true)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.pinned.push(root.join(relative));
        self.read_only.extend(["hooks", "config"].map(|name| root.join(relative).join(name)));
        for name in REDIRECTIONS {
            let redirection = root.join(relative).join(name);
            if folder.symlink_metadata(name).is_ok() {
                self.read_only.push(redirection);
            } else {
                self.absent.push(redirection);
            }
        }
        Ok(())
    }

    /// Submodules may be nested by name (`modules/a/b`) and in each other (`modules/a/modules/b`).
    fn add_submodules(
        &mut self,
        folder: &Dir,
        relative: &Path,
        root: &Path,
        depth: usize,
        left: &mut usize,
    ) -> io::Result<()> {
        let relative = relative.join(SUBMODULES);
        match folder.open_dir_nofollow(SUBMODULES) {
            Ok(modules) => self.add_named(&modules, &relative, root, depth, left),
            Err(_) => Ok(()),
        }
    }

    fn add_named(
        &mut self,
        modules: &Dir,
        relative: &Path,
        root: &Path,
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
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("there are too many submodules"))?;
            let folder = modules.open_dir_nofollow(entry.file_name())?;
            let relative = relative.join(entry.file_name());
            if folder.symlink_metadata("HEAD").is_ok() {
                self.add_repository(&folder, &relative, root)?;
                self.add_submodules(&folder, &relative, root, depth - 1, left)?;
            } else {
                self.add_named(&folder, &relative, root, depth - 1, left)?;
            }
        }
        Ok(())
    }
}
