//! Programs that take a script: `sed`, `awk`, `jq`. Only scripts that print pass.

use regex::Regex;

use crate::shell::ast::Word;
use crate::shell::judge::{AskReason, Judged, WorkingFolder};

/// Printing and plain substitutions pass. `w`, `e`, `r`, `-i`, script files and everything else
/// asks.
pub(super) fn sed(scene: &WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    const COMMAND: &str = concat!(
        r"(?:(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)(?:,(?:\+?\d+|\$|/(?:[^/\\\n]|\\[^\n])*/))?)?\s*",
        r"(?:!?[pdq=]|s/(?:[^/\\\n]|\\[^\n])*/(?:[^/\\\n]|\\[^\n])*/[gpIi0-9]*|s\|(?:[^|\\\n]|\\[^\n])*\|(?:[^|\\\n]|\\[^\n])*\|[gpIi0-9]*)"
    );
    let Ok(safe) = Regex::new(&format!(r"^\s*{COMMAND}(?:\s*;\s*{COMMAND})*\s*;?\s*$")) else {
        return Err(AskReason::new("sed is not analysed"));
    };
    let mut scripts = Vec::new();
    let mut script_next = false;
    let mut explicit = false;
    let mut operands = Vec::new();
    for word in arguments {
        if word.may_be_any_option() {
            return Err(AskReason::new(format!(
                "the value of {} is not known",
                word.text
            )));
        }
        match word.text.as_str() {
            _ if std::mem::take(&mut script_next) => scripts.push(word),
            "-n" | "-E" | "-r" | "-nE" | "-nr" | "-En" | "--quiet" | "--silent"
            | "--regexp-extended" => {}
            "-e" | "-ne" | "-Ee" => {
                script_next = true;
                explicit = true;
            }
            text if text.starts_with('-') && text != "-" => {
                return Err(AskReason::new(format!(
                    "sed: the option {text} is not known to be safe"
                )));
            }
            _ => operands.push(word),
        }
    }
    let (script, files) = operands.split_at(usize::from(!explicit).min(operands.len()));
    scripts.extend(script);
    files.iter().try_for_each(|file| scene.reads(file))?;
    // Programs differ in where a bracket ends, and in whether a delimiter inside it counts. So only
    // the simplest brackets pass.
    let ambiguous = |script: &str| {
        script.split('[').skip(1).any(|after| {
            let after = after.strip_prefix('^').unwrap_or(after);
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ' ' | '.' | '-');
            after
                .find(|c| !plain(c))
                .is_none_or(|end| end == 0 || !after[end..].starts_with(']'))
        })
    };
    let plain = |word: &&Word| {
        word.exact()
            .is_some_and(|script| safe.is_match(script) && !ambiguous(script))
    };
    if scripts.iter().all(plain) {
        Ok(())
    } else {
        Err(AskReason::new("a sed script that is not analysed"))
    }
}

/// A program that only prints: no pipes, files, commands, loaded code or environment, and no file
/// names that gawk reads as connections.
pub(super) fn awk(scene: &WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    let mut program = None;
    let mut value_expected = false;
    for word in arguments {
        if word.may_be_any_option() {
            return Err(AskReason::new(format!(
                "the value of {} is not known",
                word.text
            )));
        }
        let text = word.text.as_str();
        if text.contains("/inet") {
            return Err(AskReason::new(format!("awk: {text} may be a connection")));
        }
        if std::mem::take(&mut value_expected) {
            if text.starts_with('-') {
                return Err(AskReason::new(format!(
                    "awk: {text} may be a value or an option"
                )));
            }
            continue;
        }
        match text {
            "-F" | "-v" => value_expected = true,
            _ if program.is_none() && (text.starts_with("-F") || text.starts_with("-v")) => {}
            _ if text.starts_with('-') && text != "-" => {
                return Err(AskReason::new(format!(
                    "awk: the option {text} is not known to be safe"
                )));
            }
            _ if program.is_none() => program = Some(word),
            _ => scene.reads(word)?,
        }
    }
    match program.and_then(|word| word.exact()) {
        Some(text) if only_prints(text) => Ok(()),
        _ => {
            let danger = Some("awk".to_owned());
            Err(AskReason {
                danger,
                ..AskReason::new("a script that may write files or run commands")
            })
        }
    }
}

/// `>` and `|` open a file or a program only after `print`. Before the first `print` they compare
/// and join.
fn only_prints(program: &str) -> bool {
    const REFUSED: &[&str] = &[
        "system",
        "getline",
        "@",
        "close",
        "fflush",
        "load",
        "include",
        "extension",
        "ARGV",
        "ENVIRON",
        "SYMTAB",
    ];
    let printing = program.find("print").map_or("", |at| &program[at..]);
    !REFUSED.iter().any(|refused| program.contains(refused)) && !printing.contains(['|', '>'])
}

/// Only a filter over the named files: no environment, no modules, no files given by an option.
pub(super) fn jq(scene: &WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    const FLAGS: &str = "acCejMnrRsS";
    const LONG: &[&str] = &[
        "--ascii-output",
        "--color-output",
        "--compact-output",
        "--exit-status",
        "--join-output",
        "--monochrome-output",
        "--null-input",
        "--raw-input",
        "--raw-output",
        "--slurp",
        "--sort-keys",
        "--tab",
    ];
    let mut filter = None;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word.may_be_any_option() {
            return Err(AskReason::new(format!(
                "the value of {} is not known",
                word.text
            )));
        }
        match word.text.as_str() {
            // Each value must be one word, or the words after it would be judged by the wrong rule.
            "--arg" | "--argjson" => {
                let values = [words.next(), words.next()];
                if !values
                    .iter()
                    .flatten()
                    .all(|value| !value.splits && !value.globs)
                {
                    return Err(AskReason::new("jq: a value that may be several words"));
                }
            }
            "--indent" if words.next().is_some_and(|value| value.exact().is_some()) => {}
            long if LONG.contains(&long) => {}
            text if text.len() > 1
                && text.starts_with('-')
                && text[1..].chars().all(|flag| FLAGS.contains(flag)) => {}
            text if text.len() > 1 && text.starts_with('-') => {
                return Err(AskReason::new(format!(
                    "jq: the option {text} is not known to be safe"
                )));
            }
            _ if filter.is_none() => filter = Some(word),
            _ => scene.reads(word)?,
        }
    }
    match filter.map(Word::exact) {
        None => Ok(()),
        Some(Some(text)) if !reads_beyond(text) => Ok(()),
        Some(_) => Err(AskReason::new("a jq filter that is not analysed")),
    }
}

/// `env`, `$ENV` and modules. A field of that name comes after a dot or in quotes.
fn reads_beyond(filter: &str) -> bool {
    const REFUSED: &[&str] = &[
        "env",
        "$ENV",
        "include",
        "import",
        "modulemeta",
        "input_filename",
        "get_search_list",
    ];
    let is_part =
        |character: char| character.is_alphanumeric() || character == '_' || character == '$';
    let mut at = 0;
    while let Some(start) = filter[at..].find(is_part).map(|found| at + found) {
        let length = filter[start..]
            .find(|character| !is_part(character))
            .unwrap_or(filter.len() - start);
        at = start + length;
        let field = filter[..start].ends_with('.') && !filter[..start].ends_with("..");
        if !field && REFUSED.contains(&&filter[start..at]) {
            return true;
        }
    }
    filter.contains("$__prog")
}
