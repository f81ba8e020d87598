//! Build, test and lint tools. They run the project's own code, which is their purpose: the files
//! they run can only be changed with approval (`write_file`, or a shell write to anything but plain
//! data). Only the plain call passes. Options that select other code, another shell or other
//! folders are left out.

use super::ValueKind::{Name, Number, Package, Text};
use super::{CHECKS, OPTIONS, Operands, ProgramOptions, Rule, toolchains};

/// Only the version of these programs may be asked for, unless a row below allows more.
pub(crate) const VERSIONED: &[&str] = &[
    "bash",
    "black",
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
    "eslint",
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
    "mypy",
    "node",
    "npm",
    "npx",
    "perl",
    "php",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "prettier",
    "pytest",
    "python",
    "python3",
    "ruby",
    "ruff",
    "rustc",
    "rustfmt",
    "rustup",
    "swift",
    "terraform",
    "tsc",
    "uv",
    "yarn",
    "zig",
];

pub(crate) const CHECKED: &[(&str, Rule)] = &[
    ("cargo", toolchains::CARGO),
    (
        "ctest",
        Rule::Options(&ProgramOptions {
            flags: "VQN",
            valued: &[(Number, "j"), (Text, "RE")],
            long: &["output-on-failure", "verbose"],
            long_valued: &[(Number, &["parallel"])],
            separate_values: true,
            ..OPTIONS
        }),
    ),
    (
        "dotnet",
        Rule::Commands(
            &[],
            &[
                ("build", Rule::Options(&DOTNET)),
                ("test", Rule::Options(&DOTNET)),
            ],
        ),
    ),
    ("go", toolchains::GO),
    ("gofmt", toolchains::GOFMT),
    (
        "golangci-lint",
        Rule::Commands(
            &[],
            &[(
                "run",
                Rule::Options(&ProgramOptions {
                    flags: "v",
                    long: &["fast", "verbose"],
                    long_valued: &[(Number, &["timeout", "concurrency"])],
                    operands: Operands::Kind(Package),
                    ..OPTIONS
                }),
            )],
        ),
    ),
    (
        "mix",
        Rule::Commands(
            &[],
            &[
                ("compile", Rule::Options(&OPTIONS)),
                (
                    "test",
                    Rule::Options(&ProgramOptions {
                        long: &["failed", "stale", "trace"],
                        ..CHECKS
                    }),
                ),
            ],
        ),
    ),
    (
        "rustfmt",
        Rule::Options(&ProgramOptions {
            flags: "lqv",
            long: &["check", "files-with-diff", "quiet", "verbose"],
            long_valued: &[(Name, &["color", "edition"])],
            needs: &["check"],
            ..CHECKS
        }),
    ),
    (
        "rustc",
        Rule::Options(&ProgramOptions {
            long_valued: &[(Name, &["explain"])],
            needs: &["explain"],
            ..OPTIONS
        }),
    ),
    (
        "rustup",
        Rule::Commands(&[], &[("show", Rule::Options(&OPTIONS))]),
    ),
    (
        "staticcheck",
        Rule::Options(&ProgramOptions {
            operands: Operands::Kind(Package),
            ..OPTIONS
        }),
    ),
    (
        "swift",
        Rule::Commands(
            &[],
            &[
                ("build", Rule::Options(&OPTIONS)),
                ("test", Rule::Options(&OPTIONS)),
            ],
        ),
    ),
];

const DOTNET: ProgramOptions = ProgramOptions {
    flags: "v",
    long: &["no-build", "no-restore", "nologo"],
    ..OPTIONS
};
