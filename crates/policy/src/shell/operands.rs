//! The paths that a line names. The client checks where they really lead, because this crate sees
//! no file system.

use std::collections::BTreeSet;

use super::ast::{Redirect, Script, Value, Word};
use super::{MAX_COMMAND_BYTES, parse};

/// How many folders of a line are followed. A line that enters more is rare, and asks for other
/// reasons.
const MAX_FOLDERS: usize = 8;

/// Every path that a program of the line may read or write, relative to the directory where the
/// line starts, as far as the text tells. A word counts once for each folder that the line enters.
/// Names of programs do not count. A line that cannot be analysed has none: it asks anyway.
pub fn operands(command: &str) -> BTreeSet<String> {
    let readable = command.len() <= MAX_COMMAND_BYTES;
    readable
        .then(|| parse::parse(command).ok())
        .flatten()
        .map(|script| of_script(&script))
        .unwrap_or_default()
}

fn of_script(script: &Script) -> BTreeSet<String> {
    let mut folders = vec![String::new()];
    let mut words: Vec<&Word> = script.loops.iter().flat_map(|each| &each.words).collect();
    for simple in &script.commands {
        words.extend(simple.words.iter().skip(1));
        words.extend(
            simple
                .redirects
                .iter()
                .filter_map(|redirect| match redirect {
                    Redirect::Write(word) | Redirect::Read(word) => Some(word),
                    Redirect::Harmless => None,
                }),
        );
        if let [program, target] = simple.words.as_slice()
            && program.exact() == Some("cd")
            && folders.len() < MAX_FOLDERS
        {
            folders.push(joined(
                folders.last().map_or("", String::as_str),
                &target.text,
            ));
        }
    }
    let paths: BTreeSet<&str> = words.into_iter().flat_map(paths_of).collect();
    folders
        .iter()
        .flat_map(|folder| paths.iter().map(move |path| joined(folder, path)))
        .collect()
}

/// The word itself, and the part after `=`, as in `--output=path`. For a pattern, the folders
/// before it.
fn paths_of(word: &Word) -> impl Iterator<Item = &str> {
    let text = match word.value {
        Value::Exact => word.text.as_str(),
        Value::Pattern => before_pattern(&word.text),
        Value::Unknown => "",
    };
    let value = text.split_once('=').map(|(_, value)| value);
    let whole = (!text.starts_with('-')).then_some(text);
    whole
        .into_iter()
        .chain(value)
        .filter(|path| !path.is_empty())
}

fn before_pattern(text: &str) -> &str {
    let pattern = text.find(['*', '?', '[', '{']).unwrap_or(text.len());
    text[..pattern]
        .rsplit_once('/')
        .map_or("", |(folders, _)| folders)
}

fn joined(folder: &str, path: &str) -> String {
    if folder.is_empty() || path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{folder}/{path}")
    }
}
