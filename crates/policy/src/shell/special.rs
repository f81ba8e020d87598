//! Programs whose arguments need more than an option list: a small language, paths to check, or a
//! wrapped command.

mod find;
mod languages;
mod runners;

use super::ast::Word;
use super::judge::{AskReason, Judged, WorkingFolder};
use super::options;
use super::parse::is_plain_variable;
use super::programs::{GIT_COMMANDS, ProgramOptions, Special};
use crate::paths::Location;

pub(crate) fn judge(
    scene: &mut WorkingFolder<'_>,
    special: Special,
    name: &str,
    arguments: &[Word],
) -> Judged {
    match special {
        Special::Awk => languages::awk(scene, arguments),
        Special::Cd => cd(scene, arguments),
        Special::Command => match arguments.first().map(|word| word.text.as_str()) {
            Some("-v" | "-V") => Ok(()),
            _ => wrapped(scene, name, arguments),
        },
        Special::Condition => find::condition(scene, arguments),
        Special::Copy => copy(scene, arguments, false),
        Special::Date => date(arguments),
        Special::Find => find::find(scene, arguments),
        Special::Git => git(scene, arguments),
        Special::Jq => languages::jq(scene, arguments),
        Special::MakeDirectory => each_path(arguments, "pv", |word| scene.changes_path(word)),
        Special::Move => copy(scene, arguments, true),
        Special::Nice => match arguments {
            [option, level, rest @ ..] if option.text == "-n" && is_number(level) => {
                wrapped(scene, name, rest)
            }
            _ => wrapped(scene, name, arguments),
        },
        Special::Node => runners::node(scene, arguments),
        Special::Printf => printf(arguments),
        Special::Ps => ps(arguments),
        Special::Pytest => runners::pytest(scene, arguments),
        Special::Python => runners::python(scene, arguments),
        Special::Read => read(arguments),
        Special::Sed => languages::sed(scene, arguments),
        Special::Set => set(arguments),
        Special::Tee => each_path(arguments, "ai", |word| scene.writes_data(word)),
        Special::Test => find::test(scene, arguments),
        Special::Time => match arguments {
            [option, rest @ ..] if option.text == "-p" => wrapped(scene, name, rest),
            _ => wrapped(scene, name, arguments),
        },
        Special::Timeout => match arguments {
            [duration, rest @ ..] if is_duration(duration) => wrapped(scene, name, rest),
            _ => Err(AskReason::new("timeout with options that are not analysed")),
        },
        Special::Touch => each_path(arguments, "acm", |word| scene.changes_path(word)),
        Special::OneFile(allowed) => one_file(scene, allowed, name, arguments),
    }
}

/// The command after `time`, `timeout`, `nice` and `command`, without their own options.
fn wrapped(scene: &mut WorkingFolder<'_>, name: &str, words: &[Word]) -> Judged {
    match words.first() {
        Some(word) if word.text.starts_with('-') => Err(AskReason::new(format!(
            "{name} with options that are not analysed"
        ))),
        _ => scene.judge_program(words),
    }
}

fn git(scene: &mut WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    if scene.moved {
        return Err(AskReason::new(
            "git in another folder may follow a planted repository's settings",
        ));
    }
    scene
        .apply(GIT_COMMANDS, "git", arguments)
        .map_err(|finding| {
            let named = |wanted: &[&str]| {
                arguments
                    .iter()
                    .any(|word| wanted.contains(&word.text.as_str()))
            };
            let reads = named(&["--get", "--get-all", "--list", "-l", "get", "list"]);
            // These subcommands exist to change `.git/config`, which names programs to run.
            let protected = named(&["submodule"]) || (named(&["config"]) && !reads);
            AskReason {
                protected,
                ..finding
            }
        })
}

fn cd(scene: &mut WorkingFolder<'_>, arguments: &[Word]) -> Judged {
    let [target] = arguments else {
        return Err(AskReason::new("leaves the workspace"));
    };
    let known = target
        .exact()
        .filter(|path| !path.is_empty() && !path.starts_with('-') && scene.stays_inside(target));
    let Some(path) = known else {
        return Err(AskReason::new(
            "leaves the workspace, or goes to a folder that is not known",
        ));
    };
    scene.base = match scene.within_root(path) {
        Some(from_root) => from_root,
        None if scene.base.is_empty() => path.to_owned(),
        None => format!("{}/{path}", scene.base),
    };
    scene.moved |= !matches!(scene.base.trim_end_matches('/'), "" | ".");
    if Location::of(&scene.base).leads_to_protected(scene.protected) {
        return Err(AskReason {
            protected: true,
            ..AskReason::new("works inside a protected folder")
        });
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

/// The words that are not options. Options other than these flags are refused.
fn operands<'a>(arguments: &'a [Word], flags: &str) -> Result<Vec<&'a Word>, AskReason> {
    let mut found = Vec::new();
    for word in arguments {
        if word.may_be_any_option() {
            return Err(AskReason::new(format!(
                "the value of {} is not known",
                word.text
            )));
        }
        match word.text.strip_prefix('-') {
            Some(letters)
                if !letters.is_empty() && letters.chars().all(|letter| flags.contains(letter)) => {}
            Some(_) => {
                return Err(AskReason::new(format!(
                    "the option {} is not known to be safe",
                    word.text
                )));
            }
            None => found.push(word),
        }
    }
    Ok(found)
}

