//! What git's settings would make git do: which programs a repository names, and what commands are
//! told instead.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cap_std::fs::Dir;

use super::{GIT, GitAccess};
use crate::sandbox::guard;

/// A settings file can be a pipe that nobody writes to.
const TIMEOUT: Duration = Duration::from_secs(2);
/// For all repositories of a workspace together.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(6);
const MAX_SETTINGS_BYTES: u64 = 1024 * 1024;
/// Repositories in a workspace whose settings are read before a git command.
const MAX_REPOSITORIES: usize = 64;
const MAX_ENTRIES: usize = 100_000;

/// Programs that git runs for a look at the repository. Hooks, pagers, editors and aliases are not
/// among them: the first three are switched off for commands, and the policy asks about the last.
const NAMES_PROGRAM: [(&str, &str); 18] = [
    ("core", "fsmonitor"),
    ("core", "sshcommand"),
    ("core", "gitproxy"),
    ("core", "alternaterefscommand"),
    ("core", "worktree"),
    ("credential", "helper"),
    ("diff", "external"),
    ("diff", "command"),
    ("diff", "textconv"),
    ("filter", "clean"),
    ("filter", "smudge"),
    ("filter", "process"),
    ("gpg", "program"),
    ("interactive", "difffilter"),
    ("merge", "driver"),
    ("remote", "uploadpack"),
    ("remote", "vcs"),
    ("uploadpack", "packobjectshook"),
];

/// Git LFS as its own installer writes it: a program of the system, not of the repository.
const LARGE_FILES: [&str; 3] = [
    "git-lfs clean -- %f",
    "git-lfs smudge -- %f",
    "git-lfs filter-process",
];

/// This git runs outside the wall, so it is never looked for on the search path: that may lead into
/// the workspace.
const GIT_PROGRAMS: [&str; 5] = [
    "/usr/bin/git",
    "/usr/local/bin/git",
    "/bin/git",
    "/run/current-system/sw/bin/git",
    "/opt/homebrew/bin/git",
];

/// Who commits, as the person's own git knows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Committer {
    name: Option<String>,
    email: Option<String>,
}

impl Committer {
    /// From the person's settings; the home folder is hidden from commands.
    pub fn of_person(home: Option<&Path>) -> Self {
        let Some(home) = home else {
            return Self::default();
        };
        let ask = |key: &str| {
            let mut git = git().ok()?;
            git.env("HOME", home)
                .args(["config", "--global", "--includes", "--get", key]);
            let value = output(git).ok()??;
            Some(value.trim_end_matches('\n').to_owned()).filter(|value| !value.is_empty())
        };
        Self {
            name: ask("user.name"),
            email: ask("user.email"),
        }
    }

    /// What commands have as the settings of a person.
    pub fn settings(&self, root: &Path) -> String {
        let mut text = format!(
            "[safe]\n\tdirectory = {}\n[user]\n",
            quoted(&root.to_string_lossy())
        );
        for (key, value) in [("name", &self.name), ("email", &self.email)] {
            if let Some(value) = value {
                text.push_str(&format!("\t{key} = {}\n", quoted(value)));
            }
        }
        text
    }
}

