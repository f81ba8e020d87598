//! Moves away what must not be there, and writes back what must. Every step is made in an open
//! folder, so that a link that somebody puts in the way leads nowhere.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cap_fs_ext::DirExt;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};

use super::RemovedTo;
use super::find::{Kept, make_usable, mode_of, open_folder, set_mode};

/// What is moved between file systems is copied: no deeper, and no more in all, than this.
const MAX_DEPTH: usize = 64;
const MAX_COPIED_BYTES: u64 = 256 * 1024 * 1024;
const MAX_COPIED_ENTRIES: u64 = 10_000;

/// How long removed things are kept, and of how many commands.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
const MAX_KEPT: usize = 100;
const PREFIX: &str = "removed-";

pub(super) struct Removed<'a> {
    root: &'a Dir,
    place: &'a Path,
    /// Made at the first need.
    folder: Option<(Dir, PathBuf)>,
    count: usize,
    room: Room,
}

/// What may still be copied.
struct Room {
    bytes: u64,
    entries: u64,
}

impl<'a> Removed<'a> {
    pub fn new(root: &'a Dir, place: &'a Path) -> Self {
        let room = Room {
            bytes: MAX_COPIED_BYTES,
            entries: MAX_COPIED_ENTRIES,
        };
        Self {
            root,
            place,
            folder: None,
            count: 0,
            room,
        }
    }

    /// Moves it out of the workspace.
    pub fn take(&mut self, path: &Path) -> io::Result<RemovedTo> {
        self.with_rights(path, |removed| removed.take_once(path))
    }

    /// A command can take away the right to change a folder. Where it is missing it is given back
    /// for as long as it is needed.
    fn with_rights<T>(
        &mut self,
        path: &Path,
        act: impl Fn(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        match act(self) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            done => return done,
        }
        let (parent, name) = self.open_parent(path)?;
        let mode = mode_of(&parent)?;
        make_usable(&parent)?;
        // A folder that gets another one above it is written to as well.
        if let Ok(moved) = parent.open_dir_nofollow(&name) {
            make_tree_usable(&moved, MAX_DEPTH);
        }
        let done = act(self);
        set_mode(&parent, mode)?;
        done
    }

