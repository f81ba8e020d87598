//! What a key means. Pure: keys and the state go in, an action comes out.
//!
//! A decision must be meant: while a person is writing, keys go on writing. What waits is looked at
//! when the line is empty, or with Tab, which keeps the draft. A paste never decides, and neither
//! does a key that comes before the choices could be read: it writes. A letter that approves waits
//! for a moment: if another one follows it at once, it was the beginning of a text.

use std::time::{Duration, Instant};

use codelab_protocol::{ApprovalKind, CallId, is_declined};

use super::command::SlashCommand;
use super::complete::Unfinished;
use super::editor::{Editor, Motion};
use super::files::ShownFile;
use super::state::{Grant, PendingAsk, ViewState};

/// How long choices are on the screen before a key decides: what is pressed earlier was meant for
/// something else.
pub const READING_TIME: Duration = Duration::from_millis(400);

/// How long nothing may follow a letter that approves.
pub const MEANT_TIME: Duration = Duration::from_millis(400);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Paste(String),
    Enter,
    /// Alt-S.
    Steer,
    NewLine,
    Up,
    Down,
    Go(Motion),
    Delete(Motion),
    Tab,
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    End,
    Redraw,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Nothing,
    Send(String),
    /// For the agents that work now.
    Steer(String),
    /// A command of the person's, without its exclamation mark.
    Run(String),
    Answer {
        call: CallId,
        text: String,
    },
    Decide {
        call: CallId,
        choice: MenuChoice,
    },
    Command(SlashCommand),
    /// Finish what is being named.
    Complete,
    /// Show the next of what waits.
    NextAsk,
    CancelTurn,
    Leave,
    Redraw,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MenuChoice {
    Approve,
    Always,
    Edit,
    Reject(Option<String>),
    /// Everything that was cut from what is shown.
    ViewAll,
}

