//! The messages a prompt may need, kept beside the session so that a step reads nothing from the store.

use codelab_engine::{History, MessageRecord};
use codelab_protocol::{Message, TurnId};
use codelab_store::{MessageRange, SessionKey, Store, StoreError};

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

    pub async fn load(store: &Store, key: SessionKey, turn: Option<TurnId>, keep: usize) -> Result<Self, StoreError> {
        let current = match turn {
            Some(turn) => store.messages(key, MessageRange::FromTurn(turn)).await?,
            None => Vec::new(),
        };
        let before = current.first().map(|stored| stored.ord);
        let earlier = store.messages(key, MessageRange::Last { before, limit: keep }).await?;
        let messages = |stored: Vec<codelab_store::StoredMessage>| stored.into_iter().map(|s| s.message).collect();
        Ok(Self { turn, earlier: messages(earlier), current: messages(current), keep })
    }

    pub fn push(&mut self, record: &MessageRecord) {
        if self.turn != Some(record.turn) {
            self.turn = Some(record.turn);
            self.earlier.append(&mut self.current);
            let surplus = self.earlier.len().saturating_sub(self.keep);
            self.earlier.drain(..surplus);
        }
        self.current.push(record.message.clone());
    }

    pub fn history(&self) -> History<'_> {
        History { earlier: &self.earlier, current: &self.current }
    }
}