    fn take_once(&mut self, path: &Path) -> io::Result<RemovedTo> {
        let (parent, name) = self.open_parent(path)?;
        self.count += 1;
        let mut new_name = OsString::from(format!("{}-", self.count));
        new_name.push(&name);
        let (folder, place) = self.folder()?;
        let (folder, new_place) = (folder.try_clone()?, place.join(&new_name));
        match parent.rename(&name, &folder, &new_name) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let copied = self
                    .room
                    .copy(&parent, &name, &folder, &new_name, MAX_DEPTH);
                remove(&parent, &name)?;
                if copied.is_err() {
                    let _ = remove(&folder, &new_name);
                    return Ok(RemovedTo::Deleted);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(RemovedTo::MovedTo(new_place.to_string_lossy().into_owned()))
    }

    /// Whatever is there now (`found`) is taken away first; returns where that is.
    pub fn put_back(
        &mut self,
        path: &Path,
        kept: &Kept,
        found: Option<&Kept>,
    ) -> io::Result<Vec<RemovedTo>> {
        if matches!(kept, Kept::File { content: None, .. })
            && found.is_some_and(|found| found.may_be_same_as(kept))
        {
            return Err(io::Error::other(
                "it was changed, and it is too large to have been kept: look at it",
            ));
        }
        let mut gone = Vec::new();
        if let Some(parent) = path.parent() {
            self.make_folders(parent, &mut gone)?;
        }
        let (parent, name) = self.open_parent(path)?;
        match (kept, parent.symlink_metadata(&name)) {
            (Kept::Folder { mode }, Ok(metadata)) if metadata.is_dir() => {
                if let Some(mode) = mode {
                    set_mode(&parent.open_dir_nofollow(&name)?, *mode)?;
                }
                return Ok(gone);
            }
            (_, Ok(_)) => gone.push(self.take(path)?),
            (_, Err(_)) => {}
        }
        let mut done = self.with_rights(path, |removed| removed.write_back(path, kept));
        // The command may have filled the disk. What it put here gives its room to what was there.
        if matches!(&done, Err(error) if error.kind() == io::ErrorKind::StorageFull)
            && let Some(RemovedTo::MovedTo(place)) = gone.first()
            && fs::remove_file(place).is_ok()
        {
            gone[0] = RemovedTo::Deleted;
            done = self.with_rights(path, |removed| removed.write_back(path, kept));
        }
        match (done, gone.first()) {
            (Ok(()), _) => Ok(gone),
            (Err(error), Some(RemovedTo::MovedTo(place))) => Err(io::Error::other(format!(
                "{error}; what was there instead was moved to {place}"
            ))),
            (Err(error), _) => Err(error),
        }
    }

    fn write_back(&self, path: &Path, kept: &Kept) -> io::Result<()> {
        let (parent, name) = self.open_parent(path)?;
        match kept {
            Kept::Folder { mode } => {
                parent.create_dir(&name)?;
                mode.map_or(Ok(()), |mode| {
                    set_mode(&parent.open_dir_nofollow(&name)?, mode)
                })
            }
            Kept::Link(target) => parent.symlink_contents(target, &name),
            Kept::File {
                content: Some(content),
                mode,
                ..
            } => write(&parent, &name, content, *mode),
            Kept::File { content: None, .. } => {
                Err(io::Error::other("it is too large to have been kept"))
            }
            Kept::Other => Err(io::Error::other("it was not a file")),
        }
    }

    /// Renames a folder to its old place in the root.
    pub fn bring_back(&mut self, from: &Path, name: &Path) -> io::Result<Vec<RemovedTo>> {
        let mut gone = Vec::new();
        if self.root.symlink_metadata(name).is_ok() {
            gone.push(self.take(name)?);
        }
        self.with_rights(from, |removed| {
            let (parent, old_name) = removed.open_parent(from)?;
            parent.rename(&old_name, removed.root, name)
        })?;
        Ok(gone)
    }

    fn make_folders(&mut self, path: &Path, gone: &mut Vec<RemovedTo>) -> io::Result<()> {
        let mut folder = self.root.try_clone()?;
        let mut here = PathBuf::new();
        for name in path.components() {
            here.push(name);
            folder = match folder.open_dir_nofollow(name) {
                Ok(folder) => folder,
                Err(_) => {
                    if folder.symlink_metadata(name).is_ok() {
                        gone.push(self.take(&here)?);
                    }
                    self.with_rights(&here, |removed| {
                        let (parent, name) = removed.open_parent(&here)?;
                        parent.create_dir(&name)
                    })?;
                    folder.open_dir_nofollow(name)?
                }
            };
        }
        Ok(())
    }

    fn open_parent(&self, path: &Path) -> io::Result<(Dir, OsString)> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::other("the workspace itself cannot be replaced"))?;
        let folder = open_folder(self.root, path.parent().unwrap_or(Path::new("")))?;
        Ok((folder, name.to_owned()))
    }

    fn folder(&mut self) -> io::Result<(&Dir, &Path)> {
        if self.folder.is_none() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(self.place)?;
            prune(self.place, SystemTime::now());
            let named = tempfile::Builder::new()
                .prefix(PREFIX)
                .tempdir_in(self.place)?
                .keep();
            self.folder = Some((Dir::open_ambient_dir(&named, ambient_authority())?, named));
        }
        match &self.folder {
            Some((folder, path)) => Ok((folder, path)),
            None => Err(io::Error::other("there is no folder for removed things")),
        }
    }
}

/// Deletes what was removed long ago, or longest ago where there is too much.
fn prune(place: &Path, now: SystemTime) {
    let mut kept: Vec<(SystemTime, PathBuf)> = fs::read_dir(place)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    kept.sort_unstable_by(|a, b| b.cmp(a));
    let is_old = |at: &SystemTime| now.duration_since(*at).is_ok_and(|age| age > KEPT_FOR);
    for (number, (at, path)) in kept.iter().enumerate() {
        if number + 1 >= MAX_KEPT || is_old(at) {
            // What cannot be deleted now is tried again next time.
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn write(folder: &Dir, name: &OsStr, content: &[u8], mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = folder.open_with(name, &options)?;
    let written = file
        .write_all(content)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode & 0o7777)));
    if written.is_err() {
        // Half of it is worse than nothing.
        let _ = folder.remove_file(name);
    }
    written
}

