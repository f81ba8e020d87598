//! Colours for code: words of the language, texts in quotes, comments, numbers. It knows families of
//! languages and no grammar, so a colour can be wrong. The characters are always the same. An answer
//! that arrives in pieces is coloured piece by piece: a comment or a text of several lines has its
//! colour up to the end of its piece.

use super::text::{Colour, DIM, Style, TextSpan};

const WORD: Style = Style::colour(Colour::Magenta);
const QUOTED: Style = Style::colour(Colour::Green);
const NUMBER: Style = Style::colour(Colour::Cyan);
const COMMENT: Style = DIM;
/// A character in single quotes, as in `'\u{10ffff}'`. Anything longer is a lifetime.
const MAX_CHARACTER_BYTES: usize = 10;

/// Languages that write comments and texts in the same way.
#[derive(Debug)]
struct Family {
    /// What stands behind the fence of a block of code.
    names: &'static [&'static str],
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    /// Quotes of texts that may have several lines.
    long_quotes: &'static [&'static str],
    has_single_quotes: SingleQuotes,
    words: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SingleQuotes {
    Text,
    /// One character; alone it is something else.
    Character,
}

static FAMILIES: [Family; 4] = [
    Family {
        names: &["rust", "rs"],
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        long_quotes: &["\""],
        has_single_quotes: SingleQuotes::Character,
        words: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop \
            match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
    },
    Family {
        names: &[
            "c",
            "h",
            "cpp",
            "c++",
            "cc",
            "hpp",
            "java",
            "js",
            "javascript",
            "jsx",
            "ts",
            "typescript",
            "tsx",
            "go",
            "golang",
            "swift",
            "kotlin",
            "kt",
            "csharp",
            "cs",
            "scala",
            "php",
            "json",
            "jsonc",
            "dart",
            "zig",
            "proto",
        ],
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        long_quotes: &["`"],
        has_single_quotes: SingleQuotes::Text,
        words: "abstract any as async await bool boolean break case catch chan char class const continue default \
            defer delete do double else enum export extends extern false final finally float for from fun func \
            function go goto guard if implements import in instanceof int interface internal let long map namespace \
            new nil null number override package private protected public range readonly return select short signed \
            sizeof static string struct super switch template this throw throws true try type typedef typeof \
            undefined union unsigned using val var void volatile when where while with yield",
    },
    Family {
        names: &[
            "python",
            "py",
            "python3",
            "sh",
            "bash",
            "zsh",
            "shell",
            "fish",
            "ruby",
            "rb",
            "yaml",
            "yml",
            "toml",
            "ini",
            "makefile",
            "make",
            "dockerfile",
            "docker",
            "perl",
            "r",
            "elixir",
            "ex",
            "nix",
        ],
        line_comments: &["#"],
        block_comment: None,
        long_quotes: &["\"\"\"", "'''"],
        has_single_quotes: SingleQuotes::Text,
        words: "and as assert async await begin break case class continue def defmodule del do done elif else elsif \
            end esac except export False false fi finally for from FROM function global if import in is lambda local \
            module nil None nonlocal not null or pass raise require rescue return RUN self set then True true try \
            unless until while with yield COPY ENV WORKDIR CMD ENTRYPOINT",
    },
    Family {
        names: &[
            "sql",
            "postgres",
            "postgresql",
            "sqlite",
            "mysql",
            "lua",
            "haskell",
            "hs",
        ],
        line_comments: &["--"],
        block_comment: Some(("/*", "*/")),
        long_quotes: &[],
        has_single_quotes: SingleQuotes::Text,
        words: "ADD ALTER AND AS ASC BEGIN BETWEEN BY CASE COMMIT CONSTRAINT CREATE CROSS DEFAULT DELETE DESC \
            DISTINCT DROP ELSE END EXISTS FALSE FOREIGN FROM FULL GROUP HAVING IF IN INDEX INNER INSERT INTO IS JOIN \
            KEY LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER PRIMARY REFERENCES RETURNING RIGHT ROLLBACK SELECT \
            SET TABLE THEN TRUE UNION UNIQUE UPDATE USING VALUES VIEW WHEN WHERE WITH do elseif end for function if \
            in local nil not or repeat return then until while case data import let module of type where",
    },
];

/// Nobody reads a longer line, and marks that are never closed would be looked for again and again.
const MAX_LINE_BYTES: usize = 4 << 10;

/// Colours the lines of one block of code, one after the other.
#[derive(Debug, Clone)]
pub struct Highlighter {
    family: &'static Family,
    /// How a comment or a text ends that goes on in the next line.
    open: Option<(&'static str, Style)>,
}

impl Highlighter {
    /// `None` for a language that is not known.
    pub fn of(word: &str) -> Option<Self> {
        let name = word.split([' ', ',', '{']).next()?.to_ascii_lowercase();
        let family = FAMILIES
            .iter()
            .find(|family| family.names.contains(&name.as_str()))?;
        Some(Self { family, open: None })
    }

    /// The line in pieces, with nothing added and nothing left out.
    pub fn line(&mut self, line: &str) -> Vec<TextSpan> {
        if line.len() > MAX_LINE_BYTES {
            return vec![TextSpan::new(line, Style::PLAIN)];
        }
        let mut spans = Vec::new();
        let mut rest = line;
        while !rest.is_empty() {
            let (length, style) = self.piece(rest);
            let (piece, behind) = rest.split_at(length);
            spans.push(TextSpan::new(piece, style));
            rest = behind;
        }
        spans
    }

