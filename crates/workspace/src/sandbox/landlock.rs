//! The wall in the kernel's Landlock: rules that allow, and none that forbid. What must not be
//! reached beneath a folder is left out by allowing that folder's other entries one by one.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::Boundary;

/// Before it a file outside could be emptied.
const REQUIRED: ABI = ABI::V3;
/// Signals to other processes and abstract sockets are kept in where the kernel can.
const WANTED: ABI = ABI::V6;

const MAX_RULES: usize = 50_000;
const MAX_DEPTH: usize = 64;

const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// What programs read to learn about their machine and themselves. What `/proc` tells of other
/// processes, Landlock denies like tracing them.
const ABOUT_THE_MACHINE: [&str; 3] = ["/proc", "/sys/devices/system", "/sys/fs/cgroup"];

/// Whether signals and abstract sockets are kept inside as well; older kernels cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scopes {
    Enforced,
    Missing,
}

/// Restricts this thread and what it starts, where Landlock is the only wall.
pub(super) fn restrict(boundary: &Boundary) -> io::Result<()> {
    let read = AccessFs::from_read(REQUIRED);
    let all = AccessFs::from_all(REQUIRED);
    let hidden = real(&boundary.hidden);
    // A pinned folder is writable except for what it holds read-only. Landlock cannot express that,
    // so the whole folder is read-only.
    let mut untouchable = hidden.clone();
    untouchable.extend(boundary.read_only.iter().chain(&boundary.pinned).cloned());

    let mut rules = Rules::new()?;
    let about = ABOUT_THE_MACHINE.iter().map(Path::new);
    // A home folder may lie in a folder of the system. What is named in it is allowed by itself.
    let home: Option<PathBuf> = boundary
        .home
        .as_ref()
        .and_then(|home| home.canonicalize().ok());
    let mut not_at_home = hidden.clone();
    not_at_home.extend(home.clone());
    for readable in boundary.readable.iter().map(PathBuf::as_path).chain(about) {
        let is_at_home = home.as_ref().is_some_and(|home| readable.starts_with(home));
        rules.allow_but(
            readable,
            read,
            if is_at_home { &hidden } else { &not_at_home },
        )?;
    }
    for writable in &boundary.writable {
        rules.allow_but(writable, all, &untouchable)?;
        rules.allow_but(writable, read, &hidden)?;
    }
    for device in DEVICES {
        if let Ok(device) = open(CWD, Path::new(device)) {
            rules.allow(&device, AccessFs::ReadFile | AccessFs::WriteFile)?;
        }
    }
    rules.enforce()?;
    drop_capabilities()
}

/// Restricts this thread and what it starts inside bubblewrap's view, where everything that is
/// there may be read.
pub(super) fn restrict_view(writable: &[PathBuf]) -> io::Result<Scopes> {
    let mut rules = Rules::new()?;
    rules.allow_but(Path::new("/"), AccessFs::from_read(REQUIRED), &[])?;
    for path in writable {
        rules.allow_but(path, AccessFs::from_all(REQUIRED), &[])?;
    }
    rules.enforce()
}

/// Of a superuser's thread: some kernels let capabilities look into other processes past Landlock.
/// Since no program can gain privileges any more, none gets them back.
fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    Ok(set_capabilities(None, sets)?)
}

struct Rules {
    ruleset: RulesetCreated,
    left: usize,
}

impl Rules {
    fn new() -> io::Result<Self> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(REQUIRED))
            .and_then(|ruleset| {
                ruleset
                    .set_compatibility(CompatLevel::BestEffort)
                    .scope(Scope::from_all(WANTED))
            })
            .and_then(Ruleset::create)
            .map_err(io::Error::other)?;
        Ok(Self {
            ruleset,
            left: MAX_RULES,
        })
    }

    fn enforce(self) -> io::Result<Scopes> {
        let status = self.ruleset.restrict_self().map_err(io::Error::other)?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(io::Error::other("the kernel did not enforce Landlock"));
        }
        Ok(if status.ruleset == RulesetStatus::FullyEnforced {
            Scopes::Enforced
        } else {
            Scopes::Missing
        })
    }

    /// Allows everything beneath `path` but what lies in one of `left_out`. A folder above one of
    /// those gets no rule of its own: what it allowed would be allowed there too. So nothing can be
    /// created in it either.
    fn allow_but(
        &mut self,
        path: &Path,
        access: BitFlags<AccessFs>,
        left_out: &[PathBuf],
    ) -> io::Result<()> {
        let place = match open(CWD, path) {
            Ok(place) => place,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        self.descend(place, path, access, left_out, 0)
    }

    fn descend(
        &mut self,
        place: OwnedFd,
        path: &Path,
        access: BitFlags<AccessFs>,
        left_out: &[PathBuf],
        depth: usize,
    ) -> io::Result<()> {
        if left_out.iter().any(|out| path.starts_with(out)) {
            return Ok(());
        }
        let kind = FileType::from_raw_mode(fstat(&place)?.st_mode);
        // Opened without following it: a rule could only be about the link itself, which needs
        // none.
        if kind == FileType::Symlink {
            return Ok(());
        }
        if !left_out.iter().any(|out| out.starts_with(path)) {
            let access = if kind == FileType::Directory {
                access
            } else {
                access & AccessFs::from_file(REQUIRED)
            };
            return self.allow(&place, access);
        }
        if depth >= MAX_DEPTH {
            return Err(io::Error::other("a folder to be left out lies too deep"));
        }
        let readable = rustix::fs::openat(
            &place,
            c".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        // What this user cannot list they cannot reach by name either, or need not.
        let Ok(readable) = readable else {
            return Ok(());
        };
        for entry in Dir::read_from(&readable)? {
            let entry = entry?;
            let name = Path::new(OsStr::from_bytes(entry.file_name().to_bytes()));
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            match open(&place, name) {
                Ok(child) => self.descend(child, &path.join(name), access, left_out, depth + 1)?,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn allow(&mut self, place: &OwnedFd, access: BitFlags<AccessFs>) -> io::Result<()> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| io::Error::other("the sandbox would need too many rules"))?;
        (&mut self.ruleset)
            .add_rule(PathBeneath::new(place, access))
            .map_err(io::Error::other)?;
        Ok(())
    }
}

/// A handle that names a place without opening it; of a link, the link itself.
fn open(folder: impl std::os::fd::AsFd, path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(
        folder,
        path,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// What does not exist cannot be read; nobody within the wall can create it.
fn real(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect()
}