/// The environment in which commands run git. Settings given here outweigh those of a repository. A
/// person who wants hooks to run approves a command that says so itself (`git -c
/// core.hooksPath=…`).
pub(crate) fn environment(settings_file: &Path, access: GitAccess) -> Vec<(String, String)> {
    let settings = [
        ("core.fsmonitor", "false"),
        ("core.hooksPath", "/dev/null"),
        ("commit.gpgSign", "false"),
        ("tag.gpgSign", "false"),
        ("push.gpgSign", "false"),
        ("credential.helper", ""),
        ("safe.bareRepository", "explicit"),
    ];
    let mut environment = vec![
        (
            "GIT_CONFIG_GLOBAL".to_owned(),
            settings_file.to_string_lossy().into_owned(),
        ),
        ("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string()),
        ("GIT_NO_LAZY_FETCH".to_owned(), "1".to_owned()),
        // Nobody is there to edit, and a repository's settings may name any program as the editor.
        ("GIT_EDITOR".to_owned(), "true".to_owned()),
        ("GIT_SEQUENCE_EDITOR".to_owned(), "true".to_owned()),
    ];
    for (number, (key, value)) in settings.into_iter().enumerate() {
        environment.push((format!("GIT_CONFIG_KEY_{number}"), key.to_owned()));
        environment.push((format!("GIT_CONFIG_VALUE_{number}"), value.to_owned()));
    }
    if access == GitAccess::Read {
        // Git would otherwise try to write what it learned into the read-only folder.
        environment.push(("GIT_OPTIONAL_LOCKS".to_owned(), "0".to_owned()));
    }
    environment
}

/// The settings of the workspace's repositories that name programs, for the person who is asked.
/// What cannot be read is told like a program.
pub(crate) fn programs(root: &Dir, path: &Path) -> Vec<String> {
    let mut named: Vec<String> = Vec::new();
    let (found, is_complete) = guard::repositories(root, MAX_REPOSITORIES, MAX_ENTRIES);
    if !is_complete {
        named.push("there are more repositories or files than are looked at".to_owned());
    }
    let started = Instant::now();
    for repository in found {
        if started.elapsed() > TOTAL_TIMEOUT {
            named.push("the settings of all repositories could not be read in time".to_owned());
            break;
        }
        match settings(&path.join(&repository)) {
            Ok(settings) => named.extend(
                settings
                    .iter()
                    .filter(|setting| setting.runs())
                    .map(|setting| setting.key.clone()),
            ),
            Err(error) => named.push(format!(
                "settings of {} cannot be read: {error}",
                repository.display()
            )),
        }
    }
    named.sort_unstable();
    named.dedup();
    named
}

/// Places beneath the root that the repository's settings lead git to, whether they exist or not:
/// its hooks, and files with more settings. Relative to the root.
pub(crate) fn places(path: &Path, home: Option<&Path>) -> io::Result<Vec<PathBuf>> {
    let git_folder = path.join(GIT);
    if names_no_place(&git_folder) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for setting in settings(&git_folder)? {
        let is_hooks = setting.key == "core.hookspath";
        let is_include = setting.key == "include.path"
            || (setting.key.starts_with("includeif.") && setting.key.ends_with(".path"));
        if !is_hooks && !is_include {
            continue;
        }
        // Relative names of included files start at the git folder, those of hooks at the
        // workspace.
        let base = if is_hooks { path } else { &git_folder };
        let place = match (setting.value.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => base.join(&setting.value),
        };
        let places = [normal(&place), place.canonicalize().ok()];
        found.extend(
            places
                .into_iter()
                .flatten()
                .filter_map(|place| Some(place.strip_prefix(path).ok()?.to_owned())),
        );
    }
    found.retain(|place| !place.as_os_str().is_empty() && !place.starts_with(GIT));
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Most repositories name none, and git need not be asked about those. It may not even be
/// installed.
fn names_no_place(git_folder: &Path) -> bool {
    let is_quiet = |name: &str| match open_at_once(&git_folder.join(name)) {
        Ok(file) if file.metadata().is_ok_and(|metadata| metadata.is_file()) => {
            let mut text = Vec::new();
            let is_read = file
                .take(MAX_SETTINGS_BYTES + 1)
                .read_to_end(&mut text)
                .is_ok();
            let is_whole = is_read && text.len() as u64 <= MAX_SETTINGS_BYTES;
            let text = String::from_utf8_lossy(&text).to_lowercase();
            is_whole && !text.contains("hookspath") && !text.contains("include")
        }
        Ok(_) => false,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    match fs::symlink_metadata(git_folder) {
        Ok(metadata) => metadata.is_dir() && is_quiet("config") && is_quiet("config.worktree"),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Opening a pipe would otherwise wait for somebody who writes.
fn open_at_once(path: &Path) -> io::Result<fs::File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
}

/// Without `.` and `..`, whether it exists or not.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                found.pop();
            }
            Component::CurDir => {}
            component => found.push(component),
        }
    }
    found.is_absolute().then_some(found)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    /// Section and name in lower case, as git prints them.
    key: String,
    value: String,
}

impl Setting {
    fn runs(&self) -> bool {
        let (Some((section, _)), Some((_, name))) =
            (self.key.split_once('.'), self.key.rsplit_once('.'))
        else {
            return false;
        };
        if !NAMES_PROGRAM.contains(&(section, name)) {
            return false;
        }
        let is_switch = matches!(
            self.value.to_lowercase().as_str(),
            "" | "true" | "false" | "yes" | "no" | "on" | "off"
        );
        let is_large_files = section == "filter" && LARGE_FILES.contains(&self.value.as_str());
        !is_switch && !is_large_files
    }
}

