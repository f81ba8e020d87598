//! Follows the Chat. A reader keeps only its place, so a slow one costs nothing; what has left the
//! history meanwhile it does not see.

use std::sync::Arc;

use codelab_protocol::GlobalMessage;

use super::{GlobalChat, page};
use crate::metrics::OpenGauge;

/// What is handed over at once.
const PAGE_MESSAGES: usize = 64;
const PAGE_BYTES: usize = 64 * 1024;

pub struct ChatReader {
    chat: Arc<GlobalChat>,
    after: i64,
    _open: OpenGauge,
}

impl ChatReader {
    pub(super) fn new(chat: Arc<GlobalChat>, after: i64, open: OpenGauge) -> Self {
        Self {
            chat,
            after,
            _open: open,
        }
    }

    /// The next messages; none when the server stops, or when another server owns the Chat: there
    /// the reader goes on after its last message. Waiting is cancel-safe.
    pub async fn next(&mut self) -> Option<Vec<Arc<GlobalMessage>>> {
        let chat = Arc::clone(&self.chat);
        loop {
            chat.lease.resumed().await;
            // Registered before looking, so that nothing said in between is missed.
            let changed = chat.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (page, stopped) = {
                let state = chat.lock();
                let owned = state.owned.as_ref()?;
                (
                    page(owned.chat.after(self.after), PAGE_MESSAGES, PAGE_BYTES),
                    state.stopped,
                )
            };
            if let Some(last) = page.last() {
                self.after = last.id.get();
                return Some(page);
            }
            if stopped {
                return None;
            }
            changed.await;
        }
    }
}