/// Both the copied names and their destination must be plain data: the destination may be a folder,
/// which keeps the names.
fn copy(scene: &WorkingFolder<'_>, arguments: &[Word], moves: bool) -> Judged {
    let words = operands(arguments, "vnp")?;
    let Some((target, sources)) = words
        .split_last()
        .filter(|(_, sources)| !sources.is_empty())
    else {
        return Err(AskReason::new("copies or moves what is not known"));
    };
    scene.changes_path(target)?;
    let folder = target.text.ends_with('/') || target.text == ".";
    let unplain = |word: &Word| {
        AskReason::new(format!(
            "File modification requires approval: {}",
            word.text
        ))
    };
    if folder && Location::from_base(&scene.base, &target.text).leads_to_protected(scene.protected)
    {
        return Err(AskReason {
            protected: true,
            ..AskReason::new("writes into a protected folder")
        });
    }
    if !folder && !Location::of(&target.text).is_plain_data() {
        return Err(unplain(target));
    }
    for source in sources {
        scene.reads(source)?;
        if source.exact().is_none() || !Location::of(&source.text).is_plain_data() {
            return Err(unplain(source));
        }
        if moves {
            scene.changes_path(source)?;
        }
    }
    Ok(())
}

/// Prints the present time or another one. Other uses set the clock or read a file.
fn date(arguments: &[Word]) -> Judged {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let format = word.text.starts_with('+') && !word.splits;
        let known = matches!(
            word.exact(),
            Some("-u" | "-R" | "-I" | "-Iseconds" | "--utc" | "--iso-8601")
        );
        let other_time =
            word.exact() == Some("-d") && words.next().is_some_and(|time| !time.splits);
        let long_time = word.exact().is_some_and(|text| text.starts_with("--date="));
        if !(format || known || other_time || long_time) {
            return Err(AskReason::new("date with options that are not analysed"));
        }
    }
    Ok(())
}

/// A second operand is the file that the program writes.
fn one_file(
    scene: &WorkingFolder<'_>,
    allowed: &ProgramOptions,
    name: &str,
    arguments: &[Word],
) -> Judged {
    options::check(scene, allowed, arguments).map_err(|finding| finding.named(name))?;
    let operands = options::read(scene, allowed, arguments)?.operands;
    let ends_options = arguments.iter().any(|word| word.text == "--");
    if operands.len() > 1 || ends_options || operands.iter().any(|word| word.exact().is_none()) {
        return Err(AskReason::new(format!(
            "{name} may write to its second file"
        )));
    }
    Ok(())
}

/// Lists processes without their environment. The letter `e` without a dash shows the environment,
/// and so does `-E`.
fn ps(arguments: &[Word]) -> Judged {
    const STYLES: &[&str] = &[
        "a", "au", "aux", "auxf", "auxw", "auxww", "ax", "axf", "axu", "f", "u", "ux", "x",
    ];
    const FLAGS: &str = "aAefFjlLuxwN";
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let known = match word.exact() {
            Some("-p" | "-o" | "-u" | "-C" | "--sort" | "--ppid" | "--pid") => {
                words.next().is_some_and(is_column_list)
            }
            Some(text) if text.starts_with("--sort=") => true,
            Some(text) => match text.strip_prefix('-') {
                Some(flags) => !flags.is_empty() && flags.chars().all(|flag| FLAGS.contains(flag)),
                None => STYLES.contains(&text),
            },
            None => false,
        };
        if !known {
            return Err(AskReason::new("ps may show the environment of programs"));
        }
    }
    Ok(())
}

/// Names of columns, or process ids. `environ` is a column too.
fn is_column_list(word: &Word) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b",_%=-:".contains(&byte);
    word.exact()
        .is_some_and(|text| text.bytes().all(plain) && !text.contains("env"))
}

/// Directives that print text as it is. With numbers, `%n` and `-v` some shells evaluate a
/// variable's subscript, and so run commands that are hidden in an argument.
fn printf(arguments: &[Word]) -> Judged {
    const TEXT_DIRECTIVES: &str = "sbcq%";
    let Some((format, values)) = arguments.split_first() else {
        return Ok(());
    };
    let mut directives = format.text.split('%').skip(1).filter_map(|rest| {
        rest.chars()
            .find(|letter| letter.is_ascii_alphabetic())
            .or(Some('%'))
    });
    let text_only = directives.all(|letter| TEXT_DIRECTIVES.contains(letter));
    let plain_number = |word: &Word| {
        word.exact()
            .is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let evaluates = format.text.contains('*') || !(text_only || values.iter().all(plain_number));
    if format.exact().is_none() || format.text.starts_with('-') || evaluates {
        return Err(AskReason::new(
            "printf with arguments that are not analysed",
        ));
    }
    Ok(())
}

fn read(arguments: &[Word]) -> Judged {
    let plain = |word: &Word| {
        word.exact()
            .is_some_and(|text| text == "-r" || is_plain_variable(text))
    };
    if arguments.iter().all(plain) {
        Ok(())
    } else {
        Err(AskReason::new("read into variables that are not analysed"))
    }
}

/// Only options that make the shell stricter or more verbose.
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
        Err(AskReason::new("changes how the shell works"))
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
        !digits.is_empty()
            && digits
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}
