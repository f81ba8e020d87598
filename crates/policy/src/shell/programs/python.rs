//! Python's test runners, linters and formatters. A call asks if it loads a plugin, names settings,
//! uses another interpreter or writes a report. Formatters pass only if they just report what they
//! would change.

use super::ValueKind::{Name, Number, Path, Source, Text};
use super::{CHECKS, OPTIONS, Operands, ProgramOptions, Rule, Special};

pub(crate) const CHECKED: &[(&str, Rule)] = &[
    ("bandit", BANDIT),
    ("black", BLACK),
    ("coverage", COVERAGE),
    ("flake8", FLAKE8),
    ("isort", ISORT),
    ("mypy", MYPY),
    ("pip", PIP),
    ("pip3", PIP),
    ("pylint", PYLINT),
    ("pyright", PYRIGHT),
    ("pytest", Rule::Special(Special::Pytest)),
    ("python", Rule::Special(Special::Python)),
    ("python3", Rule::Special(Special::Python)),
    ("ruff", RUFF),
];

/// Modules that `python -m` may run like the program of that name.
pub(crate) const MODULES: &[(&str, Rule)] = &[
    ("bandit", BANDIT),
    ("black", BLACK),
    (
        "compileall",
        Rule::Options(&ProgramOptions {
            flags: "fq",
            ..CHECKS
        }),
    ),
    ("coverage", COVERAGE),
    ("flake8", FLAKE8),
    ("isort", ISORT),
    ("mypy", MYPY),
    ("pip", PIP),
    (
        "py_compile",
        Rule::Options(&ProgramOptions {
            flags: "q",
            ..CHECKS
        }),
    ),
    ("pylint", PYLINT),
    ("pytest", Rule::Special(Special::Pytest)),
    ("ruff", RUFF),
];

/// Without `-c`, `--ini` and `-o`; a format may be a template.
const BANDIT: Rule = Rule::Options(&ProgramOptions {
    flags: "rlqvi",
    valued: &[(Text, "x")],
    long: &["quiet", "recursive", "verbose"],
    long_valued: &[
        (Name, &["severity-level", "confidence-level"]),
        (Text, &["exclude"]),
    ],
    ..CHECKS
});

/// Prints an earlier measurement.
const COVERAGE: Rule = Rule::Commands(
    &[],
    &[(
        "report",
        Rule::Options(&ProgramOptions {
            flags: "mi",
            long: &[
                "ignore-errors",
                "show-missing",
                "skip-covered",
                "skip-empty",
            ],
            long_valued: &[
                (Number, &["fail-under", "precision"]),
                (Text, &["include", "omit"]),
                (Name, &["sort"]),
            ],
            ..OPTIONS
        }),
    )],
);

/// Lists what is installed, without another index or folder.
const PIP: Rule = Rule::Commands(
    &[],
    &[
        ("check", Rule::Options(&OPTIONS)),
        (
            "freeze",
            Rule::Options(&ProgramOptions {
                flags: "l",
                long: &["local", "all"],
                ..OPTIONS
            }),
        ),
        (
            "list",
            Rule::Options(&ProgramOptions {
                long: &["editable", "local"],
                long_valued: &[(Name, &["format"])],
                ..OPTIONS
            }),
        ),
        (
            "show",
            Rule::Options(&ProgramOptions {
                flags: "f",
                long: &["files"],
                operands: Operands::Kind(Name),
                ..OPTIONS
            }),
        ),
    ],
);

const BLACK: Rule = Rule::Options(&ProgramOptions {
    flags: "qvSC",
    valued: &[(Number, "ljW"), (Name, "t")],
    long: &[
        "check",
        "color",
        "diff",
        "fast",
        "no-color",
        "preview",
        "quiet",
        "safe",
        "skip-magic-trailing-comma",
        "skip-string-normalization",
        "verbose",
    ],
    long_valued: &[
        (Number, &["line-length", "workers"]),
        (Name, &["target-version"]),
        (Text, &["exclude", "extend-exclude", "include"]),
    ],
    needs: &["check", "diff"],
    ..CHECKS
});

const FLAKE8: Rule = Rule::Options(&ProgramOptions {
    flags: "qv",
    valued: &[(Number, "j")],
    long: &[
        "benchmark",
        "count",
        "disable-noqa",
        "isolated",
        "quiet",
        "show-source",
        "statistics",
        "verbose",
    ],
    long_valued: &[
        (
            Number,
            &[
                "jobs",
                "max-complexity",
                "max-doc-length",
                "max-line-length",
            ],
        ),
        (
            Name,
            &[
                "color",
                "extend-ignore",
                "extend-select",
                "ignore",
                "select",
            ],
        ),
        (Text, &["exclude", "extend-exclude", "filename"]),
    ],
    ..CHECKS
});

const ISORT: Rule = Rule::Options(&ProgramOptions {
    flags: "cdqv",
    valued: &[(Number, "lj")],
    long: &["check", "check-only", "diff", "quiet", "verbose"],
    long_valued: &[
        (Number, &["jobs", "line-length", "line-width"]),
        (Name, &["profile"]),
        (Text, &["skip", "skip-glob"]),
    ],
    needs: &["c", "check", "check-only", "d", "diff"],
    ..CHECKS
});

