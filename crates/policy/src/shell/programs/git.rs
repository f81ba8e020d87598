//! git's reading commands. Left out on purpose: `-c`, `-C`, `--git-dir` and `--exec-path` before
//! the subcommand; `--ext-diff`, `--textconv`, `--output`, `-O` and `--show-signature` after it;
//! and every subcommand that changes the repository, contacts another one, or may start an editor,
//! a hook or a configured program. `git add` writes `.git`, so it asks.

use super::ValueKind::{Format, Name, Number, Path, Revision, Setting, Text};
use super::{OPTIONS, Operands, ProgramOptions, Rule, Special};

pub(crate) const CHECKED: &[(&str, Rule)] = &[("git", Rule::Special(Special::Git))];

pub(crate) const COMMANDS: Rule = Rule::Commands(
    &["--no-pager", "-P", "--no-optional-locks"],
    &[
        ("blame", Rule::Options(&BLAME)),
        ("branch", Rule::Either(&BRANCHES, &BRANCHES_LIKE)),
        // Neither `--textconv` nor `--filters`.
        (
            "cat-file",
            Rule::Options(&ProgramOptions {
                flags: "epst",
                operands: REVISIONS,
                ..OPTIONS
            }),
        ),
        (
            "check-ignore",
            Rule::Options(&ProgramOptions {
                flags: "vnq",
                long: &["verbose"],
                operands: Operands::Paths,
                ..OPTIONS
            }),
        ),
        (
            "config",
            Rule::Options(&ProgramOptions {
                long_valued: &[(Setting, &["get"])],
                needs: &["get"],
                ..OPTIONS
            }),
        ),
        (
            "count-objects",
            Rule::Options(&ProgramOptions {
                flags: "vH",
                ..OPTIONS
            }),
        ),
        ("describe", Rule::Options(&DESCRIBE)),
        ("diff", Rule::Options(&DIFF)),
        ("grep", Rule::Options(&GREP)),
        ("log", Rule::Options(&LOG)),
        ("ls-files", Rule::Options(&LS_FILES)),
        ("ls-tree", Rule::Options(&LS_TREE)),
        (
            "merge-base",
            Rule::Options(&ProgramOptions {
                flags: "a",
                long: &["all", "fork-point", "is-ancestor"],
                operands: REVISIONS,
                ..OPTIONS
            }),
        ),
        (
            "reflog",
            Rule::Options(&ProgramOptions {
                flags: "n0123456789",
                operands: Operands::Exactly(&["show", "HEAD"]),
                ..OPTIONS
            }),
        ),
        (
            "remote",
            Rule::Either(
                &Rule::Options(&ProgramOptions {
                    flags: "v",
                    long: &["verbose"],
                    ..OPTIONS
                }),
                &Rule::Commands(
                    &[],
                    &[(
                        "get-url",
                        Rule::Options(&ProgramOptions {
                            operands: Operands::Kind(Name),
                            ..OPTIONS
                        }),
                    )],
                ),
            ),
        ),
        (
            "rev-list",
            Rule::Options(&ProgramOptions {
                flags: "0123456789",
                valued: &[(Number, "n")],
                long: &["all", "count", "first-parent", "left-right", "no-merges"],
                long_valued: &[(Number, &["max-count"]), (Text, &["since", "until"])],
                operands: REVISIONS,
                ..OPTIONS
            }),
        ),
        ("rev-parse", Rule::Options(&REV_PARSE)),
        (
            "shortlog",
            Rule::Options(&ProgramOptions {
                flags: "sne",
                long: &["all", "no-merges", "numbered", "summary"],
                long_valued: &[(Text, &["author", "since", "until"])],
                operands: REVISIONS,
                ..OPTIONS
            }),
        ),
        ("show", Rule::Options(&LOG)),
        (
            "show-ref",
            Rule::Options(&ProgramOptions {
                flags: "ds",
                long: &["heads", "tags", "verify"],
                operands: REVISIONS,
                ..OPTIONS
            }),
        ),
        (
            "stash",
            Rule::Commands(
                &[],
                &[
                    ("list", Rule::Options(&OPTIONS)),
                    ("show", Rule::Options(&STASHED)),
                ],
            ),
        ),
        ("status", Rule::Options(&STATUS)),
        ("tag", Rule::Either(&TAGS, &TAGS_LIKE)),
        ("version", Rule::Options(&OPTIONS)),
        (
            "worktree",
            Rule::Commands(
                &[],
                &[(
                    "list",
                    Rule::Options(&ProgramOptions {
                        long: &["porcelain"],
                        ..OPTIONS
                    }),
                )],
            ),
        ),
    ],
);

