//! The rows at the bottom that are drawn again and again: the answer being written, the plan,
//! running calls, what waits for the person, the line they write. They never grow past the screen,
//! so nothing of them reaches the scrollback.

use std::collections::VecDeque;
use std::time::Duration;

use codelab_client::{CallView, SessionItem, ToolCallStatus};
use codelab_protocol::{ApprovalKind, ApproveMode, Timestamp, ToolProgress, Usage};

use crate::texts::{CallText, CommandText, RewindText};
use crate::{Language, McpText, Text};

use super::{AGENT, CardRows, MAX_TEXT_COLUMNS, call, name, spent};
use crate::ui::markdown;
use crate::ui::picker::Picker;
use crate::ui::plan::{Drawing, PlanDrawing, is_under_way, short, spinner};
use crate::ui::prompt::{Focus, Prompt, allowed};
use crate::ui::state::{Grant, PendingAsk, ViewState};
use crate::ui::text::{BOLD, Colour, DIM, Style, TextLine, fitting};

const MAX_INPUT_ROWS: usize = 10;
const MAX_CALLS: usize = 5;
const MAX_PLAN_ROWS: usize = 14;
const MAX_ANSWER_ROWS: usize = 16;
/// Of what the choices are about.
const MAX_NAME_COLUMNS: usize = 48;
/// From here on a person wonders whether anything happens.
const SHOWN_QUIET: Duration = Duration::from_secs(5);
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
    /// The person chooses something first.
    pub picker: Option<&'a Picker>,
    pub state: &'a ViewState,
    pub prompt: &'a Prompt,
    /// What waits first, as it stands above its choices.
    pub card: Option<&'a CardRows>,
    /// Whom messages go to, when not to the planner.
    pub target: Option<&'a str>,
    pub connection: ConnectionState,
    /// A message on its way to the server.
    pub is_sending: bool,
    /// A command of the person's that has not ended.
    pub is_running: bool,
    /// Whether a letter decides. Before that it is text.
    pub is_deciding: bool,
    /// The model that answered last, and how many tokens it had before it.
    pub model: Option<&'a str>,
    pub context_tokens: Option<u64>,
    /// The window of that model in tokens, where it is known.
    pub window: Option<u64>,
    /// A summary is being written that a person asked for.
    /// Pasted images that the line names.
    pub images: Vec<String>,
    /// Of the whole session, as the server counts.
    pub spent: Option<Usage>,
    pub frame: usize,
    /// How long nothing has come from the server.
    pub quiet: Duration,
    pub now: Timestamp,
}

/// Rows that each fit the width, and where the cursor goes.
#[derive(Debug, PartialEq, Eq)]
pub struct Drawn {
    pub rows: Vec<TextLine>,
    pub cursor_row: usize,
    pub cursor_column: usize,
    /// Whether enough of what waits is among the rows for a person to decide about it.
    pub is_readable: bool,
}

