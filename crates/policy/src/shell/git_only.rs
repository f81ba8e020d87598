//! Finds lines that run git and nothing else. The sandbox lets such a line write `.git` once a
//! person approved it. So this list is narrower than what a person may approve: no command in it
//! starts a program that the line or an alias names. The caller has to switch off programs that the
//! repository's own configuration names (filters, hooks, an editor).

use super::ast::{Script, Simple, Value, Word};
use super::places::stays_inside;
use super::{MAX_COMMAND_BYTES, parse, programs};
use crate::visible::has_hidden;

/// Whether a line runs git and nothing else: simple commands joined by `&&`, `;` or newlines, with
/// plain `cd` between them. Pipes, substitutions, redirections, a changed environment, wrappers and
/// options that name a program are not allowed. `-c core.hooksPath=…` is the exception: a person
/// who wants hooks to run approves a line that says so.
pub fn is_git_only(command: &str) -> bool {
    let Some(script) =
        analysed(command).filter(|script| !script.nested && script.concerns.is_empty())
    else {
        return false;
    };
    let mut has_git = false;
    let is_plain_git = script.commands.iter().all(|simple| {
        let Some((program, arguments)) = simple.words.split_first() else {
            return false;
        };
        if simple.assigns || !simple.redirects.is_empty() {
            return false;
        }
        match plain(program) {
            Some("cd") => is_folder(arguments),
            Some("git") => {
                has_git = true;
                is_tame_call(arguments)
            }
            _ => false,
        }
    });
    is_plain_git && has_git
}

/// Whether any part of a line may run git. A line that cannot be analysed may.
pub fn runs_git(command: &str) -> bool {
    analysed(command).is_none_or(|script| script.commands.iter().any(may_run_git))
}

fn analysed(command: &str) -> Option<Script> {
    let readable = command.len() <= MAX_COMMAND_BYTES && !has_hidden(command);
    readable.then(|| parse::parse(command).ok()).flatten()
}

/// The arguments of a program in the tables are only arguments, because the tables say what it
/// runs. Any other program may run git if its arguments name it.
fn may_run_git(simple: &Simple) -> bool {
    let Some((program, arguments)) = simple.words.split_first() else {
        return false;
    };
    let Some(name) = program.exact() else {
        return true;
    };
    if is_git(name) {
        return true;
    }
    let mentioned = arguments
        .iter()
        .any(|word| word.value == Value::Unknown || names_git(&word.text));
    !programs::runs_nothing(name) && mentioned
}

fn is_git(program: &str) -> bool {
    let name = program
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(program)
        .to_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    name == "git" || name.starts_with("git-")
}

/// `git` as a word of its own, as in `sh -c 'git status'`.
fn names_git(text: &str) -> bool {
    text.split(|character: char| !(character.is_alphanumeric() || "._-/\\".contains(character)))
        .any(is_git)
}

fn plain(word: &Word) -> Option<&str> {
    word.exact().filter(|_| !word.quoted)
}

fn is_folder(arguments: &[Word]) -> bool {
    let [target] = arguments else { return false };
    let is_named = target
        .exact()
        .is_some_and(|path| !path.is_empty() && !path.starts_with('-'));
    is_named && stays_inside(target)
}

fn is_tame_call(mut arguments: &[Word]) -> bool {
    while let Some((first, rest)) = arguments.split_first() {
        match (first.exact(), rest) {
            (Some("--no-pager" | "-P" | "--no-optional-locks"), _) => arguments = rest,
            (Some("-C"), [target, rest @ ..]) if is_folder(std::slice::from_ref(target)) => {
                arguments = rest
            }
            (Some("-c"), [setting, rest @ ..]) if names_hooks(setting).is_some() => {
                arguments = rest
            }
            (Some(name), _) => {
                let known = SUBCOMMANDS
                    .iter()
                    .find(|subcommand| subcommand.name == name);
                return known.is_some_and(|subcommand| are_tame(rest, subcommand));
            }
            (None, _) => return false,
        }
    }
    false
}

