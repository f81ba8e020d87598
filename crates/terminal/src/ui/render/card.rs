//! What waits for the person as rows of one width, and as much of it as fits above the choices.

use codelab_client::PlanView;

use crate::{Language, Text};

use super::{MAX_TEXT_COLUMNS, approval, block, plan_notes, plan_rows};
use crate::ui::block::Block;
use crate::ui::plan::Drawing;
use crate::ui::text::{BOLD, TextLine, fitting};

/// More is cut until the person asks for all of it.
const MAX_SHOWN_LINES: usize = 80;

/// Made once for a width, because it is drawn many times a second.
#[derive(Debug, Default)]
pub struct CardRows {
    /// Who asks for what.
    pub(super) head: Vec<TextLine>,
    /// What would happen. It is cut first.
    pub(super) body: Vec<TextLine>,
    /// What the policy says about single parts. They are cut when one row of the body is left.
    pub(super) notes: Vec<TextLine>,
    /// The policy's reason and warnings. They are never cut.
    pub(super) below: Vec<TextLine>,
}

impl CardRows {
    pub fn of(blocks: &[Block], width: usize, language: Language) -> Self {
        let mut rows = Self::default();
        for found in blocks {
            match found {
                Block::Approval(shown) => {
                    approval::add_rows(shown, width.min(MAX_TEXT_COLUMNS), language, &mut rows);
                }
                Block::PlanProposed { plan, reason } => {
                    rows.add_plan(plan, reason, width, language);
                }
                other => {
                    let lines = block(other, width, language);
                    let lines = lines.iter().skip_while(|row| row.is_blank());
                    let mut lines = lines.flat_map(|row| fitting(row, width));
                    rows.head.extend(lines.next());
                    match other {
                        Block::Question { .. } => rows.body.extend(lines),
                        _ => rows.head.extend(lines),
                    }
                }
            }
        }
        rows
    }

    fn add_plan(&mut self, plan: &PlanView, reason: &str, width: usize, language: Language) {
        let drawing = Drawing::Brief { frame: 0 };
        let rows = plan_rows(plan, drawing, width, language);
        let mut rows = rows.iter().flat_map(|row| fitting(row, width));
        self.head.extend(rows.next());
        self.body.extend(rows);
        let notes = plan_notes(plan, reason, language);
        self.below
            .extend(notes.iter().flat_map(|row| fitting(row, width)));
    }

    /// At most `room` rows, and whether a person can decide about them: who asks, every warning and
    /// a part of what would happen are among them. A row says how many are missing.
    pub fn within(&self, room: usize, language: Language) -> (Vec<TextLine>, bool) {
        let fixed = self.head.len() + self.below.len();
        let left = room.saturating_sub(fixed);
        let inner = self.body.len() + self.notes.len();
        let is_whole = self.body.len() <= MAX_SHOWN_LINES && inner <= left;
        let (body, notes) = if is_whole {
            (self.body.len(), self.notes.len())
        } else {
            let rows = left.saturating_sub(1);
            let notes = self.notes.len().min(rows.saturating_sub(1));
            let body = self.body.len().min(MAX_SHOWN_LINES).min(rows - notes);
            (body, notes)
        };
        let is_readable = fixed + usize::from(!is_whole) <= room
            && (body > 0 || self.body.is_empty())
            && room > 0;
        let mut lines = self.head.clone();
        if !is_readable {
            lines.extend(self.below.iter().cloned());
            lines.truncate(room.saturating_sub(1));
            let hidden = fixed + inner - lines.len();
            lines.extend((room > 0).then(|| more(hidden, language)));
            return (lines, false);
        }
        lines.extend(self.body.iter().take(body).cloned());
        let hidden = inner - body - notes;
        lines.extend((hidden > 0).then(|| more(hidden, language)));
        lines.extend(self.notes.iter().take(notes).cloned());
        lines.extend(self.below.iter().cloned());
        (lines, true)
    }
}

fn more(hidden: usize, language: Language) -> TextLine {
    let more = language.with(Text::MoreLines, &[&hidden.to_string()]);
    TextLine::styled(&format!("  {more}"), BOLD)
}
