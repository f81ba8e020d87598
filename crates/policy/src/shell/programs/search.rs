//! Programs that search for text or files. The first operand of most is the pattern, the others are
//! the files and folders to search.

use super::ValueKind::{Name, Number, Path, Text};
use super::{OPTIONS, Operands, ProgramOptions, READS, Rule, Special};

pub(crate) const CHECKED: &[(&str, Rule)] = &[
    ("egrep", Rule::Options(&GREP)),
    ("fd", Rule::Options(&FD)),
    ("fdfind", Rule::Options(&FD)),
    ("fgrep", Rule::Options(&GREP)),
    ("find", Rule::Special(Special::Find)),
    ("grep", Rule::Options(&GREP)),
    ("rg", Rule::Options(&RG)),
    // Neither `-o` nor `-R` nor `--fromfile`.
    (
        "tree",
        Rule::Options(&ProgramOptions {
            flags: "adflpshDCnNiFrtuxv",
            valued: &[(Number, "L"), (Text, "IP")],
            long: &[
                "dirsfirst",
                "du",
                "gitignore",
                "noreport",
                "prune",
                "inodes",
            ],
            long_valued: &[(Number, &["filelimit"]), (Name, &["sort"])],
            separate_values: true,
            operands: Operands::Paths,
            ..OPTIONS
        }),
    ),
];

const GREP: ProgramOptions = ProgramOptions {
    flags: "abcEFGHhiIlLnoOpPqrRsTuUvwxyzZ0123456789",
    valued: &[(Number, "ABCm"), (Text, "e"), (Path, "f"), (Name, "dD")],
    long: &[
        "basic-regexp",
        "byte-offset",
        "count",
        "dereference-recursive",
        "extended-regexp",
        "files-with-matches",
        "files-without-match",
        "fixed-strings",
        "ignore-case",
        "initial-tab",
        "invert-match",
        "line-buffered",
        "line-number",
        "line-regexp",
        "no-filename",
        "no-ignore-case",
        "no-messages",
        "null",
        "null-data",
        "only-matching",
        "perl-regexp",
        "quiet",
        "recursive",
        "silent",
        "text",
        "with-filename",
        "word-regexp",
    ],
    long_valued: &[
        (
            Number,
            &["after-context", "before-context", "context", "max-count"],
        ),
        (
            Text,
            &["exclude", "exclude-dir", "include", "include-dir", "regexp"],
        ),
        (Name, &["binary-files", "devices", "directories"]),
        (Path, &["exclude-from", "file"]),
    ],
    long_optional: &[(Name, &["color", "colour"])],
    operands: Operands::PatternThenPaths(&["e", "f", "file", "regexp"]),
    ..READS
};

/// Neither `-x` nor `-X` nor `--exec`, nor `--base-directory`, `--search-path`, `--ignore-file`.
const FD: ProgramOptions = ProgramOptions {
    flags: "HIusipLa0lgF1q",
    valued: &[(Number, "d"), (Name, "tS"), (Text, "eEo")],
    long: &[
        "absolute-path",
        "case-sensitive",
        "fixed-strings",
        "follow",
        "full-path",
        "glob",
        "hidden",
        "ignore-case",
        "list-details",
        "no-ignore",
        "print0",
        "quiet",
        "strip-cwd-prefix",
    ],
    long_valued: &[
        (
            Number,
            &["exact-depth", "max-depth", "max-results", "min-depth"],
        ),
        (
            Text,
            &[
                "changed-before",
                "changed-within",
                "exclude",
                "extension",
                "size",
            ],
        ),
        (Name, &["color", "type"]),
    ],
    operands: Operands::PatternThenPaths(&[]),
    ..OPTIONS
};

/// Neither `--pre` nor `--hostname-bin` nor `-z`: those start programs. No `--ignore-file`.
const RG: ProgramOptions = ProgramOptions {
    flags: "aclnNiIsSwxFPLuvoqpHU0h.",
    valued: &[
        (Number, "ABCmMdj"),
        (Text, "egr"),
        (Name, "tTE"),
        (Path, "f"),
    ],
    long: &[
        "case-sensitive",
        "column",
        "count",
        "count-matches",
        "files",
        "files-with-matches",
        "files-without-match",
        "fixed-strings",
        "follow",
        "heading",
        "hidden",
        "ignore-case",
        "invert-match",
        "json",
        "line-number",
        "line-regexp",
        "multiline",
        "multiline-dotall",
        "no-config",
        "no-filename",
        "no-heading",
        "no-ignore",
        "no-ignore-vcs",
        "no-line-number",
        "no-messages",
        "null",
        "only-matching",
        "passthru",
        "pcre2",
        "pretty",
        "quiet",
        "smart-case",
        "stats",
        "text",
        "trim",
        "type-list",
        "unrestricted",
        "vimgrep",
        "with-filename",
        "word-regexp",
    ],
    long_valued: &[
        (
            Number,
            &[
                "after-context",
                "before-context",
                "context",
                "max-columns",
                "max-count",
                "max-depth",
                "threads",
            ],
        ),
        (Text, &["glob", "iglob", "regexp", "replace"]),
        (
            Name,
            &[
                "color", "encoding", "sort", "sortr", "type", "type-not", "engine",
            ],
        ),
        (Path, &["file"]),
    ],
    operands: Operands::PatternThenPaths(&["e", "f", "file", "files", "regexp", "type-list"]),
    ..OPTIONS
};
