//! cargo and go: building, testing and checking the project itself.

use super::{OPTIONS, Operands, Options, Rule};

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
        ("metadata", Rule::Options(&Options { long: &["format-version=", "no-deps", "offline", "locked"], ..OPTIONS })),
        (
            "nextest",
            Rule::Commands(&[], &[("run", Rule::Options(&CARGO_BUILD)), ("list", Rule::Options(&CARGO_BUILD))]),
        ),
        ("t", Rule::Options(&CARGO_TEST)),
        ("test", Rule::Options(&CARGO_TEST)),
        (
            "tree",
            Rule::Options(&Options {
                flags: "di",
                valued: "pe",
                long: &["duplicates", "package=", "invert", "depth=", "edges="],
                operands: Operands::Any,
                ..OPTIONS
            }),
        ),
    ],
);

/// No `--config`, `--manifest-path`, `--target`, `--target-dir`, `-Z`: they choose other code or another place.
const CARGO_BUILD: Options = Options {
    flags: "rqv",
    valued: "pjF",
    long: &[
        "release",
        "package=",
        "workspace",
        "all",
        "exclude=",
        "lib",
        "bins",
        "bin=",
        "tests",
        "test=",
        "examples",
        "example=",
        "benches",
        "bench=",
        "all-targets",
        "all-features",
        "features=",
        "no-default-features",
        "locked",
        "offline",
        "frozen",
        "quiet",
        "verbose",
        "no-run",
        "no-fail-fast",
        "doc",
        "jobs=",
        "keep-going",
        "message-format=",
        "color=",
        "profile=",
        "no-deps",
        "document-private-items",
    ],
    operands: Operands::Any,
    ..OPTIONS
};

const CARGO_TEST: Options = Options { trailing: Some(&LIBTEST), ..CARGO_BUILD };
const CARGO_CLIPPY: Options = Options { trailing: Some(&LINTS), ..CARGO_BUILD };
const CARGO_FMT: Options = Options {
    flags: "v",
    valued: "p",
    long: &["all", "check", "package="],
    trailing: Some(&Options { long: &["check"], ..OPTIONS }),
    ..OPTIONS
};

/// A test binary's own options; `--logfile` would write a file.
const LIBTEST: Options = Options {
    flags: "q",
    long: &[
        "nocapture",
        "no-capture",
        "show-output",
        "test-threads=",
        "ignored",
        "include-ignored",
        "exact",
        "skip=",
        "list",
        "quiet",
        "color=",
    ],
    operands: Operands::Any,
    ..OPTIONS
};

/// Lint levels only: other compiler options name linkers and other programs.
const LINTS: Options = Options { valued: "DWAF", long: &["deny=", "warn=", "allow=", "forbid="], ..OPTIONS };

pub(crate) const GO: Rule = Rule::Commands(
    &[],
    &[
        ("build", Rule::Options(&GO_BUILD)),
        ("doc", Rule::Options(&Options { operands: Operands::Any, ..OPTIONS })),
        (
            "list",
            Rule::Options(&Options {
                long: &["json", "m", "deps", "test", "f"],
                single_dash: true,
                operands: Operands::Inside,
                ..OPTIONS
            }),
        ),
        ("test", Rule::Options(&GO_TEST)),
        ("vet", Rule::Options(&GO_BUILD)),
    ],
);

/// No `-exec`, `-toolexec`, `-vettool`, `-overlay`, `-modfile`, `-ldflags`, `-o`, `-C`.
const GO_BUILD: Options =
    Options { long: &["v", "race", "tags", "p", "trimpath"], single_dash: true, operands: Operands::Inside, ..OPTIONS };

const GO_TEST: Options = Options {
    long: &[
        "v",
        "race",
        "tags",
        "p",
        "trimpath",
        "run",
        "skip",
        "count",
        "short",
        "cover",
        "covermode",
        "bench",
        "benchmem",
        "benchtime",
        "timeout",
        "failfast",
        "parallel",
        "json",
        "list",
        "cpu",
        "shuffle",
    ],
    single_dash: true,
    operands: Operands::Inside,
    ..OPTIONS
};
