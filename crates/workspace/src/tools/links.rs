//! Symbolic links that make a command's words mean something else than they say.

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

use codelab_policy::{Policy, visible};
use codelab_protocol::ExecuteCommand;

use crate::root::Root;

/// A word of a command that is not what its name says.
pub struct MisleadingLink {
    word: String,
    target: String,
    is_outside: bool,
}

impl fmt::Display for MisleadingLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, target) = (visible(&self.word), visible(&self.target));
        let place = if self.is_outside {
            ", outside the workspace"
        } else {
            ""
        };
        write!(
            f,
            "{word} leads to {target} through a symbolic link{place}, which requires approval"
        )
    }
}

/// The first word of a command that leads outside the workspace, to a protected path, or from the
/// name of plain data to something that may be executed.
pub fn misleading_link(
    root: &Root,
    policy: &Policy,
    call: &ExecuteCommand,
) -> Option<MisleadingLink> {
    let folder = root.path().join(call.cwd.as_deref().unwrap_or_default());
    codelab_policy::operands(&call.command)
        .into_iter()
        .find_map(|word| {
            let target = link_target(root.path(), &folder.join(&word))?;
            let inside = target
                .strip_prefix(root.path())
                .ok()
                .map(|path| path.to_string_lossy().into_owned());
            let is_meant = inside.as_deref().is_some_and(|path| {
                !policy.protects(path)
                    && (policy.is_plain_data(path) || !policy.is_plain_data(&word))
            });
            let is_outside = inside.is_none();
            let target = inside.unwrap_or_else(|| target.to_string_lossy().into_owned());
            (!is_meant).then_some(MisleadingLink {
                word,
                target,
                is_outside,
            })
        })
}

/// Where a path beneath the root really leads, if a symbolic link is on the way. Links above the
/// root do not count.
fn link_target(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut real = root.to_owned();
    let mut has_link = false;
    for component in path.strip_prefix(root).ok()?.components() {
        match component {
            Component::ParentDir => {
                real.pop();
            }
            Component::Normal(name) => real.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
        if fs::symlink_metadata(&real).is_ok_and(|found| found.is_symlink()) {
            has_link = true;
            // A link to nothing leads where its text says.
            real = fs::canonicalize(&real)
                .or_else(|_| dangling(&real))
                .unwrap_or(real);
        }
    }
    has_link.then_some(real)
}

fn dangling(link: &Path) -> std::io::Result<PathBuf> {
    let target = fs::read_link(link)?;
    let folder = fs::canonicalize(link.parent().unwrap_or(link))?;
    let mut real = folder;
    for component in target.components() {
        match component {
            Component::RootDir => real = PathBuf::from("/"),
            Component::ParentDir => {
                real.pop();
            }
            Component::Normal(name) => real.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(real)
}
