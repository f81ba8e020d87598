//! Test runners. Their operands are names of tests and paths of the workspace. Python's runners
//! import or even call what they are given. So a name must be that of a test, and never of a module
//! that is installed with Python or beside it.

use crate::shell::ast::{Value, Word};
use crate::shell::judge::{AskReason, Judged, WorkingFolder};
use crate::shell::options::{self, Reading};
use crate::shell::programs::{NODE_TEST, PYTEST, PYTHON_MODULES, UNITTEST, is_standard};
use crate::shell::values::is_plain_path;

/// `-m` with a test runner, a linter or a formatter. A script, inline code or standard input asks.
pub(super) fn python(scene: &mut WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    let [option, module, rest @ ..] = arguments else {
        return runs_code();
    };
    if option.exact() != Some("-m") {
        return runs_code();
    }
    match module.exact() {
        Some("unittest") => unittest(scene, rest),
        Some(name)
            if matches!(rest, [only] if only.exact() == Some("--version"))
                && is_known_module(name) =>
        {
            Ok(())
        }
        Some(name) => match PYTHON_MODULES.iter().find(|(known, _)| *known == name) {
            Some((_, rule)) => scene.apply(*rule, name, rest),
            None => Err(AskReason::new(format!("runs the module {name}"))),
        },
        None => runs_code(),
    }
}

fn is_known_module(name: &str) -> bool {
    PYTHON_MODULES.iter().any(|(known, _)| *known == name)
}

fn runs_code() -> Judged {
    Err(AskReason {
        danger: Some("python".to_owned()),
        ..AskReason::new("runs a program or code given to it")
    })
}

/// Files, folders and the tests in them. A text file that is named directly would run as doctests,
/// and other kinds of files belong to plugins.
pub(super) fn pytest(scene: &WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    let refused = |text: &str| {
        Err(AskReason::new(format!(
            "pytest: {text} is not known to be safe"
        )))
    };
    let Reading {
        operands, given, ..
    } = options::read(scene, &PYTEST, arguments)?;
    for (name, value) in &given {
        let Some(value) = value else { continue };
        let fits = match name.as_str() {
            "k" | "m" => is_expression(value),
            "p" => value.starts_with("no:"),
            // The other reports are written to files.
            "cov-report" => value.starts_with("term"),
            "deselect" => is_node(value),
            _ => true,
        };
        if !fits {
            return refused(value);
        }
    }
    for word in operands {
        scene.reads(word)?;
        let file = word.text.split("::").next().unwrap_or_default();
        let any_file =
            word.value != Value::Exact && file.contains(['*', '?', '[']) && !file.ends_with(".py");
        if any_file || !is_node(&word.text) {
            return refused(&word.text);
        }
    }
    Ok(())
}

/// `path/test_file.py::TestClass::test_name[parameter]`.
fn is_node(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=, []*?".contains(&byte);
    let file = text.split("::").next().unwrap_or_default();
    let name = file
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let folder_or_python = name.ends_with(".py") || !name.trim_start_matches('.').contains('.');
    text.bytes().all(plain) && folder_or_python && !text.starts_with('-')
}

/// Names joined by `and`, `or`, `not` and parentheses. Old versions evaluate the text as Python, so
/// it contains neither a call nor an attribute.
fn is_expression(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_- ()[]:.,=*".contains(&byte);
    let brackets = text.match_indices('(').all(|(at, _)| {
        let before = text[..at]
            .chars()
            .next_back()
            .is_none_or(|before| before == ' ' || before == '(');
        let after = text[at + 1..]
            .chars()
            .next()
            .is_some_and(|after| after.is_ascii_alphanumeric() || "_ (".contains(after));
        before && after
    });
    let attributes = text.contains('(') && text.contains(['.', '[', '=']);
    text.bytes().all(plain) && brackets && !attributes && !text.contains("__")
}

