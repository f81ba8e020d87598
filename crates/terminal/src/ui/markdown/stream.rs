//! An answer while it is being written. What can no longer change leaves piece by piece, so that it
//! goes to the scrollback once and only the unfinished end has to be drawn again.
//!
//! Pieces are cut from the source and not from rendered rows: the width may change at any time.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use super::options;

/// Markdown that stands by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkdownPiece {
    pub source: String,
    /// It goes on where the piece before it stopped, in the same list or code block: no blank row
    /// between them.
    pub continues: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stream {
    text: String,
    /// Everything before this byte has left.
    offset: usize,
    /// The line that opened the code block in which `offset` lies.
    fence: Option<String>,
    continues: bool,
    is_begun: bool,
}

impl Stream {
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Whether something has left already.
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// The next piece that later text cannot change.
    pub fn settle(&mut self) -> Option<MarkdownPiece> {
        let piece = self.rest();
        let repeated_bytes = piece.source.len() - (self.text.len() - self.offset);
        // An unfinished line may still become anything: another row of a table, the rule below a
        // heading.
        let finished = piece.source.rfind('\n').map_or(0, |end| end + 1);
        let cut = cut(&piece.source[..finished]).filter(|cut| cut.bytes > repeated_bytes)?;
        self.offset += cut.bytes - repeated_bytes;
        self.is_begun = true;
        (self.continues, self.fence) = match cut.then {
            Then::NewBlock => (false, None),
            Then::SameList => (true, None),
            Then::SameCode(fence) => (true, Some(fence)),
        };
        Some(MarkdownPiece {
            source: piece.source[..cut.bytes].to_owned(),
            ..piece
        })
    }

    /// Everything that is left.
    pub fn rest(&self) -> MarkdownPiece {
        let tail = &self.text[self.offset..];
        let source = match &self.fence {
            Some(fence) => format!("{fence}\n{tail}"),
            None => tail.to_owned(),
        };
        MarkdownPiece {
            source,
            continues: self.continues,
        }
    }

    /// Ends with the text as it was stored; `None` if what has left is not the beginning of it.
    pub fn finish(mut self, whole: &str) -> Option<MarkdownPiece> {
        if !whole.starts_with(&self.text[..self.offset]) {
            return None;
        }
        whole.clone_into(&mut self.text);
        Some(self.rest())
    }
}

struct Cut {
    bytes: usize,
    then: Then,
}

enum Then {
    NewBlock,
    SameList,
    /// With the line that opened it.
    SameCode(String),
}

/// The last block of a text, from its first byte.
struct Last {
    start: usize,
    end: usize,
    inside: Inside,
}

enum Inside {
    /// Where its items start.
    List(Vec<usize>),
    Fenced,
    Other,
}