/// What keys are about now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Focus<'a> {
    Message,
    Answer(&'a PendingAsk),
    Decide(&'a PendingAsk),
    /// Why something is rejected.
    Reason(&'a PendingAsk),
}

#[derive(Debug, Default)]
pub struct Prompt {
    pub editor: Editor,
    /// What was being written when the person turned to what waits.
    draft: Option<String>,
    /// The question that the line is written for. Another text is never its answer.
    answer_for: Option<CallId>,
    reason_for: Option<CallId>,
    /// What is on the screen above its choices.
    shown: Option<ShownAsk>,
    held: Option<HeldLetter>,
    /// Ctrl-C was pressed and nothing since: the next one leaves.
    pub is_leaving: bool,
    /// The key before this one was Escape, on an empty line.
    pub is_escaped: bool,
}

/// What keys are about, exactly as it was drawn.
#[derive(Debug)]
struct ShownAsk {
    ask: PendingAsk,
    before: ShownFile,
    since: Instant,
}

/// A letter that approves, until it is clear that it was meant alone.
#[derive(Debug)]
struct HeldLetter {
    letter: char,
    decision: Action,
    pressed_at: Instant,
    /// When what it is about was drawn.
    shown_since: Instant,
}

impl ShownAsk {
    fn is(&self, ask: &PendingAsk, state: &ViewState) -> bool {
        self.ask == *ask && self.before == *state.before(ask.call_id())
    }
}

impl Prompt {
    pub fn new(history: Vec<String>) -> Self {
        Self {
            editor: Editor::with_history(history),
            ..Self::default()
        }
    }

    pub fn focus<'a>(&self, state: &'a ViewState) -> Focus<'a> {
        if let Some(call) = &self.reason_for
            && let Some(ask) = state.asks.iter().find(|ask| ask.call_id() == call)
        {
            return Focus::Reason(ask);
        }
        match state.asks.first() {
            Some(ask @ PendingAsk::Question(_)) if self.is_for(ask) => Focus::Answer(ask),
            Some(PendingAsk::Question(_)) | None => Focus::Message,
            Some(ask) if self.editor.is_empty() => Focus::Decide(ask),
            Some(_) => Focus::Message,
        }
    }

    fn is_for(&self, question: &PendingAsk) -> bool {
        self.editor.is_empty() || self.answer_for.as_ref() == Some(question.call_id())
    }

    /// Whether a message without an agent would be taken for the answer to a question.
    fn would_answer(&self, state: &ViewState) -> bool {
        let mut asks = state.asks.iter();
        asks.any(|ask| matches!(ask, PendingAsk::Question(_)))
            && SlashCommand::parse(self.editor.text()).is_none()
            && own_command(self.editor.text()).is_none()
    }

    /// Turns to what waits. What was being written comes back afterwards.
    fn put_aside(&mut self) -> Action {
        self.draft = Some(self.editor.discard());
        Action::Nothing
    }

    /// The person has been answered for by an event or somebody else: what belonged to it goes.
    pub fn settle(&mut self, state: &ViewState) {
        if let Some(call) = &self.reason_for
            && !state.asks.iter().any(|ask| ask.call_id() == call)
        {
            self.reason_for = None;
            self.editor.discard();
        }
        if state.asks.is_empty()
            && self.editor.is_empty()
            && let Some(draft) = self.draft.take()
        {
            self.editor.set(draft);
        }
    }

    /// What the screen shows above the choices: what a reason is being written for, or what waits
    /// first.
    pub fn subject<'a>(&self, state: &'a ViewState) -> Option<&'a PendingAsk> {
        match self.focus(state) {
            Focus::Reason(ask) => Some(ask),
            Focus::Message | Focus::Answer(_) | Focus::Decide(_) => state.asks.first(),
        }
    }

    /// There was no room for what keys are about, so they decide nothing.
    pub fn not_drawn(&mut self) {
        self.shown = None;
    }

    /// What keys are about has been drawn. If it is not what was drawn before, it must be read anew.
    pub fn drawn(&mut self, state: &ViewState, now: Instant) {
        let (Focus::Decide(ask) | Focus::Answer(ask)) = self.focus(state) else {
            self.shown = None;
            return;
        };
        if self
            .shown
            .as_ref()
            .is_none_or(|shown| !shown.is(ask, state))
        {
            self.shown = Some(ShownAsk {
                ask: ask.clone(),
                before: state.before(ask.call_id()).clone(),
                since: now,
            });
        }
    }

    /// Whether what waits first has been drawn as it is. Before that, a line that comes cannot be
    /// about it.
    pub fn is_shown(&self, state: &ViewState) -> bool {
        let first = state.asks.first();
        first.is_none_or(|ask| {
            self.shown
                .as_ref()
                .is_some_and(|shown| shown.is(ask, state))
        })
    }

    /// Whether a letter decides now.
    pub fn is_deciding(&self, state: &ViewState, now: Instant) -> bool {
        let Focus::Decide(ask) = self.focus(state) else {
            return false;
        };
        let is_read = |shown: &ShownAsk| {
            shown.is(ask, state) && now.duration_since(shown.since) >= READING_TIME
        };
        self.shown.as_ref().is_some_and(is_read)
    }

    pub fn press(&mut self, key: Key, state: &ViewState, now: Instant) -> Action {
        let held = self.held.take();
        if key == Key::Interrupt {
            return self.interrupt(state);
        }
        self.is_leaving = false;
        if self.editor.is_empty() {
            self.answer_for = match state.asks.first() {
                Some(ask @ PendingAsk::Question(_)) => Some(ask.call_id().clone()),
                Some(_) | None => None,
            };
        }
        let is_second = std::mem::take(&mut self.is_escaped);
        if let Some(held) = held {
            match key {
                Key::Enter => return self.decision_of(held, state),
                Key::Char(_) | Key::Paste(_) => {
                    self.write(Key::Char(held.letter));
                }
                _ => {}
            }
        }
        match (key, self.focus(state)) {
            (Key::Redraw, _) => Action::Redraw,
            (Key::End, _) if self.editor.is_empty() => Action::Leave,
            (Key::End, _) => self.edit(Key::Delete(Motion::Right)),
            (Key::Tab, Focus::Message) if self.is_naming(state) => Action::Complete,
            (Key::Tab, Focus::Message) if !state.asks.is_empty() => self.put_aside(),
            (Key::Tab, Focus::Decide(_) | Focus::Answer(_))
                if self.editor.is_empty() && state.asks.len() > 1 =>
            {
                Action::NextAsk
            }
            (key @ (Key::Char(_) | Key::Paste(_)), Focus::Decide(_))
                if !self.is_deciding(state, now) =>
            {
                self.write(key)
            }
            (Key::Char(choice), Focus::Decide(ask)) => {
                let action = self.choose(choice, ask);
                self.unless_more_follows(choice, action, now)
            }
            (Key::Paste(_) | Key::Enter | Key::Steer | Key::NewLine, Focus::Decide(_)) => {
                Action::Nothing
            }
            (Key::Escape, Focus::Decide(_)) => {
                // Back to what was being written, undecided.
                self.editor.set(self.draft.take().unwrap_or_default());
                Action::Nothing
            }
            (Key::Escape, Focus::Reason(_)) => {
                self.reason_for = None;
                self.editor.discard();
                Action::Nothing
            }
            (Key::Enter, Focus::Answer(_)) if !self.is_shown(state) => Action::Nothing,
            (Key::Enter, Focus::Message) if self.would_answer(state) => self.put_aside(),
            (Key::Enter, focus) => self.enter(focus, Source::Keys),
            (Key::Steer, Focus::Message) if !self.editor.text().trim().is_empty() => {
                Action::Steer(self.editor.take())
            }
            // Twice on an empty line: where to go back to.
            (Key::Escape, Focus::Message) if self.editor.is_empty() && !state.is_working() => {
                self.is_escaped = !is_second;
                match is_second {
                    true => Action::Command(SlashCommand::Rewind(None)),
                    false => Action::Nothing,
                }
            }
            (key, _) => self.edit(key),
        }
    }

    /// Goes on with what was being written before the person looked at what waits.
    fn write(&mut self, key: Key) -> Action {
        if let Some(draft) = self.draft.take() {
            self.editor.set(draft);
        }
        self.edit(key)
    }

    /// Holds back what approves.
    fn unless_more_follows(&mut self, letter: char, decision: Action, now: Instant) -> Action {
        let approves = matches!(
            decision,
            Action::Decide {
                choice: MenuChoice::Approve | MenuChoice::Always,
                ..
            }
        );
        let Some(shown) = self.shown.as_ref().filter(|_| approves) else {
            return decision;
        };
        self.held = Some(HeldLetter {
            letter,
            decision,
            pressed_at: now,
            shown_since: shown.since,
        });
        Action::Nothing
    }

    /// The decision of a letter that nothing followed.
    pub fn due(&mut self, state: &ViewState, now: Instant) -> Action {
        let is_due = |held: &mut HeldLetter| now.duration_since(held.pressed_at) >= MEANT_TIME;
        match self.held.take_if(is_due) {
            Some(held) => self.decision_of(held, state),
            None => Action::Nothing,
        }
    }

    /// Nothing if what was shown has changed since the letter was pressed.
    fn decision_of(&self, held: HeldLetter, state: &ViewState) -> Action {
        let Focus::Decide(ask) = self.focus(state) else {
            return Action::Nothing;
        };
        let is_same = |shown: &ShownAsk| shown.is(ask, state) && shown.since == held.shown_since;
        match self.shown.as_ref().is_some_and(is_same) {
            true => held.decision,
            false => Action::Nothing,
        }
    }

    /// Whether Tab finishes a name. While something waits, only that of a command.
    fn is_naming(&self, state: &ViewState) -> bool {
        match Unfinished::of(self.editor.before_cursor()) {
            Some(Unfinished::Command(_)) => true,
            Some(Unfinished::File(_) | Unfinished::QuotedFile(_)) => state.asks.is_empty(),
            None => false,
        }
    }

    /// A whole line at once, where keys cannot be read.
    pub fn line(&mut self, line: &str, state: &ViewState) -> Action {
        self.is_leaving = false;
        match self.focus(state) {
            Focus::Decide(ask) if SlashCommand::parse(line).is_none() => {
                let (word, rest) = line
                    .trim()
                    .split_once(char::is_whitespace)
                    .unwrap_or((line.trim(), ""));
                let call = ask.call_id().clone();
                let reason = Some(rest.trim().to_owned()).filter(|reason| !reason.is_empty());
                // Whole words only: a request that happens to begin like one decides nothing.
                let (letter, choice) = match (word.to_lowercase().as_str(), reason) {
                    ("n" | "no" | "r" | "reject" | "т" | "нет" | "ні", reason) => {
                        ('n', MenuChoice::Reject(reason))
                    }
                    ("y" | "yes" | "н" | "да" | "так", None) => ('y', MenuChoice::Approve),
                    ("a" | "always" | "ф", None) => ('a', MenuChoice::Always),
                    ("e" | "edit" | "у", None) => ('e', MenuChoice::Edit),
                    ("v" | "view" | "м", None) => ('v', MenuChoice::ViewAll),
                    _ => return Action::Nothing,
                };
                match allowed(ask).contains(&letter) {
                    true => Action::Decide { call, choice },
                    false => Action::Nothing,
                }
            }
            focus => {
                self.editor.set(line.to_owned());
                self.enter(focus, Source::Line)
            }
        }
    }

    /// A letter that is no choice begins a text.
    fn choose(&mut self, letter: char, ask: &PendingAsk) -> Action {
        let call = ask.call_id().clone();
        let choice = choice_letter(letter);
        if !allowed(ask).contains(&choice) {
            return self.write(Key::Char(letter));
        }
        let choice = match choice {
            'y' => MenuChoice::Approve,
            'a' => MenuChoice::Always,
            'e' => MenuChoice::Edit,
            'v' => MenuChoice::ViewAll,
            _ if matches!(ask, PendingAsk::Local(_)) => MenuChoice::Reject(None),
            _ => {
                self.reason_for = Some(call);
                return Action::Nothing;
            }
        };
        Action::Decide { call, choice }
    }

    fn enter(&mut self, focus: Focus<'_>, source: Source) -> Action {
        // A backslash before Enter is a line break, for terminals that know no other way.
        let may_go_on = source == Source::Keys && !matches!(focus, Focus::Reason(_));
        if may_go_on && self.editor.text().ends_with('\\') {
            self.editor.delete(Motion::Left);
            self.editor.insert("\n");
            return Action::Nothing;
        }
        if let Focus::Reason(ask) = focus {
            let reason =
                Some(self.editor.discard().trim().to_owned()).filter(|reason| !reason.is_empty());
            self.reason_for = None;
            return Action::Decide {
                call: ask.call_id().clone(),
                choice: MenuChoice::Reject(reason),
            };
        }
        if self.editor.text().trim().is_empty() {
            self.editor.discard();
            return Action::Nothing;
        }
        // A command is still to come.
        let is_message = source == Source::Keys && matches!(focus, Focus::Message);
        if is_message && self.editor.text().trim_end() == "!" {
            return Action::Nothing;
        }
        let text = match source {
            Source::Keys => self.editor.take(),
            // The lines of a script are not what a person wrote, so nobody recalls them.
            Source::Line => self.editor.discard(),
        };
        if let Focus::Answer(ask @ PendingAsk::Question(question)) = &focus
            && question.server.is_some()
            && is_declined(&text)
        {
            return Action::Answer {
                call: ask.call_id().clone(),
                text,
            };
        }
        if let Some(command) = SlashCommand::parse(&text) {
            return Action::Command(command);
        }
        if source == Source::Keys
            && let Some(command) = own_command(&text)
        {
            return Action::Run(command.to_owned());
        }
        match focus {
            Focus::Answer(ask @ PendingAsk::Question(question)) => Action::Answer {
                call: ask.call_id().clone(),
                text: question.chosen(&text).to_owned(),
            },
            _ => Action::Send(text),
        }
    }

    fn edit(&mut self, key: Key) -> Action {
        match key {
            Key::Char(character) => self.editor.insert(character.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => {
                // What somebody else wrote is never run. The space makes it a message, and stays
                // with it in drafts and in the history.
                if text.starts_with('!') && self.editor.is_at_start() {
                    self.editor.insert(" ");
                }
                self.editor.insert(&text);
            }
            Key::NewLine => self.editor.insert("\n"),
            Key::Up => self.editor.up(),
            Key::Down => self.editor.down(),
            Key::Go(motion) => self.editor.go(motion),
            Key::Delete(motion) => self.editor.delete(motion),
            Key::Enter
            | Key::Steer
            | Key::Tab
            | Key::Escape
            | Key::Interrupt
            | Key::End
            | Key::Redraw => {}
        }
        Action::Nothing
    }

    fn interrupt(&mut self, state: &ViewState) -> Action {
        // What is written goes first, whatever else would end: nobody loses it by leaving.
        if self.reason_for.take().is_some() || !self.editor.is_empty() {
            self.editor.discard();
            self.is_leaving = false;
            return Action::Nothing;
        }
        if self.is_leaving {
            return Action::Leave;
        }
        self.is_leaving = true;
        if state.is_working() || state.is_compacting() {
            Action::CancelTurn
        } else {
            Action::Nothing
        }
    }
}

