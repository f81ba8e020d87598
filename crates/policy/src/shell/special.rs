//! Programs whose arguments need more than an option list: a small language, paths to check, a wrapped command.

use regex::Regex;

use super::ast::{Value, Word};
use super::judge::{Finding, Judged, Scene};
use super::options::{self, stays_inside};
use super::parse::is_plain_variable;
use super::programs::{GIT_COMMANDS, OPTIONS, Operands, Options, PYTEST, Special, UNITTEST};
use crate::paths::Location;

pub(crate) fn judge(scene: &mut Scene<'_>, special: Special, name: &str, arguments: &[Word]) -> Judged {
    match special {
        Special::Awk => awk(arguments),
        Special::Cd => cd(scene, arguments),
        Special::Command => match arguments.first().map(|word| word.text.as_str()) {
            Some("-v" | "-V") => Ok(()),
            _ => wrapped(scene, name, arguments),
        },
        Special::Copy => copy(scene, arguments, false),
        Special::Date => date(arguments),
        Special::Git => git(scene, arguments),
        Special::MakeDirectory => each_path(arguments, "pv", |word| scene.changes_path(word)),
        Special::Move => copy(scene, arguments, true),
        Special::Nice => match arguments {
            [option, level, rest @ ..] if option.text == "-n" && is_number(level) => wrapped(scene, name, rest),
            _ => wrapped(scene, name, arguments),
        },
        Special::Printf => printf(arguments),
        Special::Pytest => pytest(arguments),
        Special::Python => python(arguments),
        Special::Read => read(arguments),
        Special::Sed => sed(arguments),
        Special::Set => set(arguments),
        Special::Tee => each_path(arguments, "ai", |word| scene.writes_data(word)),
        Special::Test => test(arguments),
        Special::Time => match arguments {
            [option, rest @ ..] if option.text == "-p" => wrapped(scene, name, rest),
            _ => wrapped(scene, name, arguments),
        },
        Special::Timeout => match arguments {
            [duration, rest @ ..] if is_duration(duration) => wrapped(scene, name, rest),
            _ => Err(Finding::new("timeout with options that are not analysed")),
        },
        Special::Touch => each_path(arguments, "acm", |word| scene.changes_path(word)),
        Special::Uniq => uniq(arguments),
    }
}

/// The command behind `time`, `timeout`, `nice` and `command`; their own options were taken off.
fn wrapped(scene: &mut Scene<'_>, name: &str, words: &[Word]) -> Judged {
    match words.first() {
        Some(word) if word.text.starts_with('-') => {
            Err(Finding::new(format!("{name} with options that are not analysed")))
        }
        _ => scene.judge_program(words),
    }
}

fn git(scene: &mut Scene<'_>, arguments: &[Word]) -> Judged {
    if scene.moved {
        return Err(Finding::new("git in another folder may follow a planted repository's settings"));
    }
    scene.apply(GIT_COMMANDS, "git", arguments).map_err(|finding| {
        let named = |wanted: &[&str]| arguments.iter().any(|word| wanted.contains(&word.text.as_str()));
        let reads = named(&["--get", "--get-all", "--list", "-l", "get", "list"]);
        // Their whole purpose is to change `.git/config`, where programs to run are named.
        let protected = named(&["submodule"]) || (named(&["config"]) && !reads);
        Finding { protected, ..finding }
    })
}

fn cd(scene: &mut Scene<'_>, arguments: &[Word]) -> Judged {
    let [target] = arguments else { return Err(Finding::new("leaves the workspace")) };
    let Some(path) = target.exact().filter(|path| !path.is_empty() && !path.starts_with('-') && stays_inside(target))
    else {
        return Err(Finding::new("leaves the workspace, or goes to a folder that is not known"));
    };
    scene.moved = true;
    scene.base = if scene.base.is_empty() { path.to_owned() } else { format!("{}/{path}", scene.base) };
    if Location::of(&scene.base).leads_to_protected(scene.protected) {
        return Err(Finding { protected: true, ..Finding::new("works inside a protected folder") });
    }
    Ok(())
}

