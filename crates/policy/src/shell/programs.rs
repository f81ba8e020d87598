//! Which programs pass unasked, with which options. Data and its shape only; the judging is
//! elsewhere.
//!
//! The tables are allow-lists: a program, a subcommand or an option that is not here asks, and
//! every value has a kind. A row belongs here only if, with everything it allows, the program reads
//! and changes nothing outside the workspace, shows nothing of the environment, and runs no code
//! that is not the project's own build or tests.

mod danger;
mod develop;
mod git;
mod python;
mod read;
mod scripts;
mod search;
mod standard;
mod toolchains;

pub(crate) use danger::danger;
pub(crate) use git::COMMANDS as GIT_COMMANDS;
pub(crate) use python::{MODULES as PYTHON_MODULES, PYTEST, UNITTEST};
pub(crate) use scripts::NODE_TEST;
pub(crate) use standard::is_standard;

/// What makes a program's arguments harmless.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// Its arguments are text to it: none makes it read or write a file, or run anything.
    Free,
    Options(&'static ProgramOptions),
    /// Options that may stand before a subcommand, then the subcommands.
    Commands(&'static [&'static str], &'static [(&'static str, Rule)]),
    Either(&'static Rule, &'static Rule),
    Special(Special),
}

/// Rules that are code rather than data.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Special {
    Awk,
    Cd,
    Command,
    Condition,
    Copy,
    Date,
    Find,
    Git,
    Jq,
    MakeDirectory,
    Move,
    Nice,
    Node,
    Printf,
    Ps,
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
    /// At most one operand: a second would be the file it writes.
    OneFile(&'static ProgramOptions),
}

/// The options and operands a program may be given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramOptions {
    /// Single letters without a value; digits for options such as `-20`.
    pub flags: &'static str,
    /// Single letters that take a value, attached or as the next word.
    pub valued: &'static [(ValueKind, &'static str)],
    /// Single letters that take a value only where it is attached.
    pub attached: &'static [(ValueKind, &'static str)],
    /// Full names without a value.
    pub long: &'static [&'static str],
    /// Full names with a value, behind `=` or as the next word.
    pub long_valued: &'static [(ValueKind, &'static [&'static str])],
    /// Full names with a value behind `=`, or none.
    pub long_optional: &'static [(ValueKind, &'static [&'static str])],
    /// Long names stand behind one dash (go), so letters are never bundled. `--` asks.
    pub single_dash: bool,
    /// What stands behind a valued letter in the same word is read as further letters (tree),
    /// unless it is a number.
    pub separate_values: bool,
    /// None of the program's options, known here or not, writes a file or runs a program, so that a
    /// file whose name looks like an option does no harm where a pattern finds it.
    pub tame: bool,
    /// Without one of these the program rewrites files.
    pub needs: &'static [&'static str],
    pub operands: Operands,
    /// What may follow `--`, where the program hands that on to another.
    pub trailing: Option<&'static ProgramOptions>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Operands {
    None,
    Text,
    /// Files and folders of the workspace, to be read.
    Paths,
    /// A text to look for, unless one of these options gives it; then files and folders.
    PatternThenPaths(&'static [&'static str]),
    Kind(ValueKind),
    /// Only these names, and numbers.
    Exactly(&'static [&'static str]),
    /// Only these names, each of which may go on after a colon (`test:unit`), and numbers.
    Listed(&'static [&'static str]),
}

/// What a value may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// Anything: the program neither opens nor evaluates it.
    Text,
    Number,
    /// Names of features, packages, rules, formats; a list of them.
    Name,
    /// How git shows commits; nothing that has their signatures checked.
    Format,
    /// A file or folder of the workspace, to be read.
    Path,
    /// A file of plain data in the workspace, to be written.
    Data,
    /// A file or folder of the workspace that a tool checks or runs, in plain characters.
    Source,
    Revision,
    /// Go packages of this module, by path.
    Package,
    /// A part of a test's name.
    Test,
    /// A git setting that holds no password.
    Setting,
}

pub(crate) const OPTIONS: ProgramOptions = ProgramOptions {
    flags: "",
    valued: &[],
    attached: &[],
    long: &[],
    long_valued: &[],
    long_optional: &[],
    single_dash: false,
    separate_values: false,
    tame: false,
    needs: &[],
    operands: Operands::None,
    trailing: None,
};

/// A program that reads the files it is given.
pub(crate) const READS: ProgramOptions = ProgramOptions {
    tame: true,
    operands: Operands::Paths,
    ..OPTIONS
};

/// A linter or its like, which is given the sources to check.
pub(crate) const CHECKS: ProgramOptions = ProgramOptions {
    operands: Operands::Kind(ValueKind::Source),
    ..OPTIONS
};

/// The rule for a program, unless it must ask.
pub(crate) fn rule(program: &str) -> Option<Rule> {
    if read::FREE.contains(&program) {
        return Some(Rule::Free);
    }
    [
        read::CHECKED,
        search::CHECKED,
        develop::CHECKED,
        python::CHECKED,
        scripts::CHECKED,
        git::CHECKED,
    ]
    .into_iter()
    .flatten()
    .find(|(name, _)| *name == program)
    .map(|(_, rule)| *rule)
}

/// The name of a test runner or linter that is called where a project's own tools are installed. It
/// is the project's code, as its tests are.
pub(crate) fn tool_of_project(path: &str) -> Option<&str> {
    const FOLDERS: &[&str] = &[".venv/bin/", "venv/bin/", "node_modules/.bin/"];
    let path = path.strip_prefix("./").unwrap_or(path);
    let name = FOLDERS
        .iter()
        .find_map(|folder| path.strip_prefix(folder))?;
    let listed = |table: &[(&str, Rule)]| table.iter().any(|(known, _)| *known == name);
    (listed(python::CHECKED) || listed(scripts::CHECKED)).then_some(name)
}

/// Whether no argument makes the program start another one.
pub(crate) fn runs_nothing(program: &str) -> bool {
    const FILES: &[&str] = &[
        "[", "cd", "cp", "jq", "mkdir", "mv", "printf", "ps", "read", "tee", "test", "touch",
        "uniq",
    ];
    let tame = |rule: Rule| {
        matches!(
            rule,
            Rule::Free | Rule::Options(ProgramOptions { tame: true, .. })
        )
    };
    FILES.contains(&program) || rule(program).is_some_and(tame)
}

/// Whether the program is asked for its version and nothing else. A bare `version` is a file to run
/// for some.
pub(crate) fn tells_version(program: &str, arguments: &[&str]) -> bool {
    match arguments {
        ["--version"] => develop::VERSIONED.contains(&program),
        ["-version"] => program == "java",
        ["-V"] => ["python", "python3", "rustc", "cargo", "pytest"].contains(&program),
        ["-v"] => ["node", "npm", "yarn", "pnpm"].contains(&program),
        ["version"] => program == "go",
        _ => false,
    }
}
