//! Which lines run git and nothing else. A sandbox lets an approved one of them write `.git`, so this list is narrower
//! than what a person may approve: no call in it starts a program that the line names, or one that an alias names.
//! Programs that the repository's own configuration names (filters, hooks, an editor) are the caller's to switch off.

use super::ast::{Script, Simple, Value, Word};
use super::places::stays_inside;
use super::{MAX_COMMAND_BYTES, parse, programs};
use crate::visible::has_hidden;

/// A command line that consists of git calls only, with plain `cd` between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitOnly {
    pub calls: Vec<GitCall>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitCall {
    /// Where it runs, from the folder the line starts in; empty for that folder itself.
    pub folder: String,
    pub subcommand: String,
    /// What follows the subcommand. Globs are as written.
    pub arguments: Vec<String>,
}

/// The git calls of a line that runs nothing else: simple commands joined by `&&`, `;` or newlines, no pipes, no
/// substitutions, no redirections, no changed environment, no wrappers, no option that names a program. `-c core.hooksPath=…`
/// is the exception: a person who wants hooks to run approves a line that says so.
pub fn git_only(command: &str) -> Option<GitOnly> {
    let script = analysed(command).filter(|script| !script.nested && script.concerns.is_empty())?;
    let mut folder = String::new();
    let mut calls = Vec::new();
    for simple in &script.commands {
        if simple.assigns || !simple.redirects.is_empty() {
            return None;
        }
        let (program, arguments) = simple.words.split_first()?;
        match plain(program)? {
            "cd" => enter(&mut folder, arguments)?,
            "git" => calls.push(git_call(&folder, arguments)?),
            _ => return None,
        }
    }
    (!calls.is_empty()).then_some(GitOnly { calls })
}

/// Whether any part of a line may run git. True for what cannot be analysed.
pub fn runs_git(command: &str) -> bool {
    analysed(command).is_none_or(|script| script.commands.iter().any(may_run_git))
}

fn analysed(command: &str) -> Option<Script> {
    let readable = command.len() <= MAX_COMMAND_BYTES && !has_hidden(command);
    readable.then(|| parse::parse(command).ok()).flatten()
}

/// A program that the tables know runs only what they say, so its arguments are just arguments. Any other may run git
/// if its arguments name it.
fn may_run_git(simple: &Simple) -> bool {
    let Some((program, arguments)) = simple.words.split_first() else { return false };
    let Some(name) = program.exact() else { return true };
    if is_git(name) {
        return true;
    }
    let mentioned = arguments.iter().any(|word| word.value == Value::Unknown || names_git(&word.text));
    !programs::runs_nothing(name) && mentioned
}

fn is_git(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program).to_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    name == "git" || name.starts_with("git-")
}

/// `git` as a word of its own, as in `sh -c 'git status'`.
fn names_git(text: &str) -> bool {
    text.split(|character: char| !(character.is_alphanumeric() || "._-/\\".contains(character))).any(is_git)
}

fn plain(word: &Word) -> Option<&str> {
    word.exact().filter(|_| !word.quoted)
}

fn enter(folder: &mut String, arguments: &[Word]) -> Option<()> {
    let [target] = arguments else { return None };
    let path = target.exact().filter(|path| !path.is_empty() && !path.starts_with('-') && stays_inside(target))?;
    if !folder.is_empty() {
        folder.push('/');
    }
    folder.push_str(path);
    Some(())
}

fn git_call(folder: &str, mut arguments: &[Word]) -> Option<GitCall> {
    let mut folder = folder.to_owned();
    loop {
        let (first, rest) = arguments.split_first()?;
        match (first.exact()?, rest) {
            ("--no-pager" | "-P" | "--no-optional-locks", _) => arguments = rest,
            ("-C", [target, rest @ ..]) => {
                enter(&mut folder, std::slice::from_ref(target))?;
                arguments = rest;
            }
            ("-c", [setting, rest @ ..]) => {
                names_hooks(setting)?;
                arguments = rest;
            }
            (name, _) => {
                let (_, letters) = SUBCOMMANDS.iter().find(|(subcommand, _)| *subcommand == name)?;
                let arguments = checked(rest, letters)?;
                return Some(GitCall { folder, subcommand: name.to_owned(), arguments });
            }
        }
    }
}

