//! The six tools, each a function from its arguments to a result or a refusal. Results are the JSON
//! the model reads; a refusal becomes one in [`refused`], with `success: false` and the text.

mod command;
mod git_places;
mod judge;
mod links;
mod list;
mod read;
mod search;
mod write;

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use serde_json::{Value, json};

use crate::error::ToolRefusal;

pub(crate) use command::{
    Approved, Commands, execute, prepare, programs_of_git, programs_of_repositories,
};
pub(crate) use git_places::leads_git;
pub use judge::{FileNow, WriteQuestion};
pub(crate) use judge::{Writer, certain_result, file_now, preview, question};
pub(crate) use links::misleading_link;
pub(crate) use list::list_files;
pub(crate) use read::read_file;
pub(crate) use search::search_in_code;
pub(crate) use write::{WrittenPath, create_directory, keep_owner, sync_folder, write_file};

pub(crate) fn refused(refusal: &ToolRefusal) -> Value {
    let mut result = json!({"success": false, "error": refusal.to_string()});
    match refusal {
        ToolRefusal::Outdated { difference, .. } => result["difference"] = json!(difference),
        ToolRefusal::Asks(question) => result["difference"] = json!(question.preview.diff),
        _ => {}
    }
    result
}

/// A glob for files: with a `/` it is matched against the path from the searched folder, otherwise
/// against the name.
struct FilePattern {
    matcher: GlobMatcher,
    is_path: bool,
}

impl FilePattern {
    fn new(pattern: &str) -> Result<Self, ToolRefusal> {
        let is_path = pattern.contains('/');
        let glob = GlobBuilder::new(pattern.trim_start_matches("./"))
            .literal_separator(true)
            .build();
        let glob = glob.map_err(|error| ToolRefusal::Pattern {
            pattern: pattern.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            matcher: glob.compile_matcher(),
            is_path,
        })
    }

    fn matches(&self, from_start: &Path) -> bool {
        if self.is_path {
            return self.matcher.is_match(from_start);
        }
        from_start
            .file_name()
            .is_some_and(|name| self.matcher.is_match(Path::new(name)))
    }
}
