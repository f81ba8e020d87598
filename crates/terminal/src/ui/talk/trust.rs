//! `/trust`, `/instructions` and `/init`: what the folder brings, and what the person says about it.

use codelab_protocol::TrustContent;

use crate::texts::FolderText;

use super::Talk;
use crate::ui::block::Block;
use crate::ui::{brought, custom};

/// Where a folder's instructions for agents are.
const INSTRUCTION_FILES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// The content that the person is asked about, and those that are left for later.
#[derive(Default)]
pub(in crate::ui) struct Trusting {
    asked: Option<TrustContent>,
    passed: Vec<TrustContent>,
}

impl Talk {
    /// Shows the first content that waits, and asks.
    pub(super) fn begin_trust(&mut self) {
        self.trusting = Trusting::default();
        self.ask_trust();
    }

    fn ask_trust(&mut self) {
        let (state, language) = (self.brought.state(), self.language());
        let is_left = |id: &TrustContent| !self.trusting.passed.contains(id);
        let mut waiting = state.waiting.iter();
        let next = waiting.find(|waiting| is_left(&waiting.file.id()));
        self.trusting.asked = next.map(|waiting| waiting.file.id());
        match next {
            Some(waiting) => {
                self.print(&Block::Listing(brought::shown(waiting, language)));
                self.say(FolderText::AskTrust, &[&waiting.file.path]);
            }
            None if self.trusting.passed.is_empty() => self.say(FolderText::NothingWaits, &[]),
            None => {}
        }
    }

    /// Whether a line was an answer about trust. Any other line is a message, and leaves the question.
    pub(super) async fn answered_trust(&mut self, text: &str) -> bool {
        let Some(asked) = self.trusting.asked.take() else {
            return false;
        };
        let Some(is_trusted) = brought::answer(text) else {
            return false;
        };
        let path = asked.path.clone();
        self.trusting.passed.push(asked.clone());
        if is_trusted {
            match self.brought.trust(asked).await {
                Ok(true) => self.say(FolderText::Trusted, &[&path]),
                Ok(false) => self.say(FolderText::ChangedMeanwhile, &[&path]),
                Err(error) => self.say(FolderText::NotStored, &[&error.to_string()]),
            }
        } else {
            self.say(FolderText::NotNow, &[&path]);
        }
        self.ask_trust();
        true
    }

    pub(super) fn instructions(&mut self) {
        let rows = brought::listed(&self.brought.state(), self.language());
        self.print(&Block::Listing(rows));
    }

    /// Lets an agent write the folder's first instructions, or improve them where that is wanted.
    pub(super) async fn init(&mut self, argument: Option<String>) {
        let root = self.preview.root();
        let has = |name: &&str| root.join(name).symlink_metadata().is_ok();
        let existing = INSTRUCTION_FILES.iter().copied().find(|name| has(name));
        let is_wanted = argument.as_deref() == Some("improve");
        let (written, text) = match (existing, is_wanted) {
            (Some(name), false) => return self.say(FolderText::InitExists, &[name]),
            (Some(_), true) => ("/init improve", brought::IMPROVE),
            (None, _) => ("/init", brought::INIT),
        };
        self.say_with_files(written.to_owned(), text.to_owned())
            .await;
    }

    /// A command that the folder brings and the person trusted.
    pub(super) fn folder_command(&self, name: &str, words: &str) -> Option<String> {
        let state = self.brought.state();
        let mut commands = state.commands.iter();
        let command = commands.find(|file| custom::name_in(&file.path) == Some(name))?;
        Some(custom::filled(&command.content, words))
    }

    pub(super) fn folder_commands(&self) -> Vec<String> {
        let state = self.brought.state();
        let names = state.commands.iter();
        names
            .filter_map(|file| custom::name_in(&file.path))
            .map(str::to_owned)
            .collect()
    }

    /// The workspace brings something else now.
    pub(super) fn brought_changed(&mut self, waiting: &[String], counted: &[String]) {
        let language = self.language();
        if !waiting.is_empty() {
            self.say(FolderText::WaitsHere, &[&brought::named(waiting, language)]);
        }
        if !counted.is_empty() {
            self.say(FolderText::Counts, &[&brought::named(counted, language)]);
        }
    }
}
