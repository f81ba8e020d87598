//! The Chat comes to this server and leaves it. Who owns it is decided elsewhere.

use std::sync::{Arc, Weak};
use std::time::Duration;

use codelab_engine::{Chat, ChatHandover, ChatInput, IdBlock};
use codelab_store::{MAX_CHAT_HANDOVER_BYTES, Store, StoreError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{GlobalChat, NoAnswer, Owned, reserve_ids};
use crate::clock::now;

/// Attempts to save the hand-over. After the last one its messages are lost.
const SAVE_ATTEMPTS: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_millis(300);

impl GlobalChat {
    /// This server owns the Chat from now on.
    pub fn begin(self: &Arc<Self>, ids: IdBlock, handover: Option<ChatHandover>) {
        let mut state = self.lock();
        if let Some(owned) = &mut state.owned {
            tracing::warn!("this server owns the Chat already, its hand-over is not used");
            return owned.chat.add_ids(ids);
        }
        state.tenures += 1;
        let (chat, effects) = Chat::resume(self.limits, ids, handover.unwrap_or_default(), now());
        let expiry = chat
            .next_expiry()
            .map(|_| AbortOnDropHandle::new(tokio::spawn(expire(Arc::downgrade(self)))));
        let tenure = state.tenures;
        let owned = state.owned.insert(Owned {
            tenure,
            chat,
            waiting: Default::default(),
            to_work_on: None,
            answer: None,
            ended: CancellationToken::new(),
            _expiry: expiry,
        });
        self.perform_effects(owned, &effects);
    }

    /// This server does not own the Chat any more: it accepts nothing, its readers and askers end,
    /// and AdaptiveAgent stops. Returns what the next owner needs, or `None` if this server did not
    /// own the Chat.
    pub fn release(&self) -> Option<ChatHandover> {
        let mut owned = self.lock().owned.take()?;
        self.end_if_stopped(&mut owned);
        // AdaptiveAgent must know this before its own question ends.
        owned.ended.cancel();
        for waiting in owned.waiting.into_values() {
            // An asker that left at this very moment does not hear it.
            let _ = waiting.send(Err(NoAnswer::Moved));
        }
        self.changed.notify_waiters();
        Some(owned.chat.hand_over())
    }

    /// Takes the Chat over with what the owner before left in the database. Call it only once this
    /// server is the owner. After an error this server does not have the Chat.
    pub async fn take_over(self: &Arc<Self>, store: &Store) -> Result<(), StoreError> {
        if self.is_here() {
            return Ok(());
        }
        // First, because a hand-over that was taken and not used would be lost.
        let ids = reserve_ids(store).await?;
        let json = store.take_chat_handover().await?;
        let handover = json.and_then(|json| {
            serde_json::from_str(&json)
                .inspect_err(|error| {
                    tracing::error!(%error, "the Chat's hand-over is not understood, it begins empty");
                })
                .ok()
        });
        self.begin(ids, handover);
        Ok(())
    }

    /// Leaves the Chat in the database for its next owner. Call it while this server is still the
    /// owner, and before connections are closed: a question whose asker is cut off is withdrawn.
    /// After an error the messages are lost, as after a crash.
    pub async fn hand_over(&self, store: &Store) -> Result<(), StoreError> {
        let Some(mut handover) = self.release() else {
            return Ok(());
        };
        handover.shorten(MAX_CHAT_HANDOVER_BYTES);
        let json = serde_json::to_string(&handover)
            .map_err(|error| StoreError::Invalid(error.to_string()))?;
        let mut attempt = 1;
        loop {
            match store.save_chat_handover(json.clone(), now()).await {
                Err(error) if error.is_outage() && attempt < SAVE_ATTEMPTS => {
                    tracing::warn!(%error, "the Chat's hand-over could not be saved, trying again");
                }
                saved => return saved,
            }
            attempt += 1;
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

/// Ends each orphaned question when its time is over, while there are any.
async fn expire(chat: Weak<GlobalChat>) {
    loop {
        let next = chat.upgrade().and_then(|chat| {
            let state = chat.lock();
            state.owned.as_ref()?.chat.next_expiry()
        });
        let Some(due) = next else { return };
        let wait = due.millis_since(now());
        tokio::time::sleep(Duration::from_millis(u64::try_from(wait).unwrap_or(0))).await;
        let Some(chat) = chat.upgrade() else { return };
        if chat.perform(ChatInput::ExpiryDue).is_err() {
            return;
        }
    }
}
