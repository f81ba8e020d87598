//! The answer that AdaptiveAgent works on: what is written of it so far, and who stopped it.

use codelab_engine::{ADAPTIVE_AGENT, ChatInput, Ids as _, MAX_CHAT_TEXT_BYTES, cut};
use codelab_protocol::{AgentName, GlobalDelta, GlobalMessageId, GlobalMeta, MessageId, UserId};
use tokio_util::sync::CancellationToken;

use super::{GlobalChat, Owned};
use crate::RuntimeError;
use crate::ids::RandomIds;

/// What AdaptiveAgent works on, from the message that woke it until it rests.
pub(super) struct RunningAnswer {
    reply_to: GlobalMessageId,
    stop: CancellationToken,
    /// Whoever stopped it first.
    stopped_by: Option<UserId>,
    /// What the model is writing.
    draft: Option<Draft>,
}

struct Draft {
    id: MessageId,
    agent: AgentName,
    text: String,
    is_full: bool,
}

impl Draft {
    /// Takes as much of the piece as the Chat shows. Nothing follows a piece that was cut: that
    /// would leave a hole. Returns whether the text is longer now.
    fn append(&mut self, piece: &str) -> bool {
        let room = MAX_CHAT_TEXT_BYTES.saturating_sub(self.text.len());
        let fits = if self.is_full { "" } else { cut(piece, room) };
        self.is_full |= fits.len() < piece.len();
        self.text.push_str(fits);
        !fits.is_empty()
    }
}

impl RunningAnswer {
    pub(super) fn new(reply_to: GlobalMessageId) -> Self {
        Self {
            reply_to,
            stop: CancellationToken::new(),
            stopped_by: None,
            draft: None,
        }
    }

    /// Cancelled as soon as somebody stops the answer.
    pub(super) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// What a reader does not have yet. `known` is the answer that it has a part of, and how many
    /// bytes.
    pub(super) fn news(&self, known: Option<&(MessageId, usize)>) -> Option<GlobalDelta> {
        let draft = self.draft.as_ref()?;
        let offset = known
            .filter(|(id, _)| *id == draft.id)
            .map_or(0, |(_, bytes)| *bytes);
        let content = draft.text.get(offset..).filter(|rest| !rest.is_empty())?;
        Some(GlobalDelta {
            answer_id: draft.id.clone(),
            content: content.to_owned(),
            offset: offset as u64,
        })
    }
}

impl GlobalChat {
    /// Stops the answer that AdaptiveAgent works on, for everybody. `false` if there is none.
    pub fn cancel(&self, user: Option<UserId>) -> Result<bool, RuntimeError> {
        let mut state = self.lock();
        let Some(answer) = &mut state.open()?.answer else {
            return Ok(false);
        };
        if !answer.stop.is_cancelled() {
            answer.stopped_by = user;
            answer.stop.cancel();
        }
        Ok(true)
    }

    /// A model begins to write.
    pub(super) fn draft(&self, tenure: u64, agent: &AgentName) {
        self.change_answer(tenure, |answer| {
            answer.draft = Some(Draft {
                id: RandomIds.message_id(),
                agent: agent.clone(),
                text: String::new(),
                is_full: false,
            });
        });
    }

    /// A longer text is cut when it is said, so its end is not shown either.
    pub(super) fn write(&self, tenure: u64, piece: &str) {
        let mut has_grown = false;
        self.change_answer(tenure, |answer| {
            if let Some(draft) = &mut answer.draft {
                has_grown = draft.append(piece);
            }
        });
        if has_grown {
            self.changed.notify_waiters();
        }
    }

    /// The model has ended. What it wrote becomes a message, or nothing.
    pub(super) fn drafted(&self, tenure: u64) {
        self.change_answer(tenure, |answer| answer.draft = None);
    }

    /// The work on the answer has ended, because somebody stopped it.
    pub(super) fn stopped(&self, tenure: u64) {
        let mut state = self.lock();
        if let Ok(owned) = state.open()
            && owned.tenure == tenure
        {
            self.end_if_stopped(owned);
        }
    }

    /// What was written of a stopped answer stays, and everybody learns who stopped it. Then
    /// AdaptiveAgent rests, so nobody works on the message again.
    pub(super) fn end_if_stopped(&self, owned: &mut Owned) {
        let Some(answer) = owned.answer.take_if(|answer| answer.stop.is_cancelled()) else {
            return;
        };
        let meta = |tags: Vec<String>, user_id| GlobalMeta {
            reply_to: Some(answer.reply_to),
            tags,
            user_id,
        };
        if let Some(draft) = answer.draft.filter(|draft| !draft.text.trim().is_empty()) {
            let tags = vec![format!("agent:{}", draft.agent), "partial".to_owned()];
            let said = ChatInput::AgentMessage {
                author: ADAPTIVE_AGENT.to_owned(),
                text: draft.text,
                meta: meta(tags, None),
            };
            self.say_or_warn(owned, said);
        }
        let text = match answer.stopped_by {
            Some(user) => format!("User {user} stopped the answer."),
            None => "A program stopped the answer.".to_owned(),
        };
        let meta = meta(vec!["stopped".to_owned()], answer.stopped_by);
        self.say_or_warn(owned, ChatInput::SystemMessage { text, meta });
        self.say_or_warn(owned, ChatInput::Rested);
    }

    fn say_or_warn(&self, owned: &mut Owned, said: ChatInput) {
        if let Err(refusal) = self.take(owned, said) {
            tracing::warn!(error = %refusal.message, "end of a stopped answer refused by the Chat");
        }
    }

    fn change_answer(&self, tenure: u64, change: impl FnOnce(&mut RunningAnswer)) {
        let mut state = self.lock();
        let owned = state.owned.as_mut().filter(|owned| owned.tenure == tenure);
        if let Some(answer) = owned.and_then(|owned| owned.answer.as_mut()) {
            change(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_once_and_has_no_hole() {
        let mut draft = Draft {
            id: RandomIds.message_id(),
            agent: AgentName::parse("ask").unwrap(),
            text: "a".repeat(MAX_CHAT_TEXT_BYTES - 3),
            is_full: false,
        };
        assert!(draft.append("bцц"));
        assert!(!draft.append("e"));
        assert_eq!(draft.text.len(), MAX_CHAT_TEXT_BYTES);
        assert!(draft.text.ends_with("abц"));
    }
}
