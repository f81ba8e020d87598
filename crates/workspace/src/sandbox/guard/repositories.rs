//! Which git folders a workspace has, for a look at their settings.

use std::collections::VecDeque;
use std::path::PathBuf;

use cap_std::fs::Dir;

use super::find::{is_package_folder, open_folder};

/// In a submodule's git folder, what holds no further submodules.
const OF_OBJECTS: [&str; 5] = ["hooks", "info", "logs", "objects", "refs"];

/// Every `.git` beneath the root, and the git folders of its submodules, from the top downwards;
/// and whether these are all.
pub(crate) fn repositories(
    root: &Dir,
    max_repositories: usize,
    max_entries: usize,
) -> (Vec<PathBuf>, bool) {
    let mut found = Vec::new();
    let mut open = VecDeque::from([PathBuf::new()]);
    let mut left = max_entries;
    while let Some(folder) = open.pop_front() {
        let is_submodule = folder.components().any(|name| name.as_os_str() == ".git");
        let Ok(dir) = open_folder(root, &folder) else {
            continue;
        };
        if is_submodule && dir.symlink_metadata("HEAD").is_ok() {
            found.push(folder.clone());
        }
        for entry in dir.entries().into_iter().flatten().flatten() {
            left = left.saturating_sub(1);
            if left == 0 || found.len() >= max_repositories {
                return (found, false);
            }
            let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if name == ".git" {
                found.push(path.clone());
                open.push_back(path.join("modules"));
                continue;
            }
            let is_passed_over = match is_submodule {
                true => OF_OBJECTS.iter().any(|known| name == *known),
                false => is_package_folder(&name),
            };
            if is_dir && !is_passed_over {
                open.push_back(path);
            }
        }
    }
    (found, true)
}
