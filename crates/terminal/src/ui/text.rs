//! Styled text, before it meets a terminal: spans, lines, wrapping. A span can only be made of text
//! that was made visible, so nothing built from these types can command a terminal.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use super::visible::visible;

/// The terminal's own palette, so that a light theme stays light and a dark one dark. Yellow, white
/// and black are missing because one of the two themes cannot show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    Red,
    Green,
    Magenta,
    Cyan,
}

/// Colour never says anything alone: words or signs say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    pub colour: Option<Colour>,
    pub is_bold: bool,
    pub is_dim: bool,
    pub is_italic: bool,
    pub is_underlined: bool,
    pub is_struck: bool,
}

impl Style {
    pub const PLAIN: Self = Self {
        colour: None,
        is_bold: false,
        is_dim: false,
        is_italic: false,
        is_underlined: false,
        is_struck: false,
    };

    pub const fn colour(colour: Colour) -> Self {
        Self {
            colour: Some(colour),
            ..Self::PLAIN
        }
    }

    pub const fn bold(self) -> Self {
        Self {
            is_bold: true,
            ..self
        }
    }

    pub const fn dim(self) -> Self {
        Self {
            is_dim: true,
            ..self
        }
    }
}

pub const BOLD: Style = Style::PLAIN.bold();
pub const DIM: Style = Style::PLAIN.dim();

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSpan {
    text: String,
    style: Style,
}

impl TextSpan {
    pub fn new(text: &str, style: Style) -> Self {
        Self {
            text: visible(text).into_owned(),
            style,
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn style(&self) -> Style {
        self.style
    }
}

/// What stands on one line; a terminal may still break it where it is too narrow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextLine {
    spans: Vec<TextSpan>,
}

impl TextLine {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn plain(text: &str) -> Self {
        Self::new().with(text, Style::PLAIN)
    }

    pub fn styled(text: &str, style: Style) -> Self {
        Self::new().with(text, style)
    }

    #[must_use]
    pub fn with(mut self, text: &str, style: Style) -> Self {
        self.push(TextSpan::new(text, style));
        self
    }

    /// Neighbours of one style become one span.
    pub fn push(&mut self, span: TextSpan) {
        if span.text.is_empty() {
            return;
        }
        match self.spans.last_mut() {
            Some(last) if last.style == span.style => last.text.push_str(&span.text),
            _ => self.spans.push(span),
        }
    }

    pub fn extend(&mut self, other: Self) {
        other.spans.into_iter().for_each(|span| self.push(span));
    }

    pub fn spans(&self) -> &[TextSpan] {
        &self.spans
    }

    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| span.text.width()).sum()
    }

    pub fn is_blank(&self) -> bool {
        self.spans.iter().all(|span| span.text.trim().is_empty())
    }

    /// Without styles.
    pub fn to_text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// At most `width` columns, with a mark where something was cut off.
    pub fn clipped(&self, width: usize) -> Self {
        if self.width() <= width {
            return self.clone();
        }
        let (mut out, mut used) = (Self::new(), 0);
        for span in &self.spans {
            for piece in span.text.graphemes(true) {
                if used + piece.width() + 1 > width {
                    out.push(TextSpan {
                        text: "…".to_owned(),
                        style: DIM,
                    });
                    return out;
                }
                used += piece.width();
                out.push(TextSpan {
                    text: piece.to_owned(),
                    style: span.style,
                });
            }
        }
        out
    }
}

/// A line as rows that fit, each indented like the line. Nothing is left out.
pub fn fitting(line: &TextLine, width: usize) -> Vec<TextLine> {
    if line.width() <= width {
        return vec![line.clone()];
    }
    let text = line.to_text();
    let indent = text
        .chars()
        .take_while(|c| *c == ' ')
        .count()
        .min(width / 2);
    wrap(
        line,
        width.max(1),
        &TextLine::new(),
        &TextLine::plain(&" ".repeat(indent)),
    )
}

/// A line as rows that fit, broken where a row ends and nowhere else, so that every character of it
/// is there. All rows but the first start with `rest`.
pub fn folded(line: &TextLine, width: usize, rest: &TextLine) -> Vec<TextLine> {
    if line.width() <= width {
        return vec![line.clone()];
    }
    let empty = TextLine::new();
    // Where the mark alone fills a row, it would leave no room for the text.
    let rest = if rest.width() * 2 < width {
        rest
    } else {
        &empty
    };
    let mut rows = Rows::new(TextLine::new(), rest, width);
    for span in &line.spans {
        for piece in span.text.graphemes(true) {
            rows.add(piece, span.style);
        }
    }
    rows.done.push(rows.row);
    rows.done
}

