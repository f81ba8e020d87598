//! The choice of an earlier session. Pure: keys go in, an action comes out. Nothing that is typed
//! here becomes a message.

use codelab_protocol::SessionId;

use crate::texts::CommandText;
use crate::{Language, Text};

use super::editor::Motion;
use super::prompt::Key;
use super::render::Drawn;
use super::text::{BOLD, DIM, Style, TextLine};

/// Of a number that is typed.
const MAX_DIGITS: usize = 3;
/// The row of the number and the row of the keys.
const ROWS_BELOW: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSession {
    pub id: SessionId,
    /// The time of its last event.
    pub when: String,
    pub title: String,
}

#[derive(Debug, Default)]
pub struct SessionPicker {
    /// Empty until the server has answered.
    sessions: Vec<ListedSession>,
    selected: usize,
    typed: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum PickerAction {
    Nothing,
    Open(SessionId),
    Leave,
}

impl SessionPicker {
    pub fn offer(&mut self, sessions: Vec<ListedSession>) {
        self.sessions = sessions;
    }

    pub fn press(&mut self, key: &Key) -> PickerAction {
        match key {
            Key::Escape | Key::Interrupt | Key::End => return PickerAction::Leave,
            Key::Enter => {
                let is_known = self.typed.is_empty() || self.number().is_some();
                let chosen = self.sessions.get(self.selected).filter(|_| is_known);
                return chosen.map_or(PickerAction::Nothing, |session| {
                    PickerAction::Open(session.id.clone())
                });
            }
            Key::Up => self.select(self.selected.saturating_sub(1)),
            Key::Down | Key::Tab => self.select(self.selected + 1),
            Key::Char(digit @ '0'..='9') if self.typed.len() < MAX_DIGITS => {
                self.typed.push(*digit)
            }
            Key::Delete(Motion::Left) => _ = self.typed.pop(),
            Key::Delete(_) => self.typed.clear(),
            Key::Char(_) | Key::Paste(_) | Key::Steer | Key::NewLine | Key::Go(_) | Key::Redraw => {
            }
        }
        if let Some(index) = self.number() {
            self.selected = index;
        }
        PickerAction::Nothing
    }

    fn select(&mut self, index: usize) {
        self.typed.clear();
        self.selected = index.min(self.sessions.len().saturating_sub(1));
    }

    /// The place of the session whose number is typed.
    fn number(&self) -> Option<usize> {
        let index = self.typed.parse::<usize>().ok()?.checked_sub(1)?;
        (index < self.sessions.len()).then_some(index)
    }

    /// As many sessions as fit, with the selected one among them.
    pub fn draw(&self, width: usize, height: usize, language: Language) -> Drawn {
        let room = height.saturating_sub(ROWS_BELOW + 1).max(1);
        let first = (self.selected + 1).saturating_sub(room);
        let shown = self.sessions.iter().enumerate().skip(first).take(room);
        let mut rows = vec![TextLine::new()];
        rows.extend(shown.map(|(index, session)| self.row(index, session)));
        let cursor_row = rows.len();
        let mark = language.text(CommandText::PickPrompt);
        rows.push(TextLine::styled(mark, BOLD).with(&self.typed, Style::PLAIN));
        let hint = language.text(CommandText::PickHint);
        rows.push(TextLine::styled(&format!("  {hint}"), DIM));
        // The last column stays free: some terminals wrap as soon as it is filled.
        let clipped = rows.iter().map(|row| row.clipped(width.saturating_sub(1)));
        Drawn {
            rows: clipped.collect(),
            cursor_row,
            cursor_column: mark.chars().count() + self.typed.len(),
            is_readable: true,
        }
    }

    fn row(&self, index: usize, session: &ListedSession) -> TextLine {
        let (mark, style) = match index == self.selected {
            true => ("❯ ", BOLD),
            false => ("  ", Style::PLAIN),
        };
        TextLine::styled(mark, BOLD)
            .with(&format!("{:>2}  {}  ", index + 1, session.when), style)
            .with(&session.title, style)
            .with(&format!("  {}", session.id), DIM)
    }
}

/// What a list of sessions says of one without a title.
pub fn title_of(title: Option<String>, language: Language) -> String {
    title.unwrap_or_else(|| language.text(Text::Untitled).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: usize) -> ListedSession {
        ListedSession {
            id: SessionId::parse(&format!("chat-{number}")).unwrap(),
            when: "2026-11-16 20:27".to_owned(),
            title: format!("title {number}"),
        }
    }

    fn pressed(keys: &[Key]) -> PickerAction {
        let mut picker = SessionPicker::default();
        picker.offer((1..=12).map(session).collect());
        let mut last = PickerAction::Nothing;
        for key in keys {
            last = picker.press(key);
        }
        last
    }

    #[test]
    fn arrows_or_a_number_choose_and_nothing_else_is_heard() {
        let open = |number: usize| PickerAction::Open(session(number).id);
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
        let mut waiting = SessionPicker::default();
        assert_eq!(waiting.press(&Key::Enter), PickerAction::Nothing);
    }

    #[test]
    fn the_selected_one_is_always_on_the_screen() {
        for height in 1..20 {
            let mut picker = SessionPicker::default();
            picker.offer((1..=12).map(session).collect());
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
