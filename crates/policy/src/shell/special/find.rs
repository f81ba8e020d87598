//! `find` and `test`: which of their words are paths.

use crate::shell::ast::{Value, Word};
use crate::shell::judge::{AskReason, Judged, WorkingFolder};

/// Predicates without a value.
const ALONE: &[&str] = &[
    "!",
    "(",
    ")",
    ",",
    "-a",
    "-and",
    "-daystart",
    "-depth",
    "-empty",
    "-executable",
    "-false",
    "-follow",
    "-ls",
    "-mount",
    "-nogroup",
    "-noleaf",
    "-not",
    "-nouser",
    "-nowarn",
    "-o",
    "-or",
    "-print",
    "-print0",
    "-prune",
    "-quit",
    "-readable",
    "-true",
    "-warn",
    "-writable",
    "-xdev",
];

/// Predicates that are followed by a pattern, a number or a format.
const WITH_TEXT: &[&str] = &[
    "-amin",
    "-atime",
    "-cmin",
    "-ctime",
    "-fstype",
    "-gid",
    "-group",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mtime",
    "-name",
    "-newerat",
    "-newerct",
    "-newermt",
    "-path",
    "-perm",
    "-printf",
    "-regex",
    "-regextype",
    "-size",
    "-type",
    "-uid",
    "-used",
    "-user",
    "-wholename",
    "-xtype",
];

/// Predicates that are followed by a file to compare with.
const WITH_PATH: &[&str] = &["-anewer", "-cnewer", "-newer", "-samefile"];

/// Folders first, then an expression of known predicates. None of them deletes, runs or writes
/// (`-delete`, `-exec`, `-ok`, `-fprint`, …), and none reads its folders from a file.
pub(super) fn find(scene: &WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    let unknown =
        |word: &Word| AskReason::new(format!("find: {} is not known to be safe", word.text));
    let mut words = arguments.iter().peekable();
    while words
        .next_if(|word| matches!(word.exact(), Some("-H" | "-L" | "-P")))
        .is_some()
    {}
    let starts_expression = |word: &Word| {
        word.text.starts_with('-') || ["!", "(", ")", ","].contains(&word.text.as_str())
    };
    while let Some(folder) = words.next_if(|word| !starts_expression(word)) {
        if folder.may_be_any_option() {
            return Err(unknown(folder));
        }
        scene.reads(folder)?;
    }
    while let Some(word) = words.next() {
        let predicate = word.exact().unwrap_or_default();
        if ALONE.contains(&predicate) {
            continue;
        }
        let Some(value) = words.next() else {
            return Err(unknown(word));
        };
        if value.splits || (value.value == Value::Pattern && value.may_be_any_option()) {
            return Err(unknown(value));
        }
        if WITH_PATH.contains(&predicate) {
            scene.reads(value)?;
        } else if !WITH_TEXT.contains(&predicate) {
            return Err(unknown(word));
        }
        // Old versions read what follows as a folder or an option.
        if value.text == "--" {
            return Err(unknown(value));
        }
    }
    Ok(())
}

/// `[` and `test`. `-v` and comparisons of numbers evaluate subscripts, so an unknown value may
/// only stand where it is text. A file that is tested must be inside the workspace.
pub(super) fn test(scene: &WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    let tested = match arguments {
        [rest @ .., last] if last.text == "]" => rest,
        _ => arguments,
    };
    let status = |word: &Word| matches!(word.text.as_str(), "$?" | "$#");
    let known = |word: &Word| {
        word.exact().is_some_and(|text| {
            !text.contains(['[', '`', '/', '~'])
                && !text.contains("..")
                && !["-v", "-R", "-t"].contains(&text)
        })
    };
    match simple_test(scene, tested)? {
        true => Ok(()),
        false if tested.iter().all(|word| known(word) || status(word)) => Ok(()),
        false => Err(AskReason::new("a test that is not analysed")),
    }
}

/// `[[` evaluates more than `[` does, so only the simplest forms pass.
pub(super) fn condition(scene: &WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    match arguments {
        [tested @ .., last] if last.exact() == Some("]]") && simple_test(scene, tested)? => Ok(()),
        _ => Err(AskReason::new("a test that is not analysed")),
    }
}

/// Whether the words test one file, compare two files, or test or compare texts.
fn simple_test(scene: &WorkingFolder<'_>, tested: &[Word]) -> Result<bool, AskReason> {
    const FILES: &[&str] = &["-d", "-e", "-f", "-h", "-L", "-r", "-s", "-w", "-x"];
    const COMPARE_FILES: &[&str] = &["-ef", "-nt", "-ot"];
    const COMPARE_TEXT: &[&str] = &["=", "==", "!="];
    let tested = match tested {
        [first, rest @ ..] if first.text == "!" => rest,
        _ => tested,
    };
    let is = |word: &Word, operators: &[&str]| {
        word.exact().is_some_and(|text| operators.contains(&text))
    };
    let text = |word: &Word| word.value != Value::Pattern && !word.splits;
    Ok(match tested {
        [only] => text(only),
        [operator, path] if is(operator, FILES) => {
            scene.reads(path)?;
            text(path)
        }
        [operator, value] if is(operator, &["-n", "-z"]) => text(value),
        [left, operator, right] if is(operator, COMPARE_FILES) => {
            scene.reads(left)?;
            scene.reads(right)?;
            text(left) && text(right)
        }
        [left, operator, right] if is(operator, COMPARE_TEXT) => text(left) && text(right),
        _ => false,
    })
}