/// The one setting that a line may change: where hooks are. The person who approves the line reads
/// that hooks will run.
fn names_hooks(setting: &Word) -> Option<()> {
    let (key, folder) = setting.exact()?.split_once('=')?;
    let is_plain = !folder.is_empty()
        && !folder.starts_with(['/', '-', '~'])
        && !folder.split('/').any(|part| part == "..");
    (key.eq_ignore_ascii_case("core.hooksPath") && is_plain).then_some(())
}

/// Whether no argument can name a program.
fn are_tame(words: &[Word], subcommand: &Subcommand) -> bool {
    let mut operands_only = false;
    for word in words {
        let text = word.text.as_str();
        if word.value == Value::Unknown
            || word.tilde
            || (word.may_be_any_option() && !operands_only)
        {
            return false;
        }
        // `ext::sh -c …` is a remote that is a program.
        if text.contains("::") || (!operands_only && !is_tame(text, subcommand)) {
            return false;
        }
        operands_only |= text == "--";
    }
    true
}

fn is_tame(text: &str, subcommand: &Subcommand) -> bool {
    if let Some(long) = text.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        // git accepts any unambiguous beginning of a name.
        return name.is_empty()
            || !NAMING_PROGRAMS
                .iter()
                .any(|refused| refused.starts_with(name));
    }
    match text.strip_prefix('-') {
        // The text of an option such as `-m` may follow its letter without a space.
        Some(short) => {
            let mut letters = short
                .chars()
                .take_while(|letter| !subcommand.texts.contains(*letter));
            !letters.any(|letter| subcommand.programs.contains(letter))
        }
        None => true,
    }
}

/// Options that start a program by name, load hooks, sign with a configured program, or open an
/// editor on a script.
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

struct Subcommand {
    name: &'static str,
    /// Options with which it runs a program.
    programs: &'static str,
    /// Options whose value is a text that may follow the letter without a space. The same letter
    /// can be a flag of another subcommand (`git rebase -m`).
    texts: &'static str,
}

const fn of(name: &'static str, programs: &'static str, texts: &'static str) -> Subcommand {
    Subcommand {
        name,
        programs,
        texts,
    }
}

/// Subcommands of git that start no other program. An unknown name is an alias or a program called
/// `git-name`. `config`, `init`, `remote` and `submodule` change settings, which can name programs.
/// `bisect`, `difftool`, `filter-branch` and `hook` run a program.
const SUBCOMMANDS: &[Subcommand] = &[
    of("add", "eip", ""),
    of("am", "iS", ""),
    of("apply", "", ""),
    of("blame", "", ""),
    of("branch", "", ""),
    of("cat-file", "", ""),
    of("checkout", "p", ""),
    of("cherry-pick", "eS", ""),
    of("clean", "i", ""),
    of("commit", "cepS", "mFC"),
    of("describe", "", ""),
    of("diff", "", ""),
    of("fetch", "", ""),
    of("for-each-ref", "", ""),
    of("format-patch", "", ""),
    of("gc", "", ""),
    of("grep", "O", ""),
    of("log", "", ""),
    of("ls-files", "", ""),
    of("ls-tree", "", ""),
    of("merge", "esS", "mF"),
    of("merge-base", "", ""),
    of("mv", "", ""),
    of("notes", "c", "mF"),
    of("pull", "esS", ""),
    of("push", "", ""),
    of("rebase", "isSx", ""),
    of("reflog", "", ""),
    of("reset", "p", ""),
    of("restore", "p", ""),
    of("rev-list", "", ""),
    of("rev-parse", "", ""),
    of("revert", "eS", ""),
    of("rm", "", ""),
    of("shortlog", "", ""),
    of("show", "", ""),
    of("show-ref", "", ""),
    of("stash", "p", "m"),
    of("status", "", ""),
    of("switch", "", ""),
    of("symbolic-ref", "", ""),
    of("tag", "suv", "mF"),
    of("update-index", "", ""),
    of("update-ref", "", ""),
    of("worktree", "", ""),
];
