//! git's reading commands. Left out on purpose: `-c`, `-C`, `--git-dir`, `--exec-path` before the subcommand,
//! `--ext-diff`, `--output`, `-O` behind it, and every subcommand that changes the repository, talks to another one, or
//! may start an editor, a hook or a configured program.

use super::{OPTIONS, Operands, Options, Rule, Special};

pub(crate) const CHECKED: &[(&str, Rule)] = &[("git", Rule::Special(Special::Git))];

pub(crate) const COMMANDS: Rule = Rule::Commands(
    &["--no-pager", "-P"],
    &[
        ("add", Rule::Options(&ADD)),
        ("blame", Rule::Options(&BLAME)),
        ("branch", Rule::Options(&BRANCH)),
        ("describe", Rule::Options(&DESCRIBE)),
        ("diff", Rule::Options(&DIFF)),
        ("grep", Rule::Options(&GREP)),
        ("log", Rule::Options(&LOG)),
        ("ls-files", Rule::Options(&LS_FILES)),
        ("ls-tree", Rule::Options(&LS_TREE)),
        (
            "merge-base",
            Rule::Options(&Options {
                flags: "a",
                long: &["all", "is-ancestor", "fork-point"],
                operands: Operands::Any,
                ..OPTIONS
            }),
        ),
        (
            "reflog",
            Rule::Options(&Options { flags: "n0123456789", operands: Operands::Listed(&["show", "HEAD"]), ..OPTIONS }),
        ),
        ("remote", Rule::Options(&Options { flags: "v", long: &["verbose"], ..OPTIONS })),
        (
            "rev-list",
            Rule::Options(&Options {
                flags: "0123456789",
                valued: "n",
                long: &["count", "all", "max-count=", "no-merges", "first-parent"],
                operands: Operands::Any,
                ..OPTIONS
            }),
        ),
        ("rev-parse", Rule::Free),
        (
            "shortlog",
            Rule::Options(&Options {
                flags: "sne",
                long: &["all", "no-merges", "since=", "until="],
                operands: Operands::Any,
                ..OPTIONS
            }),
        ),
        ("show", Rule::Options(&LOG)),
        ("stash", Rule::Commands(&[], &[("list", Rule::Options(&OPTIONS))])),
        ("status", Rule::Options(&STATUS)),
        ("tag", Rule::Options(&Options { flags: "ln", long: &["list", "sort="], ..OPTIONS })),
        ("version", Rule::Options(&OPTIONS)),
    ],
);

const ADD: Options = Options {
    flags: "AuvnN",
    long: &["all", "update", "verbose", "dry-run", "intent-to-add"],
    operands: Operands::Inside,
    ..OPTIONS
};

const BLAME: Options = Options {
    flags: "wesclMC",
    valued: "L",
    long: &["date=", "since=", "line-porcelain", "porcelain", "show-email"],
    operands: Operands::Any,
    ..OPTIONS
};

const BRANCH: Options = Options {
    flags: "arv",
    long: &["all", "remotes", "verbose", "list", "show-current", "no-color", "color?", "sort=", "merged", "no-merged"],
    ..OPTIONS
};

const DESCRIBE: Options = Options {
    long: &["tags", "all", "always", "long", "dirty", "abbrev=", "exact-match"],
    operands: Operands::Any,
    ..OPTIONS
};

const STATUS: Options = Options {
    flags: "sbuvz",
    long: &[
        "short",
        "branch",
        "porcelain?",
        "long",
        "verbose",
        "untracked-files?",
        "ignored?",
        "show-stash",
        "no-renames",
    ],
    operands: Operands::Any,
    ..OPTIONS
};

const LS_FILES: Options = Options {
    flags: "codimstuz",
    valued: "x",
    long: &[
        "cached",
        "others",
        "deleted",
        "ignored",
        "modified",
        "stage",
        "exclude-standard",
        "exclude=",
        "full-name",
        "error-unmatch",
    ],
    operands: Operands::Any,
    ..OPTIONS
};

const LS_TREE: Options = Options {
    flags: "drtlz",
    long: &["name-only", "name-status", "full-name", "full-tree"],
    operands: Operands::Any,
    ..OPTIONS
};

const GREP: Options = Options {
    flags: "iwvhHEGFPnlLcIoqWpz",
    valued: "eABCm",
    long: &[
        "ignore-case",
        "word-regexp",
        "invert-match",
        "extended-regexp",
        "fixed-strings",
        "perl-regexp",
        "line-number",
        "files-with-matches",
        "name-only",
        "count",
        "cached",
        "untracked",
        "and",
        "or",
        "not",
        "all-match",
        "heading",
        "break",
        "show-function",
        "function-context",
        "context=",
        "after-context=",
        "before-context=",
        "color?",
        "max-depth=",
    ],
    operands: Operands::Any,
    ..OPTIONS
};

const DIFF: Options = Options {
    flags: "pubwzRaMDW0123456789",
    valued: "USG",
    long: &[
        "cached",
        "staged",
        "merge-base",
        "patch",
        "no-patch",
        "unified=",
        "raw",
        "patch-with-stat",
        "minimal",
        "patience",
        "histogram",
        "diff-algorithm=",
        "stat?",
        "numstat",
        "shortstat",
        "dirstat?",
        "summary",
        "compact-summary",
        "name-only",
        "name-status",
        "color?",
        "no-color",
        "color-moved?",
        "word-diff?",
        "color-words?",
        "no-renames",
        "find-renames?",
        "check",
        "full-index",
        "binary",
        "abbrev?",
        "diff-filter=",
        "pickaxe-regex",
        "text",
        "ignore-space-change",
        "ignore-all-space",
        "ignore-blank-lines",
        "ignore-space-at-eol",
        "function-context",
        "exit-code",
        "quiet",
        "no-ext-diff",
        "no-textconv",
        "no-index",
        "no-prefix",
        "relative?",
    ],
    operands: Operands::Any,
    ..OPTIONS
};

const LOG: Options = Options {
    flags: "pubwzsaMmgiEFP0123456789",
    valued: "nUSGL",
    long: &[
        "oneline",
        "graph",
        "all",
        "branches?",
        "tags?",
        "remotes?",
        "decorate?",
        "no-decorate",
        "stat?",
        "numstat",
        "shortstat",
        "summary",
        "name-only",
        "name-status",
        "patch",
        "no-patch",
        "unified=",
        "author=",
        "committer=",
        "since=",
        "after=",
        "until=",
        "before=",
        "grep=",
        "all-match",
        "invert-grep",
        "regexp-ignore-case",
        "format=",
        "pretty?",
        "date=",
        "max-count=",
        "skip=",
        "follow",
        "reverse",
        "merges",
        "no-merges",
        "first-parent",
        "abbrev-commit",
        "no-abbrev-commit",
        "topo-order",
        "date-order",
        "color?",
        "no-color",
        "word-diff?",
        "color-words?",
        "diff-filter=",
        "find-renames?",
        "no-renames",
        "full-history",
        "simplify-merges",
        "cc",
        "raw",
        "no-ext-diff",
        "no-textconv",
        "relative-date",
        "left-right",
        "cherry-pick",
        "ignore-all-space",
        "no-notes",
    ],
    operands: Operands::Any,
    ..OPTIONS
};