/// Checks every operand of a program that creates or writes the files it is given.
fn each_path(arguments: &[Word], flags: &'static str, check: impl Fn(&Word) -> Judged) -> Judged {
    for word in operands(arguments, flags)? {
        check(word)?;
    }
    Ok(())
}

/// The words that are not options; options beyond the flags are refused.
fn operands<'a>(arguments: &'a [Word], flags: &str) -> Result<Vec<&'a Word>, Finding> {
    let mut found = Vec::new();
    for word in arguments {
        if word.may_be_any_option() {
            return Err(Finding::new(format!("the value of {} is not known", word.text)));
        }
        match word.text.strip_prefix('-') {
            Some(letters) if !letters.is_empty() && letters.chars().all(|letter| flags.contains(letter)) => {}
            Some(_) => return Err(Finding::new(format!("the option {} is not known to be safe", word.text))),
            None => found.push(word),
        }
    }
    Ok(found)
}

/// Both the names copied and the place they go to must be plain data: the place may be a folder, which keeps the names.
fn copy(scene: &Scene<'_>, arguments: &[Word], moves: bool) -> Judged {
    let words = operands(arguments, "vnp")?;
    let Some((target, sources)) = words.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(Finding::new("copies or moves what is not known"));
    };
    scene.changes_path(target)?;
    let folder = target.text.ends_with('/') || target.text == ".";
    let unplain = |word: &Word| Finding::new(format!("File modification requires approval: {}", word.text));
    if folder && Location::from_base(&scene.base, &target.text).leads_to_protected(scene.protected) {
        return Err(Finding { protected: true, ..Finding::new("writes into a protected folder") });
    }
    if !folder && !Location::of(&target.text).is_plain_data() {
        return Err(unplain(target));
    }
    for source in sources {
        if source.exact().is_none() || !Location::of(&source.text).is_plain_data() {
            return Err(unplain(source));
        }
        if moves {
            scene.changes_path(source)?;
        }
    }
    Ok(())
}

/// `-m` with a test runner; a script, inline code or standard input asks.
fn python(arguments: &[Word]) -> Judged {
    match arguments {
        [option, module, rest @ ..] if option.exact() == Some("-m") => match module.exact() {
            Some("pytest") => pytest(rest),
            Some("unittest") => options::check(&UNITTEST, rest).map_err(Finding::from),
            _ => Err(Finding::new(format!("runs the module {}", module.text))),
        },
        _ => Err(Finding { danger: Some("python".to_owned()), ..Finding::new("runs a program or code given to it") }),
    }
}

/// Old versions evaluate `-k` and `-m` as code, new ones read `@file` as arguments, and text files named outright run
/// as doctests.
fn pytest(arguments: &[Word]) -> Judged {
    options::check(&PYTEST, arguments)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=, []*?".contains(&byte);
    for word in arguments {
        let file = word.text.split("::").next().unwrap_or_default().to_lowercase();
        let text_file = [".txt", ".rst", ".md"].iter().any(|extension| file.ends_with(extension));
        let any_file = word.value != Value::Exact && file.contains(['*', '?', '[']) && !file.ends_with(".py");
        if !word.text.bytes().all(plain) || text_file || any_file {
            return Err(Finding::new(format!("pytest: {} is not known to be safe", word.text)));
        }
    }
    Ok(())
}

/// Prints the time; anything else sets it.
fn date(arguments: &[Word]) -> Judged {
    let safe = |word: &Word| {
        (word.text.starts_with('+') && !word.splits)
            || matches!(word.exact(), Some("-u" | "-R" | "-I" | "-Iseconds" | "--utc" | "--iso-8601"))
    };
    if arguments.iter().all(safe) { Ok(()) } else { Err(Finding::new("date with options that are not analysed")) }
}