/// Named tests, or a folder in which to discover them.
fn unittest(scene: &WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    let refused = |text: &str| {
        Err(AskReason::new(format!(
            "unittest: {text} is not the name of a test"
        )))
    };
    let Reading {
        operands, given, ..
    } = options::read(scene, &UNITTEST, arguments)?;
    for (name, value) in &given {
        let Some(value) = value else { continue };
        let fits = match name.as_str() {
            "s" | "start-directory" | "t" | "top-level-directory" => is_folder(scene, value),
            "p" | "pattern" => is_test_pattern(value),
            "k" => value
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.*".contains(&byte)),
            _ => true,
        };
        if !fits {
            return refused(value);
        }
    }
    let texts: Option<Vec<&str>> = operands.iter().map(|word| word.exact()).collect();
    let Some(texts) = texts else {
        return refused("a pattern");
    };
    let known = match texts.split_first() {
        // A folder, a pattern and a top folder may follow without their options.
        Some((&"discover", [folder, pattern, top])) => {
            is_folder(scene, folder) && is_test_pattern(pattern) && is_folder(scene, top)
        }
        Some((&"discover", [folder, pattern])) => {
            is_folder(scene, folder) && is_test_pattern(pattern)
        }
        Some((&"discover", rest)) => rest.iter().all(|folder| is_folder(scene, folder)),
        _ => texts.iter().all(|name| is_test(scene, name)),
    };
    if known {
        Ok(())
    } else {
        refused(&texts.join(" "))
    }
}

/// A folder that exists is searched. Any other name would be imported as a module, so a bare name
/// must be that of a folder of tests.
fn is_folder(scene: &WorkingFolder<'_>, text: &str) -> bool {
    let path = text == "." || text.contains('/') || is_test_module(text);
    path && is_plain_path(text) && scene.reads_text(text, Value::Exact).is_ok()
}

/// A file of the workspace, or a dotted name that leads through a test module to a test. Anything
/// else that a name leads to is called, with the other operands as its arguments.
fn is_test(scene: &WorkingFolder<'_>, text: &str) -> bool {
    if text.contains('/') || text.ends_with(".py") {
        let parts = text
            .strip_prefix("./")
            .unwrap_or(text)
            .strip_suffix(".py")
            .unwrap_or_default()
            .split('/');
        return parts.into_iter().all(is_identifier)
            && scene.reads_text(text, Value::Exact).is_ok();
    }
    let parts: Vec<&str> = text.split('.').collect();
    let Some((last, before)) = parts.split_last() else {
        return false;
    };
    let in_tests = before.iter().any(|part| is_test_module(part));
    let is_name = parts.iter().all(|part| is_identifier(part)) && !is_standard(parts[0]);
    is_name
        && (is_test_module(last) || (in_tests && (is_test_class(last) || last.starts_with("test"))))
}

fn is_test_module(name: &str) -> bool {
    name == "tests"
        || name.starts_with("test_")
        || name.ends_with("_test")
        || name.ends_with("_tests")
}

fn is_test_class(name: &str) -> bool {
    ["Test", "Tests", "TestCase"]
        .iter()
        .any(|end| name.ends_with(end))
        || name.starts_with("Test")
}

/// `test*.py`, `*_test.py`.
fn is_test_pattern(text: &str) -> bool {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_*?.".contains(&byte));
    plain
        && (text.starts_with("test")
            || text.ends_with("test.py")
            || text.ends_with("tests.py")
            || text.ends_with("Test.py"))
}

fn is_identifier(text: &str) -> bool {
    let starts = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `node --test` runs tests, `node --check` reads a file. Options after a file's name would belong
/// to that program.
pub(super) fn node(scene: &WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    match arguments.first().and_then(Word::exact) {
        Some("--test" | "--check" | "-c") => {
            options::check(scene, &NODE_TEST, arguments).map_err(|f| f.named("node"))
        }
        _ => Err(AskReason {
            danger: Some("node".to_owned()),
            ..AskReason::new("runs a program or code given to it")
        }),
    }
}