impl Live<'_> {
    pub fn draw(&self, width: usize, height: usize) -> Drawn {
        if let Some(picker) = self.picker {
            return picker.draw(width, height, self.language());
        }
        let (input, cursor_row, cursor_column) = self.input(width, height);
        let mut below = input;
        below.extend(self.attached());
        below.push(self.status(width.saturating_sub(1)));
        let room = height.saturating_sub(below.len() + 1);
        let (mut rows, is_readable) = self.above(width, room);
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
            is_readable,
        }
    }

    fn language(&self) -> Language {
        self.state.language
    }

    /// What the person can choose now, as a line, where there are no live rows.
    pub fn choice(&self) -> Option<String> {
        match self.prompt.focus(self.state) {
            Focus::Decide(ask) => {
                let parts = self.letters(ask);
                let parts: Vec<String> = parts.iter().map(TextLine::to_text).collect();
                Some(format!("[{}] {}", ask.call_id(), parts.join("  ")))
            }
            Focus::Answer(ask) => Some(format!(
                "[{}] {}",
                ask.call_id(),
                self.language()
                    .text(answer_prompt(ask))
                    .trim_end_matches([' ', '›'])
            )),
            Focus::Message | Focus::Reason(_) => None,
        }
    }

    /// What waits, where there are no live rows.
    pub fn card_lines(&self) -> Vec<TextLine> {
        let card = self
            .card
            .map(|card| card.within(usize::MAX, self.language()).0);
        let mut lines = card.unwrap_or_default();
        lines.insert(0, TextLine::new());
        lines
    }

    /// What happens, the newest last. The oldest rows are dropped first.
    fn above(&self, width: usize, room: usize) -> (Vec<TextLine>, bool) {
        // The first row of the choices says what they are about.
        let mut asking = self.asking(width.saturating_sub(1));
        let is_cut = asking.len() > room;
        asking.truncate(room);
        let left = room - asking.len();
        let (shown, is_readable) = match self.card {
            Some(card) => card.within(left, self.language()),
            None => (Vec::new(), true),
        };
        let is_readable = is_readable && !is_cut;
        if let (false, Focus::Decide(ask)) = (is_readable, self.prompt.focus(self.state)) {
            // Letters decide nothing now, so none is offered.
            let text = self.language().text(Text::TooLow);
            let row = self.named(ask).with(&format!(" {text}"), BOLD);
            let rows = fitting(&row, width.saturating_sub(1));
            asking = rows.into_iter().take(asking.len()).collect();
        }
        let left = left.saturating_sub(shown.len());
        let mut rows = tail(self.answer(width), room.min(MAX_ANSWER_ROWS));
        rows.extend(self.plan());
        rows.extend(self.calls());
        rows.extend(self.running());
        if rows.is_empty() {
            rows.extend(self.working());
        }
        // What waits stands between what happens and its choices, with nothing between.
        let waits = !asking.is_empty() || !shown.is_empty();
        if waits && !rows.is_empty() {
            rows.push(TextLine::new());
        }
        let mut rows = tail(rows, left);
        rows.extend(shown);
        rows.extend(asking);
        (rows, is_readable)
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
        match self.state.plan() {
            Some(view) if self.state.is_working() && is_under_way(view) => {
                let language = self.language();
                let drawing = PlanDrawing { view, language };
                let mut rows = vec![drawing.heading()];
                let tree = drawing.tree(Drawing::Brief { frame: self.frame });
                let hidden = tree.len().saturating_sub(MAX_PLAN_ROWS);
                rows.extend(tree.into_iter().take(MAX_PLAN_ROWS));
                if hidden > 0 {
                    rows.push(TextLine::styled(
                        &language.with(Text::MoreTasks, &[&hidden.to_string()]),
                        DIM,
                    ));
                }
                rows
            }
            _ => Vec::new(),
        }
    }

    fn calls(&self) -> Vec<TextLine> {
        let row = |open: &CallView| {
            let mut row = TextLine::styled(&format!("  {} ", spinner(self.frame)), WORKING);
            row.extend(call::task_mark(open.origin.task_id.as_ref()));
            row.extend(call::title(
                &open.call,
                open.mcp.as_deref(),
                self.language(),
            ));
            if let Some(progress) = &open.progress {
                row = row.with(&format!(" · {}", progress_text(progress)), DIM);
            }
            if open.status == ToolCallStatus::AwaitingClient {
                let text = self.language().text(CallText::WaitsForClient);
                row.with(&format!(" · {text}"), DIM)
            } else {
                row
            }
        };
        let open: Vec<&CallView> = match self.state.is_working() {
            true => self.state.view.items().filter_map(running).collect(),
            false => Vec::new(),
        };
        let mut rows: Vec<TextLine> = open.iter().take(MAX_CALLS).copied().map(row).collect();
        let hidden = open.len().saturating_sub(MAX_CALLS);
        if hidden > 0 {
            let more = self.language().with(Text::AndMore, &[&hidden.to_string()]);
            rows.push(TextLine::styled(&format!("    {more}"), DIM));
        }
        rows
    }

    fn running(&self) -> Option<TextLine> {
        let text = self.language().text(CommandText::CommandWorks);
        let row = TextLine::styled(&format!("  {} ", spinner(self.frame)), WORKING);
        self.is_running.then(|| row.with(text, DIM))
    }

    fn working(&self) -> Option<TextLine> {
        if !self.state.asks.is_empty() {
            return None;
        }
        let language = self.language();
        let what = match (self.state.is_working(), self.state.view.agent()) {
            (false, _) if self.is_sending => language.text(Text::Sending).to_owned(),
            (false, _) if self.state.is_compacting() => {
                language.text(CommandText::Compacting).to_owned()
            }
            (false, _) => return None,
            (true, Some(agent)) => language.with(Text::Works, &[short(agent)]),
            (true, None) => language.text(Text::Planning).to_owned(),
        };
        let row = TextLine::styled(&format!("  {} ", spinner(self.frame)), WORKING);
        let since = match self.quiet >= SHOWN_QUIET {
            true => language.with(CommandText::Seconds, &[&self.quiet.as_secs().to_string()]),
            false => String::new(),
        };
        Some(row.with(&format!("{what}{since}"), DIM))
    }

    /// The choices, when something waits.
    fn asking(&self, width: usize) -> Vec<TextLine> {
        match self.prompt.focus(self.state) {
            Focus::Answer(_) if self.state.asks.len() > 1 => {
                let more = (self.state.asks.len() - 1).to_string();
                let text = self.language().with(Text::MoreWaits, &[&more]);
                fitting(&TextLine::styled(&text, DIM), width)
            }
            Focus::Decide(ask) => self.choices(ask, width),
            Focus::Message if !self.state.asks.is_empty() => {
                let text = self.language().text(Text::SomethingWaits);
                fitting(&TextLine::styled(text, BOLD), width)
            }
            Focus::Message | Focus::Answer(_) | Focus::Reason(_) => Vec::new(),
        }
    }

    /// Rows are broken between choices.
    fn choices(&self, ask: &PendingAsk, width: usize) -> Vec<TextLine> {
        let mut parts = self.letters(ask);
        if let Some(at) = ask.expires_at() {
            let left = time_left(at, self.now);
            let left = self.language().with(Text::TimeLeft, &[&left]);
            parts.push(TextLine::styled(&left, DIM));
        }
        let mut rows = vec![TextLine::new()];
        for part in parts {
            match rows.last_mut() {
                Some(row) if row.width() == 0 => row.extend(part),
                Some(row) if row.width() + 2 + part.width() <= width => {
                    row.extend(TextLine::plain("  "));
                    row.extend(part);
                }
                _ => rows.push(part),
            }
        }
        rows
    }

    /// What is to be decided, and the letters that do.
    fn letters(&self, ask: &PendingAsk) -> Vec<TextLine> {
        let mut parts = vec![self.named(ask)];
        for letter in allowed(ask) {
            let language = self.language();
            let word = match letter {
                'y' => language.text(Text::KeyApprove),
                'e' => language.text(Text::KeyEdit),
                'n' => language.text(Text::KeyReject),
                'a' => always(ask, language),
                _ => language.text(Text::KeyView),
            };
            let word = format!(" {word}");
            parts.push(TextLine::styled(&letter.to_string(), BOLD).with(&word, Style::PLAIN));
        }
        let waiting = self.state.asks.len();
        if waiting > 1 {
            let count = self.language().with(Text::OneOf, &[&waiting.to_string()]);
            parts.push(TextLine::styled(&count, DIM));
        }
        parts
    }

    fn named(&self, ask: &PendingAsk) -> TextLine {
        let subject = TextLine::plain(&self.subject(ask)).clipped(MAX_NAME_COLUMNS);
        subject.with(":", Style::PLAIN)
    }

    /// What the choices are about.
    fn subject(&self, ask: &PendingAsk) -> String {
        let language = self.language();
        match ask {
            PendingAsk::Approval(request) if request.approval.kind == ApprovalKind::Budget => {
                language.text(Text::Budget).to_owned()
            }
            PendingAsk::Approval(request) => {
                let approval = &request.approval;
                let mcp = approval.mcp.as_deref();
                name(&approval.tool_name, mcp, &approval.arguments, language)
            }
            PendingAsk::Plan(_) => language.text(Text::Plan).to_owned(),
            PendingAsk::Question(question) => short(&question.agent).to_owned(),
            PendingAsk::Local(local) => name(
                &local.tool.name(),
                local.tool.mcp(),
                &local.arguments,
                language,
            ),
        }
    }

    fn input(&self, width: usize, height: usize) -> (Vec<TextLine>, usize, usize) {
        let mark = match self.prompt.focus(self.state) {
            Focus::Answer(ask) => self.language().text(answer_prompt(ask)),
            Focus::Reason(_) => self.language().text(Text::ReasonPrompt),
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

    /// What goes along with the line besides its text.
    fn attached(&self) -> Option<TextLine> {
        let names = self.images.join(", ");
        let text = self.language().with(CommandText::ImagesGoAlong, &[&names]);
        (!self.images.is_empty()).then(|| TextLine::styled(&format!("  {text}"), DIM))
    }

    /// `42 % of 128k`, or the tokens alone where nobody knows the window.
    fn context(&self) -> Option<String> {
        let (language, tokens) = (self.language(), self.context_tokens?);
        let Some(window) = self.window.filter(|window| *window > 0) else {
            return Some(language.with(CommandText::Context, &[&language.grouped(tokens)]));
        };
        let percent = tokens.saturating_mul(100).div_ceil(window).to_string();
        Some(language.with(CommandText::ContextShare, &[&percent, &rounded(window)]))
    }

    /// In a narrow terminal the facts about the model give way to what a key does.
    fn status(&self, width: usize) -> TextLine {
        if self.prompt.is_leaving {
            let hint = self.language().text(Text::LeaveHint);
            return TextLine::styled(&format!("  {hint}"), BOLD);
        }
        if self.prompt.is_escaped && !self.state.is_working() {
            let hint = self.language().text(RewindText::EscapeHint);
            return TextLine::styled(&format!("  {hint}"), DIM);
        }
        let language = self.language();
        let mut first = Vec::new();
        if self.connection == ConnectionState::Reconnecting {
            first.push(language.text(Text::Reconnecting).to_owned());
        }
        first.push(match self.target {
            Some(agent) => language.with(Text::Target, &[agent]),
            None => language.text(Text::Planned).to_owned(),
        });
        if self.state.approve == ApproveMode::Edits {
            first.push(language.text(CommandText::EditsPass).to_owned());
        }
        let is_at_work = self.state.is_working() || self.state.is_compacting();
        let hint = match is_at_work {
            true => language.text(Text::CancelHint),
            false => "/help",
        };
        let spent = self.spent.as_ref().map(|usage| spent(usage, language));
        let facts = [self.model.map(str::to_owned), self.context(), spent];
        let mut facts: VecDeque<String> = facts.into_iter().flatten().collect();
        loop {
            let parts = first.iter().chain(&facts).map(String::as_str);
            let parts: Vec<&str> = parts.chain([hint]).collect();
            let line = TextLine::styled(&format!("  {}", parts.join(" · ")), DIM);
            if line.width() <= width || facts.pop_front().is_none() {
                return line;
            }
        }
    }
}

/// A call that is drawn while it runs.
fn running(item: &SessionItem) -> Option<&CallView> {
    match item {
        SessionItem::Call(call) if call.status.is_running() => Some(call),
        SessionItem::Call(_)
        | SessionItem::Message(_)
        | SessionItem::Question(_)
        | SessionItem::Plan(_)
        | SessionItem::Budget(_)
        | SessionItem::Error(_)
        | SessionItem::Note(_) => None,
    }
}

/// Says so where the answer can be one of the options.
fn answer_prompt(ask: &PendingAsk) -> Text {
    match ask {
        PendingAsk::Question(question) if !question.options.is_empty() => Text::OptionPrompt,
        PendingAsk::Question(_)
        | PendingAsk::Approval(_)
        | PendingAsk::Plan(_)
        | PendingAsk::Local(_) => Text::AnswerPrompt,
    }
}

/// What "always" would allow.
fn always(ask: &PendingAsk, language: Language) -> &'static str {
    let grant = match ask {
        PendingAsk::Approval(request) => Grant::of(&request.approval),
        PendingAsk::Plan(_) | PendingAsk::Question(_) | PendingAsk::Local(_) => None,
    };
    match grant {
        Some(Grant::FileWrites) => language.text(CallText::KeyAlwaysWrites),
        Some(Grant::SameTool) => language.text(McpText::KeyAlways),
        Some(Grant::SameCommand) | None => language.text(CallText::KeyAlwaysCommand),
    }
}

