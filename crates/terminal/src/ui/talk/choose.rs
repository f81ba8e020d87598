//! Lists that the person chooses from: a session when the chat starts, a message to go back to or to
//! fork before, and what to take back.

use codelab_protocol::{MessageId, RewindScope, RewindSession, RewoundFiles, SessionId};

use crate::texts::{CommandText, RewindText};

use super::{Leaving, Talk};
use crate::ui::block::Block;
use crate::ui::picker::{ListedSession, Picker, PickerAction, PickerRow};
use crate::ui::prompt::Key;
use crate::ui::requests::RequestOutcome;
use crate::ui::rewind::SaidMessage;
use crate::ui::text::{DIM, TextLine};
use crate::ui::{fork, rewind, sessions};

/// What can be taken back, in the order of the list.
const SCOPES: [(RewindScope, RewindText); 3] = [
    (RewindScope::Both, RewindText::FilesAndConversation),
    (RewindScope::Files, RewindText::OnlyFiles),
    (RewindScope::Conversation, RewindText::OnlyConversation),
];

/// A list on the screen, and what it is about.
pub(in crate::ui) struct OpenPicker {
    pub picker: Picker,
    subject: PickSubject,
}

/// What is chosen.
pub(super) enum PickSubject {
    /// A session, before anything else.
    Session(Vec<SessionId>),
    /// The message to go back to.
    Rewind,
    /// What to take back since a message.
    Scope(SaidMessage),
    /// The message to fork before; everything so far is the first row.
    Fork,
}

impl Talk {
    pub(super) fn begin_choice(&mut self) {
        let (client, language) = (self.client.clone(), self.language());
        self.picker = Some(OpenPicker {
            picker: Picker::new(language.text(CommandText::PickHint)),
            subject: PickSubject::Session(Vec::new()),
        });
        let place = self.place.clone();
        self.requests
            .spawn(sessions::choices(client, self.project, place, language));
    }

    pub(super) fn offer(&mut self, sessions: Vec<ListedSession>) {
        if sessions.is_empty() {
            self.picker = None;
            return self.say(CommandText::NothingToPick, &[]);
        }
        let Some(open) = &mut self.picker else {
            return;
        };
        let ids = sessions.iter().map(|session| session.id.clone());
        open.subject = PickSubject::Session(ids.collect());
        let rows = sessions.into_iter().map(|session| PickerRow {
            when: session.when,
            text: session.title,
            aside: session.id.to_string(),
        });
        open.picker.offer(rows.collect());
    }

    /// Asks the server for the messages that can be gone back to. The list is shown at once, so that
    /// no key is taken for something else.
    pub(super) fn list_messages(&mut self, session: SessionId, subject: PickSubject) {
        if self.surface.is_terminal() {
            self.open_messages(subject);
        }
        let client = self.client.clone();
        self.requests.spawn(rewind::list(client, session));
    }

    fn open_messages(&mut self, subject: PickSubject) {
        let (hint, first_number) = match subject {
            PickSubject::Fork => (RewindText::PickForkHint, 0),
            _ => (RewindText::PickRewindHint, 1),
        };
        let hint = self.language().text(hint);
        self.picker = Some(OpenPicker {
            picker: Picker::new(hint).numbered_from(first_number),
            subject,
        });
    }

    pub(super) fn offer_messages(&mut self, messages: Vec<SaidMessage>) {
        self.rewindable = messages;
        let is_empty = self.rewindable.is_empty();
        match &self.picker {
            Some(OpenPicker {
                subject: PickSubject::Fork,
                ..
            }) if is_empty => {
                self.picker = None;
                self.say(CommandText::NothingToFork, &[]);
            }
            Some(_) if !is_empty => self.show_messages(),
            None if !is_empty && !self.surface.is_terminal() => {
                let rows = rewind::lines(&self.rewindable, self.language());
                self.print(&Block::Listing(rows));
            }
            None if !is_empty => {}
            Some(_) | None => {
                self.picker = None;
                self.say(RewindText::NothingToRewind, &[]);
            }
        }
    }

    fn show_messages(&mut self) {
        let language = self.language();
        let Some(open) = &mut self.picker else {
            return;
        };
        let everything = PickerRow {
            text: language.text(RewindText::EverythingSoFar).to_owned(),
            ..PickerRow::default()
        };
        let first = match open.subject {
            PickSubject::Rewind => None,
            PickSubject::Fork => Some(everything),
            PickSubject::Session(_) | PickSubject::Scope(_) => return,
        };
        let messages = self.rewindable.iter().map(|said| PickerRow {
            when: said.when.clone(),
            text: said.line(),
            aside: String::new(),
        });
        open.picker
            .offer(first.into_iter().chain(messages).collect());
    }

