//! Checks a program's arguments against its allowed options, and every value against its kind.

use super::ast::{Value, Word};
use super::judge::{AskReason, Judged, WorkingFolder};
use super::programs::{Operands, ProgramOptions, ValueKind};
use super::values;

/// A program's arguments, parsed.
#[derive(Default)]
pub(crate) struct Reading<'a> {
    pub operands: Vec<&'a Word>,
    /// The options that were given, letters and full names, each with its value if it has one.
    pub given: Vec<(String, Option<String>)>,
    /// The words after `--`, if the program passes them on to another one.
    trailing: Option<&'a [Word]>,
}

/// Every word that could be an option is checked as one, even where it would be the value of the
/// option before it. Programs differ in which options take a value, and a skipped word could hide
/// an option.
pub(crate) fn check(scene: &WorkingFolder<'_>, options: &ProgramOptions, words: &[Word]) -> Judged {
    let reading = read(scene, options, words)?;
    let given = |name: &&str| reading.given.iter().any(|(given, _)| given == name);
    if let (Some(trailing), Some(words)) = (options.trailing, reading.trailing) {
        check(scene, trailing, words)?;
    }
    if !options.needs.is_empty()
        && !options
            .needs
            .iter()
            .any(|name| given(name) || behind(&reading, name))
    {
        let names: Vec<String> = options.needs.iter().map(|name| dashed(name)).collect();
        return Err(AskReason::new(format!(
            "rewrites files unless it is given {}",
            names.join(" or ")
        )));
    }
    let explicit = match options.operands {
        Operands::PatternThenPaths(instead) => instead.iter().any(given),
        _ => false,
    };
    for (index, word) in reading.operands.iter().enumerate() {
        let judged = match options.operands {
            Operands::PatternThenPaths(_) if index == 0 && !explicit => Ok(()),
            // Some programs look for options after `--` as well.
            _ if !options.tame && word.text.len() > 1 && word.text.starts_with('-') => {
                Err(AskReason::new(format!("{} may be an option", word.text)))
            }
            Operands::PatternThenPaths(_) => scene.reads(word),
            allowed => operand(scene, allowed, word),
        };
        judged?;
    }
    Ok(())
}

fn dashed(name: &str) -> String {
    if name.len() == 1 {
        format!("-{name}")
    } else {
        format!("--{name}")
    }
}

/// With `cargo fmt -- --check` the flag also counts after `--`.
fn behind(reading: &Reading<'_>, name: &str) -> bool {
    reading
        .trailing
        .into_iter()
        .flatten()
        .any(|word| word.text.strip_prefix("--") == Some(name))
}

/// Separates the options and their values from the operands. The caller checks the operands.
pub(crate) fn read<'a>(
    scene: &WorkingFolder<'_>,
    options: &ProgramOptions,
    words: &'a [Word],
) -> Result<Reading<'a>, AskReason> {
    let mut reading = Reading::default();
    let mut expected = None;
    for (index, word) in words.iter().enumerate() {
        if word.may_be_any_option() && !(options.tame && finds_names_only(word)) {
            return Err(AskReason::new(format!(
                "the value of {} is not known",
                word.text
            )));
        }
        if word.text == "--" {
            if expected.is_some() || options.single_dash {
                return Err(AskReason::new("-- may not end the options"));
            }
            match options.trailing {
                Some(_) => reading.trailing = Some(&words[index + 1..]),
                None => reading.operands.extend(&words[index + 1..]),
            }
            return Ok(reading);
        }
        if word.text.len() > 1 && word.text.starts_with('-') {
            // If a value looked like an option, the words after it would be judged by the wrong
            // rule.
            if expected.is_some() && !word.text[1..].bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(AskReason::new(format!(
                    "{} may be a value or an option",
                    word.text
                )));
            }
            expected = match expected {
                Some(kind) => {
                    take_value(scene, kind, &word.text, &mut reading)?;
                    None
                }
                None => option(scene, options, &word.text, &mut reading)?,
            };
        } else if let Some(kind) = expected.take().filter(|_| word.value == Value::Exact) {
            if word.tilde {
                scene.reads(word)?;
            }
            take_value(scene, kind, &word.text, &mut reading)?;
        } else {
            // The shell may turn a value into several words, and the others would be operands.
            reading.operands.push(word);
        }
    }
    Ok(reading)
}

