//! What happens when a request has ended.

use codelab_protocol::SessionId;

use super::{Talk, log};
use crate::Text;
use crate::ui::UiError;
use crate::ui::block::Block;
use crate::ui::requests::RequestOutcome;
use crate::ui::state::CompactRequest;

impl Talk {
    pub(super) async fn outcome(&mut self, outcome: RequestOutcome) -> Result<(), UiError> {
        self.is_dirty = true;
        match outcome {
            RequestOutcome::Created(session, message) => {
                self.sending = self.sending.saturating_sub(1);
                self.follow(session, None);
                self.send(message);
            }
            // The message counts as sent once its event arrives.
            RequestOutcome::Sent => {}
            RequestOutcome::NotSent { written, error } => {
                self.sending = self.sending.saturating_sub(1);
                self.show_error(&error);
                self.give_back(written);
            }
            RequestOutcome::Accepted => {}
            RequestOutcome::NotAccepted {
                session,
                call,
                error,
            } => {
                self.show_error(&error);
                self.drafts.refused(&call);
                // What waits in another session is found there again.
                if self.session.as_ref() == Some(&session) {
                    self.state.ask_again(&call);
                }
            }
            RequestOutcome::Shown(blocks) => blocks.iter().for_each(|block| self.print(block)),
            RequestOutcome::Listed(sessions, rows) => {
                self.listed = sessions;
                self.print(&Block::Listing(rows));
            }
            RequestOutcome::Choices(sessions, more) => {
                more.into_iter().for_each(|more| self.notice(more));
                self.offer(sessions);
            }
            RequestOutcome::Ran(blocks) => {
                self.running = None;
                blocks.iter().for_each(|block| self.print(block));
            }
            RequestOutcome::Target(target) => self.aim(target),
            RequestOutcome::Approve(mode) => self.approved(mode),
            RequestOutcome::Model(model) => {
                match &model {
                    Some(model) => self.say(Text::ModelChosen, &[model]),
                    None => self.say(Text::ModelOfAgents, &[]),
                }
                self.model = model.or_else(|| self.answered_model.clone());
            }
            RequestOutcome::Open(session) => self.resume_or_say(session).await?,
            RequestOutcome::Allowed(ids, rows) => {
                self.allowed = ids;
                self.print(&Block::Listing(rows));
            }
            RequestOutcome::Rewindable(messages) => self.offer_messages(messages),
            RequestOutcome::Foreseen(message, files) => self.foreseen(&message, files.as_ref()),
            RequestOutcome::Forked(session, text) => {
                match session {
                    Some(session) => self.resume_or_say(session).await?,
                    None => self.begin_anew(),
                }
                text.into_iter().for_each(|text| self.give_back(text));
            }
            RequestOutcome::Rewound(text) => {
                self.rewindable.clear();
                text.into_iter().for_each(|text| self.give_back(text));
            }
            RequestOutcome::NotCompacting(told) => {
                self.state.compact_request = CompactRequest::None;
                told.iter().for_each(|block| self.print(block));
            }
            RequestOutcome::Windows(windows) => self.windows = Some(windows),
            RequestOutcome::Usage(total) => self.spent = Some(log::usage(&total)),
            RequestOutcome::Failed(error) => {
                self.picker = None;
                self.show_error(&error);
            }
        }
        Ok(())
    }

    async fn resume_or_say(&mut self, session: SessionId) -> Result<(), UiError> {
        match self.resume(session).await {
            Err(UiError::Client(error)) => self.show_error(&error),
            resumed => return resumed,
        }
        Ok(())
    }
}
