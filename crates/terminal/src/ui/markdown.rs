//! Markdown as styled lines. A model's HTML and images are shown as the text they are.

mod stream;
mod table;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::diff::patch_style;
use super::highlight::Highlighter;
use super::text::{BOLD, Colour, DIM, Style, TextLine, TextSpan, wrap};

pub use stream::{MarkdownPiece, Stream};

const CODE: Style = Style::colour(Colour::Cyan);
const CODE_INDENT: &str = "    ";
const QUOTE_MARK: &str = "▎ ";
const MAX_RULE_COLUMNS: usize = 40;
/// Deeper nesting is shown at this depth: a hostile text could nest until nothing fits.
const MAX_DEPTH: usize = 12;

/// What is in a block of code, by its own word.
#[derive(Debug, Clone)]
enum CodeKind {
    /// A difference between files.
    Patch,
    Known(Highlighter),
    Other,
}

impl CodeKind {
    fn of(kind: &CodeBlockKind<'_>) -> Self {
        match kind {
            CodeBlockKind::Fenced(word) if matches!(&**word, "diff" | "patch") => Self::Patch,
            CodeBlockKind::Fenced(word) => Highlighter::of(word).map_or(Self::Other, Self::Known),
            CodeBlockKind::Indented => Self::Other,
        }
    }

    fn spans(&mut self, line: &str) -> Vec<TextSpan> {
        match self {
            Self::Patch => vec![TextSpan::new(line, patch_style(line))],
            Self::Known(highlighter) => highlighter.line(line),
            Self::Other => vec![TextSpan::new(line, CODE)],
        }
    }
}

pub fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// The text within `width` columns; code is never broken, so that it can be copied.
pub fn lines(text: &str, width: usize) -> Vec<TextLine> {
    let mut page = Page::new(width);
    for event in Parser::new_ext(text, options()) {
        page.take(event);
    }
    page.flush();
    page.lines
}

struct Page {
    width: usize,
    lines: Vec<TextLine>,
    inline: TextLine,
    styles: Vec<Style>,
    /// What opens each row of the blocks around the current one.
    frames: Vec<Frame>,
    code: Option<CodeKind>,
    links: Vec<String>,
    table: Option<Table>,
    wants_gap: bool,
}

enum Frame {
    Quote,
    /// The next number, for lists that have them.
    List(Option<u64>),
    /// What opens the item's first row; spaces of its width open the others.
    Item {
        mark: String,
        is_started: bool,
    },
}

#[derive(Default)]
struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<TextLine>>,
    row: Vec<TextLine>,
}