/// How far a call is, in the words of its server.
fn progress_text(progress: &ToolProgress) -> String {
    let total = progress.total.map(|total| format!("/{total}"));
    let message = progress.message.as_deref().unwrap_or_default();
    format!(
        "{}{} {message}",
        progress.progress,
        total.unwrap_or_default()
    )
    .trim_end()
    .to_owned()
}

/// `128k` and `1M` as people say them; an odd window keeps its digits.
fn rounded(tokens: u64) -> String {
    match tokens {
        1_000_000.. if tokens % 1_000_000 < 50_000 => format!("{}M", tokens / 1_000_000),
        1_000.. => format!("{}k", tokens / 1_000),
        _ => tokens.to_string(),
    }
}

/// Minutes and seconds.
pub fn time_left(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.millis_since(now) / 1000;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn tail(rows: Vec<TextLine>, room: usize) -> Vec<TextLine> {
    let skipped = rows.len().saturating_sub(room);
    rows.into_iter().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn a_window_is_said_as_people_say_it() {
        for (tokens, said) in [
            (128_000, "128k"),
            (8_192, "8k"),
            (1_000_000, "1M"),
            (1_047_576, "1M"),
            (1_500_000, "1500k"),
            (512, "512"),
        ] {
            assert_eq!(rounded(tokens), said);
        }
    }
}
