//! What the person does besides talking: naming files, running commands of their own, writing the
//! session to a file.

use codelab_protocol::{Delivery, NewAttachment, SessionId};
use tokio_util::sync::CancellationToken;

use crate::Text;
use crate::texts::{CommandText, FolderText};

use super::Talk;
use crate::ui::block::Block;
use crate::ui::command::{self, BROUGHT_HELP, HELP, MEMORY_HELP};
use crate::ui::complete::{self, TabCompletion, Unfinished};
use crate::ui::prompt::Key;
use crate::ui::requests::OutgoingMessage;
use crate::ui::{custom, export, mention, shell};

impl Talk {
    pub(super) fn run_own(&mut self, command: String) {
        let language = self.language();
        let folder = self.preview.root().to_owned();
        if let Some(stop) = self.may_run() {
            self.print(&Block::User(format!("!{command}")));
            self.requests
                .spawn(shell::run(folder, command, stop, language));
        }
    }

    /// Sends a text with the files that it names.
    pub(super) async fn say_with_files(&mut self, written: String, text: String) {
        self.deliver(written, text, Delivery::Queue).await;
    }

    /// Says it to the agents that work now; without any it is a message like others.
    pub(super) async fn steer_with_files(&mut self, written: String, text: String) {
        self.deliver(written, text, Delivery::Steer).await;
    }

    async fn deliver(&mut self, written: String, text: String, delivery: Delivery) {
        if let Some((text, images)) = self.with_files(&written, text).await {
            self.send(OutgoingMessage {
                written,
                text,
                images,
                delivery,
            });
        }
    }

    /// A text with the files that it names. If one of them cannot be sent, what was written goes
    /// back to the person.
    pub(in crate::ui) async fn with_files(
        &mut self,
        written: &str,
        text: String,
    ) -> Option<(String, Vec<NewAttachment>)> {
        match mention::expand(&self.preview, text, &self.pasted, self.language()).await {
            Ok(expanded) => {
                if !expanded.sent.is_empty() {
                    self.say(CommandText::SentWith, &[&expanded.sent.join(", ")]);
                }
                Some((expanded.text, expanded.images))
            }
            Err(why) => {
                self.notice(why);
                self.give_back(written.to_owned());
                None
            }
        }
    }

    /// A path of an image that is pasted, as terminals paste files that are dropped on them, becomes
    /// the name of an attachment.
    pub(super) async fn with_image(&mut self, key: Key) -> Key {
        let Key::Paste(text) = &key else { return key };
        match self.pasted.take(text, self.preview.root()).await {
            Some(named) => Key::Paste(named),
            None => key,
        }
    }

    /// What was not sent can be changed and sent again. Without a terminal nobody could, and a text
    /// that is begun would hide what waits.
    pub(in crate::ui) fn give_back(&mut self, written: String) {
        if self.surface.is_terminal() && self.prompt.editor.is_empty() {
            self.prompt.editor.set(written);
        }
    }

    /// One command at a time. What stops it is kept here.
    fn may_run(&mut self) -> Option<CancellationToken> {
        if self.running.is_some() {
            self.say(CommandText::CommandRuns, &[]);
            return None;
        }
        let stop = CancellationToken::new();
        self.running = Some(stop.clone());
        Some(stop)
    }

    /// Whether a command ran that is stopped now.
    pub(super) fn stop_command(&mut self) -> bool {
        let running = self.running.as_ref().filter(|stop| !stop.is_cancelled());
        running.map(CancellationToken::cancel).is_some()
    }

    pub(super) fn diff(&mut self) {
        let (workspace, language) = (self.sandboxed.clone(), self.language());
        if let Some(stop) = self.may_run() {
            self.requests.spawn(shell::diff(workspace, stop, language));
        }
    }

    pub(super) fn export(&mut self, session: Option<SessionId>) {
        let Some(session) = session else {
            return self.say(CommandText::NoSessionYet, &[]);
        };
        let (folder, language) = (self.preview.root().to_owned(), self.language());
        self.requests.spawn(export::export(
            self.client.clone(),
            session,
            folder,
            language,
        ));
    }

    pub(super) async fn own_command(&mut self, name: &str, words: &str) {
        let folder = custom::folder(|name| std::env::var(name).ok());
        match folder.and_then(|folder| custom::message(&folder, name, words)) {
            Some(Ok(text)) => {
                let written = format!("/{name} {words}").trim_end().to_owned();
                self.say_with_files(written, text).await;
            }
            Some(Err(error)) => self.say(CommandText::OwnUnreadable, &[name, &error.to_string()]),
            None => match self.folder_command(name, words) {
                Some(text) => {
                    let written = format!("/{name} {words}").trim_end().to_owned();
                    self.say_with_files(written, text).await;
                }
                None => self.say(Text::UnknownCommand, &[name]),
            },
        }
    }

    pub(super) fn help(&self) -> Vec<String> {
        let language = self.language();
        let row = |name: &str, what: &str| format!("{name:16}  {what}");
        let mut rows: Vec<String> = HELP
            .iter()
            .map(|(name, what)| row(name, language.text(*what)))
            .chain(
                BROUGHT_HELP
                    .iter()
                    .map(|(name, what)| row(name, language.text(*what))),
            )
            .chain([row(MEMORY_HELP.0, language.text(MEMORY_HELP.1))])
            .collect();
        if let Some(folder) = custom::folder(|name| std::env::var(name).ok()) {
            let mut names = custom::names(&folder);
            // One of these would never be reached.
            names.retain(|name| !command::names().any(|known| known == name));
            if !names.is_empty() {
                let place = folder.display().to_string();
                let names: Vec<String> = names.iter().map(|name| format!("/{name}")).collect();
                rows.push(row(
                    &names.join(" "),
                    &language.with(CommandText::HelpOwn, &[&place]),
                ));
            }
        }
        let names = self.folder_commands();
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| format!("/{name}")).collect();
            let what = language.text(FolderText::HelpFolderCommands);
            rows.push(row(&names.join(" "), what));
        }
        rows
    }

    /// The session with this number in the last list, or with this id.
    pub(super) fn chosen(&self, wanted: &str) -> Option<SessionId> {
        match wanted.parse::<usize>() {
            Ok(number) => self.listed.get(number.checked_sub(1)?).cloned(),
            Err(_) => SessionId::parse(wanted).ok(),
        }
    }

    /// Finishes the name of a command or a file, or lists what it could be.
    pub(super) async fn complete(&mut self) {
        let text = self.prompt.editor.before_cursor().to_owned();
        let TabCompletion {
            text: finished,
            choices,
        } = match Unfinished::of(&text) {
            Some(Unfinished::Command(written)) => {
                let mut names: Vec<String> = command::names().map(str::to_owned).collect();
                let folder = custom::folder(|name| std::env::var(name).ok());
                names.extend(folder.iter().flat_map(|folder| custom::names(folder)));
                names.extend(self.folder_commands());
                complete::complete(&text, written, &names)
            }
            Some(Unfinished::File(written) | Unfinished::QuotedFile(written)) => {
                let files = complete::files(&self.preview, written).await;
                complete::complete(&text, written, &files)
            }
            None => return,
        };
        if let Some(finished) = finished {
            self.prompt.editor.replace_before_cursor(&finished);
        }
        if !choices.is_empty() {
            self.notice(choices.join("  "));
        }
    }
}