    /// How long the next piece is, in bytes, and how it looks.
    fn piece(&mut self, rest: &str) -> (usize, Style) {
        if let Some((end, style)) = self.open {
            return self.until(rest, 0, end, style);
        }
        let family = self.family;
        if family
            .line_comments
            .iter()
            .any(|mark| rest.starts_with(mark))
        {
            return (rest.len(), COMMENT);
        }
        if let Some((start, end)) = family.block_comment
            && rest.starts_with(start)
        {
            return self.until(rest, start.len(), end, COMMENT);
        }
        if let Some(quote) = family
            .long_quotes
            .iter()
            .find(|quote| rest.starts_with(**quote))
        {
            return self.until(rest, quote.len(), quote, QUOTED);
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length =
            |is_part: &dyn Fn(char) -> bool| rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        match rest.chars().next() {
            Some('"') => (quoted(rest, "\"").unwrap_or(rest.len()), QUOTED),
            Some('\'') => match (quoted(rest, "'"), family.has_single_quotes) {
                (Some(length), SingleQuotes::Text) => (length, QUOTED),
                (Some(length), SingleQuotes::Character) if length <= MAX_CHARACTER_BYTES => {
                    (length, QUOTED)
                }
                (Some(_) | None, _) => (1, Style::PLAIN),
            },
            Some(c) if c.is_ascii_digit() => (length(&|c| is_word(c) || c == '.'), NUMBER),
            Some(c) if is_word(c) => {
                let length = length(&is_word);
                let is_known = family
                    .words
                    .split_whitespace()
                    .any(|word| word == &rest[..length]);
                (length, if is_known { WORD } else { Style::PLAIN })
            }
            Some(c) => (c.len_utf8(), Style::PLAIN),
            None => (rest.len(), Style::PLAIN),
        }
    }

    /// From here to the end mark, or the whole line if that is in a later one.
    fn until(
        &mut self,
        rest: &str,
        from: usize,
        end: &'static str,
        style: Style,
    ) -> (usize, Style) {
        let found = match style == QUOTED {
            true => end_of_quote(rest, from, end),
            false => rest[from..].find(end).map(|at| from + at + end.len()),
        };
        self.open = found.is_none().then_some((end, style));
        (found.unwrap_or(rest.len()), style)
    }
}

fn quoted(rest: &str, quote: &str) -> Option<usize> {
    end_of_quote(rest, quote.len(), quote)
}

/// Where the text ends, past its quote. A backslash takes the next character along.
fn end_of_quote(rest: &str, from: usize, quote: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, character) in rest[from..].char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if character == '\\' {
            is_escaped = true;
        } else if rest[from + at..].starts_with(quote) {
            return Some(from + at + quote.len());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coloured(word: &str, lines: &[&str]) -> Vec<(String, Style)> {
        let mut highlighter = Highlighter::of(word).unwrap();
        let spans = lines.iter().flat_map(|line| highlighter.line(line));
        spans
            .filter(|span| span.style() != Style::PLAIN)
            .map(|span| (span.text().to_owned(), span.style()))
            .collect()
    }

    #[test]
    fn words_texts_comments_and_numbers_have_colours() {
        for (word, lines, expected) in [
            (
                "rust",
                &["let x: &'a str = \"a \\\" b\"; // let", "let c = '\\'';"][..],
                &[
                    ("let", WORD),
                    ("\"a \\\" b\"", QUOTED),
                    ("// let", COMMENT),
                    ("let", WORD),
                    ("'\\''", QUOTED),
                ][..],
            ),
            (
                "python",
                &["x = \"\"\"one", "def two\"\"\" # end", "letter = 0x1f"],
                &[
                    ("\"\"\"one", QUOTED),
                    ("def two\"\"\"", QUOTED),
                    ("# end", COMMENT),
                    ("0x1f", NUMBER),
                ],
            ),
            (
                "ts",
                &["a /* b", "const */ const"],
                &[("/* b", COMMENT), ("const */", COMMENT), ("const", WORD)],
            ),
            (
                "sql",
                &["SELECT 'it' -- no"],
                &[("SELECT", WORD), ("'it'", QUOTED), ("-- no", COMMENT)],
            ),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(text, style)| ((*text).to_owned(), *style))
                .collect();
            assert_eq!(coloured(word, lines), expected, "{word}");
        }
        assert!(Highlighter::of("").is_none() && Highlighter::of("whatever").is_none());
    }

    #[test]
    fn no_character_is_added_or_lost() {
        let lines = [
            "'",
            "\"",
            "\\",
            "\"\\",
            "/*",
            "*/ я 日本 'é'",
            "```",
            "'''",
            "0.1e5_я",
            "",
        ];
        for family in &FAMILIES {
            let mut highlighter = Highlighter::of(family.names[0]).unwrap();
            for line in lines {
                let text: String = highlighter
                    .line(line)
                    .iter()
                    .map(|s| s.text().to_owned())
                    .collect();
                assert_eq!(text, line, "{:?}", family.names);
            }
        }
    }

    #[test]
    fn a_very_long_line_stays_plain() {
        let mut code = Highlighter::of("rust").unwrap();
        let long = "'".repeat(MAX_LINE_BYTES + 1);
        let spans = code.line(&long);
        assert_eq!(spans, [TextSpan::new(&long, Style::PLAIN)]);
        assert!(code.line("let a = 1;").len() > 1);
    }
}