/// A second operand is the file it writes.
fn uniq(arguments: &[Word]) -> Judged {
    options::check(&Options { flags: "cduiz0123456789", operands: Operands::Any, ..OPTIONS }, arguments)?;
    let operands: Vec<&Word> =
        arguments.iter().filter(|word| word.text == "-" || !word.text.starts_with('-')).collect();
    let ends_options = arguments.iter().any(|word| word.text == "--");
    if operands.len() > 1 || ends_options || operands.iter().any(|word| word.exact().is_none()) {
        return Err(Finding::new("uniq may write to its second file"));
    }
    Ok(())
}

/// Directives that print text as it is. Numbers, `%n` and `-v` evaluate a variable's subscript in some shell, and so
/// run commands hidden in an argument.
fn printf(arguments: &[Word]) -> Judged {
    const TEXT_DIRECTIVES: &str = "sbcq%";
    let Some((format, values)) = arguments.split_first() else { return Ok(()) };
    let mut directives = format
        .text
        .split('%')
        .skip(1)
        .filter_map(|rest| rest.chars().find(|letter| letter.is_ascii_alphabetic()).or(Some('%')));
    let text_only = directives.all(|letter| TEXT_DIRECTIVES.contains(letter));
    let plain_number = |word: &Word| word.exact().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let evaluates = format.text.contains('*') || !(text_only || values.iter().all(plain_number));
    if format.exact().is_none() || format.text.starts_with('-') || evaluates {
        return Err(Finding::new("printf with arguments that are not analysed"));
    }
    Ok(())
}

/// `-v` and comparisons of numbers evaluate subscripts too, so a value that is not known must stand where it can only
/// be text or a file's name.
fn test(arguments: &[Word]) -> Judged {
    const UNARY: &[&str] = &["-d", "-e", "-f", "-h", "-L", "-n", "-r", "-s", "-w", "-x", "-z"];
    const BINARY: &[&str] = &["=", "==", "!=", "-nt", "-ot"];
    let tested = match arguments {
        [rest @ .., last] if last.text == "]" => rest,
        _ => arguments,
    };
    let tested = match tested {
        [first, rest @ ..] if first.text == "!" => rest,
        _ => tested,
    };
    let is = |word: &Word, operators: &[&str]| word.exact().is_some_and(|text| operators.contains(&text));
    let text = |word: &Word| word.value != Value::Pattern && !word.splits;
    let status = |word: &Word| matches!(word.text.as_str(), "$?" | "$#");
    let known = |word: &Word| {
        word.exact().is_some_and(|text| !text.contains(['[', '`']) && !["-v", "-R", "-t"].contains(&text))
    };
    let safe = match tested {
        [only] => text(only),
        [operator, value] if is(operator, UNARY) => text(value),
        [left, operator, right] if is(operator, BINARY) => text(left) && text(right),
        _ => tested.iter().all(|word| known(word) || status(word)),
    };
    if safe { Ok(()) } else { Err(Finding::new("a test that is not analysed")) }
}

fn read(arguments: &[Word]) -> Judged {
    let plain = |word: &Word| word.exact().is_some_and(|text| text == "-r" || is_plain_variable(text));
    if arguments.iter().all(plain) { Ok(()) } else { Err(Finding::new("read into variables that are not analysed")) }
}

/// Stricter or louder running only.
fn set(arguments: &[Word]) -> Judged {
    let plain = |word: &Word| {
        matches!(
            word.exact(),
            Some(
                "-e" | "-u"
                    | "-x"
                    | "-eu"
                    | "-ex"
                    | "-eux"
                    | "-euo"
                    | "-euxo"
                    | "-eo"
                    | "-o"
                    | "pipefail"
                    | "errexit"
                    | "nounset"
                    | "xtrace"
            )
        )
    };
    if !arguments.is_empty() && arguments.iter().all(plain) {
        Ok(())
    } else {
        Err(Finding::new("changes how the shell works"))
    }
}

