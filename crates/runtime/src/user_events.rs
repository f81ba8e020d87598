//! Everything that happens in a user's sessions, as it happens: one live stream for all of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codelab_protocol::UserId;
use codelab_store::StoredEvent;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;

use crate::metrics::Open;

/// Events that wait for a slow reader; one that falls further behind is cut and looks at the sessions' own logs.
const MAX_BEHIND_EVENTS: usize = 1024;
/// Bytes that wait for it. Events of one step are not cut apart, so the last of them may pass this.
const MAX_BEHIND_BYTES: usize = 1024 * 1024;

/// Who listens to whose events.
pub(crate) struct UserEvents {
    listeners: Mutex<HashMap<UserId, Vec<Listener>>>,
    cut: Counter,
}

struct Listener {
    events: mpsc::Sender<Arc<StoredEvent>>,
    behind_bytes: Arc<AtomicUsize>,
}

/// One reader of a user's events.
pub struct UserReader {
    events: mpsc::Receiver<Arc<StoredEvent>>,
    behind_bytes: Arc<AtomicUsize>,
    _open: Open,
}

impl UserEvents {
    /// Counts in `cut` the readers that fell too far behind.
    pub fn new(cut: Counter) -> Self {
        Self { listeners: Mutex::default(), cut }
    }

    pub fn publish(&self, user: UserId, events: &[Arc<StoredEvent>]) {
        let mut listeners = self.lock();
        let Some(of_user) = listeners.get_mut(&user) else { return };
        of_user.retain(|listener| {
            let hears = listener.hears(events);
            if !hears && !listener.events.is_closed() {
                self.cut.inc();
            }
            hears
        });
        if of_user.is_empty() {
            listeners.remove(&user);
        }
    }

    pub fn listen(&self, user: UserId, open: Open) -> UserReader {
        let (sender, receiver) = mpsc::channel(MAX_BEHIND_EVENTS);
        let behind_bytes = Arc::new(AtomicUsize::new(0));
        let mut listeners = self.lock();
        let of_user = listeners.entry(user).or_default();
        of_user.retain(|listener| !listener.events.is_closed());
        of_user.push(Listener { events: sender, behind_bytes: Arc::clone(&behind_bytes) });
        UserReader { events: receiver, behind_bytes, _open: open }
    }

    /// Readers end.
    pub fn stop(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, Vec<Listener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Whether the reader is there and close enough behind to be told.
    fn hears(&self, events: &[Arc<StoredEvent>]) -> bool {
        if self.behind_bytes.load(Ordering::Relaxed) >= MAX_BEHIND_BYTES {
            return false;
        }
        events.iter().all(|event| {
            self.behind_bytes.fetch_add(event.body.len(), Ordering::Relaxed);
            self.events.try_send(Arc::clone(event)).is_ok()
        })
    }
}

impl UserReader {
    /// The next event; `None` when the reader fell too far behind or the server stops.
    pub async fn next(&mut self) -> Option<Arc<StoredEvent>> {
        let event = self.events.recv().await?;
        self.behind_bytes.fetch_sub(event.body.len(), Ordering::Relaxed);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use codelab_protocol::{Timestamp, TurnId};

    use super::*;
    use crate::Metrics;

    fn event(seq: u64, bytes: usize) -> Arc<StoredEvent> {
        let body = "x".repeat(bytes).into();
        let timestamp = Timestamp::from_millis(0);
        Arc::new(StoredEvent { seq, turn: TurnId(1), kind: "tool_result".into(), body, settled: None, timestamp })
    }

    #[tokio::test]
    async fn a_reader_that_stalls_holds_a_bounded_number_of_bytes_and_others_read_on() {
        let metrics = Metrics::new();
        let events = UserEvents::new(metrics.readers_cut.clone());
        let user = UserId::new(1).expect("a user");
        let mut stalled = events.listen(user, Open::stream(&metrics));
        let mut reading = events.listen(user, Open::stream(&metrics));
        // One that is larger than everything that may wait is shown to whoever is not behind.
        for seq in 1..=24 {
            events.publish(user, &[event(seq, 1_000_000)]);
            assert_eq!(reading.next().await.map(|event| event.seq), Some(seq));
        }
        let held = stalled.behind_bytes.load(Ordering::Relaxed);
        assert!(held <= 2 * MAX_BEHIND_BYTES, "{held} bytes wait for a reader that does not read");
        let mut seen = 0;
        while let Some(event) = stalled.next().await {
            seen += 1;
            assert_eq!(event.seq, seen, "nothing is left out before the cut");
        }
        assert!(seen < 24, "it was cut");
        assert_eq!(metrics.readers_cut.get(), 1);
    }
}