/// The one setting that a call may bring along: where its hooks are. The person who approves reads that hooks will run.
fn names_hooks(setting: &Word) -> Option<()> {
    let (key, folder) = setting.exact()?.split_once('=')?;
    let is_plain =
        !folder.is_empty() && !folder.starts_with(['/', '-', '~']) && !folder.split('/').any(|part| part == "..");
    (key.eq_ignore_ascii_case("core.hooksPath") && is_plain).then_some(())
}

/// The arguments, if none of them can name a program.
fn checked(words: &[Word], letters: &str) -> Option<Vec<String>> {
    let mut operands_only = false;
    let mut arguments = Vec::new();
    for word in words {
        let text = word.text.as_str();
        if word.value == Value::Unknown || word.tilde || (word.may_be_any_option() && !operands_only) {
            return None;
        }
        // `ext::sh -c …` is a remote that is a program.
        if text.contains("::") || (!operands_only && !is_tame(text, letters)) {
            return None;
        }
        operands_only |= text == "--";
        arguments.push(text.to_owned());
    }
    Some(arguments)
}

fn is_tame(text: &str, letters: &str) -> bool {
    if let Some(long) = text.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        // git takes any unambiguous beginning of a name.
        return name.is_empty() || !NAMING_PROGRAMS.iter().any(|refused| refused.starts_with(name));
    }
    match text.strip_prefix('-') {
        // What follows a message's letter is the message.
        Some(short) => !short.chars().take_while(|letter| !"mF".contains(*letter)).any(|l| letters.contains(l)),
        None => true,
    }
}

/// Options that start a program by name, load hooks, sign with a configured program, or open an editor on a script.
const NAMING_PROGRAMS: &[&str] = &[
    "config",
    "edit-description",
    "edit-todo",
    "exec",
    "exec-path",
    "ext-diff",
    "extcmd",
    "filters",
    "gpg-sign",
    "interactive",
    "local-user",
    "open-files-in-pager",
    "receive-pack",
    "separate-git-dir",
    "show-signature",
    "sign",
    "signed",
    "strategy",
    "template",
    "textconv",
    "tool",
    "upload-pack",
    "verify-signatures",
];

/// git's own subcommands that run no other program by their nature, each with the letters that would. Unknown names
/// are aliases or programs called `git-name`. `config`, `init`, `remote` and `submodule` are for changing settings, which
/// name programs; `bisect`, `difftool`, `filter-branch`, `hook` and their like run one.
const SUBCOMMANDS: &[(&str, &str)] = &[
    ("add", "eip"),
    ("am", "iS"),
    ("apply", ""),
    ("blame", ""),
    ("branch", ""),
    ("cat-file", ""),
    ("checkout", "p"),
    ("cherry-pick", "eS"),
    ("clean", "i"),
    ("commit", "cepS"),
    ("describe", ""),
    ("diff", ""),
    ("fetch", ""),
    ("for-each-ref", ""),
    ("format-patch", ""),
    ("gc", ""),
    ("grep", "O"),
    ("log", ""),
    ("ls-files", ""),
    ("ls-tree", ""),
    ("merge", "esS"),
    ("merge-base", ""),
    ("mv", ""),
    ("notes", "c"),
    ("pull", "esS"),
    ("push", ""),
    ("rebase", "isSx"),
    ("reflog", ""),
    ("reset", "p"),
    ("restore", "p"),
    ("rev-list", ""),
    ("rev-parse", ""),
    ("revert", "eS"),
    ("rm", ""),
    ("shortlog", ""),
    ("show", ""),
    ("show-ref", ""),
    ("stash", "p"),
    ("status", ""),
    ("switch", ""),
    ("symbolic-ref", ""),
    ("tag", "suv"),
    ("update-index", ""),
    ("update-ref", ""),
    ("worktree", ""),
];
