//! `search_in_code`: lines that hold a text or match a regular expression. Binary files are passed
//! over; matching is in linear time whatever the expression.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use cap_std::fs::Dir;
use codelab_protocol::SearchInCode;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::FilePattern;
use crate::error::{PathAction, ToolRefusal};
use crate::options::WorkspaceLimits;
use crate::root::{Root, open_file};
use crate::text::shortened;
use crate::walk::{WalkEnd, walk};

const MAX_EXPRESSION_BYTES: usize = 10 * 1024 * 1024;
/// A file with a longer line than this is passed over from there.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

pub(crate) fn search_in_code(
    root: &Root,
    limits: &WorkspaceLimits,
    call: &SearchInCode,
    cancel: &CancellationToken,
) -> Result<Value, ToolRefusal> {
    let path = call.path.as_deref().unwrap_or(".");
    let pattern = call.pattern.as_deref().map(FilePattern::new).transpose()?;
    let mut search = Search {
        matcher: matcher(call)?,
        searcher: searcher(),
        limits,
        cancel,
        matches: Vec::new(),
    };
    let place = root.existing(path, PathAction::Read)?;
    let refused = |error| ToolRefusal::from_io(path, PathAction::Read, error);
    let end = if place.metadata().map_err(refused)?.is_dir() {
        let folder = place.open_folder().map_err(refused)?;
        walk(root, folder, &place.real, true, cancel, &mut |entry| {
            let from_start = entry.real.strip_prefix(&place.real).unwrap_or(entry.real);
            if !entry.kind.is_file()
                || pattern
                    .as_ref()
                    .is_some_and(|pattern| !pattern.matches(from_start))
            {
                return ControlFlow::Continue(());
            }
            search.file(entry.folder, entry.name, entry.real)
        })
        .map_err(refused)?
    } else {
        match search.file(&place.folder, place.name.as_ref(), &place.real) {
            ControlFlow::Continue(()) => WalkEnd::Complete,
            ControlFlow::Break(()) => WalkEnd::Cut,
        }
    };
    if cancel.is_cancelled() {
        return Err(ToolRefusal::Cancelled);
    }
    match end {
        WalkEnd::Complete => Ok(json!({"success": true, "matches": search.matches})),
        WalkEnd::Cut => Ok(json!({"success": true, "matches": search.matches, "truncated": true})),
        WalkEnd::Cancelled => Err(ToolRefusal::Cancelled),
    }
}

struct Search<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    limits: &'a WorkspaceLimits,
    cancel: &'a CancellationToken,
    matches: Vec<Value>,
}

impl Search<'_> {
    fn file(&mut self, folder: &Dir, name: &Path, real: &Path) -> ControlFlow<()> {
        let shown = real.to_string_lossy();
        // What cannot be read does not match.
        let Ok(file) = open_file(folder, name, &shown) else {
            return ControlFlow::Continue(());
        };
        let (matches, limits, cancel) = (&mut self.matches, self.limits, self.cancel);
        let mut is_full = false;
        let sink = Lossy(|line, text: &str| {
            if matches.len() >= limits.matches {
                is_full = true;
                return Ok(false);
            }
            let text = shortened(text.trim_end_matches(['\r', '\n']), limits.match_text_bytes);
            matches.push(json!({"path": shown, "line": line, "text": text}));
            Ok::<bool, io::Error>(!cancel.is_cancelled())
        });
        if let Err(error) = self
            .searcher
            .search_file(&self.matcher, &file.into_std(), sink)
        {
            tracing::debug!(%error, "a file was not searched to its end");
        }
        if is_full {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

fn matcher(call: &SearchInCode) -> Result<RegexMatcher, ToolRefusal> {
    RegexMatcherBuilder::new()
        .fixed_strings(!call.regex)
        .crlf(true)
        .size_limit(MAX_EXPRESSION_BYTES)
        .dfa_size_limit(MAX_EXPRESSION_BYTES)
        .build(&call.query)
        .map_err(|error| ToolRefusal::Pattern {
            pattern: call.query.clone(),
            reason: error.to_string(),
        })
}

fn searcher() -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .line_terminator(LineTerminator::crlf())
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE_BYTES))
        .build()
}