/// Passes printing and plain substitutions; `w`, `e`, `r`, `-i`, script files and everything else asks.
fn sed(arguments: &[Word]) -> Judged {
    const COMMAND: &str = concat!(
        r"(?:(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)(?:,(?:\+?\d+|\$|/(?:[^/\\\n]|\\[^\n])*/))?)?\s*",
        r"(?:!?[pdq=]|s/(?:[^/\\\n]|\\[^\n])*/(?:[^/\\\n]|\\[^\n])*/[gpIi0-9]*|s\|(?:[^|\\\n]|\\[^\n])*\|(?:[^|\\\n]|\\[^\n])*\|[gpIi0-9]*)"
    );
    let Ok(safe) = Regex::new(&format!(r"^\s*{COMMAND}(?:\s*;\s*{COMMAND})*\s*;?\s*$")) else {
        return Err(Finding::new("sed is not analysed"));
    };
    let mut scripts = Vec::new();
    let mut script_next = false;
    let mut explicit = false;
    let mut first_operand = None;
    for word in arguments {
        if word.may_be_any_option() {
            return Err(Finding::new(format!("the value of {} is not known", word.text)));
        }
        match word.text.as_str() {
            _ if std::mem::take(&mut script_next) => scripts.push(word),
            "-n" | "-E" | "-r" | "-nE" | "-nr" | "-En" | "--quiet" | "--silent" | "--regexp-extended" => {}
            "-e" | "-ne" | "-Ee" => {
                script_next = true;
                explicit = true;
            }
            text if text.starts_with('-') && text != "-" => {
                return Err(Finding::new(format!("sed: the option {text} is not known to be safe")));
            }
            _ => first_operand = first_operand.or(Some(word)),
        }
    }
    if !explicit {
        scripts.extend(first_operand);
    }
    // Where a bracket ends, and whether a delimiter inside it counts, differs: only the plainest ones pass.
    let ambiguous = |script: &str| {
        script.split('[').skip(1).any(|after| {
            let after = after.strip_prefix('^').unwrap_or(after);
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ' ' | '.' | '-');
            after.find(|c| !plain(c)).is_none_or(|end| end == 0 || !after[end..].starts_with(']'))
        })
    };
    let plain = |word: &&Word| word.exact().is_some_and(|script| safe.is_match(script) && !ambiguous(script));
    if scripts.iter().all(plain) { Ok(()) } else { Err(Finding::new("a sed script that is not analysed")) }
}

/// A program that only prints: no pipes, files, commands or loaded code, and no files that gawk takes for connections.
fn awk(arguments: &[Word]) -> Judged {
    const REFUSED: &[&str] =
        &["system", "getline", "|", ">", "<", "@", "close", "fflush", "load", "include", "extension", "ARGV"];
    let mut program = None;
    let mut value_expected = false;
    for word in arguments {
        if word.may_be_any_option() {
            return Err(Finding::new(format!("the value of {} is not known", word.text)));
        }
        let text = word.text.as_str();
        if text.contains("/inet") {
            return Err(Finding::new(format!("awk: {text} may be a connection")));
        }
        if std::mem::take(&mut value_expected) {
            if text.starts_with('-') {
                return Err(Finding::new(format!("awk: {text} may be a value or an option")));
            }
            continue;
        }
        match text {
            "-F" | "-v" => value_expected = true,
            _ if program.is_none() && (text.starts_with("-F") || text.starts_with("-v")) => {}
            _ if program.is_none() && text.starts_with('-') => {
                return Err(Finding::new(format!("awk: the option {text} is not known to be safe")));
            }
            _ => program = program.or(Some(word)),
        }
    }
    match program.and_then(|word| word.exact()) {
        Some(text) if !REFUSED.iter().any(|refused| text.contains(refused)) => Ok(()),
        _ => {
            let danger = Some("awk".to_owned());
            Err(Finding { danger, ..Finding::new("a script that may write files or run commands") })
        }
    }
}

fn is_number(word: &Word) -> bool {
    word.exact().is_some_and(|text| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn is_duration(word: &Word) -> bool {
    word.exact().is_some_and(|text| {
        let digits = text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}
