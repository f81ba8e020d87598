//! Places from which git takes programs besides `.git` itself: hooks and settings where a repository
//! says that they are, and folders that git takes for a repository. What is written there runs when a
//! person looks at the folder with git, so a person is asked first.

use std::path::Path;

use crate::root::Root;
use crate::sandbox::git::settings;

/// Why a write to this path asks. Blocks on the file system for a moment.
pub(crate) fn leads_git(root: &Root, real: &Path, home: Option<&Path>) -> Option<&'static str> {
    match settings::places(root.path(), home) {
        Ok(places) if places.iter().any(|place| real.starts_with(place)) => {
            return Some("is where the repository's settings lead git");
        }
        Ok(_) => {}
        Err(_) => return Some("may be where git is led by settings that cannot be read"),
    }
    let is_there = |folder: &Path, name: &str| root.path().join(folder).join(name).exists();
    let is_repository = |folder: &Path| {
        ["HEAD", "objects", "refs"]
            .iter()
            .all(|name| is_there(folder, name))
    };
    let folder = real.parent()?;
    if folder.ancestors().any(is_repository) {
        return Some("is in a folder that git takes for a repository");
    }
    let makes_repository = match real.file_name()?.to_str()? {
        "HEAD" => ["objects", "refs", "config", "commondir"]
            .iter()
            .any(|name| is_there(folder, name)),
        "config" => {
            is_there(folder, "HEAD") || (is_there(folder, "objects") && is_there(folder, "refs"))
        }
        "commondir" => is_there(folder, "HEAD"),
        _ => false,
    };
    makes_repository.then_some("would make git take its folder for a repository")
}