const REVISIONS: Operands = Operands::Kind(Revision);

const BLAME: ProgramOptions = ProgramOptions {
    flags: "wesclMC",
    valued: &[(Text, "L")],
    long: &["line-porcelain", "porcelain", "show-email"],
    long_valued: &[(Text, &["date", "since"])],
    operands: REVISIONS,
    ..OPTIONS
};

const BRANCHES: Rule = Rule::Options(&ProgramOptions {
    flags: "arv",
    long: &[
        "all",
        "list",
        "merged",
        "no-color",
        "no-merged",
        "remotes",
        "show-current",
        "verbose",
    ],
    long_valued: &[(Text, &["sort"])],
    long_optional: &[(Name, &["color"])],
    ..OPTIONS
});

/// An operand would create a branch, unless one of these options makes it a filter of the list.
const BRANCHES_LIKE: Rule = Rule::Options(&ProgramOptions {
    flags: "arv",
    long: &[
        "all",
        "contains",
        "list",
        "merged",
        "no-color",
        "no-contains",
        "no-merged",
        "remotes",
    ],
    long_valued: &[(Text, &["sort"])],
    needs: &["contains", "list", "merged", "no-contains", "no-merged"],
    operands: REVISIONS,
    ..OPTIONS
});

const TAGS: Rule = Rule::Options(&ProgramOptions {
    flags: "ln",
    long: &["list"],
    long_valued: &[(Text, &["sort"])],
    ..OPTIONS
});

const TAGS_LIKE: Rule = Rule::Options(&ProgramOptions {
    flags: "ln0123456789",
    long: &["contains", "list", "merged", "points-at"],
    long_valued: &[(Text, &["sort"])],
    needs: &["contains", "l", "list", "merged", "points-at"],
    operands: REVISIONS,
    ..OPTIONS
});

const DESCRIBE: ProgramOptions = ProgramOptions {
    long: &["all", "always", "dirty", "exact-match", "long", "tags"],
    long_valued: &[(Number, &["abbrev"]), (Text, &["match"])],
    operands: REVISIONS,
    ..OPTIONS
};

const REV_PARSE: ProgramOptions = ProgramOptions {
    flags: "q",
    long: &[
        "absolute-git-dir",
        "all",
        "branches",
        "git-common-dir",
        "git-dir",
        "is-bare-repository",
        "is-inside-work-tree",
        "quiet",
        "show-cdup",
        "show-prefix",
        "show-toplevel",
        "symbolic",
        "symbolic-full-name",
        "tags",
        "verify",
    ],
    long_optional: &[(Name, &["abbrev-ref"]), (Number, &["short"])],
    operands: REVISIONS,
    ..OPTIONS
};

const STASHED: ProgramOptions = ProgramOptions {
    flags: "pu",
    long: &["name-only", "name-status", "patch", "stat"],
    operands: REVISIONS,
    ..OPTIONS
};

const STATUS: ProgramOptions = ProgramOptions {
    flags: "sbvz",
    attached: &[(Name, "u")],
    long: &[
        "branch",
        "ahead-behind",
        "long",
        "no-renames",
        "short",
        "show-stash",
        "verbose",
    ],
    long_optional: &[(Name, &["ignored", "porcelain", "untracked-files"])],
    operands: REVISIONS,
    ..OPTIONS
};

const LS_FILES: ProgramOptions = ProgramOptions {
    flags: "codimstuz",
    valued: &[(Text, "x")],
    long: &[
        "cached",
        "deleted",
        "error-unmatch",
        "exclude-standard",
        "full-name",
        "ignored",
        "modified",
        "others",
        "stage",
        "unmerged",
    ],
    long_valued: &[(Text, &["exclude"])],
    operands: REVISIONS,
    ..OPTIONS
};

