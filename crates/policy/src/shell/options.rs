//! Checks a program's arguments against the options it may be given.

use super::ast::{Value, Word};
use super::programs::{Operands, Options};
use crate::paths::Location;

/// Fails with the reason for a person. Every word that could be an option is checked as one, even where it would be
/// the value of the option before it: programs differ in what takes a value, and a skipped word could hide an option.
pub(crate) fn check(options: &Options, words: &[Word]) -> Result<(), String> {
    let mut value_expected = false;
    let mut operands_only = false;
    for (index, word) in words.iter().enumerate() {
        if word.text.starts_with('@') && !matches!(options.operands, Operands::Any) {
            return Err(format!("{} may be a file of options", word.text));
        }
        if operands_only {
            operand(options.operands, word)?;
            continue;
        }
        if word.may_be_any_option() {
            return Err(format!("the value of {} is not known", word.text));
        }
        if word.text == "--" {
            if value_expected || options.single_dash {
                return Err("-- may not end the options".to_owned());
            }
            if let Some(trailing) = options.trailing {
                return check(trailing, &words[index + 1..]);
            }
            operands_only = true;
        } else if word.text.len() > 1 && word.text.starts_with('-') {
            // What stands after a value that looks like an option would be judged as the wrong thing.
            if value_expected && !word.text[1..].bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(format!("{} may be a value or an option", word.text));
            }
            value_expected = option(options, &word.text)?;
        } else if std::mem::take(&mut value_expected) && word.value == Value::Exact {
            continue;
        } else {
            // Also a value that the shell may make several words of: the others would be operands.
            operand(options.operands, word)?;
        }
    }
    Ok(())
}

/// Whether the next word may be the option's value.
fn option(options: &Options, text: &str) -> Result<bool, String> {
    let unknown = || Err(format!("the option {text} is not known to be safe"));
    if options.single_dash {
        let name = text.trim_start_matches('-').split('=').next().unwrap_or_default();
        // `-7` and `-10k` are values, not options.
        let number = name.starts_with(|first: char| first.is_ascii_digit());
        let known = number || (options.long.contains(&name) && text.len() - text.trim_start_matches('-').len() <= 2);
        return if known { Ok(false) } else { unknown() };
    }
    if let Some(long) = text.strip_prefix("--") {
        return match (long.split_once('='), options.long) {
            (None, known) if known.contains(&long) => Ok(false),
            (None, known) if known.iter().any(|name| name.strip_suffix('?') == Some(long)) => Ok(false),
            (None, known) if known.iter().any(|name| name.strip_suffix('=') == Some(long)) => Ok(true),
            (Some((long, _)), known) if known.iter().any(|name| name.strip_suffix(['=', '?']) == Some(long)) => {
                Ok(false)
            }
            _ => unknown(),
        };
    }
    for (at, letter) in text.char_indices().skip(1) {
        if options.valued.contains(letter) {
            let attached = &text[at + letter.len_utf8()..];
            if options.separate_values && !attached.bytes().all(|byte| byte.is_ascii_digit()) {
                return unknown();
            }
            return Ok(attached.is_empty());
        }
        if options.attached.contains(letter) {
            return Ok(false);
        }
        if !options.flags.contains(letter) {
            return unknown();
        }
    }
    Ok(false)
}

fn operand(allowed: Operands, word: &Word) -> Result<(), String> {
    match allowed {
        Operands::Any => Ok(()),
        Operands::None => Err(format!("the argument {} is not known to be safe", word.text)),
        // Some programs look for options behind `--` as well.
        Operands::Inside if (word.text.starts_with('-') && word.text != "-") || word.may_be_any_option() => {
            Err(format!("{} may be an option", word.text))
        }
        Operands::Inside if stays_inside(word) => Ok(()),
        Operands::Inside => Err(format!("{} may be outside the workspace", word.text)),
        Operands::Listed(names) => match word.exact() {
            Some(text) if is_listed(names, text) => Ok(()),
            _ => Err(format!("{} is not known to be safe", word.text)),
        },
    }
}

fn is_listed(names: &[&str], text: &str) -> bool {
    // `build:deploy` is not just a build.
    const REACH_OUT: &[&str] = &["deploy", "install", "publish", "push", "release", "upload"];
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let plain = rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_:".contains(&byte))
        && !REACH_OUT.iter().any(|word| rest.to_lowercase().contains(word));
    (names.contains(&name) && plain) || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether every path the word can become stays beneath the directory the command runs in.
pub(crate) fn stays_inside(word: &Word) -> bool {
    let plain = match word.value {
        Value::Exact => true,
        Value::Pattern => !word.text.contains("..") && !word.text.contains('{') && !hides_dot_names(&word.text),
        Value::Unknown => false,
    };
    // zsh looks `=name` up among the programs.
    plain && !word.tilde && !word.text.starts_with('=') && Location::of(&word.text).is_inside()
}

/// A glob such as `.*` or `.g?t`, which can match `..` and hidden names.
pub(crate) fn hides_dot_names(pattern: &str) -> bool {
    pattern.split(['/', '\\']).any(|part| part.starts_with('.') && part.contains(['*', '?', '[', '{']))
}
