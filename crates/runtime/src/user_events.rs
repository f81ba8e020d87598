//! Everything that happens in a user's sessions, as it happens: one live stream for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codelab_protocol::UserId;
use codelab_store::StoredEvent;
use tokio::sync::broadcast;

/// Events that wait for a slow reader; one that falls further behind is cut and looks at the sessions' own logs.
const MAX_BEHIND: usize = 1024;

/// Who listens to whose events.
#[derive(Default)]
pub(crate) struct UserEvents(Mutex<HashMap<UserId, broadcast::Sender<Arc<StoredEvent>>>>);

/// One reader of a user's events.
pub struct UserReader(broadcast::Receiver<Arc<StoredEvent>>);

impl UserEvents {
    pub fn publish(&self, user: UserId, events: &[Arc<StoredEvent>]) {
        let mut listeners = self.lock();
        let Some(sender) = listeners.get(&user) else { return };
        let mut heard = true;
        for event in events {
            heard &= sender.send(Arc::clone(event)).is_ok();
        }
        if !heard {
            listeners.remove(&user);
        }
    }

    pub fn listen(&self, user: UserId) -> UserReader {
        UserReader(self.lock().entry(user).or_insert_with(|| broadcast::Sender::new(MAX_BEHIND)).subscribe())
    }

    /// Readers end.
    pub fn stop(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, broadcast::Sender<Arc<StoredEvent>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UserReader {
    /// The next event; `None` when the reader fell too far behind or the server stops.
    pub async fn next(&mut self) -> Option<Arc<StoredEvent>> {
        self.0.recv().await.ok()
    }
}
