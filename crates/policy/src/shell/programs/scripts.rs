//! JavaScript's tools, and programs that run a project's scripts and targets by name.

use super::ValueKind::{Name, Number, Path, Text};
use super::{CHECKS, OPTIONS, Operands, ProgramOptions, Rule, Special};

pub(crate) const CHECKED: &[(&str, Rule)] = &[
    (
        "bun",
        Rule::Commands(
            &[],
            &[(
                "test",
                Rule::Options(&ProgramOptions {
                    long: &["bail"],
                    long_valued: &[(Number, &["timeout"])],
                    ..CHECKS
                }),
            )],
        ),
    ),
    (
        "deno",
        Rule::Commands(
            &[],
            &[
                ("check", Rule::Options(&CHECKS)),
                (
                    "fmt",
                    Rule::Options(&ProgramOptions {
                        long: &["check"],
                        needs: &["check"],
                        ..CHECKS
                    }),
                ),
                (
                    "lint",
                    Rule::Options(&ProgramOptions {
                        long: &["json", "compact"],
                        ..CHECKS
                    }),
                ),
                (
                    "test",
                    Rule::Options(&ProgramOptions {
                        long: &["fail-fast", "quiet"],
                        ..CHECKS
                    }),
                ),
            ],
        ),
    ),
    (
        "eslint",
        Rule::Options(&ProgramOptions {
            long: &[
                "color",
                "no-color",
                "no-error-on-unmatched-pattern",
                "no-inline-config",
                "quiet",
            ],
            long_valued: &[(Text, &["ext"]), (Number, &["max-warnings"])],
            ..CHECKS
        }),
    ),
    (
        "gradle",
        Rule::Options(&ProgramOptions {
            flags: "qi",
            long: &["info", "no-daemon", "offline", "quiet", "stacktrace"],
            operands: Operands::Exactly(TARGETS),
            ..OPTIONS
        }),
    ),
    ("jest", Rule::Options(&JEST)),
    ("make", Rule::Options(&MAKE)),
    ("mocha", Rule::Options(&MOCHA)),
    (
        "mvn",
        Rule::Options(&ProgramOptions {
            flags: "qBoe",
            long: &["batch-mode", "offline", "quiet"],
            operands: Operands::Exactly(&[
                "compile",
                "test",
                "test-compile",
                "package",
                "verify",
                "validate",
            ]),
            ..OPTIONS
        }),
    ),
    ("node", Rule::Special(Special::Node)),
    ("npm", Rule::Commands(&["--silent", "-s"], NPM)),
    (
        "pnpm",
        Rule::Commands(&["--silent", "-s", "-r", "--recursive"], PACKAGE_SCRIPTS),
    ),
    (
        "prettier",
        Rule::Options(&ProgramOptions {
            flags: "clu",
            long: &[
                "check",
                "color",
                "ignore-unknown",
                "list-different",
                "no-color",
            ],
            long_valued: &[(Name, &["log-level"])],
            ..CHECKS
        }),
    ),
    ("tsc", Rule::Either(&TSC, &TSC_CHECK)),
    (
        "vitest",
        Rule::Commands(&[], &[("run", Rule::Options(&VITEST))]),
    ),
    ("yarn", Rule::Commands(&["--silent", "-s"], PACKAGE_SCRIPTS)),
];

/// Scripts and targets whose names say that they build, test or check. Others (`install`, `deploy`,
/// `release`, `format`, …) ask.
const TARGETS: &[&str] = &[
    "all",
    "assemble",
    "bench",
    "build",
    "check",
    "ci-test",
    "compile",
    "coverage",
    "doc",
    "docs",
    "fmt-check",
    "format-check",
    "help",
    "lint",
    "test",
    "tests",
    "type-check",
    "typecheck",
    "unit",
    "vet",
];

const SCRIPT: ProgramOptions = ProgramOptions {
    flags: "s",
    valued: &[(Name, "w")],
    long: &["if-present", "silent", "workspaces"],
    long_valued: &[(Name, &["workspace"])],
    operands: Operands::Listed(TARGETS),
    trailing: Some(&CHECKS),
    ..OPTIONS
};
const NAMED: Rule = Rule::Options(&ProgramOptions {
    operands: Operands::None,
    ..SCRIPT
});
const LISTING: Rule = Rule::Options(&ProgramOptions {
    flags: "a",
    long: &["all", "json", "prod"],
    long_valued: &[(Number, &["depth"])],
    operands: Operands::Kind(Name),
    ..OPTIONS
});

