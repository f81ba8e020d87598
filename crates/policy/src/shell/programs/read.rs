//! Programs that read, compare and print, and the few that write plain files in the workspace.

use super::ValueKind::{Name, Number, Path, Text};
use super::{OPTIONS, Operands, ProgramOptions, READS, Rule, Special};

/// With any arguments, these programs neither open a file that the caller names nor start a
/// program.
pub(crate) const FREE: &[&str] = &[
    ":", "basename", "dirname", "echo", "expr", "false", "free", "groups", "id", "nproc", "pwd",
    "seq", "sleep", "tr", "true", "tty", "type", "uname", "uptime", "which", "whoami",
];

pub(crate) const CHECKED: &[(&str, Rule)] = &[
    ("[", Rule::Special(Special::Test)),
    ("[[", Rule::Special(Special::Condition)),
    // With an argument, macOS runs the argument as a program.
    ("arch", Rule::Options(&OPTIONS)),
    ("awk", Rule::Special(Special::Awk)),
    // Without `-o`: on macOS it writes a file.
    (
        "base64",
        Rule::Options(&ProgramOptions {
            flags: "dD",
            valued: &[(Number, "wb"), (Path, "i")],
            long: &["decode"],
            long_valued: &[(Number, &["wrap"])],
            operands: Operands::Paths,
            ..OPTIONS
        }),
    ),
    ("break", Rule::Options(&LOOP_CONTROL)),
    (
        "cat",
        Rule::Options(&ProgramOptions {
            flags: "AbeEnstTuv",
            long: &[
                "number",
                "number-nonblank",
                "show-all",
                "show-ends",
                "show-tabs",
                "squeeze-blank",
            ],
            ..READS
        }),
    ),
    ("cd", Rule::Special(Special::Cd)),
    ("cksum", Rule::Options(&READS)),
    (
        "cmp",
        Rule::Options(&ProgramOptions {
            flags: "bls",
            valued: &[(Number, "in")],
            long: &["silent", "quiet"],
            ..READS
        }),
    ),
    (
        "column",
        Rule::Options(&ProgramOptions {
            flags: "tx",
            valued: &[(Text, "s"), (Text, "N"), (Number, "c")],
            ..READS
        }),
    ),
    (
        "comm",
        Rule::Options(&ProgramOptions {
            flags: "123iz",
            long: &["nocheck-order", "check-order", "total"],
            ..READS
        }),
    ),
    ("command", Rule::Special(Special::Command)),
    ("continue", Rule::Options(&LOOP_CONTROL)),
    ("cp", Rule::Special(Special::Copy)),
    ("cut", Rule::Options(&CUT)),
    ("date", Rule::Special(Special::Date)),
    (
        "df",
        Rule::Options(&ProgramOptions {
            flags: "ahHiklmPT",
            valued: &[(Name, "tx"), (Number, "B")],
            long: &[
                "all",
                "human-readable",
                "inodes",
                "print-type",
                "total",
                "si",
            ],
            ..READS
        }),
    ),
    ("diff", Rule::Options(&DIFF)),
    (
        "du",
        Rule::Options(&ProgramOptions {
            flags: "abcDhHklLmPsSx0",
            valued: &[(Number, "dBt")],
            long: &[
                "all",
                "apparent-size",
                "bytes",
                "human-readable",
                "one-file-system",
                "si",
                "summarize",
                "total",
            ],
            long_valued: &[
                (Number, &["block-size", "max-depth", "threshold"]),
                (Text, &["exclude"]),
            ],
            ..READS
        }),
    ),
    ("exit", Rule::Options(&LOOP_CONTROL)),
    (
        "expand",
        Rule::Options(&ProgramOptions {
            flags: "i",
            valued: &[(Number, "t")],
            ..READS
        }),
    ),
    // No `-m`, `-f`, `-C`, `-z`.
    (
        "file",
        Rule::Options(&ProgramOptions {
            flags: "bihkLN",
            long: &["brief", "dereference", "mime", "mime-encoding", "mime-type"],
            operands: Operands::Paths,
            ..OPTIONS
        }),
    ),
    (
        "fold",
        Rule::Options(&ProgramOptions {
            flags: "bs",
            valued: &[(Number, "w")],
            ..READS
        }),
    ),
    ("gawk", Rule::Special(Special::Awk)),
    ("head", Rule::Options(&HEAD)),
    (
        "hexdump",
        Rule::Options(&ProgramOptions {
            flags: "bcCdovx",
            valued: &[(Number, "ns"), (Text, "e")],
            ..READS
        }),
    ),
    ("hostname", Rule::Options(&OPTIONS)),
    (
        "join",
        Rule::Options(&ProgramOptions {
            flags: "i",
            valued: &[(Text, "12aejotv")],
            ..READS
        }),
    ),
    ("jq", Rule::Special(Special::Jq)),
    ("ls", Rule::Options(&LS)),
    // No `-D`: it may write a file of devices.
    (
        "lsof",
        Rule::Options(&ProgramOptions {
            flags: "abhlnNPRtUvVw",
            valued: &[(Text, "cdpu")],
            attached: &[(Text, "gisF")],
            operands: Operands::Paths,
            ..OPTIONS
        }),
    ),
    ("md5sum", Rule::Options(&DIGEST)),
    ("mkdir", Rule::Special(Special::MakeDirectory)),
    ("mv", Rule::Special(Special::Move)),
    ("nice", Rule::Special(Special::Nice)),
    (
        "nl",
        Rule::Options(&ProgramOptions {
            flags: "p",
            valued: &[(Text, "bdfhns"), (Number, "ilvw")],
            ..READS
        }),
    ),
    (
        "od",
        Rule::Options(&ProgramOptions {
            flags: "abcdfilosvx",
            valued: &[(Text, "tA"), (Number, "jNSw")],
            ..READS
        }),
    ),
    (
        "paste",
        Rule::Options(&ProgramOptions {
            flags: "sz",
            valued: &[(Text, "d")],
            ..READS
        }),
    ),
    (
        "pgrep",
        Rule::Options(&ProgramOptions {
            flags: "aflinvxc",
            valued: &[(Name, "uUgGPs")],
            tame: true,
            operands: Operands::Text,
            ..OPTIONS
        }),
    ),
    ("printf", Rule::Special(Special::Printf)),
    ("ps", Rule::Special(Special::Ps)),
    ("read", Rule::Special(Special::Read)),
    ("readlink", Rule::Options(&RESOLVE)),
    ("realpath", Rule::Options(&RESOLVE)),
    ("rev", Rule::Options(&READS)),
    ("sed", Rule::Special(Special::Sed)),
    ("set", Rule::Special(Special::Set)),
    ("sha1sum", Rule::Options(&DIGEST)),
    ("sha256sum", Rule::Options(&DIGEST)),
    ("sha512sum", Rule::Options(&DIGEST)),
    (
        "shasum",
        Rule::Options(&ProgramOptions {
            flags: "bt",
            valued: &[(Number, "a")],
            ..READS
        }),
    ),
    ("sort", Rule::Options(&SORT)),
    (
        "stat",
        Rule::Options(&ProgramOptions {
            flags: "fLnqrstx",
            valued: &[(Text, "c")],
            long: &["dereference", "file-system", "terse"],
            long_valued: &[(Text, &["format", "printf"])],
            ..READS
        }),
    ),
    (
        "strings",
        Rule::Options(&ProgramOptions {
            flags: "a",
            valued: &[(Number, "n"), (Name, "te")],
            operands: Operands::Kind(super::ValueKind::Source),
            ..OPTIONS
        }),
    ),
    (
        "tac",
        Rule::Options(&ProgramOptions {
            flags: "br",
            valued: &[(Text, "s")],
            ..READS
        }),
    ),
    (
        "tail",
        Rule::Options(&ProgramOptions {
            flags: "qvzfFr0123456789",
            ..HEAD
        }),
    ),
    ("tee", Rule::Special(Special::Tee)),
    ("test", Rule::Special(Special::Test)),
    ("time", Rule::Special(Special::Time)),
    ("timeout", Rule::Special(Special::Timeout)),
    ("touch", Rule::Special(Special::Touch)),
    (
        "unexpand",
        Rule::Options(&ProgramOptions {
            flags: "a",
            valued: &[(Number, "t")],
            ..READS
        }),
    ),
    ("uniq", Rule::Special(Special::OneFile(&UNIQ))),
    (
        "wc",
        Rule::Options(&ProgramOptions {
            flags: "clmwL",
            long: &["bytes", "chars", "lines", "max-line-length", "words"],
            long_valued: &[(Name, &["total"])],
            ..READS
        }),
    ),
    (
        "whereis",
        Rule::Options(&ProgramOptions {
            flags: "bms",
            operands: Operands::Kind(Name),
            ..OPTIONS
        }),
    ),
    // No `-r`: it writes bytes.
    (
        "xxd",
        Rule::Special(Special::OneFile(&ProgramOptions {
            flags: "abeipu",
            valued: &[(Number, "cgls")],
            ..READS
        })),
    ),
];

