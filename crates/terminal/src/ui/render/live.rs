//! The rows at the bottom that are drawn again and again: the answer being written, the plan,
//! running calls, what waits for the person, the line they write. They never grow past the screen,
//! so nothing of them reaches the scrollback.

use codelab_protocol::{Timestamp, Usage};

use super::{AGENT, MAX_TEXT_COLUMNS, call, spent};
use crate::ui::markdown;
use crate::ui::plan::{Drawing, short, spinner};
use crate::ui::prompt::{Focus, Prompt, allowed};
use crate::ui::state::{PendingAsk, TurnView, ViewState};
use crate::ui::text::{BOLD, Colour, DIM, Style, TextLine};

const MAX_INPUT_ROWS: usize = 10;
const MAX_CALLS: usize = 5;
const MAX_PLAN_ROWS: usize = 14;
const MAX_ANSWER_ROWS: usize = 16;
const WORKING: Style = Style::colour(Colour::Cyan);

/// How things stand with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConnectionState {
    #[default]
    Live,
    Reconnecting,
}

/// Everything the live rows are made of.
#[derive(Debug)]
pub struct Live<'a> {
    pub state: &'a ViewState,
    pub prompt: &'a Prompt,
    /// Whom messages go to, when not to the planner.
    pub target: Option<&'a str>,
    pub connection: ConnectionState,
    /// A message on its way to the server.
    pub is_sending: bool,
    /// Whether a letter decides about what waits; before that it writes.
    pub is_deciding: bool,
    /// Of the whole session, as the server counts.
    pub spent: Option<Usage>,
    pub frame: usize,
    pub now: Timestamp,
}

/// Rows that each fit the width, and where the cursor goes.
#[derive(Debug, PartialEq, Eq)]
pub struct Drawn {
    pub rows: Vec<TextLine>,
    pub cursor_row: usize,
    pub cursor_column: usize,
}