const NPM: &[(&str, Rule)] = &[
    ("list", LISTING),
    ("ls", LISTING),
    ("run", Rule::Options(&SCRIPT)),
    ("run-script", Rule::Options(&SCRIPT)),
    ("t", NAMED),
    ("test", NAMED),
];

const PACKAGE_SCRIPTS: &[(&str, Rule)] = &[
    ("build", NAMED),
    ("lint", NAMED),
    ("list", LISTING),
    ("run", Rule::Options(&SCRIPT)),
    ("test", NAMED),
    ("typecheck", NAMED),
];

/// Without `VAR=value` (it may be `SHELL=`), `-f`, `-C` and `--eval`.
const MAKE: ProgramOptions = ProgramOptions {
    flags: "knsBj0123456789",
    long: &[
        "always-make",
        "dry-run",
        "just-print",
        "keep-going",
        "no-print-directory",
        "silent",
    ],
    long_optional: &[(Number, &["jobs"])],
    operands: Operands::Listed(TARGETS),
    ..OPTIONS
};

/// The whole project, according to its own settings.
const TSC: Rule = Rule::Options(&ProgramOptions {
    flags: "b",
    long: &["build", "noEmit", "pretty", "strict"],
    ..OPTIONS
});

/// Other settings are allowed only if nothing is written.
const TSC_CHECK: Rule = Rule::Options(&ProgramOptions {
    valued: &[(Path, "p")],
    long: &["noEmit", "pretty", "skipLibCheck", "strict"],
    long_valued: &[(Path, &["project"])],
    needs: &["noEmit"],
    ..OPTIONS
});

/// What may follow `node --test` or `node --check`. A reporter may be a module, so only node's own
/// reporters are allowed.
pub(crate) const NODE_TEST: ProgramOptions = ProgramOptions {
    flags: "c",
    long: &[
        "check",
        "experimental-test-coverage",
        "no-warnings",
        "test",
        "test-force-exit",
        "test-only",
    ],
    long_valued: &[
        (Text, &["test-name-pattern", "test-skip-pattern"]),
        (Number, &["test-concurrency", "test-timeout"]),
    ],
    ..CHECKS
};

/// Without `--config`, `--rootDir`, `--setupFiles`, `--globalSetup`, `--reporters` and `--env`:
/// they load code. Without `-u`: it rewrites files.
const JEST: ProgramOptions = ProgramOptions {
    flags: "ib",
    valued: &[(Text, "t")],
    long: &[
        "bail",
        "ci",
        "colors",
        "coverage",
        "detectOpenHandles",
        "forceExit",
        "listTests",
        "no-coverage",
        "passWithNoTests",
        "runInBand",
        "silent",
        "verbose",
    ],
    long_valued: &[
        (
            Text,
            &["testNamePattern", "testPathPattern", "testPathPatterns"],
        ),
        (Number, &["maxWorkers", "testTimeout"]),
    ],
    ..CHECKS
};

const VITEST: ProgramOptions = ProgramOptions {
    valued: &[(Text, "t")],
    long: &["bail", "coverage", "passWithNoTests", "silent"],
    long_valued: &[
        (Text, &["testNamePattern"]),
        (Number, &["maxWorkers", "retry", "testTimeout"]),
    ],
    ..CHECKS
};

/// Without `-r`, `--require`, `--import`, `--file`, `--config`, `--reporter` and node's own
/// options.
const MOCHA: ProgramOptions = ProgramOptions {
    flags: "bc",
    valued: &[(Text, "fg"), (Number, "t")],
    long: &[
        "bail",
        "color",
        "exit",
        "forbid-only",
        "no-color",
        "recursive",
    ],
    long_valued: &[
        (Text, &["fgrep", "grep"]),
        (Number, &["retries", "timeout"]),
    ],
    ..CHECKS
};