/// At most a number.
const LOOP_CONTROL: ProgramOptions = ProgramOptions {
    operands: Operands::Exactly(&[]),
    ..OPTIONS
};

/// Without `-c`: it names a file that lists the files to read.
const DIGEST: ProgramOptions = ProgramOptions {
    flags: "btz",
    long: &["binary", "tag", "text", "zero"],
    ..READS
};

const RESOLVE: ProgramOptions = ProgramOptions {
    flags: "efmnqsvzLP",
    long: &[
        "canonicalize",
        "canonicalize-existing",
        "canonicalize-missing",
        "no-newline",
        "quiet",
        "verbose",
    ],
    long_valued: &[(Path, &["relative-to", "relative-base"])],
    ..READS
};

const HEAD: ProgramOptions = ProgramOptions {
    flags: "qvz0123456789",
    valued: &[(Number, "nc")],
    long: &["quiet", "silent", "verbose", "zero-terminated", "retry"],
    long_valued: &[(Number, &["bytes", "lines"])],
    long_optional: &[(Name, &["follow"])],
    ..READS
};

const CUT: ProgramOptions = ProgramOptions {
    flags: "nsz",
    valued: &[(Text, "bcdf")],
    long: &["complement", "only-delimited", "zero-terminated"],
    long_valued: &[(
        Text,
        &[
            "bytes",
            "characters",
            "delimiter",
            "fields",
            "output-delimiter",
        ],
    )],
    ..READS
};