/// With everything they include. Git itself reads them, so that both understand the same; reading
/// runs nothing.
fn settings(git_folder: &Path) -> io::Result<Vec<Setting>> {
    if !git_folder.exists() {
        return Ok(Vec::new());
    }
    let mut git = git()?;
    // Behind the wall the home folder is empty: what is included from there is not there.
    git.env("GIT_DIR", git_folder)
        .env("HOME", "/nonexistent")
        .args(["config", "--list", "--includes", "-z"]);
    let Some(text) = output(git)? else {
        return Ok(Vec::new());
    };
    let settings = text
        .split('\0')
        .filter(|entry| !entry.is_empty())
        .map(|entry| {
            let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
            Setting {
                key: key.to_owned(),
                value: value.to_owned(),
            }
        });
    Ok(settings.collect())
}

fn git() -> io::Result<Command> {
    let program = GIT_PROGRAMS
        .iter()
        .find(|program| Path::new(program).exists());
    let mut git = Command::new(
        program.ok_or_else(|| io::Error::other("git is not where the system keeps it"))?,
    );
    git.env_clear()
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LC_ALL", "C")
        .current_dir("/");
    Ok(git)
}

/// `None` where it says that nothing was found.
fn output(mut git: Command) -> io::Result<Option<String>> {
    let mut child = git
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let stdout = child
        .stdout
        .take()
        .ok_or_else(|| io::Error::other("git has no output"))?;
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.take(MAX_SETTINGS_BYTES + 1).read_to_end(&mut text);
        let _ = sender.send(read.map(|_| text));
    });
    let text = received.recv_timeout(TIMEOUT);
    if text.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    let text = text.map_err(|_| io::Error::other("git did not answer in time"))??;
    if text.len() as u64 > MAX_SETTINGS_BYTES {
        return Err(io::Error::other("they are too long"));
    }
    match status.code() {
        Some(0) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
        Some(1) => Ok(None),
        _ => Err(io::Error::other("git refuses them")),
    }
}

fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            character if character.is_control() => {}
            character => text.push(character),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_name_programs_are_told_from_switches() {
        for (key, value, runs) in [
            ("core.fsmonitor", "./evil", true),
            ("core.fsmonitor", "true", false),
            ("diff.external", "./evil", true),
            ("diff.word.textconv", "./evil", true),
            ("diff.a.b.c.command", "evil", true),
            ("diff.renames", "copies", false),
            ("filter.x.clean", "evil", true),
            ("filter.lfs.clean", "git-lfs clean -- %f", false),
            ("filter.lfs.process", "git-lfs filter-process", false),
            ("filter.lfs.clean", "./git-lfs clean -- %f", true),
            ("gpg.openpgp.program", "evil", true),
            ("remote.origin.uploadpack", "evil", true),
            ("remote.origin.url", "https://example.org/a", false),
            ("core.hookspath", ".husky", false),
            ("user.name", "Ann", false),
        ] {
            let setting = Setting {
                key: key.to_owned(),
                value: value.to_owned(),
            };
            assert_eq!(setting.runs(), runs, "{key} = {value}");
        }
    }

    #[test]
    fn places_that_do_not_exist_yet_are_found_too() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        let places = |config: &str| {
            let git_folder = path.join(".git");
            fs::create_dir_all(git_folder.join("refs")).unwrap();
            fs::create_dir_all(git_folder.join("objects")).unwrap();
            fs::write(git_folder.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(git_folder.join("config"), config).unwrap();
            places(&path, Some(&path.join("home")))
        };
        for (config, expected) in [
            ("[core]\n\tbare = false\n", vec![]),
            ("[core]\n\thooksPath = later/hooks\n", vec!["later/hooks"]),
            ("[core]\n\thooksPath = ./a/../b\n", vec!["b"]),
            ("[core]\n\thooksPath = ~/hooks\n", vec!["home/hooks"]),
            ("[include]\n\tpath = ../more\n", vec!["more"]),
            ("[core]\n\thooksPath = /etc\n", vec![]),
        ] {
            let expected: Vec<PathBuf> = expected.into_iter().map(PathBuf::from).collect();
            assert_eq!(places(config).unwrap(), expected, "{config}");
        }
        assert!(
            places("[core\n\thooksPath = x\n").is_err(),
            "settings that cannot be read name unknown places"
        );
    }

    #[test]
    fn a_name_with_quotes_stays_one_value() {
        let identity = Committer {
            name: Some("A \"B\" \\ C\n[x]".to_owned()),
            email: None,
        };
        assert_eq!(
            identity.settings(Path::new("/w")),
            "[safe]\n\tdirectory = \"/w\"\n[user]\n\tname = \"A \\\"B\\\" \\\\ C\\n[x]\"\n"
        );
    }
}