/// Where a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A person at a terminal wrote it.
    Keys,
    /// A pipe, or a terminal that has no keys to read. It may be anybody's text.
    Line,
}

/// A command of the person's: one line whose very first character is the mark.
fn own_command(text: &str) -> Option<&str> {
    let command = text.strip_prefix('!')?.trim();
    let is_one = !command.is_empty() && !text.contains('\n');
    is_one.then_some(command)
}

/// The letter of a choice, also from the same key of a Russian or Ukrainian keyboard.
fn choice_letter(letter: char) -> char {
    match letter.to_lowercase().next().unwrap_or(letter) {
        'н' => 'y',
        'у' => 'e',
        'т' => 'n',
        'ф' => 'a',
        'м' => 'v',
        other => other,
    }
}

/// The letters that decide about this.
pub fn allowed(ask: &PendingAsk) -> &'static [char] {
    match ask {
        ask if ask.is_forged() => &['n'],
        PendingAsk::Approval(request) if request.approval.kind == ApprovalKind::Tool => {
            match Grant::of(&request.approval) {
                Some(_) => &['y', 'e', 'n', 'a', 'v'],
                None => &['y', 'e', 'n', 'v'],
            }
        }
        PendingAsk::Approval(_) | PendingAsk::Plan(_) => &['y', 'e', 'n', 'v'],
        PendingAsk::Local(_) => &['y', 'n', 'v'],
        PendingAsk::Question(_) => &[],
    }
}

#[cfg(test)]
#[path = "prompt/tests.rs"]
mod tests;
