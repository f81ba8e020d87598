//! Which programs pass unasked, with which options. Data and its shape only; the judging is elsewhere.
//!
//! The tables are allow-lists: a program, a subcommand or an option that is not here asks. A row belongs here only if,
//! with everything it allows, the program neither changes anything outside the workspace nor runs code that is not the
//! project's own build or tests.

mod danger;
mod develop;
mod git;
mod read;
mod toolchains;

pub(crate) use danger::danger;
pub(crate) use develop::{PYTEST, UNITTEST};
pub(crate) use git::COMMANDS as GIT_COMMANDS;

/// What makes a program's arguments harmless.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// No argument can make it write or run anything.
    Free,
    Options(&'static Options),
    /// Options that may stand before a subcommand, then the subcommands.
    Commands(&'static [&'static str], &'static [(&'static str, Rule)]),
    Special(Special),
}

/// Rules that are code rather than data.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Special {
    Awk,
    Cd,
    Command,
    Copy,
    Date,
    Git,
    MakeDirectory,
    Move,
    Nice,
    Printf,
    Pytest,
    Python,
    Read,
    Sed,
    Set,
    Tee,
    Test,
    Time,
    Timeout,
    Touch,
    Uniq,
}

/// The options and operands a program may be given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Single letters without a value; digits for options such as `-20`.
    pub flags: &'static str,
    /// Single letters that take a value, attached or as the next word.
    pub valued: &'static str,
    /// Single letters that take a value only where it is attached.
    pub attached: &'static str,
    /// Full names: `name` has no value, `name=` has one (attached or the next word), `name?` may have one attached.
    pub long: &'static [&'static str],
    /// Long names stand behind one dash (go, find), so letters are never bundled. `--` asks: find takes what stands
    /// behind it for its expression all the same.
    pub single_dash: bool,
    /// What stands behind a valued letter in the same word is read as further letters (tree), unless it is a number.
    pub separate_values: bool,
    pub operands: Operands,
    /// What may follow `--`, where the program hands that on to another.
    pub trailing: Option<&'static Options>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Operands {
    None,
    Any,
    /// Paths that stay beneath the directory the command runs in.
    Inside,
    /// Only these names, each of which may go on after a colon (`test:unit`), and numbers.
    Listed(&'static [&'static str]),
}

pub(crate) const OPTIONS: Options = Options {
    flags: "",
    valued: "",
    attached: "",
    long: &[],
    single_dash: false,
    separate_values: false,
    operands: Operands::None,
    trailing: None,
};

/// The rule for a program, unless it must ask.
pub(crate) fn rule(program: &str) -> Option<Rule> {
    if read::FREE.contains(&program) {
        return Some(Rule::Free);
    }
    [read::CHECKED, develop::CHECKED, git::CHECKED]
        .into_iter()
        .flatten()
        .find(|(name, _)| *name == program)
        .map(|(_, rule)| *rule)
}

/// Whether no argument makes the program start another one.
pub(crate) fn runs_nothing(program: &str) -> bool {
    const FILES: &[&str] = &["[", "cd", "cp", "mkdir", "mv", "tee", "test", "touch"];
    read::FREE.contains(&program) || FILES.contains(&program)
}

/// Whether the program is asked for its version and nothing else. A bare `version` is a file to run for some.
pub(crate) fn tells_version(program: &str, arguments: &[&str]) -> bool {
    match arguments {
        ["--version"] => develop::VERSIONED.contains(&program),
        ["-version"] => program == "java",
        ["-V"] => ["python", "python3", "rustc", "cargo"].contains(&program),
        ["-v"] => ["node", "npm", "yarn", "pnpm"].contains(&program),
        ["version"] => program == "go",
        _ => false,
    }
}
