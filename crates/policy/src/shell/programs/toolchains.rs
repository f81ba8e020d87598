//! cargo and go: building, testing and checking the project itself.

use super::ValueKind::{Data, Name, Number, Package, Test, Text};
use super::{CHECKS, OPTIONS, Operands, ProgramOptions, Rule};

pub(crate) const CARGO: Rule = Rule::Commands(
    &["--quiet", "-q", "--offline", "--locked", "--frozen"],
    &[
        ("b", Rule::Options(&CARGO_BUILD)),
        ("bench", Rule::Options(&CARGO_TEST)),
        ("build", Rule::Options(&CARGO_BUILD)),
        ("c", Rule::Options(&CARGO_BUILD)),
        ("check", Rule::Options(&CARGO_BUILD)),
        ("clippy", Rule::Options(&CARGO_CLIPPY)),
        ("doc", Rule::Options(&CARGO_BUILD)),
        ("fmt", Rule::Options(&CARGO_FMT)),
        (
            "metadata",
            Rule::Options(&ProgramOptions {
                long: &["locked", "no-deps", "offline"],
                long_valued: &[(Number, &["format-version"])],
                ..OPTIONS
            }),
        ),
        (
            "nextest",
            Rule::Commands(
                &[],
                &[
                    ("run", Rule::Options(&CARGO_NEXTEST)),
                    ("list", Rule::Options(&CARGO_NEXTEST)),
                ],
            ),
        ),
        ("t", Rule::Options(&CARGO_TEST)),
        ("test", Rule::Options(&CARGO_TEST)),
        (
            "tree",
            Rule::Options(&ProgramOptions {
                flags: "d",
                valued: &[(Name, "pei")],
                long: &["duplicates", "locked", "no-dedupe", "offline", "workspace"],
                long_valued: &[
                    (Name, &["edges", "invert", "package", "prefix"]),
                    (Number, &["depth"]),
                ],
                ..OPTIONS
            }),
        ),
    ],
);

/// Without `--config`, `--manifest-path`, `--target`, `--target-dir` and `-Z`: they select other
/// code or another folder.
const CARGO_BUILD: ProgramOptions = ProgramOptions {
    flags: "rqv",
    valued: &[(Name, "pF"), (Number, "j")],
    long: &[
        "all",
        "all-features",
        "all-targets",
        "benches",
        "bins",
        "doc",
        "document-private-items",
        "examples",
        "frozen",
        "keep-going",
        "lib",
        "locked",
        "no-default-features",
        "no-deps",
        "no-fail-fast",
        "no-run",
        "offline",
        "quiet",
        "release",
        "tests",
        "verbose",
        "workspace",
    ],
    long_valued: &[
        (
            Name,
            &[
                "bench",
                "bin",
                "color",
                "example",
                "exclude",
                "features",
                "message-format",
                "package",
                "profile",
                "test",
            ],
        ),
        (Number, &["jobs"]),
    ],
    ..OPTIONS
};

const CARGO_NEXTEST: ProgramOptions = ProgramOptions {
    operands: Operands::Kind(Test),
    ..CARGO_BUILD
};
const CARGO_TEST: ProgramOptions = ProgramOptions {
    trailing: Some(&LIBTEST),
    ..CARGO_NEXTEST
};
const CARGO_CLIPPY: ProgramOptions = ProgramOptions {
    trailing: Some(&LINTS),
    ..CARGO_BUILD
};
const CARGO_FMT: ProgramOptions = ProgramOptions {
    flags: "v",
    valued: &[(Name, "p")],
    long: &["all", "check", "verbose"],
    long_valued: &[(Name, &["package"])],
    needs: &["check"],
    trailing: Some(&ProgramOptions {
        long: &["check"],
        ..OPTIONS
    }),
    ..OPTIONS
};

/// A test binary's own options; `--logfile` would write a file.
const LIBTEST: ProgramOptions = ProgramOptions {
    flags: "q",
    long: &[
        "exact",
        "ignored",
        "include-ignored",
        "list",
        "no-capture",
        "nocapture",
        "quiet",
        "show-output",
    ],
    long_valued: &[
        (Number, &["test-threads"]),
        (Test, &["skip"]),
        (Name, &["color"]),
    ],
    operands: Operands::Kind(Test),
    ..OPTIONS
};

/// Lint levels only: other compiler options name linkers and other programs.
const LINTS: ProgramOptions = ProgramOptions {
    valued: &[(Name, "DWAF")],
    long_valued: &[(Name, &["allow", "deny", "forbid", "warn"])],
    ..OPTIONS
};

pub(crate) const GO: Rule = Rule::Commands(
    &[],
    &[
        ("build", Rule::Options(&GO_BUILD)),
        (
            "doc",
            Rule::Options(&ProgramOptions {
                long: &["all", "short", "src", "u"],
                single_dash: true,
                operands: Operands::Kind(Test),
                ..OPTIONS
            }),
        ),
        (
            "list",
            Rule::Either(&Rule::Options(&GO_LIST), &Rule::Options(&GO_LIST_ALL)),
        ),
        (
            "mod",
            Rule::Commands(
                &[],
                &[
                    ("graph", Rule::Options(&OPTIONS)),
                    ("verify", Rule::Options(&OPTIONS)),
                    (
                        "why",
                        Rule::Options(&ProgramOptions {
                            long: &["m"],
                            single_dash: true,
                            operands: Operands::Kind(Test),
                            ..OPTIONS
                        }),
                    ),
                ],
            ),
        ),
        ("test", Rule::Options(&GO_TEST)),
        ("vet", Rule::Options(&GO_BUILD)),
    ],
);

/// Without `-w` the program only prints.
pub(crate) const GOFMT: Rule = Rule::Options(&ProgramOptions {
    long: &["d", "e", "l", "s"],
    single_dash: true,
    ..CHECKS
});

/// Without `-exec`, `-toolexec`, `-vettool`, `-overlay`, `-modfile`, `-ldflags`, `-o` and `-C`.
const GO_BUILD: ProgramOptions = ProgramOptions {
    long: &["race", "trimpath", "v"],
    long_valued: &[(Name, &["tags"]), (Number, &["p"])],
    single_dash: true,
    operands: Operands::Kind(Package),
    ..OPTIONS
};

const GO_LIST: ProgramOptions = ProgramOptions {
    long: &["deps", "json", "m", "test"],
    long_valued: &[(Text, &["f"])],
    single_dash: true,
    operands: Operands::Kind(Package),
    ..OPTIONS
};
const GO_LIST_ALL: ProgramOptions = ProgramOptions {
    operands: Operands::Exactly(&["all"]),
    ..GO_LIST
};

const GO_TEST: ProgramOptions = ProgramOptions {
    long: &[
        "benchmem", "cover", "failfast", "json", "race", "short", "trimpath", "v",
    ],
    long_valued: &[
        (Name, &["covermode", "shuffle", "tags", "coverpkg"]),
        (
            Number,
            &["benchtime", "count", "cpu", "p", "parallel", "timeout"],
        ),
        (Text, &["bench", "list", "run", "skip"]),
        (Data, &["coverprofile"]),
    ],
    ..GO_BUILD
};
