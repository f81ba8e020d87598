//! The one place that writes to a terminal. Finished lines go up into the scrollback, which stays
//! the person's; below them a few live rows are drawn over themselves. No alternate screen, no
//! mouse: selecting and scrolling work as ever.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::{ExecutableCommand as _, terminal};

use super::render::Drawn;
use super::text::{Colour, Style, TextLine};

/// Terminals that know it show everything between these at once, without flicker; others ignore
/// them.
const BEGIN: &str = "\x1b[?2026h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?2026l";
const ERASE_LINE_END: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";
const RESET: &str = "\x1b[0m";
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// How much of a style is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Not even bold: the output is no terminal.
    Plain,
    /// `NO_COLOR` is set.
    Colourless,
    Full,
}

impl Ink {
    pub fn of_environment(is_terminal: bool) -> Self {
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match (is_terminal, is_refused) {
            (false, _) => Self::Plain,
            (true, true) => Self::Colourless,
            (true, false) => Self::Full,
        }
    }
}

/// Raw mode for as long as it lives.
pub struct Screen {
    ink: Ink,
    /// The widths of the live rows as they were drawn, and where the cursor was left among them.
    live: Vec<usize>,
    cursor_row: usize,
    cursor_column: usize,
    /// How wide the terminal was then.
    columns: usize,
}

impl Screen {
    pub fn open(ink: Ink) -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        io::stdout().execute(EnableBracketedPaste)?;
        Ok(Self {
            ink,
            live: Vec::new(),
            cursor_row: 0,
            cursor_column: 0,
            columns: 0,
        })
    }

    pub fn size() -> (usize, usize) {
        let (columns, rows) = terminal::size()
            .ok()
            .filter(|size| size.0 > 0 && size.1 > 0)
            .unwrap_or(DEFAULT_SIZE);
        (usize::from(columns), usize::from(rows))
    }

    /// Prints what is finished above the live rows and draws those anew.
    pub fn update(&mut self, finished: &[TextLine], drawn: &Drawn) -> io::Result<()> {
        let mut out = String::from(BEGIN);
        self.to_top(&mut out);
        let (columns, _) = Self::size();
        if std::mem::replace(&mut self.columns, columns) != columns {
            // Writing over rows that the terminal has broken in two leaves it believing that they
            // are one.
            out.push_str(ERASE_BELOW);
        }
        for line in finished {
            encode(line, self.ink, &mut out);
            out.push_str(ERASE_LINE_END);
            out.push_str("\r\n");
        }
        for (index, row) in drawn.rows.iter().enumerate() {
            if index > 0 {
                out.push_str("\r\n");
            }
            encode(row, self.ink, &mut out);
            out.push_str(ERASE_LINE_END);
        }
        out.push_str(ERASE_BELOW);
        let below = drawn
            .rows
            .len()
            .saturating_sub(1)
            .saturating_sub(drawn.cursor_row);
        up(below, &mut out);
        out.push('\r');
        right(drawn.cursor_column, &mut out);
        out.push_str(END);
        self.live = drawn.rows.iter().map(TextLine::width).collect();
        (self.cursor_row, self.cursor_column) = (drawn.cursor_row, drawn.cursor_column);
        write(&out)
    }

    /// Takes the live rows away, so that something else can have the terminal.
    pub fn clear(&mut self) -> io::Result<()> {
        let mut out = String::new();
        self.to_top(&mut out);
        out.push_str(ERASE_BELOW);
        self.live.clear();
        (self.cursor_row, self.cursor_column) = (0, 0);
        write(&out)
    }

    /// Moves the cursor to the first live row. A terminal that became narrower has wrapped long
    /// rows, so each row counts with the height that it has now.
    fn to_top(&self, out: &mut String) {
        let (columns, _) = Self::size();
        let broken = |width: usize| width.saturating_sub(1) / columns.max(1);
        let above: usize = self
            .live
            .iter()
            .take(self.cursor_row)
            .map(|width| 1 + broken(*width))
            .sum();
        up(above + self.cursor_column / columns.max(1), out);
        out.push('\r');
    }

    /// Everything as it was before, for a program that needs the terminal; [`Screen::resume`]
    /// undoes it.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.clear()?;
        io::stdout().execute(DisableBracketedPaste)?;
        terminal::disable_raw_mode()
    }

    pub fn resume(&mut self) -> io::Result<()> {
        terminal::enable_raw_mode()?;
        io::stdout().execute(EnableBracketedPaste)?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = self.suspend();
    }
}

/// Lines for an output that is no terminal.
pub fn print_plain(lines: &[TextLine]) -> io::Result<()> {
    let mut out = String::new();
    for line in lines {
        encode(line, Ink::Plain, &mut out);
        out.push('\n');
    }
    write(&out)
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn up(rows: usize, out: &mut String) {
    if rows > 0 {
        let _ = write!(out, "\x1b[{rows}A");
    }
}

fn right(columns: usize, out: &mut String) {
    if columns > 0 {
        let _ = write!(out, "\x1b[{columns}C");
    }
}

fn encode(line: &TextLine, ink: Ink, out: &mut String) {
    for span in line.spans() {
        let codes = codes(span.style(), ink);
        if codes.is_empty() {
            out.push_str(span.text());
        } else {
            let _ = write!(out, "\x1b[{codes}m{}{RESET}", span.text());
        }
    }
}

fn codes(style: Style, ink: Ink) -> String {
    if ink == Ink::Plain {
        return String::new();
    }
    let colour = style
        .colour
        .filter(|_| ink == Ink::Full)
        .map(|colour| match colour {
            Colour::Red => "31",
            Colour::Green => "32",
            Colour::Magenta => "35",
            Colour::Cyan => "36",
        });
    let marks = [
        (style.is_bold, "1"),
        (style.is_dim, "2"),
        (style.is_italic, "3"),
        (style.is_underlined, "4"),
        (style.is_struck, "9"),
    ];
    let marks = marks
        .into_iter()
        .filter_map(|(is_set, code)| is_set.then_some(code));
    marks.chain(colour).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::text::BOLD;

    #[test]
    fn styles_become_codes_and_no_colour_is_respected() {
        let line = TextLine::plain("a")
            .with("b", Style::colour(Colour::Red).bold())
            .with("c", BOLD);
        for (ink, expected) in [
            (Ink::Plain, "abc"),
            (Ink::Colourless, "a\x1b[1mbc\x1b[0m"),
            (Ink::Full, "a\x1b[1;31mb\x1b[0m\x1b[1mc\x1b[0m"),
        ] {
            let mut out = String::new();
            encode(&line, ink, &mut out);
            assert_eq!(
                out.replace(
                    "\x1b[0m\x1b[1m",
                    if ink == Ink::Colourless {
                        ""
                    } else {
                        "\x1b[0m\x1b[1m"
                    }
                ),
                expected
            );
        }
    }
}
