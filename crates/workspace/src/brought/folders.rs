//! Which folders beneath the root have instructions of their own. One walk finds them; reading them
//! again needs no walk.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use codelab_policy::visible;
use codelab_protocol::{MAX_BROUGHT_PATH_BYTES, MAX_INSTRUCTION_FILES};
use tokio_util::sync::CancellationToken;

use super::{BroughtFiles, INSTRUCTION_NAMES, is_usable};
use crate::walk::{WalkEnd, walk};

/// Entries that one walk looks at.
const MAX_LOOKED_AT: usize = 100_000;
/// The root's own file has a place too.
const MAX_FOUND: usize = MAX_INSTRUCTION_FILES - 1;
/// Programs that others wrote lie here, with instructions for those who work on them.
const FOREIGN: &str = "node_modules";

/// Folders beneath the root with an `AGENTS.md` or a `CLAUDE.md`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstructionFolders {
    pub(super) folders: Vec<String>,
    pub(super) notices: Vec<String>,
}

impl BroughtFiles {
    /// Walks the workspace by the rules that the file tools follow. Where there are too many folders,
    /// those nearest to the root count.
    pub fn instruction_folders(&self, cancel: &CancellationToken) -> InstructionFolders {
        let mut found: BTreeSet<(usize, String)> = BTreeSet::new();
        let mut notices = Vec::new();
        let (mut looked_at, mut count, mut is_cut) = (0, 0, false);
        let mut visit = |path: &Path| {
            looked_at += 1;
            if looked_at > MAX_LOOKED_AT {
                is_cut = true;
                return ControlFlow::Break(());
            }
            let is_instructions = path
                .file_name()
                .is_some_and(|name| INSTRUCTION_NAMES.iter().any(|known| name == *known));
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let Some(folder) = folder.filter(|_| is_instructions) else {
                return ControlFlow::Continue(());
            };
            if folder.iter().any(|name| name == FOREIGN) {
                return ControlFlow::Continue(());
            }
            match folder.to_str() {
                Some(folder)
                    if folder.len() < MAX_BROUGHT_PATH_BYTES / 2
                        && folder.split('/').all(is_usable) =>
                {
                    let is_new = found.insert((folder.matches('/').count(), folder.to_owned()));
                    count += usize::from(is_new);
                    if found.len() > MAX_FOUND {
                        found.pop_last();
                    }
                }
                _ if notices.len() < 4 => {
                    let shown: String = visible(&folder.to_string_lossy())
                        .chars()
                        .take(80)
                        .collect();
                    notices.push(format!(
                        "{shown} is not looked at: its name has characters that cannot be shown, or is too long"
                    ));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        let walked = self.root.dir().try_clone().and_then(|start| {
            walk(
                &self.root,
                start,
                Path::new(""),
                true,
                cancel,
                &mut |entry| visit(entry.real),
            )
        });
        is_cut |= !matches!(walked, Ok(WalkEnd::Complete));
        if is_cut {
            notices.push(
                "The folder is too large to look everywhere for AGENTS.md; what is told to models may \
                 not have all of them"
                    .to_owned(),
            );
        }
        if count > MAX_FOUND {
            notices.push(format!(
                "{count} folders have an AGENTS.md or CLAUDE.md; the {MAX_FOUND} nearest to the root are read"
            ));
        }
        let mut folders: Vec<String> = found.into_iter().map(|(_, folder)| folder).collect();
        folders.sort();
        InstructionFolders { folders, notices }
    }
}
