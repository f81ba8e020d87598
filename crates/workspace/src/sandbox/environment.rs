//! The environment of commands: a list of harmless names, so that a key or token in the client's
//! own environment never reaches a command.

use std::env;
use std::path::{Path, PathBuf};

use super::view::NAMED_BY;

const PASSED: &[&str] = &[
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TZ",
    "USER",
    "GOPATH",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What a command gets: the list, locale settings, what the user added, and answers to what would
/// wait for a person.
pub(crate) fn scrubbed(
    added: &[String],
    scratch: &Path,
    git: Vec<(String, String)>,
) -> Vec<(String, String)> {
    let is_known =
        |name: &str| PASSED.contains(&name) || NAMED_BY.contains(&name) || name.starts_with("LC_");
    let is_passed = |name: &str| is_known(name) || added.iter().any(|added| added == name);
    let mut environment: Vec<(String, String)> = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_passed(name) && name != "PATH")
        .collect();
    environment.push(("PATH".to_owned(), search_path()));
    let scratch = scratch.to_string_lossy().into_owned();
    environment.extend([
        ("TMPDIR".to_owned(), scratch),
        ("TERM".to_owned(), "dumb".to_owned()),
        ("PAGER".to_owned(), "cat".to_owned()),
        ("GIT_PAGER".to_owned(), "cat".to_owned()),
        ("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()),
    ]);
    environment.extend(git);
    environment
}

/// Without relative entries: in a hostile repository they would make `ls` a program of that
/// repository.
fn search_path() -> String {
    let given = env::var_os("PATH").unwrap_or_default();
    let absolute: Vec<PathBuf> = env::split_paths(&given)
        .filter(|entry| entry.is_absolute())
        .collect();
    match env::join_paths(absolute)
        .ok()
        .and_then(|path| path.into_string().ok())
    {
        Some(path) if !path.is_empty() => path,
        _ => DEFAULT_PATH.to_owned(),
    }
}
