//! Numbers for the Chat's messages, reserved in the database in blocks, so that they never go back:
//! not after a restart, and not when the clock was set back.

use std::sync::Arc;
use std::time::Duration;

use codelab_engine::IdBlock;
use codelab_store::{Store, StoreError};

use super::GlobalChat;
use crate::clock::now;
use crate::runtime::Inner;
use crate::timers::log_failure;

/// Numbers reserved at once; what a crash leaves unused of them is never used.
const BLOCK: u32 = 1_000_000;
/// With fewer than this left, the next block is reserved.
pub(super) const LOW: i64 = BLOCK as i64 / 2;
const RETRY_DELAY: Duration = Duration::from_secs(1);

pub(crate) async fn reserve(store: &Store) -> Result<IdBlock, StoreError> {
    let (after, until) = store.reserve_chat_ids(IdBlock::floor(now()), BLOCK).await?;
    Ok(IdBlock { after, until })
}

impl GlobalChat {
    fn is_low_on_ids(&self) -> bool {
        self.lock()
            .owned()
            .is_ok_and(|owned| owned.chat.ids_left() < LOW)
    }

    /// Lost where the Chat moved meanwhile.
    fn add_ids(&self, block: IdBlock) {
        if let Some(owned) = &mut self.lock().owned {
            owned.chat.add_ids(block);
        }
    }
}

/// Reserves the next block whenever the Chat runs low, until the server stops.
pub(crate) async fn keep_ids(runtime: Arc<Inner>) {
    let chat = &runtime.chat;
    let work = async {
        loop {
            chat.ids_low.notified().await;
            while chat.is_low_on_ids() {
                match reserve(&runtime.store).await {
                    Ok(block) => {
                        chat.add_ids(block);
                        break;
                    }
                    Err(error) => log_failure(
                        &error,
                        "numbers for the Chat could not be reserved, trying again",
                    ),
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    };
    runtime.stopping.run_until_cancelled(work).await;
}