const LS: ProgramOptions = ProgramOptions {
    flags: "aAbBcCdfFgGhHiIklLmnNopqQrRsStTuUvwxXZ1",
    long: &[
        "all",
        "almost-all",
        "author",
        "classify",
        "directory",
        "escape",
        "file-type",
        "full-time",
        "group-directories-first",
        "human-readable",
        "inode",
        "literal",
        "no-group",
        "numeric-uid-gid",
        "quote-name",
        "recursive",
        "reverse",
        "si",
        "size",
        "zero",
    ],
    long_valued: &[
        (Text, &["hide", "ignore", "time-style"]),
        (
            Name,
            &["format", "indicator-style", "sort", "time", "quoting-style"],
        ),
        (Number, &["block-size", "width", "tabsize"]),
    ],
    long_optional: &[(Name, &["color", "hyperlink"])],
    ..READS
};

/// Without `-X`, `--from-file` and `--to-file`: they name more files to read.
const DIFF: ProgramOptions = ProgramOptions {
    flags: "abBcdeEHiNnpqrsTtuvwyZ0123456789",
    valued: &[(Number, "CUW"), (Text, "FILx")],
    long: &[
        "brief",
        "expand-tabs",
        "ignore-all-space",
        "ignore-blank-lines",
        "ignore-case",
        "ignore-space-change",
        "ignore-trailing-space",
        "minimal",
        "new-file",
        "no-dereference",
        "recursive",
        "report-identical-files",
        "show-c-function",
        "side-by-side",
        "speed-large-files",
        "strip-trailing-cr",
        "suppress-common-lines",
        "text",
    ],
    long_valued: &[
        (Number, &["width", "horizon-lines"]),
        (
            Text,
            &[
                "exclude",
                "label",
                "ignore-matching-lines",
                "show-function-line",
            ],
        ),
    ],
    long_optional: &[(Name, &["color"]), (Number, &["unified", "context"])],
    ..READS
};

/// Without `-o`, `-T`, `--compress-program` and `--files0-from`.
const SORT: ProgramOptions = ProgramOptions {
    flags: "nrufhVsbdigMRcCz",
    valued: &[(Text, "kt"), (Number, "S")],
    long: &[
        "general-numeric-sort",
        "human-numeric-sort",
        "ignore-case",
        "ignore-leading-blanks",
        "month-sort",
        "numeric-sort",
        "random-sort",
        "reverse",
        "stable",
        "unique",
        "version-sort",
        "zero-terminated",
    ],
    long_valued: &[
        (Text, &["field-separator", "key"]),
        (Number, &["buffer-size", "parallel"]),
        (Name, &["sort"]),
    ],
    long_optional: &[(Name, &["check"])],
    operands: Operands::Paths,
    ..OPTIONS
};

const UNIQ: ProgramOptions = ProgramOptions {
    flags: "cduiDz0123456789",
    valued: &[(Number, "fsw")],
    long: &["count", "ignore-case", "repeated", "unique"],
    long_valued: &[(Number, &["skip-chars", "skip-fields", "check-chars"])],
    operands: Operands::Paths,
    ..OPTIONS
};
