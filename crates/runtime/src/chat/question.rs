//! A question in the Chat, from the side of its asker.

use std::sync::Arc;
use std::time::Duration;

use codelab_engine::{AskerId, ChatInput};
use codelab_protocol::UserAnswer;
use tokio::sync::oneshot;

use super::GlobalChat;

/// A question that was asked; dropping it takes it back.
pub struct OpenQuestion {
    chat: Arc<GlobalChat>,
    asker: AskerId,
    answer: oneshot::Receiver<Result<UserAnswer, NoAnswer>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("Nobody answered in time")]
    TimedOut,
    #[error("The server is stopping")]
    Stopping,
    /// Another server has the Chat now, and the question with it. Whoever asks the same there waits
    /// for the same answer.
    #[error("The Chat has moved to another server; ask again to go on waiting")]
    Moved,
}

impl OpenQuestion {
    pub(super) fn new(
        chat: Arc<GlobalChat>,
        asker: AskerId,
        answer: oneshot::Receiver<Result<UserAnswer, NoAnswer>>,
    ) -> Self {
        Self {
            chat,
            asker,
            answer,
        }
    }

    /// Waits for the user; for ever without a time limit.
    pub async fn wait_user(mut self, timeout: Option<Duration>) -> Result<UserAnswer, NoAnswer> {
        let Some(timeout) = timeout else {
            let ended = (&mut self.answer).await;
            return ended.unwrap_or(Err(NoAnswer::Stopping));
        };
        if let Ok(ended) = tokio::time::timeout(timeout, &mut self.answer).await {
            return ended.unwrap_or(Err(NoAnswer::Stopping));
        }
        let expired = self.chat.perform(ChatInput::Expired(self.asker));
        // An answer that came at the last moment counts: the user was told that it did.
        match (self.answer.try_recv(), expired) {
            (Ok(ended), _) => ended,
            (Err(_), Ok(_)) => Err(NoAnswer::TimedOut),
            (Err(_), Err(_)) => Err(NoAnswer::Stopping),
        }
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        // After an answer, the end of its time or a move nobody of this name waits any more.
        let _ = self.chat.perform(ChatInput::Withdrawn(self.asker));
    }
}
