//! The workspace's root: one open folder, beneath which every path is resolved. Never joins a path
//! by text and opens it.
//!
//! A path is first made real (links followed, beneath the root), then the real path is opened again
//! one component at a time without following links. So the name that was judged is the name that is
//! used, and a link swapped in between is an error instead of another file.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::{DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt};

use crate::error::{OpenError, PathAction, ToolRefusal};

const MAX_PATH_BYTES: usize = 4096;

pub(crate) struct Root {
    dir: Dir,
    /// Without links, for the places where only a name will do: a sandbox, an absolute path of a
    /// caller.
    path: PathBuf,
    given: PathBuf,
    identity: (u64, u64),
    /// Real paths beneath the root that no tool may touch.
    private: Vec<PathBuf>,
}

/// Something that exists beneath the root.
pub(crate) struct ExistingPath {
    pub folder: Dir,
    /// Its name in `folder`; `.` for the root itself.
    pub name: OsString,
    /// From the root; empty for the root itself.
    pub real: PathBuf,
}

/// A place that may not exist yet.
pub(crate) enum TargetPath {
    Existing(ExistingPath),
    New {
        /// The deepest folder of the path that exists.
        base: Dir,
        base_real: PathBuf,
        /// The names beneath `base` that do not exist yet: plain names, at least one.
        missing: Vec<OsString>,
    },
}

impl Root {
    /// `private` are absolute paths. No tool can reach those that lie beneath the root.
    pub fn open(given: &Path, private: &[PathBuf]) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Root {
            path: given.to_owned(),
            source,
        };
        let path = given.canonicalize().map_err(failed)?;
        if path.parent().is_none() {
            return Err(OpenError::WholeFileSystem { path });
        }
        if path.to_str().is_none() {
            return Err(OpenError::NotUtf8 { path });
        }
        let dir = Dir::open_ambient_dir(&path, ambient_authority()).map_err(failed)?;
        let identity = identity(&dir.dir_metadata().map_err(failed)?);
        let private = private
            .iter()
            .map(|hidden| hidden.canonicalize().unwrap_or_else(|_| hidden.clone()))
            .filter_map(|hidden| hidden.strip_prefix(&path).ok().map(Path::to_owned))
            .filter(|hidden| !hidden.as_os_str().is_empty())
            .collect();
        let given = std::path::absolute(given).map_err(failed)?;
        Ok(Self {
            dir,
            path,
            given,
            identity,
            private,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    pub fn private(&self) -> &[PathBuf] {
        &self.private
    }

    pub fn is_private(&self, real: &Path) -> bool {
        self.private.iter().any(|hidden| real.starts_with(hidden))
    }

    /// Whether the root's name still leads to the folder that was opened.
    pub fn is_in_place(&self) -> bool {
        Dir::open_ambient_dir(&self.path, ambient_authority())
            .and_then(|dir| dir.dir_metadata())
            .is_ok_and(|metadata| identity(&metadata) == self.identity)
    }

    pub fn existing(&self, path: &str, access: PathAction) -> Result<ExistingPath, ToolRefusal> {
        let relative = self.relative(path)?;
        let real = self
            .real(&relative)
            .map_err(|error| ToolRefusal::from_io(path, access, error))?;
        self.place(path, &real, access)
    }

    /// An existing folder, opened.
    pub fn folder(&self, path: &str) -> Result<(Dir, PathBuf), ToolRefusal> {
        let place = self.existing(path, PathAction::Read)?;
        if !place.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(ToolRefusal::NotAFolder(path.to_owned()));
        }
        let folder = place
            .open_folder()
            .map_err(|error| ToolRefusal::from_io(path, PathAction::Read, error))?;
        Ok((folder, place.real))
    }

    pub fn target(&self, path: &str) -> Result<TargetPath, ToolRefusal> {
        let relative = self.relative(path)?;
        let refused = |error| ToolRefusal::from_io(path, PathAction::Write, error);
        match self.real(&relative) {
            Ok(real) => {
                return self
                    .place(path, &real, PathAction::Write)
                    .map(TargetPath::Existing);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(error)),
            Err(_) if self.dir.symlink_metadata(&relative).is_ok() => {
                return Err(ToolRefusal::Dangling(path.to_owned()));
            }
            Err(_) => {}
        }
        for ancestor in relative.ancestors().skip(1) {
            let here = if ancestor.as_os_str().is_empty() {
                Path::new(".")
            } else {
                ancestor
            };
            let real = match self.dir.canonicalize(here) {
                Ok(real) => real,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(refused(error)),
            };
            let rest = relative.strip_prefix(ancestor).unwrap_or(&relative);
            let missing = plain_names(rest).ok_or_else(|| ToolRefusal::Missing(path.to_owned()))?;
            let place = self.place(path, &real, PathAction::Write)?;
            let base_real = place.real.clone();
            let all: PathBuf = base_real
                .iter()
                .chain(missing.iter().map(OsString::as_os_str))
                .collect();
            self.check_private(path, &all)?;
            let base = place.open_folder().map_err(refused)?;
            return Ok(TargetPath::New {
                base,
                base_real,
                missing,
            });
        }
        Err(ToolRefusal::Missing(path.to_owned()))
    }

    /// A caller's path as one relative to the root. Whether it stays beneath it is found out by
    /// resolving.
    fn relative(&self, path: &str) -> Result<PathBuf, ToolRefusal> {
        if path.len() > MAX_PATH_BYTES {
            let shown: String = path.chars().take(80).collect();
            return Err(ToolRefusal::TooLong {
                path: format!("{shown}…"),
                max_bytes: MAX_PATH_BYTES,
            });
        }
        if path.contains('\0') {
            return Err(ToolRefusal::Nul(path.replace('\0', "\u{fffd}")));
        }
        let given = Path::new(path);
        let relative = if given.is_absolute() {
            let inside = given
                .strip_prefix(&self.path)
                .or_else(|_| given.strip_prefix(&self.given));
            inside.map_err(|_| ToolRefusal::Outside(path.to_owned()))?
        } else {
            given
        };
        Ok(if relative.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            relative.to_owned()
        })
    }