/// Breaks a line at its spaces so that it fits; the first row starts with `first`, the others with
/// `rest`.
pub fn wrap(line: &TextLine, width: usize, first: &TextLine, rest: &TextLine) -> Vec<TextLine> {
    let mut rows = Rows::new(first.clone(), rest, width);
    let (mut space, mut word) = (TextLine::new(), TextLine::new());
    for span in &line.spans {
        for piece in span.text.graphemes(true) {
            let is_space = piece.chars().all(char::is_whitespace);
            // Scripts of wide characters are written without spaces and may break anywhere.
            if (is_space || piece.width() > 1) && !word.spans.is_empty() {
                rows.put(std::mem::take(&mut space), std::mem::take(&mut word));
            }
            let target = if is_space { &mut space } else { &mut word };
            target.push(TextSpan {
                text: piece.to_owned(),
                style: span.style,
            });
        }
    }
    rows.put(space, word);
    rows.done.push(rows.row);
    rows.done
}

struct Rows<'a> {
    done: Vec<TextLine>,
    row: TextLine,
    /// The columns of `row`, which are not counted again for every character.
    used: usize,
    rest: &'a TextLine,
    width: usize,
    has_words: bool,
}

impl<'a> Rows<'a> {
    fn new(row: TextLine, rest: &'a TextLine, width: usize) -> Self {
        Self {
            done: Vec::new(),
            used: row.width(),
            row,
            rest,
            width,
            has_words: false,
        }
    }

    fn put(&mut self, space: TextLine, word: TextLine) {
        let columns = space.width() + word.width();
        if self.used + columns <= self.width {
            self.used += columns;
            self.row.extend(space);
            self.has_words |= !word.spans.is_empty();
            return self.row.extend(word);
        }
        if self.has_words {
            self.break_row();
        }
        for span in &word.spans {
            for piece in span.text.graphemes(true) {
                // A word longer than a row is broken where the row ends.
                self.add(piece, span.style);
            }
        }
    }

    fn add(&mut self, piece: &str, style: Style) {
        let columns = piece.width();
        if self.has_words && self.used + columns > self.width {
            self.break_row();
        }
        self.has_words = true;
        self.used += columns;
        self.row.push(TextSpan {
            text: piece.to_owned(),
            style,
        });
    }

    fn break_row(&mut self) {
        self.done
            .push(std::mem::replace(&mut self.row, self.rest.clone()));
        self.used = self.rest.width();
        self.has_words = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, width: usize) -> Vec<String> {
        let (first, rest) = (TextLine::plain("- "), TextLine::plain("  "));
        wrap(&TextLine::plain(text), width, &first, &rest)
            .iter()
            .map(TextLine::to_text)
            .collect()
    }

    #[test]
    fn lines_break_between_words_and_long_words_inside() {
        assert_eq!(rows("one two three", 9), ["- one two", "  three"]);
        assert_eq!(rows("", 9), ["- "]);
        assert_eq!(rows("абвгдежзик", 6), ["- абвг", "  дежз", "  ик"]);
        assert_eq!(rows("日本語日本語", 8), ["- 日本語", "  日本語"]);
        for width in 4..40 {
            for row in rows(
                "a (b) c, d-e 'fgh' https://example.org/very/long/address?x=1 привіт",
                width,
            ) {
                assert!(TextLine::plain(&row).width() <= width, "{width}: {row:?}");
            }
        }
    }

    #[test]
    fn a_folded_line_loses_nothing_and_marks_what_goes_on() {
        let text = "  +a   b  日本 c";
        for width in 7..20 {
            let rows = folded(&TextLine::plain(text), width, &TextLine::plain("  ↪"));
            let rows: Vec<String> = rows.iter().map(TextLine::to_text).collect();
            let (first, rest) = rows.split_first().unwrap();
            let rest = rest.iter().map(|row| row.strip_prefix("  ↪").unwrap());
            assert_eq!(format!("{first}{}", rest.collect::<String>()), text);
            assert!(rows.iter().all(|row| row.width() <= width), "{rows:?}");
        }
    }

    #[test]
    fn a_clipped_line_says_that_it_was_cut() {
        let line = TextLine::plain("hello ").with("world", BOLD);
        assert_eq!(line.clipped(11).to_text(), "hello world");
        assert_eq!(line.clipped(8).to_text(), "hello w…");
        assert_eq!(TextLine::plain("日本語").clipped(4).to_text(), "日…");
        assert_eq!(line.clipped(0).to_text(), "…");
    }

    #[test]
    fn a_span_cannot_hold_an_escape() {
        assert_eq!(TextSpan::new("\u{1b}[2J", Style::PLAIN).text(), "␛[2J");
    }
}