impl Room {
    fn copy(
        &mut self,
        from: &Dir,
        name: &OsStr,
        to: &Dir,
        new_name: &OsStr,
        depth: usize,
    ) -> io::Result<()> {
        let too_much = || io::Error::other("it is too much to be copied");
        self.entries = self.entries.checked_sub(1).ok_or_else(too_much)?;
        let metadata = from.symlink_metadata(name)?;
        let kind = metadata.file_type();
        if kind.is_symlink() {
            return to.symlink_contents(from.read_link_contents(name)?, new_name);
        }
        if kind.is_file() {
            self.bytes = self
                .bytes
                .checked_sub(metadata.len())
                .ok_or_else(too_much)?;
            return from.copy(name, to, new_name).map(|_| ());
        }
        if !kind.is_dir() {
            return Ok(());
        }
        let depth = depth.checked_sub(1).ok_or_else(too_much)?;
        to.create_dir(new_name)?;
        let (from, to) = (
            from.open_dir_nofollow(name)?,
            to.open_dir_nofollow(new_name)?,
        );
        for entry in from.entries()? {
            let name = entry?.file_name();
            self.copy(&from, &name, &to, &name, depth)?;
        }
        Ok(())
    }
}

/// What fails here fails again, and is told, when the folder is moved.
fn make_tree_usable(folder: &Dir, depth: usize) {
    let _ = make_usable(folder);
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    for entry in folder.entries().into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(inside) = folder.open_dir_nofollow(entry.file_name())
        {
            make_tree_usable(&inside, depth);
        }
    }
}

fn remove(folder: &Dir, name: &OsStr) -> io::Result<()> {
    if folder.symlink_metadata(name)?.is_dir() {
        folder.remove_dir_all(name)
    } else {
        folder.remove_file(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_to_copy_is_refused_before_it_is_written() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("x")).unwrap();
        fs::File::create(from.path().join("x/sparse"))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        let open = |path: &Path| Dir::open_ambient_dir(path, ambient_authority()).unwrap();
        let (from, to) = (open(from.path()), open(to.path()));
        let mut room = Room {
            bytes: 1000,
            entries: 10,
        };
        assert!(
            room.copy(&from, OsStr::new("x"), &to, OsStr::new("x"), MAX_DEPTH)
                .is_err()
        );
        assert!(!to.exists("x/sparse"));
        from.remove_file("x/sparse").unwrap();
        for number in 0..20 {
            from.write(format!("x/{number}"), "").unwrap();
        }
        let mut room = Room {
            bytes: 1000,
            entries: 10,
        };
        assert!(
            room.copy(&from, OsStr::new("x"), &to, OsStr::new("y"), MAX_DEPTH)
                .is_err()
        );
    }

    /// Runs in a small file system of its own, so that it can be full.
    #[test]
    fn a_full_disk_keeps_nothing_from_being_put_back() {
        const PLACE: &str = "CODELAB_TEST_SMALL_DISK";
        if let Some(place) = std::env::var_os(PLACE) {
            return put_back_on_a_full_disk(Path::new(&place));
        }
        let place = tempfile::tempdir().unwrap();
        let test = "sandbox::guard::restore::tests::a_full_disk_keeps_nothing_from_being_put_back";
        let mount = "mount -t tmpfs -o size=256k none \"$CODELAB_TEST_SMALL_DISK\" && exec \"$@\"";
        let ended = std::process::Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", mount, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(PLACE, place.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(said.contains("1 passed"), "{ended:?}");
    }

    fn put_back_on_a_full_disk(place: &Path) {
        let [root, removed] = ["root", "removed"].map(|name| place.join(name));
        fs::create_dir_all(root.join(".vscode")).unwrap();
        let (path, mine) = (Path::new(".vscode/tasks.json"), vec![b'm'; 20_000]);
        fs::write(root.join(path), vec![b'e'; 20_000]).unwrap();
        let mut fill = fs::File::create(root.join("fill")).unwrap();
        let full = loop {
            if let Err(error) = fill.write_all(&[0; 512]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);

        let open = Dir::open_ambient_dir(&root, ambient_authority()).unwrap();
        let kept = Kept::File {
            stamp: None,
            content: Some(mine.clone()),
            mode: 0o644,
        };
        let gone = Removed::new(&open, &removed).put_back(path, &kept, None);
        assert!(matches!(gone.unwrap()[..], [RemovedTo::Deleted]));
        assert_eq!(fs::read(root.join(path)).unwrap(), mine);
    }

    #[test]
    fn removed_things_are_kept_for_a_while_and_not_without_end() {
        let place = tempfile::tempdir().unwrap();
        for number in 0..MAX_KEPT + 5 {
            fs::create_dir(place.path().join(format!("{PREFIX}{number}"))).unwrap();
        }
        fs::create_dir(place.path().join("mine")).unwrap();
        let count = || fs::read_dir(place.path()).unwrap().count();
        prune(place.path(), SystemTime::now());
        assert_eq!(count(), MAX_KEPT);
        prune(
            place.path(),
            SystemTime::now() + KEPT_FOR + Duration::from_secs(60),
        );
        assert_eq!(count(), 1);
    }
}
