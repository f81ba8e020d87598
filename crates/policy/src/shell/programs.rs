//! Which programs pass without asking, and with which options. Only data and its types; `judge`
//! applies them.
//!
//! The tables are allow-lists: a program, a subcommand or an option that is not in them asks, and
//! every value has a kind. A row may be added only if the program, with everything that the row
//! allows, reads and changes nothing outside the workspace, shows nothing of the environment, and
//! runs no code except the project's own build or tests.

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
    /// Its arguments are only text: none makes the program read or write a file, or run anything.
    Free,
    Options(&'static ProgramOptions),
    /// Options that may come before a subcommand, then the subcommands.
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
    /// At most one operand: the program would write the second one.
    OneFile(&'static ProgramOptions),
}

/// The options and operands a program may be given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramOptions {
    /// Single letters without a value; digits for options such as `-20`.
    pub flags: &'static str,
    /// Single letters that take a value, attached or as the next word.
    pub valued: &'static [(ValueKind, &'static str)],
    /// Single letters that take a value only if it is attached.
    pub attached: &'static [(ValueKind, &'static str)],
    /// Full names without a value.
    pub long: &'static [&'static str],
    /// Full names with a value, after `=` or as the next word.
    pub long_valued: &'static [(ValueKind, &'static [&'static str])],
    /// Full names with a value after `=`, or without one.
    pub long_optional: &'static [(ValueKind, &'static [&'static str])],
    /// Long names have one dash (go), so letters are never combined. `--` asks.
    pub single_dash: bool,
    /// The program reads what follows a letter with a value as further letters (tree), unless it is
    /// a number.
    pub separate_values: bool,
    /// No option of the program, known here or not, writes a file or runs a program. So a file
    /// whose name looks like an option does no harm when a pattern matches it.
    pub tame: bool,
    /// Without one of these the program rewrites files.
    pub needs: &'static [&'static str],
    pub operands: Operands,
    /// What may follow `--`, if the program passes it on to another one.
    pub trailing: Option<&'static ProgramOptions>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Operands {
    None,
    Text,
    /// Files and folders of the workspace, to be read.
    Paths,
    /// A text to search for, unless one of these options gives it; then files and folders.
    PatternThenPaths(&'static [&'static str]),
    Kind(ValueKind),
    /// Only these names, and numbers.
    Exactly(&'static [&'static str]),
    /// Only these names, each with an optional suffix after a colon (`test:unit`), and numbers.
    Listed(&'static [&'static str]),
}

/// What a value may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// Any text: the program neither opens nor evaluates it.
    Text,
    Number,
    /// A name, or a list of names, of features, packages, rules or formats.
    Name,
    /// How git prints commits. Formats that verify signatures are not allowed.
    Format,
    /// A file or folder of the workspace that is read.
    Path,
    /// A file of plain data in the workspace that is written.
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

/// A linter or a similar tool, which checks the sources that it is given.
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

/// The name of a test runner or linter that is called from the folder where a project's own tools
/// are installed. It is the project's code, like its tests.
pub(crate) fn tool_of_project(path: &str) -> Option<&str> {
    const FOLDERS: &[&str] = &[".venv/bin/", "venv/bin/", "node_modules/.bin/"];
    let path = path.strip_prefix("./").unwrap_or(path);
    let name = FOLDERS
        .iter()
        .find_map(|folder| path.strip_prefix(folder))?;
    let listed = |table: &[(&str, Rule)]| table.iter().any(|(known, _)| *known == name);
    (listed(python::CHECKED) || listed(scripts::CHECKED)).then_some(name)
}

/// Whether no argument makes the program start another program.
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

/// Whether the call only asks for the program's version. To some programs a bare `version` is a
/// file to run.
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