impl Live<'_> {
    pub fn draw(&self, width: usize, height: usize) -> Drawn {
        let (input, cursor_row, cursor_column) = self.input(width, height);
        let mut below = input;
        below.push(self.status());
        let room = height.saturating_sub(below.len() + 1);
        let mut rows = self.above(width, room);
        if rows.len() < room {
            rows.insert(0, TextLine::new());
        }
        let cursor_row = rows.len() + cursor_row;
        rows.extend(below);
        // The last column stays free: some terminals wrap as soon as it is filled.
        let rows = rows
            .iter()
            .map(|row| row.clipped(width.saturating_sub(1)))
            .collect();
        Drawn {
            rows,
            cursor_row,
            cursor_column,
        }
    }

    /// What the person can choose now, as a line, where there are no live rows.
    pub fn choice(&self) -> Option<String> {
        match self.prompt.focus(self.state) {
            Focus::Decide(ask) => Some(format!(
                "[{}] {}",
                ask.call_id(),
                self.letters(ask).to_text().trim_end()
            )),
            Focus::Answer(ask) => Some(format!("[{}] answer:", ask.call_id())),
            Focus::Message | Focus::Reason(_) => None,
        }
    }

    /// What happens, the newest last; the oldest rows give way.
    fn above(&self, width: usize, room: usize) -> Vec<TextLine> {
        let mut rows = tail(self.answer(width), room.min(MAX_ANSWER_ROWS));
        rows.extend(self.plan());
        rows.extend(self.calls());
        if rows.is_empty() {
            rows.extend(self.working());
        }
        let mut asking = self.asking();
        if !asking.is_empty() && !rows.is_empty() {
            rows.push(TextLine::new());
        }
        rows.append(&mut asking);
        tail(rows, room)
    }

    fn answer(&self, width: usize) -> Vec<TextLine> {
        let Some(writing) = &self.state.answer else {
            return Vec::new();
        };
        let piece = writing.stream.rest();
        let mut lines =
            markdown::lines(&piece.source, width.saturating_sub(1).min(MAX_TEXT_COLUMNS));
        if !writing.stream.is_begun() && !lines.is_empty() {
            lines.insert(0, TextLine::styled(short(&writing.agent), AGENT));
        }
        lines
    }

    fn plan(&self) -> Vec<TextLine> {
        match &self.state.plan {
            Some(view) if self.state.is_working() && view.is_under_way() => {
                let mut rows = vec![view.heading()];
                let tree = view.tree(Drawing::Brief { frame: self.frame });
                let hidden = tree.len().saturating_sub(MAX_PLAN_ROWS);
                rows.extend(tree.into_iter().take(MAX_PLAN_ROWS));
                if hidden > 0 {
                    rows.push(TextLine::styled(
                        &format!("… {hidden} more tasks; /plan shows all"),
                        DIM,
                    ));
                }
                rows
            }
            _ => Vec::new(),
        }
    }

    fn calls(&self) -> Vec<TextLine> {
        let row = |open: &crate::ui::state::OpenCallView| {
            let mut row = TextLine::styled(&format!("  {} ", spinner(self.frame)), WORKING);
            row.extend(call::task_mark(open.task.as_ref()));
            row.extend(call::title(&open.call));
            if open.is_attended {
                row
            } else {
                row.with(" · waits for a client", DIM)
            }
        };
        let mut rows: Vec<TextLine> = self.state.calls.iter().take(MAX_CALLS).map(row).collect();
        let hidden = self.state.calls.len().saturating_sub(MAX_CALLS);
        if hidden > 0 {
            rows.push(TextLine::styled(&format!("    … and {hidden} more"), DIM));
        }
        rows
    }

    fn working(&self) -> Option<TextLine> {
        let is_blocked = !self.state.asks.is_empty();
        let what = match &self.state.turn {
            _ if is_blocked => return None,
            TurnView::Idle if self.is_sending => "sending".to_owned(),
            TurnView::Idle => return None,
            TurnView::Working { agent: Some(agent) } => format!("{} works", short(agent)),
            TurnView::Working { agent: None } => "planning".to_owned(),
        };
        Some(TextLine::styled(&format!("  {} ", spinner(self.frame)), WORKING).with(&what, DIM))
    }

    /// The choices, when something waits.
    fn asking(&self) -> Vec<TextLine> {
        match self.prompt.focus(self.state) {
            Focus::Decide(ask) => vec![self.choices(ask)],
            Focus::Message if !self.state.asks.is_empty() => {
                vec![TextLine::styled(
                    "Something waits for your decision: Tab looks at it and keeps your draft",
                    BOLD,
                )]
            }
            Focus::Message | Focus::Answer(_) | Focus::Reason(_) => Vec::new(),
        }
    }

    fn choices(&self, ask: &PendingAsk) -> TextLine {
        let line = self.letters(ask);
        match expiry(ask) {
            Some(at) => {
                let seconds = at.millis_since(self.now) / 1000;
                line.with(&format!("{}:{:02} left", seconds / 60, seconds % 60), DIM)
            }
            None => line,
        }
    }

    fn letters(&self, ask: &PendingAsk) -> TextLine {
        let mut line = TextLine::new();
        for letter in allowed(ask) {
            let word = match letter {
                'y' => "approve",
                'e' => "edit",
                'n' => "reject",
                'a' => "always this session",
                _ => "view all",
            };
            line = line
                .with(&letter.to_string(), BOLD)
                .with(&format!(" {word}  "), Style::PLAIN);
        }
        let waiting = self.state.asks.len();
        if waiting > 1 {
            line = line.with(&format!("1 of {waiting}  "), DIM);
        }
        line
    }

    fn input(&self, width: usize, height: usize) -> (Vec<TextLine>, usize, usize) {
        let mark = match self.prompt.focus(self.state) {
            Focus::Answer(_) => "answer › ",
            Focus::Reason(_) => "why not (Enter: no reason, Esc: back) › ",
            Focus::Decide(_) if self.is_deciding => "? ",
            Focus::Decide(_) | Focus::Message => "› ",
        };
        let indent = mark.chars().count();
        let layout = self.prompt.editor.layout(width.saturating_sub(indent + 1));
        let shown = MAX_INPUT_ROWS.min(height.saturating_sub(3)).max(1);
        let first = (layout.cursor_row + 1).saturating_sub(shown);
        let rows = layout
            .rows
            .iter()
            .enumerate()
            .skip(first)
            .take(shown)
            .map(|(index, row)| {
                let start = if index == 0 {
                    mark.to_owned()
                } else {
                    " ".repeat(indent)
                };
                TextLine::styled(&start, AGENT).with(row, Style::PLAIN)
            });
        (
            rows.collect(),
            layout.cursor_row - first,
            indent + layout.cursor_column,
        )
    }

    fn status(&self) -> TextLine {
        if self.prompt.is_leaving {
            return TextLine::styled("  Ctrl-C again leaves; the session is kept", BOLD);
        }
        let mut parts = Vec::new();
        if self.connection == ConnectionState::Reconnecting {
            parts.push("reconnecting…".to_owned());
        }
        parts.push(match self.target {
            Some(agent) => format!("to {agent}"),
            None => "planned".to_owned(),
        });
        parts.extend(self.spent.map(spent));
        parts.push(
            if self.state.is_working() {
                "Ctrl-C cancels"
            } else {
                "/help"
            }
            .to_owned(),
        );
        TextLine::styled(&format!("  {}", parts.join(" · ")), DIM)
    }
}

fn expiry(ask: &PendingAsk) -> Option<Timestamp> {
    match ask {
        PendingAsk::Approval(request) => request.approval.expires_at,
        PendingAsk::Plan(request) => request.approval.expires_at,
        PendingAsk::Question(_) | PendingAsk::Local(_) => None,
    }
}

fn tail(rows: Vec<TextLine>, room: usize) -> Vec<TextLine> {
    let skipped = rows.len().saturating_sub(room);
    rows.into_iter().skip(skipped).collect()
}
