//! What each slash command does.

use crate::Text;
use crate::texts::{CommandText, RewindText};
use codelab_protocol::{RewindSession, SessionId};

use super::Talk;
use super::choose::PickSubject;
use crate::ui::block::Block;
use crate::ui::command::SlashCommand;
use crate::ui::remembered::{self, MemoryRequest};
use crate::ui::requests::{self, RequestOutcome};
use crate::ui::rewind::RewindRequest;
use crate::ui::state::CompactRequest;
use crate::ui::{allowed, compact, rewind, sessions};

impl Talk {
    /// Sets what a command prints apart from what stands above it. The text of a person's own command
    /// is printed as the message that it is.
    pub(super) fn echo(&mut self, command: &SlashCommand) {
        let is_message = matches!(
            command,
            SlashCommand::Quit
                | SlashCommand::Init(_)
                | SlashCommand::Steer(_)
                // They open a list.
                | SlashCommand::Rewind(None)
                | SlashCommand::Fork(None)
                | SlashCommand::Other(..)
        );
        if self.surface.is_terminal() && !is_message {
            self.print(&Block::User(command.to_string()));
        }
    }

    pub(super) async fn command(&mut self, command: SlashCommand) {
        let (client, project) = (self.client.clone(), self.project);
        let (session, language) = (self.session.clone(), self.language());
        match (command, session) {
            (SlashCommand::Help, _) => {
                let rows = self.help();
                self.print(&Block::Listing(rows));
            }
            (SlashCommand::Agents, _) => _ = self.requests.spawn(requests::agents(client, project)),
            (SlashCommand::Switch(agent), session) => {
                _ = self
                    .requests
                    .spawn(requests::switch(client, project, session, agent, language))
            }
            (SlashCommand::Sessions(None), session) => {
                let place = self.place.clone();
                _ = self
                    .requests
                    .spawn(sessions::list(client, project, session, place, language))
            }
            (SlashCommand::Sessions(Some(wanted)), _) => match self.chosen(&wanted) {
                Some(id) => _ = self.requests.spawn(async { RequestOutcome::Open(id) }),
                None => self.say(Text::NotASession, &[&wanted]),
            },
            (SlashCommand::Plan(task), Some(session)) => {
                _ = self
                    .requests
                    .spawn(requests::plan(client, session, task, language))
            }
            (SlashCommand::Retry, Some(session)) => {
                let plan = self.state.plan().map(|plan| plan.id().clone());
                match self.is_at_work() {
                    true => self.say(CommandText::RetryLater, &[]),
                    false => {
                        _ = self
                            .requests
                            .spawn(requests::retry(client, session, plan, language))
                    }
                }
            }
            (SlashCommand::Renew, Some(session)) => match self.state.renewable() {
                Some(call) => _ = self.requests.spawn(requests::renew(client, session, call)),
                None => self.say(Text::NothingToRenew, &[]),
            },
            (SlashCommand::Model(None), session) => {
                _ = self
                    .requests
                    .spawn(requests::models(client, session, language))
            }
            (SlashCommand::Model(Some(model)), Some(session)) => {
                _ = self
                    .requests
                    .spawn(requests::choose_model(client, session, model, language))
            }
            (SlashCommand::Model(Some(_)), None) => self.say(Text::ModelNeedsSession, &[]),
            (SlashCommand::Approve(mode), _) => self.approve(mode.as_deref()),
            (SlashCommand::Allowed(None), Some(session)) => {
                _ = self
                    .requests
                    .spawn(allowed::list(client, session, language))
            }
            (SlashCommand::Allowed(Some(wanted)), Some(session)) => {
                match allowed::numbered(&self.allowed, &wanted) {
                    Some(id) => {
                        let id = id.clone();
                        _ = self.requests.spawn(allowed::revoke(client, session, id))
                    }
                    None => self.say(CommandText::NotAllowed, &[&wanted]),
                }
            }
            (SlashCommand::Allowed(_), None) => self.say(CommandText::NothingAllowed, &[]),
            (SlashCommand::Compact, Some(session)) => match self.state.is_working() {
                true => self.say(CommandText::CompactLater, &[]),
                false => {
                    // From now on: events can come before the answer.
                    self.state.compact_request = CompactRequest::Asked;
                    _ = self
                        .requests
                        .spawn(compact::compact(client, session, language))
                }
            },
            (SlashCommand::Steer(Some(text)), _) => {
                let written = format!("/steer {text}");
                self.steer_with_files(written, text).await;
            }
            (SlashCommand::Steer(None), _) => self.say(CommandText::SteerWhat, &[]),
            (SlashCommand::Fork(number), Some(session)) => self.fork(session, number.as_deref()),
            (SlashCommand::Fork(_), None) => self.say(CommandText::NothingToFork, &[]),
            (SlashCommand::Compact, None) => self.say(CommandText::NothingToCompact, &[]),
            (SlashCommand::Rewind(words), Some(session)) => {
                self.rewind(session, words.as_deref());
            }
            (SlashCommand::Redo, Some(session)) => self.rewind(session, Some("undo")),
            (SlashCommand::Rewind(_) | SlashCommand::Redo, None) => {
                self.say(RewindText::NothingToRewind, &[]);
            }
            (SlashCommand::Cost, session) => {
                _ = self
                    .requests
                    .spawn(requests::cost(client, session, project, language))
            }
            (SlashCommand::Memory(words), _) => {
                let asked = MemoryRequest::parse(words.as_deref());
                let place = self.place.clone();
                _ = self
                    .requests
                    .spawn(remembered::memory(client, project, asked, place, language))
            }
            (SlashCommand::Trust, _) => self.begin_trust(),
            (SlashCommand::Instructions, _) => self.instructions(),
            (SlashCommand::Init(argument), _) => self.init(argument).await,
            (SlashCommand::Diff, _) => self.diff(),
            (SlashCommand::Export, session) => self.export(session),
            (SlashCommand::Cancel, Some(_)) if self.is_at_work() => self.cancel(),
            (SlashCommand::Plan(_) | SlashCommand::Retry | SlashCommand::Renew, None) => {
                self.say(CommandText::NothingSaid, &[]);
            }
            (SlashCommand::Cancel, _) => self.say(Text::NothingRuns, &[]),
            (SlashCommand::New, _) => self.begin_anew(),
            (SlashCommand::Quit, _) => self.leave(),
            (SlashCommand::Other(name, words), _) => {
                self.own_command(&name, words.as_deref().unwrap_or_default())
                    .await
            }
        }
    }