const MYPY: Rule = Rule::Options(&ProgramOptions {
    flags: "v",
    long: &[
        "check-untyped-defs",
        "disallow-incomplete-defs",
        "disallow-untyped-defs",
        "explicit-package-bases",
        "ignore-missing-imports",
        "namespace-packages",
        "no-color-output",
        "no-error-summary",
        "no-incremental",
        "no-strict-optional",
        "pretty",
        "show-column-numbers",
        "show-error-codes",
        "show-error-context",
        "strict",
        "verbose",
        "warn-redundant-casts",
        "warn-return-any",
        "warn-unreachable",
        "warn-unused-configs",
        "warn-unused-ignores",
    ],
    long_valued: &[
        (
            Name,
            &[
                "disable-error-code",
                "enable-error-code",
                "follow-imports",
                "platform",
                "python-version",
            ],
        ),
        (Text, &["exclude"]),
    ],
    ..CHECKS
});

/// Formats and checks must be plain names: a name with a dot is a class that pylint loads.
const PYLINT: Rule = Rule::Options(&ProgramOptions {
    flags: "Ev",
    valued: &[(Number, "j"), (Name, "de")],
    long: &["errors-only", "verbose"],
    long_valued: &[
        (Number, &["jobs", "fail-under", "max-line-length"]),
        (
            Name,
            &[
                "disable",
                "enable",
                "ignore",
                "recursive",
                "reports",
                "score",
            ],
        ),
        (Text, &["ignore-paths", "ignore-patterns"]),
    ],
    ..CHECKS
});

const PYRIGHT: Rule = Rule::Options(&ProgramOptions {
    long: &[
        "outputjson",
        "skipunannotated",
        "stats",
        "verbose",
        "warnings",
    ],
    long_valued: &[(Name, &["level", "pythonplatform", "pythonversion"])],
    ..CHECKS
});

const RUFF: Rule = Rule::Commands(
    &["--quiet", "-q", "--verbose", "-v"],
    &[
        ("check", Rule::Options(&RUFF_CHECK)),
        (
            "format",
            Rule::Options(&ProgramOptions {
                flags: "qv",
                needs: &["check", "diff"],
                ..RUFF_CHECK
            }),
        ),
        ("linter", Rule::Options(&OPTIONS)),
        (
            "rule",
            Rule::Options(&ProgramOptions {
                long: &["all"],
                operands: Operands::Kind(Name),
                ..OPTIONS
            }),
        ),
    ],
);

/// Without `--fix`, `--add-noqa`, `--output-file` and `--config`. The project's settings may say
/// `fix = true`.
const RUFF_CHECK: ProgramOptions = ProgramOptions {
    flags: "neqv",
    long: &[
        "check",
        "diff",
        "exit-zero",
        "force-exclude",
        "isolated",
        "no-cache",
        "no-fix",
        "preview",
        "quiet",
        "respect-gitignore",
        "show-files",
        "show-fixes",
        "statistics",
        "verbose",
    ],
    long_valued: &[
        (
            Name,
            &[
                "extend-select",
                "ignore",
                "output-format",
                "select",
                "target-version",
            ],
        ),
        (Number, &["line-length"]),
        (Text, &["exclude", "extend-exclude"]),
    ],
    needs: &["diff", "isolated", "no-fix", "show-files"],
    ..CHECKS
};

/// Without `-p` (except `-p no:name`), `-c`, `-o`, `-W`, `--rootdir`, `--basetemp`, `--pyargs` and
/// `--import-mode`: they load other code or empty directories. `-k` and `-m` have stricter checks
/// of their own.
pub(crate) const PYTEST: ProgramOptions = ProgramOptions {
    flags: "qvxsl",
    valued: &[(Text, "km"), (Number, "n"), (Name, "rp")],
    long: &[
        "co",
        "collect-only",
        "disable-warnings",
        "exitfirst",
        "failed-first",
        "ff",
        "fixtures",
        "last-failed",
        "lf",
        "markers",
        "new-first",
        "nf",
        "no-cov",
        "no-header",
        "no-summary",
        "quiet",
        "setup-show",
        "showlocals",
        "stepwise",
        "strict-markers",
        "sw",
        "verbose",
    ],
    long_valued: &[
        (
            Number,
            &[
                "durations",
                "durations-min",
                "maxfail",
                "numprocesses",
                "timeout",
                "verbosity",
            ],
        ),
        (
            Name,
            &[
                "capture",
                "color",
                "cov-report",
                "log-cli-level",
                "log-level",
                "show-capture",
                "tb",
            ],
        ),
        (Text, &["deselect"]),
        (Path, &["ignore"]),
    ],
    long_optional: &[(Source, &["cov"])],
    operands: Operands::Text,
    ..OPTIONS
};

/// Names, patterns and folders have stricter checks of their own.
pub(crate) const UNITTEST: ProgramOptions = ProgramOptions {
    flags: "bcfqv",
    valued: &[(Text, "kpst")],
    long: &["buffer", "catch", "failfast", "locals", "quiet", "verbose"],
    long_valued: &[
        (Number, &["durations"]),
        (Text, &["pattern", "start-directory", "top-level-directory"]),
    ],
    operands: Operands::Text,
    ..OPTIONS
};
