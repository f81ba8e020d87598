//! The forms that an option's value or an operand may have. No program evaluates anything of these
//! forms.

use super::ast::Value;
use super::judge::{AskReason, Judged, WorkingFolder};
use super::programs::ValueKind;
use crate::paths::Location;

pub(crate) fn check(scene: &WorkingFolder<'_>, kind: ValueKind, text: &str) -> Judged {
    let fits = match kind {
        ValueKind::Text => true,
        ValueKind::Number => is_number(text),
        ValueKind::Name => is_name(text),
        ValueKind::Format => !text.contains("%G") && !text.contains("%(signature"),
        ValueKind::Path => return scene.reads_text(text, Value::Exact),
        ValueKind::Data => return scene.writes_data_text(text),
        ValueKind::Source => {
            scene.reads_text(text, Value::Exact)?;
            is_plain_path(text)
        }
        ValueKind::Revision => return revision(scene, text),
        ValueKind::Package => {
            scene.reads_text(text, Value::Exact)?;
            is_plain_path(text) && (text.starts_with(['.', '/']) || text.ends_with(".go"))
        }
        ValueKind::Test => is_test_name(text),
        ValueKind::Setting => is_open_setting(text),
    };
    if fits {
        Ok(())
    } else {
        Err(AskReason::new(format!("{text} is not known to be safe")))
    }
}

/// `10`, `-5`, `+3`, `1.5`, `10k`, `auto`.
fn is_number(text: &str) -> bool {
    let digits = text
        .trim_start_matches(['+', '-'])
        .trim_end_matches(|last: char| last.is_ascii_alphabetic() || last == '%');
    let number = !digits.is_empty()
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b',');
    number || ["auto", "all", "logical"].contains(&text)
}

/// A name or a list of names: of a package, a feature, a rule, a format.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.,:/@+ ".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && text.bytes().all(plain)
        && !text.contains("..")
        && !text.contains("//")
}

/// A path of characters that no program interprets: no `@file`, no quotes, no parentheses of a
/// call.
pub(crate) fn is_plain_path(text: &str) -> bool {
    let plain =
        |character: char| character.is_alphanumeric() || "_-./+,=@%*?[]{}".contains(character);
    !text.starts_with(['@', '=', '+', '%'])
        && (!text.starts_with('-') || text == "-")
        && text.chars().all(plain)
}

/// A filter of test names, such as `parser::tests::empty`.
fn is_test_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/#".contains(&byte);
    !text.is_empty()
        && !text.starts_with(['-', '/', '.'])
        && text.bytes().all(plain)
        && !text.contains("//")
}

/// A revision, a range of revisions, or a path. git compares a path outside its work tree as a
/// file.
fn revision(scene: &WorkingFolder<'_>, text: &str) -> Judged {
    let location = Location::of(text);
    let names_path = location.absolute || location.climbs || text.starts_with('~');
    if names_path {
        scene.reads_text(text, Value::Exact)
    } else {
        Ok(())
    }
}

/// Settings about people, branches and output. Other settings may hold headers, helpers and
/// addresses with passwords.
fn is_open_setting(text: &str) -> bool {
    const SECTIONS: &[&str] = &[
        "branch", "color", "commit", "core", "diff", "init", "merge", "pull", "push", "user",
    ];
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    text.split_once('.')
        .is_some_and(|(section, _)| SECTIONS.contains(&section))
        && text.bytes().all(plain)
}

/// Whether the name of a script or target is on the list, alone or with a suffix that adds nothing
/// dangerous: `build:deploy` is not only a build.
pub(crate) fn is_listed(names: &[&str], text: &str) -> bool {
    const DO_MORE: &[&str] = &[
        "deploy", "fix", "fmt", "format", "install", "publish", "push", "release", "update",
        "upload", "write",
    ];
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let plain = rest
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_:".contains(&byte))
        && !DO_MORE
            .iter()
            .any(|word| rest.to_lowercase().contains(word));
    (names.contains(&name) && plain) || is_count(text)
}

/// The number after `-j` or `-n`.
pub(crate) fn is_count(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