    pub(super) fn begin_anew(&mut self) {
        self.forget();
        self.say(Text::NewSession, &[]);
    }

    fn rewind(&mut self, session: SessionId, words: Option<&str>) {
        let client = self.client.clone();
        let asked = match RewindRequest::parse(words) {
            _ if self.state.is_working() => return self.say(RewindText::RewindLater, &[]),
            RewindRequest::List => return self.list_messages(session, PickSubject::Rewind),
            RewindRequest::To(number, scope) => match self.rewindable.get(number - 1).cloned() {
                Some(said) => return self.rewind_to(said, scope),
                None => None,
            },
            RewindRequest::Undo => {
                let Some(undo) = rewind::last_in_force(&self.state.view) else {
                    return self.say(RewindText::NothingToRedo, &[]);
                };
                let body = RewindSession {
                    undo: Some(undo),
                    ..RewindSession::default()
                };
                Some(body)
            }
            RewindRequest::Unclear => None,
        };
        match asked {
            Some(body) => {
                _ = self
                    .requests
                    .spawn(rewind::rewind(client, session, body, None))
            }
            None => self.say(RewindText::NotAMessage, &[words.unwrap_or_default()]),
        }
    }

    pub(super) fn aim(&mut self, target: Option<String>) {
        match &target {
            Some(agent) => self.say(Text::TargetSet, &[agent]),
            None => self.say(Text::TargetPlanned, &[]),
        }
        self.target = target;
    }
}
