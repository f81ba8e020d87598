//! The messages a prompt may need, kept beside the session so that a step reads nothing from the store.

use codelab_engine::{History, MessageRecord, PromptLimits, for_prompts};
use codelab_protocol::{Message, TurnId};
use codelab_store::{MessageRange, SessionKey, Store, StoreError, StoredMessage};

pub(crate) struct Recent {
    turn: Option<TurnId>,
    earlier: Vec<Message>,
    current: Vec<Message>,
    /// Messages kept of earlier turns.
    keep: usize,
}

impl Recent {
    /// A session without messages.
    pub fn empty(keep: usize) -> Self {
        Self { turn: None, earlier: Vec::new(), current: Vec::new(), keep }
    }

    pub async fn load(
        store: &Store,
        key: SessionKey,
        turn: Option<TurnId>,
        limits: &PromptLimits,
    ) -> Result<Self, StoreError> {
        let keep = limits.messages;
        let current = match turn {
            Some(turn) => store.messages(key, MessageRange::FromTurn(turn)).await?,
            None => Vec::new(),
        };
        let before = current.first().map(|stored| stored.ord);
        let earlier = store.messages(key, MessageRange::Last { before, limit: keep }).await?;
        let messages =
            |stored: Vec<StoredMessage>| stored.iter().map(|stored| for_prompts(&stored.message, limits)).collect();
        Ok(Self { turn, earlier: messages(earlier), current: messages(current), keep })
    }

    pub fn push(&mut self, record: &MessageRecord, limits: &PromptLimits) {
        if self.turn != Some(record.turn) {
            self.turn = Some(record.turn);
            self.earlier.append(&mut self.current);
            let surplus = self.earlier.len().saturating_sub(self.keep);
            self.earlier.drain(..surplus);
        }
        self.current.push(for_prompts(&record.message, limits));
    }

    pub fn history(&self) -> History<'_> {
        History { earlier: &self.earlier, current: &self.current }
    }
}
