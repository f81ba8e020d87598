//! Where the paths of a command lie, as far as their text tells: in the workspace or not.

use super::ast::{Value, Word};
use super::judge::{AskReason, Judged, WorkingFolder};
use crate::paths::Location;

impl WorkingFolder<'_> {
    /// What is read must be known and lie in the workspace.
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
            Err(outside(&word.text))
        }
    }

    /// The same for the value behind an option, as in `--file=path`.
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
            // zsh looks `=name` up among the programs.
            _ if word.text.starts_with('=') && !word.quoted => false,
            Value::Exact => word.text == "/dev/null" || self.is_beneath(&word.text),
            Value::Pattern => expanded(&word.text)
                .is_some_and(|paths| paths.iter().all(|path| self.may_match(path))),
            Value::Unknown => false,
        }
    }

    /// From the folder the line started in as well as from the one that `cd` went to: a `cd` may
    /// fail.
    fn is_beneath(&self, path: &str) -> bool {
        if Location::of(path).absolute {
            return self.within_root(path).is_some();
        }
        [&self.start, &self.base]
            .iter()
            .all(|base| !Location::from_base(base, path).climbs)
    }

    /// A pattern without braces that can only match beneath.
    fn may_match(&self, pattern: &str) -> bool {
        !pattern.starts_with('~')
            && self.is_beneath(pattern)
            && !pattern.split(['/', '\\']).any(matches_parent)
    }

    /// The path from the workspace's root, if it is an absolute one beneath it.
    pub fn within_root(&self, path: &str) -> Option<String> {
        self.root?.relative(path)
    }

    /// Whether every path the word can become may be written: beneath the folder the command runs
    /// in, or beneath the workspace's root where that is known.
    pub fn stays_inside(&self, word: &Word) -> bool {
        stays_inside(word)
            || word
                .exact()
                .is_some_and(|path| self.within_root(path).is_some())
    }

    /// The shell itself looks for the files that a pattern matches, whatever the program does with
    /// their names.
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
            Err(outside(&word.text))
        } else {
            Ok(())
        }
    }
}

fn outside(path: &str) -> AskReason {
    AskReason::new(format!("reads outside the workspace: {path}"))
}

/// Whether every path the word can become stays beneath the directory the command runs in.
pub(crate) fn stays_inside(word: &Word) -> bool {
    let plain = match word.value {
        Value::Exact => true,
        Value::Pattern => {
            !word.text.contains("..") && !word.text.contains('{') && !hides_dot_names(&word.text)
        }
        Value::Unknown => false,
    };
    // zsh looks `=name` up among the programs.
    plain && !word.tilde && !word.text.starts_with('=') && Location::of(&word.text).is_inside()
}

/// A glob such as `.*` or `.g?t`, which can match `..` and hidden names.
pub(crate) fn hides_dot_names(pattern: &str) -> bool {
    pattern
        .split(['/', '\\'])
        .any(|part| part.starts_with('.') && part.contains(['*', '?', '[', '{']))
}

/// `.*`, `.?` and their like match `..` in some shells; a letter among them rules that out.
fn matches_parent(part: &str) -> bool {
    let mut outside_brackets = part.split(['[', ']']).step_by(2);
    part.starts_with('.')
        && part.contains(['*', '?', '['])
        && !outside_brackets.any(|text| text.contains(char::is_alphanumeric))
}

/// What a pattern becomes when the shell expands its braces, itself included since not every shell
/// does; nothing where that cannot be told.
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
