//! Where the paths of a command lead, as far as their text tells: into the workspace or out of it.

use super::ast::{Value, Word};
use super::judge::{AskReason, Judged, WorkingFolder};
use crate::paths::Location;

impl WorkingFolder<'_> {
    /// A path that is read must be known and inside the workspace.
    pub fn reads(&self, word: &Word) -> Judged {
        if word.value == Value::Unknown {
            return Err(AskReason::new(format!(
                "reads a path that is not known: {}",
                word.text
            )));
        }
        if self.lies_inside(word) {
            Ok(())
        } else {
            Err(reads_outside(&word.text))
        }
    }

    /// The same check for the value of an option, as in `--file=path`.
    pub fn reads_text(&self, text: &str, value: Value) -> Judged {
        self.reads(&Word {
            text: text.to_owned(),
            value,
            ..Word::empty()
        })
    }

    fn lies_inside(&self, word: &Word) -> bool {
        match word.value {
            _ if word.tilde || word.text.starts_with('~') => false,
            // zsh replaces `=name` by the path of that program.
            _ if word.text.starts_with('=') && !word.quoted => false,
            Value::Exact => word.text == "/dev/null" || self.is_beneath(&word.text),
            Value::Pattern => expanded(&word.text)
                .is_some_and(|paths| paths.iter().all(|path| self.may_match(path))),
            Value::Unknown => false,
        }
    }

    /// Checked from the folder where the line started and from the one that `cd` named, because a
    /// `cd` may fail.
    fn is_beneath(&self, path: &str) -> bool {
        if Location::of(path).absolute {
            return self.within_root(path).is_some();
        }
        [&self.start, &self.base]
            .iter()
            .all(|base| !Location::from_base(base, path).climbs)
    }

    /// A pattern without braces that can only match beneath the folder.
    fn may_match(&self, pattern: &str) -> bool {
        !pattern.starts_with('~')
            && self.is_beneath(pattern)
            && !pattern.split(['/', '\\']).any(matches_parent)
    }

    /// The path relative to the workspace's root, if it is absolute and beneath that root.
    pub fn within_root(&self, path: &str) -> Option<String> {
        self.root?.relative(path)
    }

    /// Whether every path that the word can become may be written: beneath the folder in which the
    /// command runs, or beneath the workspace's root if it is known.
    pub fn stays_inside(&self, word: &Word) -> bool {
        stays_inside(word)
            || word
                .exact()
                .is_some_and(|path| self.within_root(path).is_some())
    }

    /// The shell itself searches for the files that a pattern matches, whatever the program does
    /// with their names.
    pub fn looks_inside(&self, word: &Word) -> Judged {
        let leads_out = |path: &String| {
            let absolute = path.starts_with('~')
                || (Location::of(path).absolute && self.within_root(path).is_none());
            absolute
                || path
                    .split('/')
                    .any(|part| part == ".." || matches_parent(part))
        };
        let outward = word.globs
            && word.value == Value::Pattern
            && (word.tilde || expanded(&word.text).is_none_or(|paths| paths.iter().any(leads_out)));
        if outward {
            Err(reads_outside(&word.text))
        } else {
            Ok(())
        }
    }
}

fn reads_outside(path: &str) -> AskReason {
    AskReason::new(format!("reads outside the workspace: {path}"))
}

/// Whether every path that the word can become stays beneath the directory in which the command
/// runs.
pub(crate) fn stays_inside(word: &Word) -> bool {
    let plain = match word.value {
        Value::Exact => true,
        Value::Pattern => {
            !word.text.contains("..") && !word.text.contains('{') && !hides_dot_names(&word.text)
        }
        Value::Unknown => false,
    };
    // zsh replaces `=name` by the path of that program.
    plain && !word.tilde && !word.text.starts_with('=') && Location::of(&word.text).is_inside()
}

/// A glob such as `.*` or `.g?t`, which can match `..` and hidden names.
pub(crate) fn hides_dot_names(pattern: &str) -> bool {
    pattern
        .split(['/', '\\'])
        .any(|part| part.starts_with('.') && part.contains(['*', '?', '[', '{']))
}

/// `.*` and `.?` match `..` in some shells. A letter in the pattern rules that out.
fn matches_parent(part: &str) -> bool {
    let mut outside_brackets = part.split(['[', ']']).step_by(2);
    part.starts_with('.')
        && part.contains(['*', '?', '['])
        && !outside_brackets.any(|text| text.contains(char::is_alphanumeric))
}

/// What a pattern becomes when the shell expands its braces, with the pattern itself, because not
/// every shell expands them. None if that is not known.
fn expanded(text: &str) -> Option<Vec<String>> {
    const MAX_EXPANDED: usize = 64;
    let mut done = vec![text.to_owned()];
    let mut open = vec![(String::new(), text)];
    while let Some((head, rest)) = open.pop() {
        let Some((before, after)) = rest.split_once('{') else {
            done.push(head + rest);
            continue;
        };
        let (inner, tail) = after
            .split_once('}')
            .filter(|(inner, _)| !inner.contains('{'))?;
        for alternative in alternatives(inner)? {
            open.push((format!("{head}{before}{alternative}"), tail));
        }
        if done.len() + open.len() > MAX_EXPANDED {
            return None;
        }
    }
    Some(done)
}

/// The texts between the commas, or the ends of a range such as `1..5`.
fn alternatives(inner: &str) -> Option<Vec<&str>> {
    if inner.contains(',') {
        return Some(inner.split(',').collect());
    }
    let plain =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match inner.split_once("..") {
        Some((first, last)) if plain(first) && plain(last) => Some(vec![first, last]),
        Some(_) => None,
        None => Some(vec![inner]),
    }
}
