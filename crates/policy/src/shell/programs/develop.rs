//! Build, test and lint tools. They run the project's own code, which is what they are for: the files they run can only
//! be changed by asking (`write_file`, or a shell write to anything but plain data). What passes here is the plain
//! invocation; options that point them at other code, another shell or other places are left out.

use super::{OPTIONS, Operands, Options, Rule, Special, toolchains};

/// These may be asked for their version and nothing else, unless a row below says more.
pub(crate) const VERSIONED: &[&str] = &[
    "bash",
    "bun",
    "bundle",
    "cargo",
    "clang",
    "cmake",
    "composer",
    "deno",
    "docker",
    "dotnet",
    "elixir",
    "gcc",
    "gem",
    "git",
    "go",
    "gradle",
    "java",
    "javac",
    "kotlin",
    "make",
    "mvn",
    "node",
    "npm",
    "npx",
    "perl",
    "php",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "pytest",
    "python",
    "python3",
    "ruby",
    "rustc",
    "rustup",
    "swift",
    "terraform",
    "tsc",
    "uv",
    "yarn",
    "zig",
];

pub(crate) const CHECKED: &[(&str, Rule)] = &[
    (
        "black",
        Rule::Options(&Options {
            flags: "q",
            long: &["check", "diff", "quiet"],
            operands: Operands::Inside,
            ..OPTIONS
        }),
    ),
    ("cargo", toolchains::CARGO),
    (
        "ctest",
        Rule::Options(&Options {
            flags: "VQN",
            valued: "jRE",
            long: &["output-on-failure", "verbose", "parallel="],
            separate_values: true,
            ..OPTIONS
        }),
    ),
    ("dotnet", Rule::Commands(&[], &[("build", Rule::Options(&DOTNET)), ("test", Rule::Options(&DOTNET))])),
    (
        "eslint",
        Rule::Options(&Options {
            long: &["quiet", "ext=", "max-warnings=", "no-color", "color"],
            operands: Operands::Inside,
            ..OPTIONS
        }),
    ),
    (
        "flake8",
        Rule::Options(&Options {
            long: &["max-line-length=", "count", "statistics", "select=", "ignore=", "exclude="],
            operands: Operands::Inside,
            ..OPTIONS
        }),
    ),
    ("go", toolchains::GO),
    ("gofmt", Rule::Options(&Options { flags: "lds", operands: Operands::Inside, ..OPTIONS })),
    (
        "gradle",
        Rule::Options(&Options {
            flags: "qi",
            long: &["info", "stacktrace", "offline", "quiet", "no-daemon"],
            operands: Operands::Listed(TARGETS),
            ..OPTIONS
        }),
    ),
    ("make", Rule::Options(&MAKE)),
    (
        "mix",
        Rule::Commands(
            &[],
            &[
                ("compile", Rule::Options(&OPTIONS)),
                (
                    "test",
                    Rule::Options(&Options {
                        long: &["trace", "stale", "failed"],
                        operands: Operands::Inside,
                        ..OPTIONS
                    }),
                ),
            ],
        ),
    ),
    (
        "mvn",
        Rule::Options(&Options {
            flags: "qBoe",
            long: &["quiet", "batch-mode", "offline"],
            operands: Operands::Listed(&["compile", "test", "test-compile", "package", "verify", "validate"]),
            ..OPTIONS
        }),
    ),
    (
        "mypy",
        Rule::Options(&Options {
            long: &[
                "strict",
                "ignore-missing-imports",
                "show-error-codes",
                "pretty",
                "no-error-summary",
                "check-untyped-defs",
            ],
            operands: Operands::Inside,
            ..OPTIONS
        }),
    ),
    ("npm", Rule::Commands(&["--silent", "-s"], NPM)),
    ("pnpm", Rule::Commands(&["--silent", "-s"], PACKAGE_SCRIPTS)),
    (
        "prettier",
        Rule::Options(&Options {
            flags: "cl",
            long: &["check", "list-different"],
            operands: Operands::Inside,
            ..OPTIONS
        }),
    ),
    ("pytest", Rule::Special(Special::Pytest)),
    ("python", Rule::Special(Special::Python)),
    ("python3", Rule::Special(Special::Python)),
    (
        "ruff",
        Rule::Commands(
            &[],
            &[(
                "check",
                Rule::Options(&Options {
                    flags: "q",
                    long: &["quiet", "statistics", "select=", "ignore=", "diff", "no-fix"],
                    operands: Operands::Inside,
                    ..OPTIONS
                }),
            )],
        ),
    ),
    ("rustfmt", Rule::Options(&Options { long: &["check", "edition="], operands: Operands::Inside, ..OPTIONS })),
    ("swift", Rule::Commands(&[], &[("build", Rule::Options(&OPTIONS)), ("test", Rule::Options(&OPTIONS))])),
    ("tsc", Rule::Options(&Options { long: &["noEmit", "pretty", "version"], ..OPTIONS })),
    ("yarn", Rule::Commands(&["--silent", "-s"], PACKAGE_SCRIPTS)),
];

/// Scripts and targets that by their names build, test or check. Others (`install`, `deploy`, `release`, …) ask.
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
    "lint",
    "test",
    "tests",
    "type-check",
    "typecheck",
    "unit",
    "vet",
];

const SCRIPT: Options =
    Options { flags: "s", long: &["silent", "if-present"], operands: Operands::Listed(TARGETS), ..OPTIONS };
const NAMED: Rule = Rule::Options(&Options { flags: "s", long: &["silent"], ..OPTIONS });
const LISTING: Rule = Rule::Options(&Options {
    flags: "a",
    long: &["all", "depth=", "json", "prod"],
    operands: Operands::Any,
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

const PACKAGE_SCRIPTS: &[(&str, Rule)] =
    &[("build", NAMED), ("lint", NAMED), ("run", Rule::Options(&SCRIPT)), ("test", NAMED), ("typecheck", NAMED)];

/// No `VAR=value` (it may be `SHELL=`), no `-f`, no `-C`, no `--eval`.
const MAKE: Options = Options {
    flags: "ksBj0123456789",
    long: &["jobs?", "keep-going", "silent", "always-make", "no-print-directory"],
    operands: Operands::Listed(TARGETS),
    ..OPTIONS
};

const DOTNET: Options = Options { flags: "v", long: &["no-restore", "no-build", "nologo"], ..OPTIONS };

/// No `-p`, `-c`, `-o`, `-W`, `--rootdir`, `--basetemp`, `--pyargs`: they load other code or empty directories.
pub(crate) const PYTEST: Options = Options {
    flags: "qvxsl",
    valued: "kmnr",
    long: &[
        "lf",
        "last-failed",
        "ff",
        "failed-first",
        "nf",
        "sw",
        "stepwise",
        "maxfail=",
        "tb=",
        "no-header",
        "no-summary",
        "collect-only",
        "co",
        "durations=",
        "exitfirst",
        "verbose",
        "quiet",
        "showlocals",
        "strict-markers",
        "disable-warnings",
        "color=",
        "deselect=",
        "ignore=",
        "fixtures",
        "markers",
        "setup-show",
        "capture=",
        "cov?",
        "no-cov",
    ],
    operands: Operands::Inside,
    ..OPTIONS
};

pub(crate) const UNITTEST: Options = Options {
    // The values of `-s` and `-p` are paths and are checked as such.
    flags: "vqfbcsp",
    long: &["verbose", "quiet", "failfast", "buffer", "locals"],
    operands: Operands::Inside,
    ..OPTIONS
};