    pub(super) fn choose(&mut self, key: &Key) {
        let Some(open) = &mut self.picker else {
            return;
        };
        match open.picker.press(key) {
            PickerAction::Nothing => {}
            PickerAction::Chosen(index) => self.picked(index),
            PickerAction::Leave => match self.picker.take().map(|open| open.subject) {
                Some(PickSubject::Session(_)) => self.is_over = Leaving::Now,
                Some(PickSubject::Scope(_)) => {
                    self.open_messages(PickSubject::Rewind);
                    self.show_messages();
                }
                Some(PickSubject::Rewind | PickSubject::Fork) | None => {}
            },
        }
    }

    fn picked(&mut self, index: usize) {
        let Some(open) = self.picker.take() else {
            return;
        };
        match open.subject {
            PickSubject::Session(ids) => {
                if let Some(session) = ids.into_iter().nth(index) {
                    self.requests.spawn(async { RequestOutcome::Open(session) });
                }
            }
            PickSubject::Rewind => {
                if let Some(said) = self.rewindable.get(index).cloned() {
                    self.ask_scope(said);
                }
            }
            PickSubject::Scope(said) => {
                if let Some((scope, _)) = SCOPES.get(index) {
                    self.rewind_to(said, *scope);
                }
            }
            PickSubject::Fork => self.fork_at(index),
        }
    }

    fn ask_scope(&mut self, said: SaidMessage) {
        let language = self.language();
        let mut picker = Picker::new(language.text(RewindText::PickScopeHint));
        let looking = format!("  {}", language.text(RewindText::LookingAtFiles));
        picker.head(vec![TextLine::styled(&looking, DIM)]);
        let rows = SCOPES.iter().map(|(_, text)| PickerRow {
            text: language.text(*text).to_owned(),
            ..PickerRow::default()
        });
        picker.offer(rows.collect());
        if let Some(session) = self.session.clone() {
            let done = rewind::done_since(&self.state.view, &said.id);
            let workspace = self.sandboxed.clone();
            let look = rewind::foresee(workspace, session, said.id.clone(), done);
            self.requests.spawn(look);
        }
        self.picker = Some(OpenPicker {
            picker,
            subject: PickSubject::Scope(said),
        });
    }

    pub(super) fn foreseen(&mut self, message: &MessageId, files: Option<&RewoundFiles>) {
        let language = self.language();
        if let Some(OpenPicker {
            picker,
            subject: PickSubject::Scope(said),
        }) = &mut self.picker
            && said.id == *message
        {
            picker.head(rewind::heading(said, files, language));
        }
    }

    pub(super) fn rewind_to(&mut self, said: SaidMessage, scope: RewindScope) {
        let Some(session) = self.session.clone() else {
            return;
        };
        let body = RewindSession {
            to_message_id: Some(said.id),
            scope: Some(scope),
            undo: None,
        };
        let client = self.client.clone();
        self.requests
            .spawn(rewind::rewind(client, session, body, Some(said.text)));
    }

    /// `number`: a message of the list, or 0 for everything so far.
    pub(super) fn fork(&mut self, session: SessionId, number: Option<&str>) {
        match number.map(str::parse::<usize>) {
            None if self.surface.is_terminal() => self.list_messages(session, PickSubject::Fork),
            None => self.fork_at(0),
            Some(Ok(index)) if index <= self.rewindable.len() => self.fork_at(index),
            Some(_) => self.say(RewindText::NotAMessage, &[number.unwrap_or_default()]),
        }
    }

    fn fork_at(&mut self, index: usize) {
        let (client, session) = (self.client.clone(), self.session.clone());
        let said = index.checked_sub(1);
        let said = said.and_then(|place| self.rewindable.get(place).cloned());
        match (session, said, self.state.last_message()) {
            (Some(session), Some(said), _) => {
                _ = self
                    .requests
                    .spawn(fork::fork_before(client, session, said))
            }
            (Some(session), None, Some(at)) => {
                _ = self.requests.spawn(fork::fork(client, session, at))
            }
            _ => self.say(CommandText::NothingToFork, &[]),
        }
    }
}