impl Page {
    fn new(width: usize) -> Self {
        Self {
            width,
            lines: Vec::new(),
            inline: TextLine::new(),
            styles: vec![Style::PLAIN],
            frames: Vec::new(),
            code: None,
            links: Vec::new(),
            table: None,
            wants_gap: false,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.open(tag),
            Event::End(tag) => self.close(tag),
            Event::Text(text) if self.code.is_some() => self.code_lines(&text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.say(&text, self.style())
            }
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.say(&text, CODE)
            }
            Event::FootnoteReference(name) => self.say(&format!("[{name}]"), DIM),
            Event::SoftBreak => self.say(" ", self.style()),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.gap();
                let columns = self.width.min(MAX_RULE_COLUMNS);
                self.inline = TextLine::styled(&"─".repeat(columns), DIM);
                self.flush();
                self.wants_gap = true;
            }
            Event::TaskListMarker(is_done) => self.say(if is_done { "[x] " } else { "[ ] " }, BOLD),
        }
    }

    fn open(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.gap(),
            Tag::Heading { level, .. } => {
                self.gap();
                self.styles.push(heading_style(level));
            }
            Tag::BlockQuote(_) => {
                self.gap();
                self.frames.push(Frame::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.gap();
                self.code = Some(CodeKind::of(&kind));
            }
            Tag::List(first) => {
                self.flush();
                if self.frames.is_empty() {
                    self.gap();
                }
                self.frames.push(Frame::List(first));
            }
            Tag::Item => self.open_item(),
            Tag::Table(alignments) => {
                self.gap();
                self.table = Some(Table {
                    alignments,
                    ..Table::default()
                });
            }
            Tag::Emphasis => self.restyle(|style| Style {
                is_italic: true,
                ..style
            }),
            Tag::Strong => self.restyle(Style::bold),
            Tag::Strikethrough => self.restyle(|style| Style {
                is_struck: true,
                ..style
            }),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.into_string());
                self.restyle(|style| Style {
                    is_underlined: true,
                    ..style
                });
            }
            _ => {}
        }
    }

    fn close(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.wants_gap = !self.in_list();
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
                self.wants_gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.frames.pop();
                self.wants_gap = true;
            }
            TagEnd::CodeBlock => {
                self.code = None;
                self.wants_gap = true;
            }
            TagEnd::List(_) => {
                self.frames.pop();
                self.wants_gap = self.frames.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                self.frames.pop();
                self.wants_gap = false;
            }
            TagEnd::TableCell => self.end_cell(),
            TagEnd::TableHead | TagEnd::TableRow => self.end_row(),
            TagEnd::Table => self.end_table(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn restyle(&mut self, change: impl FnOnce(Style) -> Style) {
        self.styles.push(change(self.style()));
    }

    /// Text without line breaks of its own meaning: they only separate words.
    fn say(&mut self, text: &str, style: Style) {
        for (index, part) in text.split('\n').enumerate() {
            if index > 0 && !self.inline.is_blank() {
                self.inline.push(TextSpan::new(" ", style));
            }
            self.inline.push(TextSpan::new(part, style));
        }
    }

    fn code_lines(&mut self, text: &str) {
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            let mut row = self.prefix();
            row.push(TextSpan::new(CODE_INDENT, Style::PLAIN));
            let line = line.strip_suffix('\r').unwrap_or(line);
            let spans = self.code.as_mut().map(|code| code.spans(line));
            spans.into_iter().flatten().for_each(|span| row.push(span));
            self.lines
                .push(if row.is_blank() { TextLine::new() } else { row });
        }
    }

    fn open_item(&mut self) {
        self.flush();
        let mark = match self.frames.last_mut() {
            Some(Frame::List(Some(number))) => {
                *number += 1;
                format!("{}. ", number.saturating_sub(1))
            }
            _ => "• ".to_owned(),
        };
        self.wants_gap = false;
        self.frames.push(Frame::Item {
            mark,
            is_started: false,
        });
    }

    fn end_link(&mut self) {
        self.styles.pop();
        let Some(address) = self.links.pop() else {
            return;
        };
        // The address is always shown: a text that names another place must not hide it.
        if !self
            .inline
            .to_text()
            .ends_with(address.trim_start_matches("mailto:"))
        {
            self.say(&format!(" ({address})"), DIM);
        }
    }

    fn end_cell(&mut self) {
        let cell = std::mem::take(&mut self.inline);
        if let Some(table) = &mut self.table {
            table.row.push(cell);
        }
    }

    fn end_row(&mut self) {
        if let Some(table) = &mut self.table {
            let row = std::mem::take(&mut table.row);
            table.rows.push(row);
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else {
            return;
        };
        let prefix = self.prefix();
        let width = self.width.saturating_sub(prefix.width());
        for row in table::lines(&table.rows, &table.alignments, width) {
            let mut line = self.prefix();
            line.extend(row);
            self.lines.push(line);
        }
        self.wants_gap = true;
    }

    fn in_list(&self) -> bool {
        self.frames
            .iter()
            .any(|frame| matches!(frame, Frame::Item { .. }))
    }

    /// A blank row between blocks, not before the first.
    fn gap(&mut self) {
        if std::mem::take(&mut self.wants_gap) && !self.lines.is_empty() {
            let line = self.prefix();
            self.lines.push(if line.is_blank() {
                TextLine::new()
            } else {
                line
            });
        }
    }

    fn flush(&mut self) {
        if self.inline.is_blank() {
            self.inline = TextLine::new();
            // An empty item still shows its mark.
            if !matches!(
                self.frames.last(),
                Some(Frame::Item {
                    is_started: false,
                    ..
                })
            ) {
                return;
            }
        }
        let first = self.prefix();
        let rest = self.prefix();
        let text = std::mem::take(&mut self.inline);
        self.lines.extend(wrap(&text, self.width, &first, &rest));
    }

    /// What opens the next row; marks of items are given once.
    fn prefix(&mut self) -> TextLine {
        let mut line = TextLine::new();
        let skipped = self.frames.len().saturating_sub(MAX_DEPTH);
        for (index, frame) in self.frames.iter_mut().enumerate() {
            match frame {
                Frame::Quote if index >= skipped => line.push(TextSpan::new(QUOTE_MARK, DIM)),
                Frame::Item {
                    mark,
                    is_started: false,
                } => {
                    line.push(TextSpan::new(mark, DIM));
                    *frame = Frame::Item {
                        mark: mark.clone(),
                        is_started: true,
                    };
                }
                Frame::Item { mark, .. } if index >= skipped => {
                    line.push(TextSpan::new(
                        &" ".repeat(mark.chars().count()),
                        Style::PLAIN,
                    ));
                }
                _ => {}
            }
        }
        line
    }
}

fn heading_style(level: HeadingLevel) -> Style {
    match level {
        HeadingLevel::H1 | HeadingLevel::H2 => Style {
            is_underlined: true,
            ..BOLD
        },
        _ => BOLD,
    }
}

#[cfg(test)]
#[path = "markdown/tests.rs"]
mod tests;
