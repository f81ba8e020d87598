//! A list to choose from: a session, a message, what to take back. Pure: keys go in, an action comes
//! out. Nothing that is typed here becomes a message.

use codelab_protocol::SessionId;

use crate::texts::CommandText;
use crate::{Language, Text};

use super::editor::Motion;
use super::prompt::Key;
use super::render::Drawn;
use super::text::{BOLD, DIM, Style, TextLine, fitting};

/// Of a number that is typed.
const MAX_DIGITS: usize = 3;
/// The row of the number and the row of the keys.
const ROWS_BELOW: usize = 2;
/// Rows to choose from that stay on the screen, whatever stands above them.
const MIN_ROWS: usize = 3;

/// One of the choices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PickerRow {
    /// When it was, where that matters.
    pub when: String,
    pub text: String,
    /// Less important.
    pub aside: String,
}

#[derive(Debug)]
pub struct Picker {
    /// What stands above the rows.
    heading: Vec<TextLine>,
    /// Empty until it is known what there is.
    rows: Vec<PickerRow>,
    /// The number of the first row.
    first_number: usize,
    selected: usize,
    typed: String,
    /// What the keys do.
    hint: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
pub enum PickerAction {
    Nothing,
    /// The place of the row in the list.
    Chosen(usize),
    Leave,
}

impl Picker {
    pub fn new(hint: &'static str) -> Self {
        Self {
            heading: Vec::new(),
            rows: Vec::new(),
            first_number: 1,
            selected: 0,
            typed: String::new(),
            hint,
        }
    }

    pub fn numbered_from(mut self, first: usize) -> Self {
        self.first_number = first;
        self
    }

    pub fn offer(&mut self, rows: Vec<PickerRow>) {
        self.rows = rows;
    }

    pub fn head(&mut self, heading: Vec<TextLine>) {
        self.heading = heading;
    }

    pub fn press(&mut self, key: &Key) -> PickerAction {
        match key {
            Key::Escape | Key::Interrupt | Key::End => return PickerAction::Leave,
            Key::Enter => {
                let is_known = self.typed.is_empty() || self.number().is_some();
                let is_there = self.selected < self.rows.len();
                return match is_known && is_there {
                    true => PickerAction::Chosen(self.selected),
                    false => PickerAction::Nothing,
                };
            }
            Key::Up => self.select(self.selected.saturating_sub(1)),
            Key::Down | Key::Tab => self.select(self.selected + 1),
            Key::Char(digit @ '0'..='9') if self.typed.len() < MAX_DIGITS => {
                self.typed.push(*digit)
            }
            Key::Delete(Motion::Left) => _ = self.typed.pop(),
            Key::Delete(_) => self.typed.clear(),
            Key::Char(_) | Key::Paste(_) | Key::NewLine | Key::Steer | Key::Go(_) | Key::Redraw => {
            }
        }
        if let Some(index) = self.number() {
            self.selected = index;
        }
        PickerAction::Nothing
    }

    fn select(&mut self, index: usize) {
        self.typed.clear();
        self.selected = index.min(self.rows.len().saturating_sub(1));
    }

    /// The place of the row whose number is typed.
    fn number(&self) -> Option<usize> {
        let number = self.typed.parse::<usize>().ok()?;
        let index = number.checked_sub(self.first_number)?;
        (index < self.rows.len()).then_some(index)
    }

    /// As many rows as fit, with the selected one among them.
    pub fn draw(&self, width: usize, height: usize, language: Language) -> Drawn {
        let columns = width.saturating_sub(1);
        let room = height.saturating_sub(ROWS_BELOW + 1).max(1);
        let heading = self.heading.iter().flat_map(|line| fitting(line, columns));
        let least = MIN_ROWS.min(self.rows.len()).max(1);
        let heading: Vec<TextLine> = heading.take(room.saturating_sub(least)).collect();
        let room = room - heading.len();
        let first = (self.selected + 1).saturating_sub(room);
        let shown = self.rows.iter().enumerate().skip(first).take(room);
        let mut rows = vec![TextLine::new()];
        rows.extend(heading);
        rows.extend(shown.map(|(index, row)| self.row(index, row)));
        let cursor_row = rows.len();
        let mark = language.text(CommandText::PickPrompt);
        rows.push(TextLine::styled(mark, BOLD).with(&self.typed, Style::PLAIN));
        rows.push(TextLine::styled(&format!("  {}", self.hint), DIM));
        // The last column stays free: some terminals wrap as soon as it is filled.
        let clipped = rows.iter().map(|row| row.clipped(columns));
        Drawn {
            rows: clipped.collect(),
            cursor_row,
            cursor_column: mark.chars().count() + self.typed.len(),
            // What waits for a decision is not on the screen.
            is_readable: false,
        }
    }

