//! The text a person is writing: one or more lines, a cursor, what was written before. Knows no
//! keys and no terminal.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use super::visible::visible;

/// What fits into one message; a paste beyond it is cut.
const MAX_BYTES: usize = 1 << 20;
const MAX_HISTORY: usize = 500;

#[derive(Debug, Default)]
pub struct Editor {
    text: String,
    /// In bytes, always between characters as people see them.
    cursor: usize,
    history: Vec<String>,
    /// The position in the history that is shown, and the draft that it replaced.
    recalled: Option<(usize, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
}

/// The text as rows of a screen, and where the cursor stands among them.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    pub rows: Vec<String>,
    pub cursor_row: usize,
    pub cursor_column: usize,
}

impl Editor {
    pub fn with_history(history: Vec<String>) -> Self {
        Self {
            history,
            ..Self::default()
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn history(&self) -> &[String] {
        &self.history
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn before_cursor(&self) -> &str {
        &self.text[..self.cursor]
    }

    /// Puts this in the place of everything before the cursor.
    pub fn replace_before_cursor(&mut self, text: &str) {
        let is_doubled = self.text[self.cursor..].starts_with(' ');
        let text = text
            .strip_suffix(' ')
            .filter(|_| is_doubled)
            .unwrap_or(text);
        self.text.replace_range(..self.cursor, text);
        self.cursor = text.len();
    }

    /// Whether the next character becomes the first one.
    pub fn is_at_start(&self) -> bool {
        self.cursor == 0
    }

    pub fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
        self.recalled = None;
    }

    /// Line breaks of every system become one kind; nothing else is changed.
    pub fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let room = MAX_BYTES.saturating_sub(self.text.len());
        let cut = (0..=room.min(text.len()))
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or_default();
        self.text.insert_str(self.cursor, &text[..cut]);
        self.cursor += cut;
    }

    /// Gives the text away and remembers it.
    pub fn take(&mut self) -> String {
        self.cursor = 0;
        self.recalled = None;
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() && self.history.last() != Some(&text) {
            self.history.push(text.clone());
            let extra = self.history.len().saturating_sub(MAX_HISTORY);
            self.history.drain(..extra);
        }
        text
    }

    /// Gives the text away as if it had not been written.
    pub fn discard(&mut self) -> String {
        self.cursor = 0;
        self.recalled = None;
        std::mem::take(&mut self.text)
    }

    pub fn go(&mut self, motion: Motion) {
        self.cursor = self.target(motion);
    }

    /// Deletes from the cursor to where the motion leads.
    pub fn delete(&mut self, motion: Motion) {
        let target = self.target(motion);
        let range = target.min(self.cursor)..target.max(self.cursor);
        self.cursor = range.start;
        self.text.replace_range(range, "");
    }

    /// A line up, or the entry before in the history.
    pub fn up(&mut self) {
        let (start, column) = self.line();
        if start > 0 {
            let above = self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1);
            return self.cursor = self.at_column(above, column);
        }
        let position = self
            .recalled
            .as_ref()
            .map_or(self.history.len(), |(position, _)| *position);
        if position > 0 {
            self.recall(position - 1);
        }
    }

    /// A line down, or the next entry of the history, and behind the newest the draft.
    pub fn down(&mut self) {
        let (_, column) = self.line();
        if let Some(end) = self.text[self.cursor..].find('\n') {
            return self.cursor = self.at_column(self.cursor + end + 1, column);
        }
        match self.recalled.take() {
            Some((position, draft)) if position + 1 == self.history.len() => self.set(draft),
            Some((position, draft)) => {
                self.recalled = Some((position, draft));
                self.recall(position + 1);
            }
            None => {}
        }
    }

    fn recall(&mut self, position: usize) {
        let draft = match self.recalled.take() {
            Some((_, draft)) => draft,
            None => self.text.clone(),
        };
        self.set(self.history[position].clone());
        self.recalled = Some((position, draft));
    }