    /// The path from the root without links. Only a link takes another name than the one that was
    /// given: asking the kernel how an open file is called would name the copy that an editor moved
    /// aside meanwhile.
    fn real(&self, relative: &Path) -> io::Result<PathBuf> {
        let must_be_folder = relative.as_os_str().as_encoded_bytes().ends_with(b"/");
        let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
            return self.dir.canonicalize(relative);
        };
        let parent = match parent.as_os_str().is_empty() {
            true => Path::new("."),
            false => parent,
        };
        let real = self.dir.canonicalize(parent)?.join(name);
        if must_be_folder || self.dir.symlink_metadata(&real)?.is_symlink() {
            return self.dir.canonicalize(relative);
        }
        Ok(real)
    }

    fn place(
        &self,
        path: &str,
        real: &Path,
        access: PathAction,
    ) -> Result<ExistingPath, ToolRefusal> {
        let names = plain_names(real).ok_or_else(|| ToolRefusal::Outside(path.to_owned()))?;
        let real: PathBuf = names.iter().collect();
        self.check_private(path, &real)?;
        let mut folder = self
            .dir
            .try_clone()
            .map_err(|error| ToolRefusal::from_io(path, access, error))?;
        let Some((name, parents)) = names.split_last() else {
            return Ok(ExistingPath {
                folder,
                name: OsString::from("."),
                real,
            });
        };
        for parent in parents {
            folder = folder
                .open_dir_nofollow(parent)
                .map_err(|error| match error.kind() {
                    io::ErrorKind::NotADirectory | io::ErrorKind::NotFound => {
                        ToolRefusal::Swapped(path.to_owned())
                    }
                    _ => ToolRefusal::from_io(path, access, error),
                })?;
        }
        Ok(ExistingPath {
            folder,
            name: name.clone(),
            real,
        })
    }

    fn check_private(&self, path: &str, real: &Path) -> Result<(), ToolRefusal> {
        if self.is_private(real) {
            Err(ToolRefusal::Private(path.to_owned()))
        } else {
            Ok(())
        }
    }
}

impl ExistingPath {
    /// Of the thing itself, were it a link by now.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.folder.symlink_metadata(&self.name)
    }

    pub fn open_folder(&self) -> io::Result<Dir> {
        if self.name == "." {
            self.folder.try_clone()
        } else {
            self.folder.open_dir_nofollow(&self.name)
        }
    }

    pub fn open_file(&self, path: &str) -> Result<File, ToolRefusal> {
        open_file(&self.folder, self.name.as_ref(), path)
    }
}

/// A regular file in `folder`, for reading; a link is not followed, and a pipe or device is never
/// waited for.
pub(crate) fn open_file(folder: &Dir, name: &Path, path: &str) -> Result<File, ToolRefusal> {
    let refused = |error| ToolRefusal::from_io(path, PathAction::Read, error);
    if !folder.symlink_metadata(name).map_err(refused)?.is_file() {
        return Err(ToolRefusal::NotAFile(path.to_owned()));
    }
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No);
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = folder.open_with(name, &options).map_err(refused)?;
    if !file.metadata().map_err(refused)?.is_file() {
        return Err(ToolRefusal::NotAFile(path.to_owned()));
    }
    Ok(file)
}

/// The components of a path without `.`; `None` if one of them is not a plain name.
fn plain_names(path: &Path) -> Option<Vec<OsString>> {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            _ => None,
        })
        .collect()
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
