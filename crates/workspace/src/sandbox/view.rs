//! What of the machine a command may read: the system, the programs on the search path, and
//! toolchains of the home folder by name. Everything else is out of sight, so that nobody has to
//! know where secrets are kept.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::options::WorkspaceOptions;

const SYSTEM: [&str; 13] = [
    "/bin",
    "/etc",
    "/gnu/store",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/sbin",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/usr",
];

/// Beneath the home folder: compilers, interpreters, and the packages they have fetched. No
/// settings of people.
const TOOLCHAINS: [&str; 57] = [
    ".asdf",
    ".bun",
    ".cabal/bin",
    ".cabal/packages",
    ".cabal/store",
    ".cache/bazel",
    ".cache/deno",
    ".cache/go-build",
    ".cache/ms-playwright",
    ".cache/pip",
    ".cache/pnpm",
    ".cache/pre-commit",
    ".cache/uv",
    ".cache/yarn",
    ".cargo",
    ".conda/envs",
    ".conda/pkgs",
    ".deno",
    ".dotnet",
    ".elan",
    ".fnm",
    ".gem/ruby",
    ".ghcup",
    ".gradle/caches",
    ".gradle/wrapper",
    ".ivy2/cache",
    ".jenv",
    ".julia/artifacts",
    ".julia/compiled",
    ".julia/packages",
    ".julia/registries",
    ".juliaup",
    ".konan",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".m2/repository",
    ".npm/_cacache",
    ".nuget/packages",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".stack",
    ".volta",
    "anaconda3",
    "go/bin",
    "go/pkg",
    "miniconda3",
];

/// Variables that name the folder of a toolchain. Commands get them, too.
pub(super) const NAMED_BY: [&str; 17] = [
    "CARGO_HOME",
    "CONDA_PREFIX",
    "DENO_DIR",
    "DOTNET_ROOT",
    "GOCACHE",
    "GOMODCACHE",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "SDKMAN_DIR",
    "UV_CACHE_DIR",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];

/// Where a superuser's own files may lie among what everybody may read. Packages of the system put
/// theirs elsewhere.
const MAY_HOLD_SECRETS: [&str; 3] = ["/etc", "/opt", "/usr/local"];
/// Entries that are looked at there.
const MAX_ENTRIES: usize = 200_000;

/// What every program needs.
pub(crate) fn system() -> Vec<PathBuf> {
    SYSTEM
        .iter()
        .map(PathBuf::from)
        .filter(|path| path.exists())
        .collect()
}

/// Absolute paths that exist, without those beneath another one.
pub(crate) fn readable(options: &WorkspaceOptions) -> Vec<PathBuf> {
    let home = options.home.as_deref();
    let toolchains = TOOLCHAINS.iter().filter_map(|name| Some(home?.join(name)));
    let named = NAMED_BY.iter().filter_map(env::var_os).map(PathBuf::from);
    let programs = env::var_os("PATH")
        .map(|path| env::split_paths(&path).collect::<Vec<_>>())
        .unwrap_or_default();
    let at_home = toolchains
        .chain(named)
        .chain(programs)
        .filter_map(|path| real(&path, home));
    outermost(
        system()
            .into_iter()
            .chain(at_home)
            .chain(named_by_person(options))
            .collect(),
    )
}

/// The setting `sandbox.readable`, without links. What is not there is told once, and does not keep
/// commands from running.
fn named_by_person(options: &WorkspaceOptions) -> Vec<PathBuf> {
    let real = |path: &PathBuf| match path.canonicalize() {
        Ok(path) => Some(path),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a path in sandbox.readable cannot be used, commands will not see it");
            None
        }
    };
    options.readable.iter().filter_map(real).collect()
}

/// Sorted, without those beneath another one.
pub(super) fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_unstable();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.iter().any(|above| path.starts_with(above)) {
            kept.push(path);
        }
    }
    kept
}

/// Not the home folder itself, nor a folder that holds it: then all of it would be seen.
fn real(path: &Path, home: Option<&Path>) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let path = path
        .canonicalize()
        .ok()
        .filter(|path| path.is_dir() && path.parent().is_some())?;
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    (!home.is_some_and(|home| home.starts_with(&path))).then_some(path)
}

/// What an ordinary user could not read of settings and of programs installed by hand, such as host
/// keys and passwords. A superuser is their owner, and stays it behind the wall.
pub(crate) fn superuser_only(options: &WorkspaceOptions) -> Vec<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let named = named_by_person(options);
    let places = MAY_HOLD_SECRETS
        .iter()
        .map(PathBuf::from)
        .chain(named)
        .collect();
    closed_to_others(places, MAX_ENTRIES)
}

/// Folders that there was no room to look into are hidden as a whole.
fn closed_to_others(mut open: Vec<PathBuf>, max_entries: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = max_entries;
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Some(fewer) = left.checked_sub(1) else {
                tracing::warn!(folder = %folder.display(), "folder has too many entries to check, commands will not see it");
                found.push(folder);
                break;
            };
            left = fewer;
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_symlink() {
                continue;
            }
            let needed = if metadata.is_dir() { 0o005 } else { 0o004 };
            if metadata.permissions().mode() & needed != needed {
                found.push(entry.path());
            } else if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_may_not_read_is_found_and_what_is_too_much_is_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("open")).unwrap();
        for (name, mode) in [("open/public", 0o644), ("open/secret", 0o600)] {
            fs::write(path(name), "").unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(path("open"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(
            closed_to_others(vec![folder.path().to_owned()], 100),
            [path("open/secret")]
        );
        assert_eq!(
            closed_to_others(vec![folder.path().to_owned()], 1),
            [path("open")]
        );
    }

    #[test]
    fn a_folder_that_is_not_there_is_left_out_and_a_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir(real.join("tools")).unwrap();
        std::os::unix::fs::symlink(real.join("tools"), real.join("link")).unwrap();
        let launcher = crate::sandbox::Launcher {
            program: PathBuf::new(),
            arguments: Vec::new(),
        };
        let mut options = WorkspaceOptions::new(launcher);
        options.readable = vec![real.join("link"), real.join("missing")];
        assert_eq!(named_by_person(&options), [real.join("tools")]);
    }
}