    /// Where the cursor's line starts, and how many characters are before the cursor in it.
    fn line(&self) -> (usize, usize) {
        let start = self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1);
        (start, self.text[start..self.cursor].graphemes(true).count())
    }

    fn at_column(&self, start: usize, column: usize) -> usize {
        let line = self.text[start..].split('\n').next().unwrap_or_default();
        start
            + line
                .grapheme_indices(true)
                .nth(column)
                .map_or(line.len(), |(at, _)| at)
    }

    fn target(&self, motion: Motion) -> usize {
        let (before, after) = self.text.split_at(self.cursor);
        match motion {
            Motion::Left => before
                .grapheme_indices(true)
                .next_back()
                .map_or(0, |(at, _)| at),
            Motion::Right => self.cursor + after.graphemes(true).next().map_or(0, str::len),
            Motion::WordLeft => {
                let mut words = before.split_word_bound_indices().rev();
                words
                    .find(|(_, word)| !word.trim().is_empty())
                    .map_or(0, |(at, _)| at)
            }
            Motion::WordRight => {
                let mut words = after.split_word_bound_indices();
                let word = words.find(|(_, word)| !word.trim().is_empty());
                word.map_or(self.text.len(), |(at, word)| self.cursor + at + word.len())
            }
            Motion::LineStart => self.line().0,
            Motion::LineEnd => self.cursor + after.find('\n').unwrap_or(after.len()),
        }
    }

    pub fn layout(&self, width: usize) -> Layout {
        let width = width.max(2);
        let mut layout = Layout {
            rows: vec![String::new()],
            cursor_row: 0,
            cursor_column: 0,
        };
        let mut column = 0;
        let mut end = 0;
        for (at, piece) in self.text.grapheme_indices(true) {
            if at == self.cursor {
                (layout.cursor_row, layout.cursor_column) = (layout.rows.len() - 1, column);
            }
            end = at + piece.len();
            let shown = visible(piece);
            if piece == "\n" || column + shown.width() > width {
                layout.rows.push(String::new());
                column = 0;
                if at == self.cursor && piece != "\n" {
                    (layout.cursor_row, layout.cursor_column) = (layout.rows.len() - 1, 0);
                }
            }
            if piece != "\n" {
                column += shown.width();
                if let Some(row) = layout.rows.last_mut() {
                    row.push_str(&shown);
                }
            }
        }
        if self.cursor >= end {
            (layout.cursor_row, layout.cursor_column) = (layout.rows.len() - 1, column);
        }
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn editor(text: &str) -> Editor {
        let mut editor = Editor::default();
        editor.insert(text);
        editor
    }

    #[test]
    fn motions_go_by_characters_as_people_see_them() {
        let mut family = editor("a👩‍👩‍👧e\u{301}");
        for expected in ["a👩‍👩‍👧", "a", "", ""] {
            family.delete(Motion::Left);
            assert_eq!(family.text(), expected);
        }
        let mut words = editor("one, two  три");
        words.delete(Motion::WordLeft);
        assert_eq!(words.text(), "one, two  ");
        words.delete(Motion::WordLeft);
        assert_eq!(words.text(), "one, ");
        words.go(Motion::LineStart);
        words.delete(Motion::WordRight);
        assert_eq!(words.text(), ", ");
        words.delete(Motion::LineEnd);
        assert!(words.is_empty());
    }

    #[test]
    fn up_and_down_walk_lines_first_and_then_what_was_written_before() {
        let mut editor = editor("first");
        editor.take();
        editor.insert("second\r\nof two");
        editor.take();
        editor.insert("draft");
        editor.up();
        assert_eq!(editor.text(), "second\nof two");
        editor.up();
        editor.insert("!");
        assert_eq!(editor.text(), "second!\nof two");
        editor.up();
        assert_eq!(editor.text(), "first");
        editor.down();
        assert_eq!(
            editor.text(),
            "second\nof two",
            "history is not changed by looking at it"
        );
        editor.down();
        assert_eq!(editor.text(), "draft");
        editor.down();
        assert_eq!(editor.text(), "draft");
    }

    #[test]
    fn rows_hold_the_text_and_the_cursor() {
        let rows = |text: &str, width| {
            let layout = editor(text).layout(width);
            (
                layout.rows.join("|"),
                layout.cursor_row,
                layout.cursor_column,
            )
        };
        assert_eq!(rows("", 10), (String::new(), 0, 0));
        assert_eq!(rows("ab\ncd", 10), ("ab|cd".to_owned(), 1, 2));
        assert_eq!(rows("abcdef", 4), ("abcd|ef".to_owned(), 1, 2));
        assert_eq!(rows("日本語", 4), ("日本|語".to_owned(), 1, 2));
        assert_eq!(rows("x\n", 4), ("x|".to_owned(), 1, 0));
        assert_eq!(rows("a\u{1b}b", 9), ("a␛b".to_owned(), 0, 3));
        let mut middle = editor("abcd\nef");
        middle.up();
        middle.go(Motion::Left);
        assert_eq!(
            (middle.layout(9).cursor_row, middle.layout(9).cursor_column),
            (0, 1)
        );
    }

    #[test]
    fn a_huge_paste_is_cut_between_characters() {
        let editor = editor(&"я".repeat(MAX_BYTES));
        assert_eq!(editor.text().len(), MAX_BYTES);
    }
}