const LS_TREE: ProgramOptions = ProgramOptions {
    flags: "drtlz",
    long: &["full-name", "full-tree", "name-only", "name-status"],
    operands: REVISIONS,
    ..OPTIONS
};

/// Neither `-O` nor `--no-index`, `--textconv`.
const GREP: ProgramOptions = ProgramOptions {
    flags: "iwvhHEGFPnlLcIoqWpz",
    valued: &[(Text, "e"), (Number, "ABCm")],
    long: &[
        "all-match",
        "and",
        "break",
        "cached",
        "count",
        "extended-regexp",
        "files-with-matches",
        "fixed-strings",
        "function-context",
        "heading",
        "ignore-case",
        "invert-match",
        "line-number",
        "name-only",
        "not",
        "or",
        "perl-regexp",
        "show-function",
        "untracked",
        "word-regexp",
    ],
    long_valued: &[(
        Number,
        &[
            "after-context",
            "before-context",
            "context",
            "max-count",
            "max-depth",
        ],
    )],
    long_optional: &[(Name, &["color"])],
    operands: Operands::PatternThenPaths(&["e"]),
    ..OPTIONS
};

const DIFF: ProgramOptions = ProgramOptions {
    flags: "pubwzRaDW0123456789",
    valued: &[(Number, "U"), (Text, "SG")],
    attached: &[(Number, "MBC")],
    long: &[
        "binary",
        "cached",
        "check",
        "compact-summary",
        "exit-code",
        "full-index",
        "function-context",
        "histogram",
        "ignore-all-space",
        "ignore-blank-lines",
        "ignore-space-at-eol",
        "ignore-space-change",
        "merge-base",
        "minimal",
        "name-only",
        "name-status",
        "no-color",
        "no-ext-diff",
        "no-index",
        "no-patch",
        "no-prefix",
        "no-renames",
        "no-textconv",
        "numstat",
        "patch",
        "patch-with-stat",
        "patience",
        "pickaxe-regex",
        "quiet",
        "raw",
        "shortstat",
        "staged",
        "summary",
        "text",
    ],
    long_valued: &[
        (Number, &["unified"]),
        (Name, &["diff-algorithm", "diff-filter"]),
    ],
    long_optional: &[
        (Number, &["abbrev", "find-renames", "stat"]),
        (Name, &["color", "color-moved", "dirstat", "word-diff"]),
        (Text, &["color-words"]),
        (Path, &["relative"]),
    ],
    operands: REVISIONS,
    ..OPTIONS
};

const LOG: ProgramOptions = ProgramOptions {
    flags: "pubwzsamgiEFP0123456789",
    valued: &[(Number, "nU"), (Text, "SGL")],
    attached: &[(Number, "MBC")],
    long: &[
        "abbrev-commit",
        "all",
        "all-match",
        "cc",
        "cherry-pick",
        "date-order",
        "first-parent",
        "follow",
        "full-history",
        "graph",
        "ignore-all-space",
        "invert-grep",
        "left-right",
        "merges",
        "name-only",
        "name-status",
        "no-abbrev-commit",
        "no-color",
        "no-decorate",
        "no-ext-diff",
        "no-merges",
        "no-notes",
        "no-patch",
        "no-renames",
        "no-textconv",
        "numstat",
        "oneline",
        "patch",
        "raw",
        "regexp-ignore-case",
        "relative-date",
        "reverse",
        "shortstat",
        "simplify-merges",
        "summary",
        "topo-order",
    ],
    long_valued: &[
        (
            Text,
            &[
                "after",
                "author",
                "before",
                "committer",
                "date",
                "grep",
                "since",
                "until",
            ],
        ),
        (Format, &["format"]),
        (Number, &["max-count", "skip", "unified"]),
        (Name, &["diff-filter"]),
    ],
    long_optional: &[
        (Text, &["branches", "color-words", "remotes", "tags"]),
        (Name, &["color", "decorate", "word-diff"]),
        (Format, &["pretty"]),
        (Number, &["find-renames", "stat"]),
    ],
    operands: REVISIONS,
    ..OPTIONS
};