/// A pattern that becomes names of files in one folder. Braces can become anything, and a folder
/// called `-f` would become an option that is followed by a path.
fn finds_names_only(word: &Word) -> bool {
    let folderless = !word.text.trim_end_matches('/').contains('/');
    word.value == Value::Pattern && folderless && !word.text.contains('{')
}

/// Checks the value of the option that was read last.
fn take_value(
    scene: &WorkingFolder<'_>,
    kind: ValueKind,
    value: &str,
    reading: &mut Reading<'_>,
) -> Judged {
    values::check(scene, kind, value)?;
    // Some programs read `-f=path` as a path after the sign.
    if let Some(behind) = value.strip_prefix('=') {
        values::check(scene, kind, behind)?;
    }
    if let Some((_, last)) = reading.given.last_mut() {
        *last = Some(value.to_owned());
    }
    Ok(())
}

/// The kind of value that the next word must have, if the option takes one.
fn option(
    scene: &WorkingFolder<'_>,
    options: &ProgramOptions,
    text: &str,
    reading: &mut Reading<'_>,
) -> Result<Option<ValueKind>, AskReason> {
    if let Some(long) = text
        .strip_prefix("--")
        .or(text.strip_prefix('-').filter(|_| options.single_dash))
    {
        return long_option(scene, options, text, long, reading);
    }
    for (at, letter) in text.char_indices().skip(1) {
        reading.given.push((letter.to_string(), None));
        let attached = &text[at + letter.len_utf8()..];
        let kind_in = |table: &[(ValueKind, &str)]| {
            table
                .iter()
                .find(|(_, letters)| letters.contains(letter))
                .map(|(kind, _)| *kind)
        };
        if let Some(kind) = kind_in(options.valued) {
            if attached.is_empty() {
                return Ok(Some(kind));
            }
            if options.separate_values && !attached.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(unknown(text));
            }
            return take_value(scene, kind, attached, reading).map(|()| None);
        }
        if let Some(kind) = kind_in(options.attached) {
            return if attached.is_empty() {
                Ok(None)
            } else {
                take_value(scene, kind, attached, reading).map(|()| None)
            };
        }
        if !options.flags.contains(letter) {
            return Err(unknown(text));
        }
    }
    Ok(None)
}

fn long_option(
    scene: &WorkingFolder<'_>,
    options: &ProgramOptions,
    text: &str,
    long: &str,
    reading: &mut Reading<'_>,
) -> Result<Option<ValueKind>, AskReason> {
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    let kind_in = |table: &[(ValueKind, &[&str])]| {
        table
            .iter()
            .find(|(_, names)| names.contains(&name))
            .map(|(kind, _)| *kind)
    };
    reading.given.push((name.to_owned(), None));
    match (
        kind_in(options.long_valued),
        kind_in(options.long_optional),
        value,
    ) {
        (None, None, None) if options.long.contains(&name) => Ok(None),
        (Some(kind), _, None) => Ok(Some(kind)),
        (None, Some(_), None) => Ok(None),
        (Some(kind), _, Some(value)) | (None, Some(kind), Some(value)) => {
            take_value(scene, kind, value, reading).map(|()| None)
        }
        _ => Err(unknown(text)),
    }
}

fn unknown(text: &str) -> AskReason {
    AskReason::new(format!("the option {text} is not known to be safe"))
}

fn operand(scene: &WorkingFolder<'_>, allowed: Operands, word: &Word) -> Judged {
    let refused = || {
        Err(AskReason::new(format!(
            "{} is not known to be safe",
            word.text
        )))
    };
    match allowed {
        Operands::Text | Operands::PatternThenPaths(_) => Ok(()),
        Operands::None => Err(AskReason::new(format!(
            "the argument {} is not known to be safe",
            word.text
        ))),
        Operands::Paths => scene.reads(word),
        Operands::Kind(kind) => match word.value {
            Value::Exact if !word.tilde => values::check(scene, kind, &word.text),
            Value::Pattern if !word.may_be_any_option() => {
                scene.reads(word)?;
                values::check(scene, kind, &word.text)
            }
            _ => refused(),
        },
        Operands::Exactly(names) => match word.exact() {
            Some(text) if names.contains(&text) || values::is_count(text) => Ok(()),
            _ => refused(),
        },
        Operands::Listed(names) => match word.exact() {
            Some(text) if values::is_listed(names, text) => Ok(()),
            _ => refused(),
        },
    }
}