/// How much of the source is final: the blocks before the last one, else what is finished inside
/// it.
fn cut(source: &str) -> Option<Cut> {
    let mut depth = 0;
    let mut blocks = 0;
    let mut last: Option<Last> = None;
    for (event, range) in Parser::new_ext(source, options()).into_offset_iter() {
        if depth == 0 && matches!(event, Event::Start(_) | Event::Rule) {
            blocks += 1;
            let inside = match &event {
                Event::Start(Tag::List(_)) => Inside::List(Vec::new()),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => Inside::Fenced,
                _ => Inside::Other,
            };
            last = Some(Last {
                start: range.start,
                end: range.end,
                inside,
            });
        }
        match (&event, &mut last) {
            (
                Event::Start(Tag::Item),
                Some(Last {
                    inside: Inside::List(items),
                    ..
                }),
            ) if depth == 1 => {
                items.push(range.start);
            }
            _ => {}
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    let last = last?;
    match &last.inside {
        _ if blocks > 1 => Some(Cut {
            bytes: last.start,
            then: Then::NewBlock,
        }),
        Inside::List(items) if items.len() > 1 => items.last().map(|newest| Cut {
            bytes: *newest,
            then: Then::SameList,
        }),
        Inside::Fenced => cut_code(source, &last),
        // An empty line ends whatever is neither a list nor code.
        Inside::Other if source.ends_with("\n\n") => Some(Cut {
            bytes: source.len(),
            then: Then::NewBlock,
        }),
        Inside::List(_) | Inside::Other => None,
    }
}

/// A closed code block whole, an open one up to its unfinished line.
fn cut_code(source: &str, last: &Last) -> Option<Cut> {
    let opening = source[last.start..].lines().next()?;
    let body = last.start + opening.len() + 1;
    let block = source.get(body..last.end).unwrap_or_default();
    if is_closed(opening, block) {
        let after = source[last.end..].find('\n')? + last.end + 1;
        return Some(Cut {
            bytes: after,
            then: Then::NewBlock,
        });
    }
    let finished = source.rfind('\n')? + 1;
    (finished > body).then(|| Cut {
        bytes: finished,
        then: Then::SameCode(opening.to_owned()),
    })
}

/// Only the last line of a closed block is a fence: it would have closed the block earlier
/// otherwise.
fn is_closed(opening: &str, block: &str) -> bool {
    let mark = if opening.trim_start().starts_with('~') {
        '~'
    } else {
        '`'
    };
    let length = opening
        .trim_start()
        .chars()
        .take_while(|c| *c == mark)
        .count();
    let line = block.lines().next_back().unwrap_or_default().trim();
    line.len() >= length && line.chars().all(|c| c == mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::markdown::lines;

    const TEXTS: [&str; 6] = [
        "One paragraph\nof two lines.\n\n# A heading\n\nAnother *one*.",
        "Before:\n\n```rust\nfn main() {\n\n    let x = `1`;\n}\n```\n\nafter\n\n~~~\n```\nstill code\n~~~\nend",
        "1. first\n2. second\n   - inner\n   - inner two\n3. third\n\n   more of it\n\nDone.",
        "- a\n- b\n\n- c\n\ntext\n- d",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n\n> quote\n> more\n\nPara\n- item\n",
        "```\nunclosed\n  code",
    ];

    /// Whatever the text is cut into on its way, what left and the rest show the whole text.
    #[test]
    fn pieces_show_what_the_whole_text_shows() {
        for text in TEXTS {
            for step in [1, 2, 3, 7, 1000] {
                let mut stream = Stream::default();
                let mut shown: Vec<String> = Vec::new();
                let mut show = |piece: MarkdownPiece| {
                    let rows = lines(&piece.source, 60);
                    if !piece.continues && !shown.is_empty() && !rows.is_empty() {
                        shown.push(String::new());
                    }
                    shown.extend(rows.iter().map(|row| row.to_text()));
                };
                let characters: Vec<char> = text.chars().collect();
                for part in characters.chunks(step) {
                    stream.push(&part.iter().collect::<String>());
                    while let Some(piece) = stream.settle() {
                        show(piece);
                    }
                }
                show(stream.finish(text).unwrap());
                let whole: Vec<String> = lines(text, 60).iter().map(|row| row.to_text()).collect();
                assert_eq!(
                    shown.join("\n"),
                    whole.join("\n"),
                    "{text:?} in steps of {step}"
                );
            }
        }
    }

    #[test]
    fn a_long_block_leaves_while_it_is_written() {
        for (text, left) in [
            ("```\na\nb\nc", "```\na\nb\n"),
            ("- a\n- b\n- c\n", "- a\n- b\n"),
            ("a\n\nb", "a\n\n"),
            ("a\nb\nc", ""),
        ] {
            let mut stream = Stream::default();
            stream.push(text);
            assert_eq!(
                stream
                    .settle()
                    .map(|piece| piece.source)
                    .unwrap_or_default(),
                left,
                "{text:?}"
            );
            assert_eq!(stream.settle(), None);
        }
    }

    #[test]
    fn another_text_is_noticed() {
        let mut stream = Stream::default();
        stream.push("First.\n\nSecond");
        assert!(stream.settle().is_some());
        assert_eq!(stream.clone().finish("Other"), None);
        let rest = stream.finish("First.\n\nSecond one.").unwrap();
        assert_eq!(rest.source, "Second one.");
    }
}