    fn row(&self, index: usize, row: &PickerRow) -> TextLine {
        let (mark, style) = match index == self.selected {
            true => ("❯ ", BOLD),
            false => ("  ", Style::PLAIN),
        };
        let mut line = TextLine::styled(mark, BOLD)
            .with(&format!("{:>2}  ", index + self.first_number), style);
        if !row.when.is_empty() {
            line = line.with(&format!("{}  ", row.when), style);
        }
        line = line.with(&row.text, style);
        match row.aside.is_empty() {
            true => line,
            false => line.with(&format!("  {}", row.aside), DIM),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSession {
    pub id: SessionId,
    /// The time of its last event.
    pub when: String,
    pub title: String,
}

/// What a list of sessions says of one without a title.
pub fn title_of(title: Option<String>, language: Language) -> String {
    title.unwrap_or_else(|| language.text(Text::Untitled).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize) -> PickerRow {
        PickerRow {
            when: "2026-11-16 20:27".to_owned(),
            text: format!("title {number}"),
            aside: format!("chat-{number}"),
        }
    }

    fn twelve() -> Picker {
        let mut picker = Picker::new("Enter");
        picker.offer((1..=12).map(row).collect());
        picker
    }

    fn pressed(keys: &[Key]) -> PickerAction {
        let mut picker = twelve();
        let mut last = PickerAction::Nothing;
        for key in keys {
            last = picker.press(key);
        }
        last
    }

    #[test]
    fn arrows_or_a_number_choose_and_nothing_else_is_heard() {
        let open = |number: usize| PickerAction::Chosen(number - 1);
        let text = |text: &str| text.chars().map(Key::Char).collect::<Vec<_>>();
        for (keys, expected) in [
            (vec![Key::Enter], open(1)),
            (vec![Key::Down, Key::Down, Key::Up, Key::Enter], open(2)),
            ([text("12"), vec![Key::Enter]].concat(), open(12)),
            (
                [text("12"), vec![Key::Delete(Motion::Left), Key::Enter]].concat(),
                open(1),
            ),
            (
                [text("99"), vec![Key::Enter]].concat(),
                PickerAction::Nothing,
            ),
            ([text("3 please"), vec![Key::Enter]].concat(), open(3)),
            (vec![Key::Paste("2\n".to_owned()), Key::Enter], open(1)),
            (vec![Key::Down, Key::Escape], PickerAction::Leave),
            (vec![Key::Interrupt], PickerAction::Leave),
        ] {
            assert_eq!(pressed(&keys), expected, "{keys:?}");
        }
        let mut waiting = Picker::new("Enter");
        assert_eq!(waiting.press(&Key::Enter), PickerAction::Nothing);
        let mut from_zero = twelve().numbered_from(0);
        from_zero.press(&Key::Char('3'));
        assert_eq!(from_zero.press(&Key::Enter), PickerAction::Chosen(3));
    }

    #[test]
    fn the_selected_one_is_always_on_the_screen() {
        for height in 1..20 {
            let mut picker = twelve();
            let heading = (0..30).map(|_| TextLine::plain("above"));
            picker.head(heading.collect());
            for number in 1..=12 {
                let drawn = picker.draw(60, height, Language::En);
                let rows: Vec<String> = drawn.rows.iter().map(TextLine::to_text).collect();
                let selected = format!("❯ {number:>2}  ");
                assert!(
                    rows.iter().any(|row| row.starts_with(&selected)),
                    "{rows:?}"
                );
                picker.press(&Key::Down);
            }
        }
    }
}
