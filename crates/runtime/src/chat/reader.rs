//! Follows the Chat. A reader keeps only its place, so a slow one costs nothing; what has left the
//! history meanwhile it does not see.

use std::sync::Arc;

use codelab_protocol::{GlobalDelta, GlobalMessage, MessageId};

use super::{GlobalChat, page};
use crate::metrics::OpenGauge;

/// What is handed over at once.
const PAGE_MESSAGES: usize = 64;
const PAGE_BYTES: usize = 64 * 1024;

/// What a reader gets next.
pub enum ChatNews {
    Messages(Vec<Arc<GlobalMessage>>),
    /// A piece of the answer that is being written.
    Delta(GlobalDelta),
}

pub struct ChatReader {
    chat: Arc<GlobalChat>,
    after: i64,
    /// The answer that is being written, and how many bytes of it the reader has.
    written: Option<(MessageId, usize)>,
    _open: OpenGauge,
}

impl ChatReader {
    pub(super) fn new(chat: Arc<GlobalChat>, after: i64, open: OpenGauge) -> Self {
        Self {
            chat,
            after,
            written: None,
            _open: open,
        }
    }

    /// What comes next; nothing when the server stops, or when another server owns the Chat: there
    /// the reader goes on after its last message. Waiting is cancel-safe.
    pub async fn next(&mut self) -> Option<ChatNews> {
        let chat = Arc::clone(&self.chat);
        loop {
            chat.lease.resumed().await;
            // Registered before looking, so that nothing said in between is missed.
            let changed = chat.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (page, delta, stopped) = {
                let state = chat.lock();
                let owned = state.owned.as_ref()?;
                let answer = owned.answer.as_ref();
                (
                    page(owned.chat.after(self.after), PAGE_MESSAGES, PAGE_BYTES),
                    answer.and_then(|answer| answer.news(self.written.as_ref())),
                    state.stopped,
                )
            };
            if let Some(last) = page.last() {
                self.after = last.id.get();
                return Some(ChatNews::Messages(page));
            }
            if let Some(delta) = delta {
                let bytes = delta.offset as usize + delta.content.len();
                self.written = Some((delta.answer_id.clone(), bytes));
                return Some(ChatNews::Delta(delta));
            }
            if stopped {
                return None;
            }
            changed.await;
        }
    }
}
